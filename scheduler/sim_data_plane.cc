// SimCluster: what servers and lanes do with splits.
#include <algorithm>

#include "base/hash.h"
#include "scheduler/sim_cluster.h"

namespace shoal {
namespace {

uint64_t OwnerOf(const JobView& view, uint32_t partition) {
  return view.servers(static_cast<int>(view.owner(static_cast<int>(partition)))).process();
}

bool Mine(const JobView& view, uint32_t partition, uint64_t process) {
  return static_cast<int>(partition) < view.owner_size() && OwnerOf(view, partition) == process;
}

uint64_t BackupOf(const JobView& view, uint32_t partition) {
  if (static_cast<int>(partition) >= view.backup_size() || view.backup(static_cast<int>(partition)) == 0) return 0;
  return view.servers(static_cast<int>(view.backup(static_cast<int>(partition))) - 1).process();
}

std::set<uint64_t> OwnersOf(const JobView& view) {
  std::set<uint64_t> owners;
  for (int p = 0; p < view.owner_size(); ++p) owners.insert(OwnerOf(view, static_cast<uint32_t>(p)));
  return owners;
}

const JobView* FindView(const ClusterView& cluster, uint64_t job) {
  for (const JobView& view : cluster.jobs()) {
    if (view.job() == job) return &view;
  }
  return nullptr;
}

void Apply(SimPartition* partition, const SimContribution& what) {
  partition->applied[what.split] += what.end - what.begin;
  partition->watermark[what.split] = what.end;
  if (what.last) {
    partition->done.Add(what.split);
    partition->watermark.erase(what.split);
  }
  const uint64_t step[] = {partition->history, what.split, what.begin, what.end};
  partition->history = HashBytes({reinterpret_cast<const char*>(step), sizeof(step)}, 0);
}

}  // namespace

bool SimCluster::Serves(const SimProcess& server, const SimServerJob& job, uint32_t partition) {
  return Mine(job.view, partition, server.id) && job.served.count(partition) > 0 && job.frozen.count(partition) == 0;
}

void SimCluster::TakeView(SimProcess* server, SimServerJob* job, const JobView& view) {
  if (view.run() != job->view.run()) {
    if (view.run() > job->view.run()) *job->view.mutable_lanes() = {};
    return;
  }
  const bool newer = view.map_version() > job->view.map_version();
  job->view = view;
  if (!newer) return;
  job->contributions.clear();
  for (uint32_t p = 0; p < job->job.partitions(); ++p) {
    if (Mine(view, p, server->id)) {
      if (job->served.count(p) == 0 && job->standby.count(p) > 0) job->served[p] = job->standby[p];
      job->standby.erase(p);
    } else {
      job->served.erase(p);
      job->frozen.erase(p);
      // What has just arrived is not in the map yet.
      const auto from = job->came_from.find(p);
      const bool arrived = from != job->came_from.end() && from->second == OwnerOf(view, p);
      if (BackupOf(view, p) != server->id && !arrived) job->standby.erase(p);
    }
    const auto backup = job->backups.find(p);
    if (backup != job->backups.end() && BackupOf(view, p) != backup->second) job->backups.erase(backup);
  }
}

bool SimCluster::Fenced(const SimServerJob& job, const Grant& grant) {
  if (job.view.run() != grant.run()) return true;
  const bool live = std::any_of(job.view.lanes().begin(), job.view.lanes().end(),
                                [&](const LaneClock& lane) { return lane.lane() == grant.lane(); });
  return !live && grant.lane() < job.view.next_lane();
}

SimServerJob* SimCluster::ReachJob(uint64_t process, const Grant& grant) {
  SimProcess* const server = Reach(process);
  if (server == nullptr) return nullptr;
  const auto job = server->jobs.find(grant.job());
  return job == server->jobs.end() || job->second.view.run() < grant.run() ? nullptr : &job->second;
}

bool SimCluster::Follow(SimProcess* worker, SimHeld* held) {
  const JobView* const view = FindView(worker->view, held->reply.grant().job());
  if (view == nullptr || view->map_version() <= held->routes.map_version()) return false;
  held->open = false;
  return true;
}

SimCluster::Opened SimCluster::Open(SimProcess* worker, SimHeld* held) {
  const Grant& grant = held->reply.grant();
  const JobView* const view = FindView(worker->view, grant.job());
  if (view == nullptr || view->run() > grant.run()) return Opened::kFenced;
  if (view->run() < grant.run()) return Opened::kWait;
  held->routes = *view;
  held->marks.clear();
  held->servers.clear();
  uint64_t rounds = 0;
  const uint64_t split = grant.pass() * splits + grant.split();
  for (uint64_t owner : OwnersOf(*view)) {
    SimServerJob* const job = ReachJob(owner, grant);
    if (job == nullptr) return Opened::kWait;
    if (Fenced(*job, grant)) return Opened::kFenced;
    if (job->view.map_version() != view->map_version()) return Opened::kWait;
    rounds = std::max(rounds, job->rounds_applied);
    if (held->reply.kind() == NextWorkReply::LANE_FINISHED) continue;
    for (uint32_t p = 0; p < job->job.partitions(); ++p) {
      if (!Mine(job->view, p, owner)) continue;
      if (!Serves(*Reach(owner), *job, p)) return Opened::kWait;
      SimPartition& partition = job->served[p];
      if (partition.done.Contains(split)) continue;
      uint64_t& lease = partition.lease[split];
      if (lease > grant.lease()) {
        ++answers["FENCED"];
        return Opened::kFenced;
      }
      lease = grant.lease();
      held->marks.insert(partition.watermark[split]);
    }
  }
  held->open = true;
  held->position = held->marks.empty() ? kRecords : *held->marks.begin();
  held->round = std::min(std::max(grant.first_round(), rounds), grant.first_round() + kRecords / kBatch);
  return Opened::kYes;
}

SimCluster::Pushed SimCluster::PushTo(const JobView& routes, uint64_t server, const Grant& grant, uint64_t begin,
                                      uint64_t end) {
  SimServerJob* const job = ReachJob(server, grant);
  if (job == nullptr) return Pushed::kWait;
  const uint64_t split = grant.pass() * splits + grant.split();
  bool again = false;
  if (Fenced(*job, grant)) {
    ++answers["FENCED"];
    return Pushed::kFenced;
  }
  for (uint32_t p = 0; p < job->job.partitions(); ++p) {
    const auto backup = job->backups.find(p);
    if (backup != job->backups.end() && Reach(backup->second) == nullptr) return Pushed::kWait;
  }
  for (uint32_t p = 0; p < job->job.partitions(); ++p) {
    if (OwnerOf(routes, p) != server) continue;
    if (!Serves(*Reach(server), *job, p)) {
      ++answers["STALE_MAP"];
      again = true;
      continue;
    }
    SimPartition& partition = job->served[p];
    if (partition.lease[split] > grant.lease()) {
      ++answers["FENCED"];
      return Pushed::kFenced;
    }
    const uint64_t watermark = partition.watermark[split];
    if (partition.done.Contains(split) || end <= watermark) {
      ++answers["DUPLICATE"];
    } else if (begin != watermark) {
      ++answers[begin < watermark ? "MISALIGNED" : "OUT_OF_ORDER"];
      again = true;
    } else {
      Apply(&partition, {split, grant.lease(), begin, end, end == kRecords});
      const auto backup = job->backups.find(p);
      if (backup == job->backups.end()) continue;
      const auto there = Reach(backup->second)->jobs.find(grant.job());
      if (there != Reach(backup->second)->jobs.end() && there->second.standby.count(p) > 0) {
        there->second.standby[p] = partition;
      }
    }
  }
  return again ? Pushed::kAgain : Pushed::kYes;
}

bool SimCluster::PushBatch(SimProcess* worker, SimThread* thread, size_t index) {
  SimHeld& held = thread->held[index];
  const Grant grant = held.reply.grant();
  uint64_t end = std::min(kRecords, held.position / kBatch * kBatch + kBatch);
  for (uint64_t mark : held.marks) {
    if (mark > held.position) end = std::min(end, mark);
  }
  for (uint64_t owner : OwnersOf(held.routes)) {
    if (held.servers.count(owner) > 0) continue;
    const Pushed pushed = PushTo(held.routes, owner, grant, held.position, end);
    if (pushed == Pushed::kFenced) {
      HandIn(worker, thread, index, false);
      return true;
    }
    if (pushed == Pushed::kAgain) {
      held.open = false;
      return true;
    }
    if (pushed == Pushed::kWait) return Follow(worker, &held);
    held.servers.insert(owner);
    return true;
  }
  held.servers.clear();
  Count(worker, &held, held.position, end);
  held.position = end;
  return true;
}

bool SimCluster::Work(SimProcess* worker, uint32_t index, size_t held_index) {
  SimThread& thread = worker->threads[index];
  SimHeld& held = thread.held[held_index];
  if (held.reply.grant().eval()) {
    HandIn(worker, &thread, held_index, true);
    return true;
  }
  if (!held.open) {
    const Opened opened = Open(worker, &held);
    if (opened == Opened::kFenced) HandIn(worker, &thread, held_index, false);
    if (opened != Opened::kYes) return opened == Opened::kFenced;
    return true;
  }
  const JobView* const view = FindView(worker->view, held.reply.grant().job());
  if (view == nullptr || view->run() != held.reply.grant().run()) {
    HandIn(worker, &thread, held_index, false);
    return true;
  }
  if (held.reply.share() > 0) return WorkRound(worker, &thread, held_index);
  if (held.position >= kRecords) {
    HandIn(worker, &thread, held_index, true);
    return true;
  }
  return PushBatch(worker, &thread, held_index);
}

bool SimCluster::WorkRound(SimProcess* worker, SimThread* thread, size_t index) {
  SimHeld& held = thread->held[index];
  const Grant grant = held.reply.grant();
  std::vector<SimProcess*> servers;
  for (uint64_t owner : OwnersOf(held.routes)) {
    SimServerJob* const job = ReachJob(owner, grant);
    if (job == nullptr) return Follow(worker, &held);
    if (Fenced(*job, grant)) {
      HandIn(worker, thread, index, false);
      return true;
    }
    if (job->view.map_version() != held.routes.map_version()) {
      ++answers["STALE_MAP"];
      held.open = false;
      return true;
    }
    servers.push_back(Reach(owner));
  }
  const uint64_t end = grant.first_round() + kRecords / kBatch;
  if (held.reply.kind() == NextWorkReply::LANE_FINISHED) {
    for (SimProcess* server : servers) {
      SimServerJob& job = server->jobs.at(grant.job());
      job.finished_lanes[grant.logical_lane()] = grant.first_round();
      ApplyRounds(&job);
    }
    HandIn(worker, thread, index, true);
    return true;
  }
  // The round before must be applied everywhere, or the pull would be parked.
  for (SimProcess* server : servers) {
    if (server->jobs.at(grant.job()).rounds_applied < held.round) return false;
  }
  if (held.round >= end) {
    HandIn(worker, thread, index, true);
    return true;
  }
  const uint64_t begin = (held.round - grant.first_round()) * kBatch;
  const SimContribution contribution{grant.pass() * splits + grant.split(), grant.lease(), begin, begin + kBatch,
                                     begin + kBatch == kRecords};
  const auto key = std::make_pair(held.round, grant.logical_lane());
  for (SimProcess* server : servers) {
    SimServerJob& job = server->jobs.at(grant.job());
    if (job.rounds_applied > held.round) continue;
    job.contributions[key] = contribution;
    ApplyRounds(&job);
  }
  ++held.round;
  Count(worker, &held, begin, begin + kBatch);
  if (held.round == end) HandIn(worker, thread, index, true);
  return true;
}

void SimCluster::ApplyRounds(SimServerJob* job) {
  for (;; ++job->rounds_applied) {
    const uint64_t round = job->rounds_applied;
    if (job->view.has_hold() && round >= job->view.hold_round()) return;
    if (job->cut.has_value() && round >= *job->cut) return;
    std::vector<SimContribution> there;
    for (uint32_t lane = 0; lane < job->job.sync().bsp().lanes(); ++lane) {
      const auto contribution = job->contributions.find({round, lane});
      if (contribution != job->contributions.end()) {
        there.push_back(contribution->second);
        continue;
      }
      const auto finished = job->finished_lanes.find(lane);
      if (finished == job->finished_lanes.end() || finished->second > round) return;
    }
    if (there.empty()) return;
    for (auto& [p, partition] : job->served) {
      for (const SimContribution& contribution : there) Apply(&partition, contribution);
    }
  }
}

void SimCluster::Count(SimProcess* worker, SimHeld* held, uint64_t begin, uint64_t end) {
  if (begin < held->counted) return;  // computed again
  held->counted = end;
  const Grant& grant = held->reply.grant();
  MetricSegment segment;
  segment.set_job(grant.job());
  segment.set_run(grant.run());
  segment.set_pass(grant.pass());
  segment.set_split(grant.split());
  segment.set_begin(begin);
  segment.set_end(end);
  segment.mutable_sums()->set_examples(end - begin);
  worker->segments.push_back(segment);
}

void SimCluster::HandIn(SimProcess* worker, SimThread* thread, size_t index, bool finished) {
  const SimHeld& held = thread->held[index];
  const Grant& grant = held.reply.grant();
  CompletedWork work;
  work.set_job(grant.job());
  work.set_run(grant.run());
  work.set_lease(grant.lease());
  work.set_finished(finished);
  work.set_records(kRecords);
  work.set_clock(grant.clock() + 2);
  work.set_next_round(held.round);
  if (grant.eval()) work.mutable_eval()->set_examples(kRecords);
  thread->finished.push_back(work);
  thread->held.erase(thread->held.begin() + static_cast<long>(index));
}

}  // namespace shoal
