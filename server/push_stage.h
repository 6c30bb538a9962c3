// Pieces of pushes that are too large for one message, until they are complete.
#ifndef SHOAL_SERVER_PUSH_STAGE_H_
#define SHOAL_SERVER_PUSH_STAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/parameter_messages.h"
#include "proto/wire/push_piece.h"

namespace shoal {

// Collects pieces by lane, attempt and part; knows nothing of what they say, so nothing of a push is applied before it
// is whole. A push's bytes are reserved with its first piece: pushes that have begun never wait for one another. They
// are freed when it is complete, when its lane begins a newer attempt, and by Sweep when the lane is gone or silent.
// Thread-safe; copies nothing.
class PushStage {
 public:
  PushStage(uint64_t max_bytes, absl::Duration patience, const Clock* clock)
      : max_bytes_(max_bytes), patience_(patience), clock_(*clock) {}

  // `storage` is what piece.bytes points to. When the request is complete *whole are its bytes in order; else it stays
  // empty, also for a repeat. INVALID_ARGUMENT: the piece does not fit its request, or the request could never be kept;
  // RESOURCE_EXHAUSTED: it does not fit now; FAILED_PRECONDITION: the lane has begun a newer attempt.
  absl::Status Take(const PushPiece& piece, ByteArray storage, std::vector<ByteArray>* whole);
  // Forgets lanes that are not `welcome` any more, or of which nothing has come for `patience`.
  void Sweep(const std::function<bool(const RequestHeader&)>& welcome);
  // Reserved.
  uint64_t bytes() const;

 private:
  struct Request {
    uint64_t total = 0;
    uint64_t received = 0;
    std::map<uint64_t, ByteArray> pieces;  // by offset
  };
  struct Lane {
    RequestHeader header;  // of the newest piece
    uint64_t attempt = 0;
    absl::Duration last;                   // when the newest piece came
    std::map<uint64_t, Request> requests;  // by part
    std::set<uint64_t> complete;           // parts: what comes of them again is a repeat
  };

  absl::Status Begin(const PushPiece& piece, Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Free(Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_bytes_;
  const absl::Duration patience_;
  const Clock& clock_;
  mutable Mutex mu_;
  uint64_t reserved_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::pair<uint64_t, uint64_t>, Lane> lanes_ ABSL_GUARDED_BY(mu_);  // by job and lane
};

}  // namespace shoal

#endif  // SHOAL_SERVER_PUSH_STAGE_H_
