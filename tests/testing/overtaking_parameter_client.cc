#include "tests/testing/overtaking_parameter_client.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status_macros.h"
#include "proto/wire/parameter_codec.h"

namespace shoal {

// A push that owns its memory, and a place for the answer that nobody sees.
struct OvertakingParameterClient::Held {
  OwnedPushRequest push;
  PushReply reply;
};

OvertakingParameterClient::OvertakingParameterClient(std::shared_ptr<ParameterClient> inner, uint64_t seed, double rate,
                                                     std::function<void(uint64_t)> overtaken)
    : ForwardingParameterClient(std::move(inner)), seed_(seed), rate_(rate), overtaken_(std::move(overtaken)) {}

void OvertakingParameterClient::Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) {
  Random random({seed_, pushes_++});
  const uint64_t lane = request->header.lane;
  std::shared_ptr<Held> held;
  {
    MutexLock lock(&mu_);
    const auto it = held_.find(lane);
    if (it != held_.end()) {
      held = std::move(it->second);
      held_.erase(it);
    }
  }
  if (held != nullptr) {
    const PushRequest& before = held->push.request;
    if (before.lease == request->lease && before.end == request->begin) overtaken_(before.lease);
    // Before the lane knows what its push came to, or when it may be opening its split again already.
    const bool first = random.Below(2) == 0;
    ForwardingParameterClient::Push(
        request, timeout, reply, [this, held, timeout, first, done = std::move(done)](absl::Status status) {
          const auto deliver = [&] {
            ForwardingParameterClient::Push(&held->push.request, timeout, &held->reply, [held](absl::Status) {});
          };
          if (first) deliver();
          done(std::move(status));
          if (!first) deliver();
        });
    return;
  }
  if (!request->end_of_split && random.Uniform() < rate_) {
    // By way of the wire, which makes a copy that owns its memory.
    const absl::StatusOr<ByteArray> bytes = EncodePushRequest(*request, std::numeric_limits<uint64_t>::max());
    if (!bytes.ok()) return done(bytes.status());
    const absl::string_view chunk(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    absl::StatusOr<OwnedPushRequest> copy = DecodePushRequest(absl::MakeConstSpan(&chunk, 1));
    if (!copy.ok()) return done(copy.status());
    held = std::make_shared<Held>();
    held->push = *std::move(copy);
    {
      MutexLock lock(&mu_);
      held_[lane] = std::move(held);
    }
    *reply = {};
    return done(absl::OkStatus());
  }
  ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
}

}  // namespace shoal
