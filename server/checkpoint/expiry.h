// When rows and counted keys count as gone: the same for the store and for what reads checkpoints without one.
#ifndef SHOAL_SERVER_CHECKPOINT_EXPIRY_H_
#define SHOAL_SERVER_CHECKPOINT_EXPIRY_H_

#include <algorithm>
#include <cstdint>

namespace shoal {

// A job's TTL in examples. All times are the partition's examples applied.
struct Expiry {
  explicit Expiry(uint64_t ttl_examples)
      // Half of all counts is for ever, and sums with it do not overflow.
      : ttl(std::min(ttl_examples, uint64_t{1} << 62)),
        // Without a TTL the times of counted keys only tell which of them changed since a mark: coarse ones do, and 32
        // bits of them outlast any job.
        quantum(ttl == 0 ? kQuantaPerTtl : ttl / kQuantaPerTtl + 1) {}

  // `touched`: time of the last push.
  bool Row(uint64_t touched, uint64_t now) const { return ttl != 0 && now >= touched + ttl; }
  // `quanta`: the same in whole quanta.
  bool Counted(uint64_t quanta, uint64_t now) const {
    return ttl != 0 && now / quantum >= quanta + (ttl + quantum - 1) / quantum;
  }

  static constexpr uint64_t kQuantaPerTtl = 65536;  // fits beside the count, and is fine enough for any policy

  uint64_t ttl;      // 0: nothing expires
  uint64_t quantum;  // counted keys remember when they were touched in these units
};

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_EXPIRY_H_
