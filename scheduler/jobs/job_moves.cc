// JobPartitions: moves and backups.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/job_partitions.h"

namespace shoal {
namespace {

// asp, ssp: partitions that move together. A push waits while a partition is handed over, so few at a time.
constexpr size_t kMovesAtOnce = 16;
// Servers that join come in groups: partitions are spread once, when nobody has come or gone for this long.
constexpr absl::Duration kSettle = absl::Seconds(1);
// Load that differs because reports of servers are of different instants does not do so for as long as this. When
// somebody has come or gone the difference is real.
constexpr absl::Duration kUneven = absl::Seconds(5);
// A backup that could not be reached is not tried again before this; doubled with each failure after it.
constexpr absl::Duration kAvoid = absl::Seconds(4);
// After a move or a copy that failed; doubled with each failure after it.
constexpr absl::Duration kRetry = absl::Seconds(2);
constexpr uint32_t kMaxDoublings = 5;
// bsp: how often servers are asked for their rounds, and how long these must stand still to be taken as they are.
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
constexpr absl::Duration kRoundsStill = absl::Seconds(1);
constexpr uint64_t kMarginGrowth = 4;

bool Contains(const google::protobuf::RepeatedField<uint32_t>& list, uint32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

void JobPartitions::OnArrival() {
  moves_not_before_ = std::max(moves_not_before_, Now() + kSettle);
  MembersChanged();
}

void JobPartitions::MembersChanged() {
  balance_.clear();
  members_changed_ = true;
}

void JobPartitions::OnLoads(const ServerJobReport& report) {
  for (const PartitionLoad& load : report.partitions()) {
    if (load.partition() < map_.size()) loads_[load.partition()] = load;
  }
}

void JobPartitions::PromoteFromLeaving() {
  uint32_t promoted = 0;
  for (uint32_t p = 0; p < map_.size(); ++p) {
    const PartitionPlace& place = map_.at(p);
    if (!place.synced || !Draining(place.owner) || Draining(place.backup)) continue;
    map_.Promote(p);
    awaited_.insert(p);
    ++promoted;
  }
  if (promoted == 0) return;
  log_.Add(absl::StrCat(promoted, " partitions go from draining servers to their backups"));
  look_at_ = Now();
  Publish();
}

std::vector<PartitionMove> JobPartitions::PlanMoves() {
  const std::vector<uint64_t> staying = Staying();
  if (staying.empty()) return {};
  if (!staying_.empty() && staying != staying_) MembersChanged();
  staying_ = staying;
  const std::vector<double> weights = PartitionWeights(map_.size(), loads_);
  std::vector<PartitionMove> plan = PlaceHomeless(map_, weights, staying);
  plan.erase(std::remove_if(plan.begin(), plan.end(),
                            [this](const PartitionMove& move) {
                              const PartitionPlace& place = map_.at(move.partition);
                              return place.lost || !Alive(place.owner) || let_go_.count(place.owner) > 0;
                            }),
             plan.end());
  const bool level = plan.empty();
  if (level) plan = NextBalance(weights, staying);
  if (bsp()) {
    if (level) balance_.clear();
    return plan;
  }
  // From one server to one other: what is frozen there is served again as soon as the copies are there.
  plan.erase(std::remove_if(plan.begin(), plan.end(),
                            [&, way = plan.empty() ? PartitionMove() : plan[0]](const PartitionMove& move) {
                              return move.target != way.target ||
                                     map_.at(move.partition).owner != map_.at(way.partition).owner;
                            }),
             plan.end());
  if (plan.size() > kMovesAtOnce) plan.resize(kMovesAtOnce);
  const auto begun = [&plan](const PartitionMove& move) {
    return std::any_of(plan.begin(), plan.end(), [&](const auto& m) { return m.partition == move.partition; });
  };
  if (level) balance_.erase(std::remove_if(balance_.begin(), balance_.end(), begun), balance_.end());
  return plan;
}

std::vector<PartitionMove> JobPartitions::NextBalance(const std::vector<double>& weights,
                                                      const std::vector<uint64_t>& staying) {
  if (!balance_.empty()) return balance_;
  if (Now() < moves_not_before_) return {};
  std::vector<PartitionMove> plan = PlanBalance(map_, weights, staying);
  if (plan.empty()) {
    uneven_way_.reset();
    return {};
  }
  const std::pair<uint64_t, uint64_t> way = BusiestAndIdlest(map_, weights, staying);
  // The one that was busiest is the idlest now, or the other way round: the difference was one of instants.
  const bool turned = uneven_way_.has_value() && (uneven_way_->first == way.second || uneven_way_->second == way.first);
  if (!uneven_way_.has_value() || turned) uneven_since_ = Now();
  uneven_way_ = way;
  if (!members_changed_ && Now() - uneven_since_ < kUneven) return {};
  members_changed_ = false;
  uneven_way_.reset();
  balance_ = plan;
  return plan;
}

void JobPartitions::AdvanceMoves(bool calm) {
  if (hold_.has_value()) {
    AdvanceHold();
    return;
  }
  if (!moving_.empty() || !calm || (moves_failed_ > 0 && Now() < moves_not_before_)) return;
  PromoteFromLeaving();
  if (!whole()) return;
  std::vector<PartitionMove> plan = PlanMoves();
  if (plan.empty()) return;
  if (!bsp()) {
    IssueMoves(plan);
    return;
  }
  hold_.emplace();
  hold_->plan = std::move(plan);
  hold_->newest_since = Now();
  Poll();
}

void JobPartitions::IssueMoves(const std::vector<PartitionMove>& plan) {
  // Copies under way would be copies of what goes away.
  tasks_.Cancel(TaskGroup::kBackup);
  std::map<std::pair<uint64_t, uint64_t>, Task> tasks;
  for (const PartitionMove& move : plan) {
    const uint64_t owner = map_.at(move.partition).owner;
    const auto [it, first] = tasks.emplace(std::make_pair(owner, move.target), Task());
    if (first) {
      it->second = NewTask(Task::MOVE_PARTITIONS);
      *it->second.mutable_target() = AddressOf(move.target);
    }
    it->second.add_partitions(move.partition);
    moving_[move.partition] = move.target;
  }
  for (auto& [way, task] : tasks) tasks_.Add(TaskGroup::kMove, way.first, std::move(task));
  move_failed_ = false;
}

void JobPartitions::OnMoved(const Task& task, const Process& process, const TaskResult& result) {
  uint32_t moved = 0;
  for (uint32_t p : task.partitions()) {
    const auto it = moving_.find(p);
    if (it == moving_.end() || it->second != task.target().process()) continue;
    moving_.erase(it);
    if (result.code() != 0 || !Contains(result.partitions(), p) || !Alive(task.target().process())) continue;
    map_.SetOwner(p, task.target());
    ++moved;
  }
  if (moved > 0) {
    log_.Add(absl::StrCat(moved, " partitions have moved from ", process.Title(), " to server ", task.target().name()));
  }
  if (moved < static_cast<uint32_t>(task.partitions_size())) {
    move_failed_ = true;
    Failed(task, process, result);
  }
  if (!tasks_.Pending(TaskGroup::kMove)) EndMoves();
}

void JobPartitions::EndMoves() {
  moving_.clear();
  if (move_failed_) balance_.clear();
  moves_failed_ = move_failed_ ? std::min(moves_failed_ + 1, kMaxDoublings) : 0;
  if (move_failed_) moves_not_before_ = Now() + kRetry * (1 << (moves_failed_ - 1));
  if (hold_.has_value()) moved_at_ = hold_->round;
  hold_.reset();
  // The map changes once, when all have come: a server throws away what arrived when a newer map does not give it to
  // it. What has not moved is served again where it was.
  Publish();
}

void JobPartitions::Failed(const Task& task, const Process& process, const TaskResult& result) {
  log_.Add(absl::StrCat(process.Title(), " ", DescribeFailure(task), ": ",
                        absl::StatusCodeToString(static_cast<absl::StatusCode>(result.code())), ": ",
                        result.message()));
}

void JobPartitions::CancelMoves() {
  MembersChanged();
  if (moving()) {
    context_.changes->views = true;  // sources serve again
    map_.Load(stored_);              // what has moved already does not count
  }
  if (hold_.has_value()) map_.Load(stored_);  // what has moved already does not count
  tasks_.Cancel(TaskGroup::kMove);
  tasks_.Cancel(TaskGroup::kHold);
  moving_.clear();
  hold_.reset();
}

void JobPartitions::Poll() {
  hold_->seen.reset();
  hold_->poll_at = Now() + kPollInterval;
  for (uint64_t owner : map_.Owners()) tasks_.Add(TaskGroup::kHold, owner, NewTask(Task::REPORT_DONE));
}

void JobPartitions::OnRounds(const TaskResult& result) {
  if (!hold_.has_value()) return;
  for (const PartitionDone& done : result.done()) {
    const uint64_t rounds = done.rounds_applied();
    auto& seen = hold_->seen;
    seen = seen.has_value() ? std::make_pair(std::min(seen->first, rounds), std::max(seen->second, rounds))
                            : std::make_pair(rounds, rounds);
  }
}

void JobPartitions::AdvanceHold() {
  if (!moving_.empty() || tasks_.Pending(TaskGroup::kHold) || Now() < hold_->poll_at) return;
  if (hold_->seen.has_value()) {
    const auto [fewest, most] = *hold_->seen;
    if (most > hold_->newest) {
      hold_->newest = most;
      hold_->newest_since = Now();
    }
    if (hold_->told && fewest == most && most == hold_->round) {
      IssueMoves(hold_->plan);
      return;
    }
    uint64_t round = hold_->round;
    if (!hold_->told || most > round) {
      if (hold_->told) hold_->margin *= kMarginGrowth;  // somebody was faster
      round = most + hold_->margin;
    } else if (Now() - hold_->newest_since >= kRoundsStill) {
      round = most;  // nobody brings further rounds
    }
    if (!hold_->told || round != hold_->round) {
      hold_->told = true;
      hold_->round = round;
      context_.changes->views = true;
    }
  }
  Poll();
}

void JobPartitions::AdvanceBackups() {
  if (stored_.job().replicas() < 2 || Now() < backups_not_before_ || moving()) return;
  bool changed = false;
  for (uint32_t p = 0; p < map_.size(); ++p) {
    if (map_.at(p).backup == 0 || !Draining(map_.at(p).backup)) continue;
    map_.DropBackup(p);
    changed = true;
  }
  const auto avoid = [this](uint64_t owner, uint64_t backup) { return Avoids(owner, backup); };
  for (const PartitionMove& backup : PlaceBackups(map_, Staying(), avoid)) {
    if (map_.at(backup.partition).lost) continue;
    map_.SetBackup(backup.partition, AddressOf(backup.target));
    changed = true;
  }
  if (changed) Publish();
  std::map<std::pair<uint64_t, uint64_t>, Task> tasks;
  for (uint32_t p = 0; p < map_.size(); ++p) {
    const PartitionPlace& place = map_.at(p);
    if (place.lost || place.synced || place.backup == 0 || tasks_.Pending(TaskGroup::kBackup, place.owner)) continue;
    const auto [it, first] = tasks.emplace(std::make_pair(place.owner, place.backup), Task());
    if (first) {
      it->second = NewTask(Task::ADD_BACKUP);
      *it->second.mutable_target() = AddressOf(place.backup);
    }
    it->second.add_partitions(p);
  }
  for (auto& [way, task] : tasks) tasks_.Add(TaskGroup::kBackup, way.first, std::move(task));
}

void JobPartitions::OnBackup(const Task& task, const Process& process, const TaskResult& result) {
  bool failed = false;
  for (uint32_t p : task.partitions()) {
    if (p >= map_.size() || map_.at(p).owner != process.id || map_.at(p).backup != task.target().process()) continue;
    if (result.code() == 0 && Contains(result.partitions(), p)) {
      map_.SetSynced(p);
    } else {
      map_.DropBackup(p);  // so that pushes are acknowledged without it
      failed = true;
    }
  }
  map_.StoreSynced(&stored_);
  Persist();
  if (!failed) {
    avoided_.erase({process.id, task.target().process()});
    return;
  }
  Failed(task, process, result);
  const absl::StatusCode code = static_cast<absl::StatusCode>(result.code());
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    Avoid(process.id, task.target().process(), result.message());
  }
  backups_not_before_ = Now() + kRetry;
  Publish();
}

void JobPartitions::Avoid(uint64_t owner, uint64_t backup, const std::string& why) {
  Avoided& avoided = avoided_[{owner, backup}];
  avoided.until = Now() + kAvoid * (1 << std::min(avoided.failures, kMaxDoublings));
  ++avoided.failures;
  avoided.why = why;
}

bool JobPartitions::Avoids(uint64_t owner, uint64_t backup) const {
  const auto it = avoided_.find({owner, backup});
  return it != avoided_.end() && Now() < it->second.until;
}

void JobPartitions::OnUnreachable(const Process& owner, const Unreachable& server) {
  // A server that everybody finds silent dies by the deadline; this one answers the scheduler.
  if (absl::Seconds(server.seconds()) < context_.deadline) return;
  uint32_t dropped = 0;
  for (uint32_t p = 0; p < map_.size(); ++p) {
    if (map_.at(p).owner != owner.id || map_.at(p).backup != server.server() || !map_.at(p).synced) continue;
    map_.DropBackup(p);
    ++dropped;
  }
  if (dropped == 0) return;
  Avoid(owner.id, server.server(), server.error());
  log_.Add(absl::StrCat(owner.Title(), " cannot reach its backup, server ", AddressOf(server.server()).name(), ", for ",
                        server.seconds(), " s (", server.error(), "): ", dropped, " partitions get another one"));
  Publish();
}

std::string JobPartitions::BackupWarning() const {
  const uint32_t without = map_.CountWithoutBackup();
  if (without == 0 || stored_.job().replicas() < 2) return "";
  for (const auto& [way, avoided] : avoided_) {
    if (!Alive(way.first) || !Alive(way.second)) continue;
    return absl::StrCat(without, " partitions have no backup: server ", AddressOf(way.first).name(),
                        " cannot reach server ", AddressOf(way.second).name(), ": ", avoided.why);
  }
  return "";
}

}  // namespace shoal
