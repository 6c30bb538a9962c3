// Cuts pulls and pushes into messages of a bounded size and joins their answers. Free of gRPC.
#ifndef SHOAL_WORKER_CLIENT_CALL_PARTS_H_
#define SHOAL_WORKER_CLIENT_CALL_PARTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "proto/wire/parameter_messages.h"
#include "worker/client/parameter_client.h"

namespace shoal {

// About how many bytes keys, rows and dense values of a call take: the larger of its two directions.
uint64_t PullBytes(const PullRequest& request, const PullReply& reply);
uint64_t PushBytes(const PushRequest& request);

// A part of a call; borrows the call's memory. Moving it leaves its spans valid.
struct PullPart {
  PullRequest request;
  PullReply reply;
  std::vector<uint32_t> counts;  // behind request.groups[].counts when rows of one partition are cut
};
struct PushPart {
  PushRequest request;
  PushReply reply;
};

// Parts of about `target_bytes` that together ask for what the call asks for, into the same destinations. Cuts between
// rows and, in dense blocks, between floats; a row is never cut. At least one part. REQUIRES: CheckPullDestinations is
// content; target_bytes > 0.
std::deque<PullPart> CutPull(const PullRequest& request, const PullReply& reply, uint64_t target_bytes);
// Sets what *reply says beside the rows. `status`: how the parts ended. OK when one of them was refused as a whole:
// then so is the call.
absl::Status JoinPull(const std::deque<PullPart>& parts, const absl::Status& status, PullReply* reply);

// Parts of about `target_bytes`, cut between partitions only; one that has more is a part of its own. A single part
// when the push may not be cut. REQUIRES: target_bytes > 0.
std::deque<PushPart> CutPush(const PushRequest& request, uint64_t target_bytes);
absl::Status JoinPush(const std::deque<PushPart>& parts, const absl::Status& status, PushReply* reply);

// Runs the parts of one call, a few at a time. After the first bad status no further part begins. Thread-safe; keeps
// itself alive until `done` has been called, once, with no part under way.
class PartRunner : public std::enable_shared_from_this<PartRunner> {
 public:
  using Issue = std::function<void(size_t part, ParameterClient::Done done)>;

  // REQUIRES: parts > 0, most_at_once > 0.
  static void Run(size_t parts, size_t most_at_once, Issue issue, ParameterClient::Done done);

 private:
  PartRunner(size_t parts, size_t most_at_once, Issue issue, ParameterClient::Done done)
      : parts_(parts), most_at_once_(most_at_once), issue_(std::move(issue)), done_(std::move(done)) {}
  void Pump();
  void End(const absl::Status& status);

  const size_t parts_, most_at_once_;
  const Issue issue_;
  const ParameterClient::Done done_;
  Mutex mu_;
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t under_way_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_CLIENT_CALL_PARTS_H_
