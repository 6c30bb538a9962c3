#include "worker/client/grpc_parameter_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/rpc/address.h"
#include "proto/rpc/byte_buffers.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/status_convert.h"
#include "proto/wire/parameter_codec.h"
#include "worker/client/call_parts.h"

namespace shoal {
namespace {

// Bulk messages go over several connections (one fills before the network does); small ones over one of their own, so
// that they never queue behind a bulk message.
constexpr int kControlChannel = 0;
constexpr int kDataChannels = 2;

using Decode = std::function<absl::Status(Chunks)>;

// A part that is refused as a whole ends the call: no further part is sent.
absl::Status Refusal(const absl::Status& status, RequestOutcome outcome) {
  return status.ok() && outcome != RequestOutcome::kOk ? absl::CancelledError("refused") : status;
}

// A push on its way in pieces.
struct Staged {
  ByteArray message;
  std::deque<PushReply> replies;  // by piece
};

}  // namespace

// Thread-safe.
class GrpcParameterClient::Impl {
 public:
  Impl(std::string address, std::shared_ptr<BufferPool> buffers)
      : address_(std::move(address)), buffers_(std::move(buffers)) {
    for (int i = 0; i <= kDataChannels; ++i) {
      stubs_[i] = std::make_unique<grpc::GenericStub>(MakeChannel(address_, i));
    }
  }

  ~Impl() {
    MutexLock lock(&mu_);
    aborted_ = true;  // for parts that a call goes on with
    // TryCancel only posts the cancellation: the callbacks run on gRPC's threads.
    for (const auto& [call, unused] : calls_) call->context.TryCancel();
    // gRPC ends a cancelled call soon, whatever the server does.
    while (in_flight_ > 0) idle_.WaitFor(&mu_, absl::Seconds(1));
  }

  BufferPool* buffers() const { return buffers_.get(); }

  // One message each.
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
    Start(
        "/shoal.wire.ParameterService/Pull", /*is_pull=*/true, NextDataChannel(),
        EncodePullRequest(*request, kMaxMessageBytes, buffers_.get()), timeout,
        [this, request, reply](Chunks bytes) { return DecodePullReply(bytes, *request, reply, buffers_.get()); },
        std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) {
    Start(
        "/shoal.wire.ParameterService/Push", /*is_pull=*/false, NextDataChannel(),
        EncodePushRequest(*request, kMaxMessageBytes, buffers_.get()), timeout,
        [reply](Chunks message) { return DecodePushReply(message, reply); }, std::move(done));
  }
  void StagePush(const PushPiece& piece, absl::Duration timeout, PushReply* reply, Done done) {
    Start(
        "/shoal.wire.ParameterService/StagePush", /*is_pull=*/false, NextDataChannel(),
        EncodePushPiece(piece, kMaxMessageBytes, buffers_.get()), timeout,
        [reply](Chunks message) { return DecodePushReply(message, reply); }, std::move(done));
  }

  void Abort(Calls calls) {
    MutexLock lock(&mu_);
    (calls == Calls::kAll ? aborted_ : pulls_aborted_) = true;
    for (const auto& [call, unused] : calls_) {
      if (calls == Calls::kAll || call->is_pull) call->context.TryCancel();
    }
  }

  // Sends a message, or ends with the error that kept it from being one.
  void Start(const char* method, bool is_pull, int channel, absl::StatusOr<ByteArray> message, absl::Duration timeout,
             Decode decode, Done done) {
    if (!message.ok()) {
      done(message.status());
      return;
    }
    auto owned = std::make_unique<Call>();
    Call* const call = owned.get();
    call->request = ToByteBuffer(*std::move(message));
    call->decode = std::move(decode);
    call->done = std::move(done);
    call->is_pull = is_pull;
    call->context.set_deadline(DeadlineAfter(timeout + kDeadlineSlack));
    {
      MutexLock lock(&mu_);
      ++in_flight_;
      calls_.emplace(call, std::move(owned));
      // A call that is cancelled before it starts ends at once.
      if (aborted_ || (is_pull && pulls_aborted_)) call->context.TryCancel();
    }
    stubs_[channel]->UnaryCall(&call->context, method, grpc::StubOptions(), &call->request, &call->response,
                               [this, call](grpc::Status status) { End(call, FromServer(status)); });
  }

 private:
  int NextDataChannel() { return 1 + static_cast<int>(next_++ % kDataChannels); }

  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
    Decode decode;
    Done done;
    bool is_pull = false;
  };

  void End(Call* call, absl::Status status) {
    if (status.ok()) {
      status = call->decode(ReceivedBytes(call->response, buffers_.get()).chunks());
    } else if (absl::IsCancelled(status)) {
      status = absl::UnavailableError(absl::StrCat("server ", address_, ": the call was given up"));
    } else if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
      status = absl::Status(status.code(), absl::StrCat("server ", address_, ": ", status.message()));
    }
    std::unique_ptr<Call> owned;
    {
      MutexLock lock(&mu_);
      const auto it = calls_.find(call);
      owned = std::move(it->second);
      calls_.erase(it);
    }
    owned->done(std::move(status));
    // Before the count: the call holds a reference to the channel, which the destructor must be the last to drop.
    owned.reset();
    MutexLock lock(&mu_);
    if (--in_flight_ == 0) idle_.SignalAll();
  }

  const std::string address_;
  const std::shared_ptr<BufferPool> buffers_;
  std::array<std::unique_ptr<grpc::GenericStub>, 1 + kDataChannels> stubs_;
  std::atomic<unsigned> next_{0};
  Mutex mu_;
  CondVar idle_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  bool pulls_aborted_ ABSL_GUARDED_BY(mu_) = false;
  int in_flight_ ABSL_GUARDED_BY(mu_) = 0;  // callbacks that have not returned
  std::map<Call*, std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<GrpcParameterClient>> GrpcParameterClient::Create(const std::string& address,
                                                                                 const MessageLimits& limits,
                                                                                 std::shared_ptr<BufferPool> buffers) {
  SHOAL_RETURN_IF_ERROR(ParseAddress(address).status());
  if (buffers == nullptr) buffers = BufferPool::Create(kIdleBufferBytes);
  return std::unique_ptr<GrpcParameterClient>(
      new GrpcParameterClient(std::make_unique<Impl>(address, std::move(buffers)), limits));
}

GrpcParameterClient::GrpcParameterClient(std::unique_ptr<Impl> impl, const MessageLimits& limits)
    : limits_(limits), impl_(std::move(impl)) {}
GrpcParameterClient::~GrpcParameterClient() = default;
void GrpcParameterClient::Abort(Calls calls) { impl_->Abort(calls); }

void GrpcParameterClient::OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply,
                                    Done done) {
  impl_->Start(
      "/shoal.wire.ParameterService/OpenSplit", /*is_pull=*/false, kControlChannel, EncodeOpenSplitRequest(*request),
      timeout, [reply](Chunks message) { return DecodeOpenSplitReply(message, reply); }, std::move(done));
}

void GrpcParameterClient::Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
  const absl::Status fit = CheckPullDestinations(*request, *reply);
  if (!fit.ok()) return done(fit);
  if (PullBytes(*request, *reply) <= limits_.part_bytes) return impl_->Pull(request, timeout, reply, std::move(done));
  auto parts = std::make_shared<std::deque<PullPart>>(CutPull(*request, *reply, limits_.part_bytes));
  const auto issue = [impl = impl_.get(), parts, timeout](size_t i, const Done& told) {
    PullPart* const part = &(*parts)[i];
    impl->Pull(&part->request, timeout, &part->reply,
               [part, told](const absl::Status& status) { told(Refusal(status, part->reply.outcome)); });
  };
  PartRunner::Run(parts->size(), limits_.parts_at_once, issue,
                  [parts, reply, done](const absl::Status& status) { done(JoinPull(*parts, status, reply)); });
}

void GrpcParameterClient::Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) {
  if (PushBytes(*request) <= limits_.part_bytes) return impl_->Push(request, timeout, reply, std::move(done));
  // Of the process, so that it also grows from one client of a lane to the next.
  const auto attempt = static_cast<uint64_t>(absl::ToInt64Nanoseconds(Clock::Steady().Now()));
  auto parts = std::make_shared<std::deque<PushPart>>(CutPush(*request, limits_.part_bytes));
  const auto issue = [this, parts, timeout, attempt](size_t i, const Done& told) {
    PushPart* const part = &(*parts)[i];
    const Done judge = [part, told](const absl::Status& status) { told(Refusal(status, part->reply.outcome)); };
    if (PushBytes(part->request) <= limits_.whole_push_bytes) {
      impl_->Push(&part->request, timeout, &part->reply, judge);
    } else {
      Stage(part->request, {attempt, i}, timeout, &part->reply, judge);
    }
  };
  PartRunner::Run(parts->size(), limits_.parts_at_once, issue,
                  [parts, reply, done](const absl::Status& status) { done(JoinPush(*parts, status, reply)); });
}

void GrpcParameterClient::Stage(const PushRequest& request, StageId id, absl::Duration timeout, PushReply* reply,
                                Done done) {
  absl::StatusOr<ByteArray> message =
      EncodePushRequest(request, std::numeric_limits<uint64_t>::max(), impl_->buffers());
  if (!message.ok()) return done(message.status());
  auto staged = std::make_shared<Staged>();
  staged->message = *std::move(message);
  staged->replies.resize((staged->message.size() + limits_.part_bytes - 1) / limits_.part_bytes);
  const auto issue = [this, staged, id, timeout, header = request.header](size_t i, const Done& told) {
    PushPiece piece;
    piece.header = header;
    piece.attempt = id.attempt;
    piece.part = id.part;
    piece.total_bytes = staged->message.size();
    piece.offset = i * limits_.part_bytes;
    piece.bytes =
        absl::MakeConstSpan(staged->message.data(), staged->message.size()).subspan(piece.offset, limits_.part_bytes);
    PushReply* const answer = &staged->replies[i];
    impl_->StagePush(piece, timeout, answer,
                     [answer, told](const absl::Status& status) { told(Refusal(status, answer->outcome)); });
  };
  const size_t pieces = staged->replies.size();
  PartRunner::Run(pieces, limits_.parts_at_once, issue, [staged, reply, done](const absl::Status& status) {
    for (PushReply& answer : staged->replies) {
      if (answer.staged || (answer.outcome == RequestOutcome::kOk && !status.ok())) continue;
      *reply = std::move(answer);
      return done(absl::OkStatus());
    }
    // Pieces that came late, or were forgotten while others were on their way.
    done(status.ok() ? absl::UnavailableError("the server has not got all pieces of a push") : status);
  });
}

void GrpcParameterClient::Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) {
  impl_->Start(
      "/shoal.wire.ParameterService/Mark", /*is_pull=*/false, kControlChannel, EncodeMarkRequest(*request), timeout,
      [reply](Chunks message) { return DecodeMarkReply(message, reply); }, std::move(done));
}

}  // namespace shoal
