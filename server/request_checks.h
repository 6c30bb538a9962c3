// Checks of what came from outside, before anything is touched.
#ifndef SHOAL_SERVER_REQUEST_CHECKS_H_
#define SHOAL_SERVER_REQUEST_CHECKS_H_

#include <memory_resource>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer_pool.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/parameter_messages.h"
#include "server/owner_map.h"
#include "server/parameter_server.h"
#include "server/store/job_schema.h"
#include "server/store/partition.h"

namespace shoal {

// By group of a pull or push, by key: KeyPlace::within, as uint64_t.
class KeyHashes {
 public:
  explicit KeyHashes(BufferPool* pool) : pool_(pool) {}
  // Room for the next group's, not set to 0 first.
  uint64_t* Add(size_t keys) {
    groups_.emplace_back(keys * sizeof(uint64_t), pool_);
    return reinterpret_cast<uint64_t*>(groups_.back().data());
  }
  const uint64_t* of(size_t group) const { return reinterpret_cast<const uint64_t*>(groups_[group].data()); }

 private:
  BufferPool* const pool_;
  std::vector<ByteArray> groups_;
};

// INVALID_ARGUMENT names the field, its value and the bound. Keys are not looked at.
absl::Status CheckOpenSplit(const JobSchema& schema, const OpenSplitRequest& request);
absl::StatusOr<PullSizes> CheckPull(const JobSchema& schema, const PullRequest& request);
// Destinations are there for what is asked.
absl::Status CheckDestinations(const JobSchema& schema, const PullRequest& request, const PullReply& reply,
                               const PullSizes& sizes);
// Also that every key lies in the partition that it is listed under.
absl::Status CheckPush(const JobSchema& schema, const PushRequest& request, KeyHashes* hashes);
absl::Status CheckMark(const JobSchema& schema, const MarkRequest& request);

// Every key hashes to the partition that it is listed under. hashes: what is left of the hash (KeyPlace::within), by
// key, so that nobody hashes again.
absl::Status CheckPlaces(const JobSchema& schema, absl::Span<const uint32_t> partitions, size_t group,
                         absl::Span<const uint64_t> keys, absl::Span<const uint32_t> counts, uint64_t* hashes);

// Walks a checked push partition by partition. Not thread-safe; borrows the request.
class PushSlices {
 public:
  // hashes: null when nobody will look at rows.
  PushSlices(const JobSchema& schema, const PushRequest& request, const KeyHashes* hashes)
      : schema_(schema), request_(request), hashes_(hashes), offsets_(request.groups.size(), 0) {}
  // Appends the gradients of rows of the next entry of request.partitions; returns those of its blocks.
  DenseGradients Next(std::pmr::vector<RowGradients>* out);
  // How many entries all calls of Next can append.
  size_t MostRows() const;

 private:
  const JobSchema& schema_;
  const PushRequest& request_;
  const KeyHashes* const hashes_;
  std::vector<uint64_t> offsets_;  // by group: keys passed
  uint64_t dense_offset_ = 0;
  size_t next_ = 0;
};

// The sum of what `bytes` says of each partition of a checked push that is served here.
uint64_t SumOverServed(const JobSchema& schema, const PushRequest& request, const OwnerMap& map,
                       absl::FunctionRef<uint64_t(uint32_t id, const Partition&, const PartitionGradients&)> bytes);

// The range of a push, its split numbered over all passes.
PushRange RangeOf(const JobSchema& schema, const PushRequest& request);

}  // namespace shoal

#endif  // SHOAL_SERVER_REQUEST_CHECKS_H_
