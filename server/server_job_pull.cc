// Pulls: gates, parking, gathering.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/request_checks.h"
#include "server/server_job.h"

namespace shoal {
namespace {

void GatherDense(const DenseLayout& layout, const OwnerMap& map, const PullRequest& request, PullReply* reply) {
  if (!reply->tensors.empty()) {
    for (uint32_t partition : request.partitions) map.Serving(partition)->ReadDense(reply->tensors);
    return;
  }
  float* out = reply->dense;
  uint64_t skip = request.dense_begin;
  uint64_t left = request.dense_count == 0 ? std::numeric_limits<uint64_t>::max() : request.dense_count;
  for (uint32_t partition : request.partitions) {
    const uint64_t floats = layout.FloatsOf(partition);
    if (skip >= floats) {
      skip -= floats;
      continue;
    }
    const uint64_t some = std::min(left, floats - skip);
    if (some == 0) return;
    map.Serving(partition)->ReadDense(skip, some, out);
    out += some;
    left -= some;
    skip = 0;
  }
}

}  // namespace

absl::StatusOr<PullSizes> ServerJob::SizePull(const PullRequest& request) const { return CheckPull(*schema_, request); }

bool ServerJob::GateOpen(const PullRequest& request) const {
  switch (schema_->sync) {
    case SyncMode::kAsp:
      return true;
    case SyncMode::kSsp:
      return request.batch <= schema_->staleness || lanes_.Slowest() >= request.batch - schema_->staleness;
    case SyncMode::kBsp:
      return rounds_.applied() >= request.round;
  }
  return true;
}

void ServerJob::Stamp(PullReply* reply) const {
  reply->map_version = map_->version;
  reply->slowest_clock = lanes_.Slowest();
  reply->pushes_applied = pushes_.load(std::memory_order_relaxed);
}

void ServerJob::Release(ReleasedList* released) {
  for (auto it = parked_.begin(); it != parked_.end();) {
    const PullRequest& request = *it->request;
    const absl::StatusOr<RequestOutcome> admitted = Admit(request.header);
    bool leave = !admitted.ok() || *admitted != RequestOutcome::kOk;
    Released out{{}, admitted.status(), false};
    if (leave) {
      it->reply->outcome = admitted.value_or(RequestOutcome::kOk);
    } else if (GateOpen(request)) {
      leave = out.serve = true;
    } else {
      // Partitions that moved away are pulled from their new owner, without waiting for our gate.
      for (uint32_t partition : request.partitions) leave |= map_->Serving(partition) == nullptr;
      if (leave) it->reply->outcome = RequestOutcome::kStaleMap;
    }
    if (!leave) {
      ++it;
      continue;
    }
    if (out.serve) it->reply->shared = Share(request);
    Stamp(it->reply);
    it->reply->parked_us = static_cast<uint64_t>(absl::ToInt64Microseconds(options_.clock->Now() - it->since));
    out.pull = std::move(*it);
    released->pulls.push_back(std::move(out));
    it = parked_.erase(it);
  }
}

void ServerJob::Answer(ReleasedList* released) {
  for (const Unfollowed& backup : released->backups) backup.stream->Detach(backup.partition, backup.status);
  for (Released& item : released->pulls) {
    if (item.serve) {
      Serve(*item.pull.request, item.pull.reply, item.pull.done);
    } else {
      item.pull.done(item.status);
    }
  }
  *released = ReleasedList();
}

void ServerJob::Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
  const absl::StatusOr<PullSizes> sizes = CheckPull(*schema_, *request);
  absl::Status status = sizes.ok() ? CheckDestinations(*schema_, *request, *reply, *sizes) : sizes.status();
  if (!status.ok()) return done(status);
  ReleasedList released;
  bool serve = false, parked = false;
  {
    MutexLock lock(&mu_);
    const absl::StatusOr<RequestOutcome> admitted = Admit(request->header);
    status = admitted.status();
    reply->outcome = admitted.value_or(RequestOutcome::kOk);
    if (status.ok() && reply->outcome == RequestOutcome::kOk) {
      if (!request->read_only) {
        lanes_.Raise(request->header.lane, request->finished);
        if (schema_->sync == SyncMode::kBsp && request->has_mark) {
          status = request->round == 0 ? absl::InvalidArgumentError("round: 0 has no round before it to be marked")
                                       : TakeMark(request->logical_lane, request->round - 1);
        }
        Proceed(&released);
      }
      serve = status.ok() && (request->read_only || GateOpen(*request));
      parked = status.ok() && !serve;
      // Under the same lock as the gate: a round that is applied later sees that they are being read.
      reply->shared = serve ? Share(*request) : nullptr;
    }
    Stamp(reply);
    reply->parked_us = 0;
    if (parked) {
      const absl::Duration now = options_.clock->Now();
      parked_.push_back({request, reply, std::move(done), now + timeout, now});
    }
  }
  Answer(&released);
  if (parked) return;
  if (serve) return Serve(*request, reply, done);
  done(status);
}

void ServerJob::Serve(const PullRequest& request, PullReply* reply, const Done& done) {
  const std::shared_ptr<const OwnerMap> map = Map();
  reply->outcome = RequestOutcome::kOk;
  for (uint32_t partition : request.partitions) {
    if (map->Serving(partition) != nullptr) continue;
    reply->outcome = RequestOutcome::kStaleMap;
    reply->shared = nullptr;
    return done(absl::OkStatus());
  }
  done(Gather(*map, request, reply));
}

absl::Status ServerJob::Gather(const OwnerMap& map, const PullRequest& request, PullReply* reply) const {
  BufferPool* const pool = options_.buffers.get();
  KeyHashes hashes(pool);
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const PullGroup& group = request.groups[g];
    SHOAL_RETURN_IF_ERROR(
        CheckPlaces(*schema_, request.partitions, g, group.keys, group.counts, hashes.Add(group.keys.size())));
  }
  std::pmr::vector<RowsRead> reads(pool);
  std::vector<uint64_t> offsets(request.groups.size());
  for (size_t i = 0; i < request.partitions.size(); ++i) {
    const Partition* const partition = map.Serving(request.partitions[i]);
    for (size_t g = 0; g < request.groups.size(); ++g) {
      const PullGroup& group = request.groups[g];
      const uint64_t count = group.counts[i], offset = offsets[g];
      offsets[g] += count;
      for (size_t t = 0; count > 0 && t < group.tables.size(); ++t) {
        reads.push_back({partition, group.tables[t], group.keys.subspan(offset, count),
                         absl::MakeConstSpan(hashes.of(g) + offset, count),
                         reply->rows[g][t] + offset * schema_->tables[group.tables[t]].dim});
      }
    }
  }
  Partition::ReadRows(reads, pool);
  if (request.dense && reply->shared == nullptr) GatherDense(schema_->layout, map, request, reply);
  return absl::OkStatus();
}

std::shared_ptr<const TensorValues> ServerJob::Share(const PullRequest& request) {
  if (!request.share || !request.dense || request.read_only || schema_->sync != SyncMode::kBsp) return nullptr;
  if (tensors_ == nullptr) {
    for (const OwnerMap::Place& place : map_->at) {
      if (place.role != PartitionRole::kServing) return nullptr;
    }
    tensors_ = ShareTensors(*schema_, *map_);
  }
  return tensors_->Read();
}

void ServerJob::Tick() {
  ReleasedList released;
  std::vector<std::shared_ptr<ReplicaStream>> streams;
  {
    MutexLock lock(&mu_);
    for (const auto& [process, stream] : streams_) streams.push_back(stream);
    const absl::Duration now = options_.clock->Now();
    for (auto it = parked_.begin(); it != parked_.end();) {
      if (it->deadline > now) {
        ++it;
        continue;
      }
      const PullRequest& request = *it->request;
      const std::string wanted =
          schema_->sync == SyncMode::kBsp
              ? absl::StrCat("round ", request.round, " waits for rounds_applied ", rounds_.applied())
              : absl::StrCat("batch ", request.batch, " waits for the slowest live clock ", lanes_.Slowest(),
                             " to come within ", schema_->staleness);
      released.pulls.push_back({std::move(*it), absl::AbortedError(absl::StrCat("parked pull: ", wanted)), false});
      it = parked_.erase(it);
    }
  }
  Answer(&released);
  for (const std::shared_ptr<ReplicaStream>& stream : streams) stream->Tick();
  SweepArrivals();
}

}  // namespace shoal
