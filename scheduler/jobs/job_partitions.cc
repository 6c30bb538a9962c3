// JobPartitions: who has what, and what is lost.
#include "scheduler/jobs/job_partitions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// A partition that is not there yet is asked for again after this long.
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);

}  // namespace

bool JobPartitions::Alive(uint64_t process) const {
  const Process* const found = context_.members->Find(process);
  return found != nullptr && found->alive();
}

bool JobPartitions::Draining(uint64_t process) const {
  const Process* const found = context_.members->Find(process);
  return found != nullptr && found->alive() && found->draining;
}

std::vector<uint64_t> JobPartitions::Staying() const {
  std::vector<uint64_t> staying;
  for (const Process* server : context_.members->Staying(SERVER)) staying.push_back(server->id);
  return staying;
}

ServerAddress JobPartitions::AddressOf(uint64_t process) const {
  ServerAddress address;
  const Process* const server = context_.members->Find(process);
  address.set_process(process);
  if (server == nullptr) return address;
  address.set_name(server->info.name());
  address.set_address(server->info.address());
  return address;
}

Task JobPartitions::NewTask(Task::Kind kind) const {
  Task task;
  task.set_kind(kind);
  task.set_job(stored_.id());
  task.set_run(stored_.run());
  return task;
}

void JobPartitions::Publish() {
  map_.Publish(&stored_);
  Persist();
  context_.changes->views = true;
}

bool JobPartitions::PlaceAll() {
  std::vector<ServerAddress> servers;
  for (uint64_t process : Staying()) servers.push_back(AddressOf(process));
  if (servers.empty()) return false;
  // More servers than partitions: the rest stays without.
  if (servers.size() > stored_.job().partitions()) servers.resize(stored_.job().partitions());
  map_.PlaceAll(stored_.job().partitions(), servers);
  staying_ = Staying();
  members_changed_ = false;  // it is as even as can be
  Publish();
  return true;
}

void JobPartitions::Reset() {
  CancelMoves();
  avoided_.clear();
  loads_.clear();
  for (TaskGroup group : {TaskGroup::kRestore, TaskGroup::kCatchUp, TaskGroup::kBackup}) tasks_.Cancel(group);
  awaited_.clear();
  moved_at_.reset();
}

PartitionLoss JobPartitions::Lose(uint64_t process) {
  MembersChanged();
  // What was moving from or to it comes to nothing; the rest is planned again.
  if (moving()) CancelMoves();
  const PartitionLoss loss = map_.Lose(process);
  if (!loss.any()) return loss;
  for (uint32_t p : loss.lost) awaited_.erase(p);
  for (uint32_t p : loss.promoted) awaited_.insert(p);
  Publish();
  return loss;
}

void JobPartitions::AdvanceRestores() {
  bool placed = false;
  const std::vector<uint64_t> staying = Staying();
  if (map_.CountLost() > 0 && !staying.empty()) {
    for (const PartitionMove& place : PlaceHomeless(map_, PartitionWeights(map_.size(), loads_), staying)) {
      const PartitionPlace& at = map_.at(place.partition);
      if (!at.lost || Alive(at.owner)) continue;
      map_.SetOwner(place.partition, AddressOf(place.target));
      placed = true;
    }
  }
  if (placed) Publish();
  std::map<uint64_t, Task> tasks;
  for (uint32_t p = 0; p < map_.size(); ++p) {
    const uint64_t owner = map_.at(p).owner;
    if (!map_.at(p).lost || !Alive(owner) || tasks_.Pending(TaskGroup::kRestore, owner)) continue;
    const auto [it, first] = tasks.emplace(owner, Task());
    if (first) {
      it->second = NewTask(Task::RESTORE_PARTITIONS);
      it->second.set_restore_from(stored_.checkpoint());
    }
    it->second.add_partitions(p);
  }
  for (auto& [owner, task] : tasks) tasks_.Add(TaskGroup::kRestore, owner, std::move(task));
  if (awaited_.empty() || Now() < look_at_) return;
  look_at_ = Now() + kLookAgain;
  std::set<uint64_t> owners;
  for (uint32_t p : awaited_) owners.insert(map_.at(p).owner);
  for (uint64_t owner : owners) {
    if (!tasks_.Pending(TaskGroup::kCatchUp, owner)) {
      tasks_.Add(TaskGroup::kCatchUp, owner, NewTask(Task::REPORT_DONE));
    }
  }
}

void JobPartitions::OnRestored(const Task& task, const Process& process) {
  uint32_t restored = 0;
  for (uint32_t p : task.partitions()) {
    if (p >= map_.size() || map_.at(p).owner != process.id || !map_.at(p).lost) continue;
    map_.SetRestored(p);
    awaited_.insert(p);
    ++restored;
  }
  if (restored == 0) return;
  log_.Add(absl::StrCat(process.Title(), " has ", restored, " partitions from ",
                        task.restore_from().empty() ? "nothing, as there is no checkpoint" : task.restore_from()));
  look_at_ = Now();
  Publish();  // a new version wakes the lanes that wait for them
}

std::vector<PartitionDone> JobPartitions::TakeCaughtUp(const TaskResult& result) {
  std::vector<PartitionDone> taken;
  for (const PartitionDone& done : result.done()) {
    const uint32_t p = done.partition();
    if (awaited_.count(p) == 0 || map_.at(p).owner != result.identity().process()) continue;
    awaited_.erase(p);
    taken.push_back(done);
  }
  return taken;
}

void JobPartitions::FillView(JobView* view) const {
  view->set_map_version(stored_.map_version());
  *view->mutable_owner() = stored_.owner();
  *view->mutable_backup() = stored_.backup();
  *view->mutable_servers() = stored_.servers();
  view->set_has_hold(hold_.has_value() && hold_->told);
  if (view->has_hold()) view->set_hold_round(hold_->round);
}

std::string JobPartitions::Waiting() const {
  const uint32_t lost = map_.CountLost();
  if (lost == 0) return "";
  const std::string what =
      absl::StrCat(lost, " partitions from ", stored_.checkpoint().empty() ? "nothing" : stored_.checkpoint());
  if (Staying().empty()) return absl::StrCat("waiting for a server to restore ", what);
  return absl::StrCat("restoring ", what);
}

}  // namespace shoal
