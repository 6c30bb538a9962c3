// Pushes and marks: memory, the table of answers, rounds.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/backup_room.h"
#include "server/request_checks.h"
#include "server/server_job.h"

namespace shoal {
namespace {

void CountRefused(const PushTally& tally, PushReply* reply) {
  tally.ForEach([&](uint32_t, uint32_t, const SlotCounts& counts) {
    reply->guard_refused += counts.guard_refused;
    reply->not_admitted += counts.not_admitted;
    reply->memory_refused += counts.memory_refused;
  });
  for (const PushTally::DenseRefused& dense : tally.dense_refused()) reply->guard_refused += dense.blocks;
}

RefusedBatch OfPush(const PushRequest& request, RefusedBatch refused) {
  refused.set_lane(request.header.lane);
  refused.set_pass(request.pass);
  refused.set_split(request.split);
  refused.set_begin(request.begin);
  refused.set_end(request.end);
  return refused;
}

}  // namespace

uint64_t ServerJob::QuickBound(const PushRequest& request) const {
  uint64_t bytes = 0;
  for (const PushGroup& group : request.groups) {
    for (uint32_t table : group.tables) {
      const SparseSchema& shape = schema_->tables[table];
      const uint64_t row = (uint64_t{shape.dim} + shape.state + 2) * sizeof(float) + SparseTable::kIndexBytesPerKey;
      bytes += group.keys.size() * row;
      // Each partition may start a slab and move to an index a quarter larger.
      bytes += std::min<uint64_t>(request.partitions.size(), group.keys.size()) * pools_[table]->slab_bytes();
      bytes += static_cast<uint64_t>(std::max<int64_t>(0, stats_.table_bytes[table])) / 4;
    }
  }
  return bytes;
}

absl::Status ServerJob::Reserve(const PushRequest& request, const OwnerMap& map, uint64_t* reserved) {
  *reserved = 0;
  const uint64_t limit = schema_->hard_limit_bytes;
  if (limit == 0) return absl::OkStatus();
  const uint64_t bound = QuickBound(request);
  if (stats_.TryReserve(bound, limit)) {
    *reserved = bound;
    return absl::OkStatus();
  }
  // Near the limit only: count exactly. Partitions that will not accept the push need nothing.
  const PushRange range = RangeOf(*schema_, request);
  const uint64_t exact =
      SumOverServed(*schema_, request, map, [&](uint32_t, const Partition& partition, const auto& gradients) {
        return partition.GrowthBytes(range, gradients);
      });
  if (exact == 0) return absl::OkStatus();
  if (stats_.TryReserve(exact, limit)) {
    *reserved = exact;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("memory.hard_limit: ", limit, " bytes, ", stats_.used_bytes.load(),
                                                   " used, new rows of this push need ", exact));
}

absl::Status ServerJob::PushNow(const PushRequest& request, const KeyHashes& hashes, PushReply* reply,
                                std::vector<ReplicaMark>* marks) {
  std::shared_ptr<const OwnerMap> map;
  {
    MutexLock lock(&mu_);
    SHOAL_ASSIGN_OR_RETURN(reply->outcome, Admit(request.header));
    map = map_;
  }
  reply->map_version = map->version;
  reply->pushes_applied = pushes_.load(std::memory_order_relaxed);
  if (reply->outcome != RequestOutcome::kOk) return absl::OkStatus();
  BackupRoom room;
  SHOAL_RETURN_IF_ERROR(room.Take(*schema_, request, *map));
  uint64_t reserved;
  const absl::Status fits = Reserve(request, *map, &reserved);
  if (!fits.ok()) room.Pin({});
  SHOAL_RETURN_IF_ERROR(fits);
  const PushRange range = RangeOf(*schema_, request);
  PushSlices slices(*schema_, request, &hashes);
  PushTally tally(&stats_);
  bool accepted = false;
  BufferPool* const pool = options_.buffers.get();
  std::pmr::vector<RowGradients> rows(pool);
  rows.reserve(slices.MostRows());  // spans of it stay
  std::pmr::vector<PartitionPush> pushes(pool);
  for (uint32_t partition : request.partitions) {
    PartitionPush push;
    push.partition = map->Serving(partition);
    const size_t before = rows.size();
    push.dense = slices.Next(&rows);
    push.rows = absl::MakeConstSpan(rows).subspan(before);
    if (push.partition != nullptr) pushes.push_back(push);
  }
  Partition::Push(range, absl::MakeSpan(pushes), &tally, pool);
  size_t next = 0;
  for (uint32_t partition : request.partitions) {
    PushVerdict verdict;
    verdict.outcome = PushOutcome::kStaleMap;
    if (map->Serving(partition) != nullptr) verdict = pushes[next++].verdict;
    // What a repeat finds applied may still be on its way to the backup.
    if (verdict.mirrored) marks->push_back({partition, verdict.version});
    if (verdict.outcome == PushOutcome::kAccepted) {
      accepted = true;
    } else {
      reply->exceptions.push_back({partition, verdict.outcome, verdict.watermark});
    }
  }
  stats_.reserved_bytes -= static_cast<int64_t>(reserved);
  room.Pin(*marks);
  if (accepted && !request.continues) reply->pushes_applied = pushes_.fetch_add(1, std::memory_order_relaxed);
  CountRefused(tally, reply);
  RefusedBatch refused;
  if (TakeRefused(tally, &refused)) refused_.Add(OfPush(request, std::move(refused)));
  return absl::OkStatus();
}

absl::Status ServerJob::JudgeRound(const PushRequest& request, PushReply* reply, bool* hold) {
  const auto all = [&](PushOutcome outcome) {
    for (uint32_t partition : request.partitions) reply->exceptions.push_back({partition, outcome, 0});
    return absl::OkStatus();
  };
  *hold = false;
  bool stale = false;
  size_t owned = 0;
  for (uint32_t partition : request.partitions) stale |= map_->Serving(partition) == nullptr;
  for (uint32_t p = 0; p < schema_->partitions; ++p) owned += map_->at[p].mine ? 1 : 0;
  // A round is whole or nothing: one partition that moved away sends the whole contribution back.
  if (stale) return all(PushOutcome::kStaleMap);
  if (owned != request.partitions.size() && request.header.map_version != map_->version) {
    return all(PushOutcome::kStaleMap);
  }
  if (owned != request.partitions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("partitions: ", request.partitions.size(),
                                                   " entries, a bsp push must cover all ", owned, " of this server"));
  }
  const PushRange range = RangeOf(*schema_, request);
  std::pmr::vector<PushVerdict> verdicts(options_.buffers.get());
  bool fenced = false, fits = true;
  for (uint32_t partition : request.partitions) {
    verdicts.push_back(map_->Serving(partition)->Judge(range));
    fenced |= verdicts.back().outcome == PushOutcome::kFenced;
    fits &= verdicts.back().outcome == PushOutcome::kAccepted;
  }
  if (fenced) return all(PushOutcome::kFenced);
  const uint64_t next = rounds_.applied();
  if (request.round < next || (request.round == next && rounds_.Held(request.logical_lane))) {
    return all(PushOutcome::kDuplicate);
  }
  if (request.round > next) return all(PushOutcome::kOutOfOrder);
  *hold = fits;
  if (fits) return absl::OkStatus();
  // The range does not fit its round. In bsp all partitions stand at one place, so they all say the same; a mixture
  // would mean that state of two runs was mixed.
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].outcome != verdicts[0].outcome) {
      return absl::FailedPreconditionError(absl::StrCat("partitions ", request.partitions[0], " and ",
                                                        request.partitions[i],
                                                        " stand at different watermarks of split ", range.split, ": ",
                                                        verdicts[0].watermark, " and ", verdicts[i].watermark));
    }
    reply->exceptions.push_back({request.partitions[i], verdicts[i].outcome, verdicts[i].watermark});
  }
  return absl::OkStatus();
}

absl::Status ServerJob::PushRound(const PushRequest& request, PushReply* reply, ReleasedList* released) {
  const auto copy = [&] { return std::make_unique<Contribution>(*schema_, request, options_.buffers.get()); };
  bool wanted;
  {
    MutexLock lock(&mu_);
    const absl::StatusOr<RequestOutcome> admitted = Admit(request.header);
    wanted = admitted.ok() && *admitted == RequestOutcome::kOk && request.round == rounds_.applied() &&
             !rounds_.Held(request.logical_lane);
  }
  // Without the lock, so that lanes copy at the same time.
  std::unique_ptr<Contribution> contribution = wanted ? copy() : nullptr;
  MutexLock lock(&mu_);
  SHOAL_ASSIGN_OR_RETURN(reply->outcome, Admit(request.header));
  reply->map_version = map_->version;
  reply->pushes_applied = pushes_.load(std::memory_order_relaxed);
  if (reply->outcome != RequestOutcome::kOk) return absl::OkStatus();
  bool hold;
  SHOAL_RETURN_IF_ERROR(JudgeRound(request, reply, &hold));
  if (!hold) return absl::OkStatus();
  uint64_t reserved;
  SHOAL_RETURN_IF_ERROR(Reserve(request, *map_, &reserved));
  if (contribution == nullptr) contribution = copy();
  contribution->set_reserved_bytes(reserved);
  rounds_.Hold(request.logical_lane, std::move(contribution));
  Proceed(released);
  return absl::OkStatus();
}

void ServerJob::Push(const PushRequest& request, PushReply* reply, const Done& done) {
  reply->exceptions.clear();
  reply->guard_refused = reply->not_admitted = reply->memory_refused = 0;
  KeyHashes hashes(options_.buffers.get());
  absl::Status status = CheckPush(*schema_, request, &hashes);
  ReleasedList released;
  std::vector<ReplicaMark> marks;
  if (status.ok()) {
    status = schema_->sync == SyncMode::kBsp ? PushRound(request, reply, &released)
                                             : PushNow(request, hashes, reply, &marks);
  }
  Answer(&released);
  if (status.ok() && !marks.empty()) return AwaitBackups(marks, done);
  done(status);
}

void ServerJob::AwaitBackups(const std::vector<ReplicaMark>& marks, const Done& done) {
  // The map of now, not of when the push began: a backup that came meanwhile counts, one that a newer map took away
  // does not.
  const std::shared_ptr<const OwnerMap> map = Map();
  std::map<std::shared_ptr<ReplicaStream>, std::vector<ReplicaMark>> by_stream;
  for (const ReplicaMark& mark : marks) {
    if (map->Owned(mark.partition) == nullptr) {
      return done(absl::UnavailableError(absl::StrCat("partition ", mark.partition, ": it has left this server")));
    }
    const std::shared_ptr<ReplicaStream>& stream = map->at[mark.partition].stream;
    if (stream != nullptr) by_stream[stream].push_back(mark);
  }
  if (by_stream.empty()) return done(absl::OkStatus());
  if (by_stream.size() == 1) return by_stream.begin()->first->Await(by_stream.begin()->second, done);
  struct Gathered {
    Mutex mu;
    size_t missing ABSL_GUARDED_BY(mu) = 0;
    absl::Status status ABSL_GUARDED_BY(mu);
  };
  auto gathered = std::make_shared<Gathered>();
  {
    MutexLock lock(&gathered->mu);
    gathered->missing = by_stream.size();
  }
  for (const auto& [stream, wanted] : by_stream) {
    stream->Await(wanted, [gathered, done](absl::Status status) {
      {
        MutexLock lock(&gathered->mu);
        gathered->status.Update(status);
        if (--gathered->missing > 0) return;
        status = gathered->status;
      }
      done(status);
    });
  }
}

absl::Status ServerJob::TakeMark(uint32_t lane, uint64_t round) {
  if (rounds_.Mark(lane, round)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("mark of round ", round, " by logical lane ", lane,
                                                    ": only rounds up to ", rounds_.applied(), " can be acknowledged"));
}

void ServerJob::Mark(const MarkRequest& request, MarkReply* reply, const Done& done) {
  absl::Status status = CheckMark(*schema_, request);
  ReleasedList released;
  if (status.ok()) {
    MutexLock lock(&mu_);
    const absl::StatusOr<RequestOutcome> admitted = Admit(request.header);
    status = admitted.status();
    reply->outcome = admitted.value_or(RequestOutcome::kOk);
    reply->map_version = map_->version;
    // Whoever says it, and under whichever lease: that all servers acknowledged a push stays true. But a lane with an
    // older map leaves out servers that have partitions now, and what is frozen has left with the marks that it had.
    if (status.ok() && reply->outcome == RequestOutcome::kOk &&
        (request.header.map_version != map_->version || frozen_ > 0)) {
      reply->outcome = RequestOutcome::kStaleMap;
    }
    if (status.ok() && reply->outcome == RequestOutcome::kOk) {
      if (request.has_round) status = TakeMark(request.logical_lane, request.round);
      if (status.ok() && request.last) {
        rounds_.Finish(request.logical_lane, request.has_round ? request.round + 1 : 0);
        round_applied_.SignalAll();  // that was the last one, perhaps
      }
      Proceed(&released);
    }
  }
  Answer(&released);
  done(status);
}

bool ServerJob::MayApply() const {
  const uint64_t round = rounds_.applied();
  for (uint64_t cut : cuts_) {
    if (round >= cut) return false;
  }
  // What is frozen has been copied without this round.
  return !dropped_ && !(hold_.has_value() && round >= *hold_) && frozen_ == 0;
}

void ServerJob::Proceed(ReleasedList* released) {
  while (schema_->sync == SyncMode::kBsp && rounds_.Ready() && MayApply()) {
    std::pmr::vector<uint32_t> partitions(options_.buffers.get());
    for (uint32_t p = 0; p < schema_->partitions; ++p) {
      if (map_->Owned(p) != nullptr) partitions.push_back(p);
    }
    // By a lane that is late: partitions leave them to it, and the next that asks gets others.
    if (tensors_ != nullptr && tensors_->BeingRead()) tensors_ = nullptr;
    PushTally tally(&stats_);
    const uint64_t examples = round_step_.Apply(rounds_, *map_, partitions, &tally);
    for (RefusedBatch& batch : BlameLanes(*schema_, rounds_, partitions, examples, tally)) {
      refused_.Add(std::move(batch));
    }
    stats_.reserved_bytes -= static_cast<int64_t>(rounds_.reserved_bytes());
    pushes_ += rounds_.Next().size();
    rounds_.Advance();
    round_applied_.SignalAll();
  }
  Release(released);
}

}  // namespace shoal
