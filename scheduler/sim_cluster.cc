#include "scheduler/sim_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/checkpoint.pb.h"
#include "proto/protocol_version.h"

namespace shoal {

Job SimJob(const std::string& sync, uint32_t passes) {
  Job job;
  job.set_name(absl::StrCat("job-", sync));
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_rows(24);
  job.mutable_data()->set_passes(passes);
  job.mutable_batch()->set_size(2);
  job.set_partitions(8);
  job.mutable_workers()->set_min(1);
  if (sync == "bsp") job.mutable_sync()->mutable_bsp()->set_lanes(3);
  if (sync == "ssp") job.mutable_sync()->mutable_ssp()->set_staleness(2);
  if (sync == "asp") job.mutable_sync()->mutable_asp();
  return job;
}

SimCluster::SimCluster(const std::string& state_path) {
  options.state_path = state_path;
  options.clock = &clock;
  scheduler = std::move(Scheduler::Create(options).value());
}

void SimCluster::Restart() {
  scheduler.reset();
  scheduler = std::move(Scheduler::Create(options).value());
}

SimProcess* SimCluster::Add(Role role, const std::string& name, uint32_t threads, const std::string& fingerprint) {
  auto process = std::make_unique<SimProcess>();
  RegisterRequest request;
  request.set_name(name);
  request.set_role(role);
  request.set_protocol_version(kProtocolVersion);
  request.set_threads(threads);
  request.set_fingerprint(fingerprint);
  const RegisterReply reply = (*Ask(scheduler.get(), &Scheduler::Register, request))->value();
  process->id = reply.process();
  process->name = reply.name();
  process->role = role;
  process->threads.resize(threads);
  processes.push_back(std::move(process));
  return processes.back().get();
}

uint64_t SimCluster::Submit(const Job& job) {
  SubmitRequest request;
  *request.mutable_job() = job;
  return (*Ask(scheduler.get(), &Scheduler::Submit, request))->value().job();
}

void SimCluster::Heartbeat(SimProcess* process) {
  HeartbeatRequest request;
  request.mutable_identity()->set_process(process->id);
  for (const MetricSegment& segment : process->segments) *request.add_segments() = segment;
  process->segments.clear();
  Ask(scheduler.get(), &Scheduler::Heartbeat, request);
}

ClusterView SimCluster::View(const SimProcess& process) {
  WatchRequest request;
  request.mutable_identity()->set_process(process.id);
  const auto answer = Ask(scheduler.get(), &Scheduler::Watch, request);
  return answer->value().ok() ? answer->value().value() : ClusterView();
}

TaskResult SimCluster::DoTask(SimProcess* process, const Task& task) {
  TaskResult result;
  result.mutable_identity()->set_process(process->id);
  result.set_id(task.id());
  ++process->done[task.kind()];
  process->tasks.push_back(task);
  const auto failing = process->failing.find(task.kind());
  if (failing != process->failing.end()) {
    result.set_code(static_cast<int>(absl::StatusCode::kPermissionDenied));
    result.set_message(failing->second);
    return result;
  }
  std::vector<uint32_t> owned;
  const ClusterView cluster = View(*process);
  for (const JobView& view : cluster.jobs()) {
    if (view.job() != task.job()) continue;
    for (int p = 0; p < view.owner_size(); ++p) {
      if (view.servers(view.owner(p)).process() == process->id) owned.push_back(p);
    }
  }
  const auto found = data.find(task.job());
  if (task.kind() == Task::PLAN) {
    for (uint64_t s = 0; s < splits; ++s) result.mutable_plan()->mutable_train()->add_splits()->set_begin(s);
    for (uint64_t s = 0; s < eval_splits; ++s) result.mutable_plan()->mutable_eval()->add_splits()->set_begin(s);
  } else if (task.kind() == Task::CHECK_CHECKPOINT_DIR) {
    result.set_path(newest_checkpoint);
  } else if (task.kind() == Task::PREPARE_JOB) {
    JobRef ref;
    ref.set_job(task.job());
    SimData& job = data[task.job()];
    job.job = (*Ask(scheduler.get(), &Scheduler::GetJobConfig, ref))->value().job();
    job.partitions.resize(job.job.partitions());
  } else if (task.kind() == Task::REPORT_DONE) {
    if (parted) found->second.partitions[owned[0]].done.Remove(1);
    if (parted) found->second.partitions[owned[0]].watermark.clear();
    parted = false;
    for (uint32_t p : owned) {
      const DoneSet& done = found->second.partitions[p].done;
      PartitionDone* const out = result.add_done();
      out->set_partition(p);
      out->set_prefix(done.prefix());
      for (uint64_t s : done.extra()) out->add_extra(s);
      out->set_rounds_applied(found->second.rounds_applied);
    }
  } else if (task.kind() == Task::WRITE_PART) {
    PartInfo part;
    part.set_file(process->name);
    for (uint32_t p : owned) part.add_partitions(p);
    result.set_part(part.SerializeAsString());
  } else if (task.kind() == Task::COMMIT_CHECKPOINT) {
    newest_checkpoint = absl::StrCat(task.checkpoint().dir(), "/", task.checkpoint().name());
    result.set_path(newest_checkpoint);
  } else if (task.kind() == Task::DIGEST) {
    TableDigest* const digest = result.add_digests();
    digest->set_table("t");
    digest->set_sum(~uint64_t{0});
    digest->set_rows(owned.size());
  }
  return result;
}

void SimCluster::DoTasks(SimProcess* process) {
  const ClusterView view = View(*process);
  for (const Task& task : view.tasks()) {
    if (process->stuck.count(task.kind()) > 0) continue;
    const TaskResult result = DoTask(process, task);
    Ask(scheduler.get(), &Scheduler::TaskDone, result);
    Ask(scheduler.get(), &Scheduler::TaskDone, result);  // a repeat changes nothing
  }
}

void SimCluster::Turn(absl::Duration time) {
  for (const auto& process : processes) {
    Heartbeat(process.get());
    DoTasks(process.get());
  }
  clock.Advance(time);
  scheduler->Tick();
}

void SimCluster::AskWork(SimProcess* worker, uint32_t index, uint32_t wait_ms) {
  SimThread& thread = worker->threads[index];
  NextWorkRequest request;
  request.mutable_identity()->set_process(worker->id);
  request.set_thread(index);
  request.set_sequence(++thread.sequence);
  request.set_wait_ms(wait_ms);
  if (!thread.finished.empty()) {
    *request.mutable_completed() = thread.finished.front();
    thread.finished.pop_front();
  }
  // Work that waits to be handed in is still this thread's.
  request.set_carried(static_cast<uint32_t>(thread.held.size() + thread.finished.size()));
  if (!thread.held.empty()) {
    request.set_carried_job(thread.held[0].reply.grant().job());
  } else if (!thread.finished.empty()) {
    request.set_carried_job(thread.finished.front().job());
  }
  thread.last = request;
  thread.asked = Ask(scheduler.get(), &Scheduler::NextWork, request);
}

void SimCluster::Repeat(SimProcess* worker, uint32_t index) {
  SimThread& thread = worker->threads[index];
  thread.asked = Ask(scheduler.get(), &Scheduler::NextWork, thread.last);
}

void SimCluster::TakeReply(SimThread* thread) {
  if (thread->asked == nullptr || !thread->asked->has_value()) return;
  const absl::StatusOr<NextWorkReply> reply = **thread->asked;
  thread->asked = nullptr;
  if (!reply.ok() || (reply->kind() != NextWorkReply::GRANT && reply->kind() != NextWorkReply::LANE_FINISHED)) return;
  SimHeld held;
  held.reply = *reply;
  held.round = reply->grant().first_round();
  thread->got.push_back(*reply);
  thread->held.push_back(held);
}

void SimCluster::HandIn(SimThread* thread, size_t index, bool finished) {
  const SimHeld& held = thread->held[index];
  CompletedWork work;
  work.set_job(held.reply.grant().job());
  work.set_run(held.reply.grant().run());
  work.set_lease(held.reply.grant().lease());
  work.set_finished(finished);
  work.set_records(kRecords);
  work.set_clock(held.reply.grant().clock() + 2);
  work.set_next_round(held.round);
  if (held.reply.grant().eval()) work.mutable_eval()->set_examples(kRecords);
  thread->finished.push_back(work);
  thread->held.erase(thread->held.begin() + static_cast<long>(index));
}

bool SimCluster::Fenced(const Grant& grant) {
  const ClusterView cluster = View(*processes.front());
  for (const JobView& view : cluster.jobs()) {
    if (view.job() != grant.job()) continue;
    const bool live = std::any_of(view.lanes().begin(), view.lanes().end(),
                                  [&](const LaneClock& lane) { return lane.lane() == grant.lane(); });
    return !live && grant.lane() < view.next_lane();
  }
  return true;  // no such job any more
}

bool SimCluster::Work(SimProcess* worker, uint32_t index, size_t held_index) {
  SimThread& thread = worker->threads[index];
  SimHeld& held = thread.held[held_index];
  const Grant grant = held.reply.grant();  // a copy: handing in ends `held`
  SimData& job = data[grant.job()];
  if (grant.eval()) {
    HandIn(&thread, held_index, true);
    return true;
  }
  const uint64_t number = grant.pass() * splits + grant.split();
  if (Fenced(grant)) {
    HandIn(&thread, held_index, false);
    return true;
  }
  if (job.job.sync().has_bsp()) {
    if (held.reply.kind() == NextWorkReply::GRANT && held.round > job.rounds_applied) return false;
    WorkRound(&job, &thread, held_index);
  } else {
    for (SimData::Partition& partition : job.partitions) {
      uint64_t& lease = partition.lease[number];
      if (lease > grant.lease()) {
        HandIn(&thread, held_index, false);
        return true;
      }
      lease = grant.lease();
    }
    // Half of the partitions at a time, one batch: what a worker leaves behind when it dies differs by server.
    const uint64_t part = held.servers_done.size();
    for (size_t p = part % 2; p < job.partitions.size(); p += 2) {
      SimData::Partition& partition = job.partitions[p];
      if (partition.done.Contains(number)) continue;
      if ((partition.watermark[number] += kRecords / 2) >= kRecords) partition.done.Add(number);
    }
    held.servers_done.insert(part);
    if (held.servers_done.size() < 4) return true;
    HandIn(&thread, held_index, true);
  }
  if (!thread.finished.empty() && thread.finished.back().finished()) {
    MetricSegment segment;
    segment.set_job(grant.job());
    segment.set_run(1);
    segment.set_pass(number / splits);
    segment.set_split(number % splits);
    segment.set_end(kRecords);
    segment.mutable_sums()->set_examples(kRecords);
    worker->segments.push_back(segment);
  }
  return true;
}

void SimCluster::WorkRound(SimData* job, SimThread* thread, size_t index) {
  SimHeld& held = thread->held[index];
  const Grant grant = held.reply.grant();
  if (held.reply.kind() == NextWorkReply::LANE_FINISHED) {
    job->finished_lanes[grant.logical_lane()] = grant.first_round();
    ApplyRounds(job);
    HandIn(thread, index, true);
    return;
  }
  const uint64_t end = grant.first_round() + 2;
  held.round = std::max(held.round, std::min(end, job->rounds_applied));
  if (held.round < end) {
    const bool last = held.round + 1 == end;
    job->contributions[{held.round, grant.logical_lane()}] =
        last ? absl::optional<uint64_t>(grant.pass() * splits + grant.split()) : absl::nullopt;
    ++held.round;
    ApplyRounds(job);
  }
  if (held.round == end) HandIn(thread, index, true);
}

void SimCluster::ApplyRounds(SimData* job) {
  for (;; ++job->rounds_applied) {
    const uint64_t round = job->rounds_applied;
    std::vector<uint64_t> ended;
    size_t there = 0;
    for (uint32_t lane = 0; lane < job->job.sync().bsp().lanes(); ++lane) {
      const auto contribution = job->contributions.find({round, lane});
      if (contribution != job->contributions.end()) {
        ++there;
        if (contribution->second.has_value()) ended.push_back(*contribution->second);
        continue;
      }
      const auto finished = job->finished_lanes.find(lane);
      if (finished == job->finished_lanes.end() || finished->second > round) return;
    }
    if (there == 0) return;
    for (SimData::Partition& partition : job->partitions) {
      for (uint64_t split : ended) partition.done.Add(split);
    }
  }
}

void SimCluster::StepThread(SimProcess* worker, uint32_t index) {
  SimThread& thread = worker->threads[index];
  TakeReply(&thread);
  if (thread.asked != nullptr) return;
  bool moved = false;
  for (size_t h = 0; h < thread.held.size(); ++h) {
    const size_t before = thread.held.size();
    moved |= Work(worker, index, h);
    if (thread.held.size() < before) --h;
  }
  if (!thread.finished.empty() || thread.held.empty() || !moved) AskWork(worker, index, thread.held.empty() ? 100 : 0);
}

JobStatus SimCluster::RunJob(uint64_t job, int turns) {
  for (int t = 0; t < turns && Status(job).state() < SUCCEEDED; ++t) {
    for (const auto& process : processes) {
      for (uint32_t i = 0; process->role == WORKER && i < process->threads.size(); ++i) StepThread(process.get(), i);
    }
    Turn();
  }
  return Status(job);
}

JobStatus SimCluster::Status(uint64_t job) {
  GetJobRequest request;
  request.set_job(job);
  return (*Ask(scheduler.get(), &Scheduler::GetJob, request))->value();
}

std::string SimCluster::LogText(uint64_t job) {
  JobRef ref;
  ref.set_job(job);
  const JobLogs logs = (*Ask(scheduler.get(), &Scheduler::Logs, ref))->value();
  std::string text;
  for (const std::string& line : logs.lines()) text += line + "\n";
  return text;
}

void SimCluster::Kill(SimProcess* process) {
  const auto it = std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.get() == process; });
  killed.push_back(std::move(*it));
  processes.erase(it);
}

SimProcess* SimCluster::Find(const std::string& name) {
  for (const auto& process : processes) {
    if (process->name == name) return process.get();
  }
  return nullptr;
}

}  // namespace shoal
