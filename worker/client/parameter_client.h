// One server, as a lane sees it. Variants: GrpcParameterClient (worker/client), LocalParameterClient (local/),
// FaultyParameterClient (tests/testing).
#ifndef SHOAL_WORKER_CLIENT_PARAMETER_CLIENT_H_
#define SHOAL_WORKER_CLIENT_PARAMETER_CLIENT_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/wire/parameter_messages.h"

namespace shoal {

// Thread-safe. `done` runs exactly once, on any thread, possibly before the call returns; it must not block. Request
// and reply stay valid until then. A status that is not OK says nothing about whether the server acted: OpenSplit, Pull
// and Mark can be repeated as they are, and so can Push (a partition that applied it answers kDuplicate). UNAVAILABLE,
// DEADLINE_EXCEEDED and RESOURCE_EXHAUSTED are worth a retry after a back-off; NOT_FOUND (the server does not have the
// job, or not this run yet) is worth one after a look at the map; ABORTED: a pull is still parked; others are final.
class ParameterClient {
 public:
  using Done = std::function<void(absl::Status)>;
  enum class Calls { kPulls, kAll };
  virtual ~ParameterClient() = default;

  virtual void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) = 0;
  virtual void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) = 0;
  virtual void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) = 0;
  virtual void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) = 0;
  // Whether the server is in this process, so that requests and replies may carry whole tensors of the caller's.
  virtual bool one_memory() const { return false; }
  // Nobody wants these calls any more: those in flight and all later ones end soon, with UNAVAILABLE. A client whose
  // calls do not wait for a network need not do anything.
  virtual void Abort(Calls) {}
};

}  // namespace shoal

#endif  // SHOAL_WORKER_CLIENT_PARAMETER_CLIENT_H_
