#include "server/rpc/parameter_service.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/parameters_service.grpc.pb.h"
#include "proto/rpc/byte_buffers.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/status_convert.h"
#include "proto/rpc/unary_call.h"
#include "proto/wire/parameter_codec.h"
#include "proto/wire/value_codec.h"
#include "server/rpc/replication_service.h"

namespace shoal {
namespace {

// For a caller without a deadline.
constexpr absl::Duration kLongestPull = absl::Minutes(10);
// Time for gRPC to send the last answers.
constexpr absl::Duration kFlush = absl::Seconds(1);

// How long the caller will wait, less what it adds to see our own answer to a pull that stayed parked.
absl::Duration TimeoutOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  const std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  if (deadline <= now) return absl::ZeroDuration();
  // Without a deadline it is the largest time point: the difference does not overflow, as now is after 1970.
  const absl::Duration left = absl::FromChrono(deadline - now) - kDeadlineSlack;
  return std::clamp(left, absl::ZeroDuration(), kLongestPull);
}

FlatSizes Flatten(const PullSizes& sizes) {
  FlatSizes flat;
  for (const std::vector<uint64_t>& group : sizes.rows) flat.insert(flat.end(), group.begin(), group.end());
  flat.push_back(sizes.dense);
  return flat;
}

// Request and reply of a call, alive until both gRPC and the ParameterServer are through with it.
template <typename Request, typename Reply>
struct Call : UnaryCall {
  Request request;
  Reply reply;
};

struct PullCall : UnaryCall {
  OwnedPullRequest owned;
  PullReply reply;
  FlatSizes sizes;
  ByteArray values;

  grpc::ByteBuffer Encode(BufferPool* pool) {
    const ValueType type = owned.request.value_type;
    ByteArray head = EncodePullReplyHead(reply, sizes, type, pool);
    if (reply.outcome != RequestOutcome::kOk) return ToByteBuffer(std::move(head));
    if (type != ValueType::kF32) {
      const size_t n = values.size() / sizeof(float);
      ByteArray encoded(n * ValueBytes(type), pool);
      EncodeValues(type, reinterpret_cast<const float*>(values.data()), n, encoded.data());
      values = std::move(encoded);
    }
    return ToByteBuffer(std::move(head), std::move(values));
  }
};

struct PushCall : UnaryCall {
  OwnedPushRequest owned;
  PushReply reply;
};

// Answers `call` with an error.
void Refuse(UnaryCall* call, const absl::Status& status) {
  call->Finish([&] { return ToGrpc(status); });
}

// Answers `call` with a message, or with the error that kept it from being one.
void Answer(UnaryCall* call, const absl::Status& status, grpc::ByteBuffer* response,
            absl::StatusOr<ByteArray> (*encode)(const UnaryCall&)) {
  call->Finish([&] {
    if (!status.ok()) return ToGrpc(status);
    absl::StatusOr<ByteArray> message = encode(*call);
    if (!message.ok()) return ToGrpc(message.status());
    *response = ToByteBuffer(*std::move(message));
    return grpc::Status::OK;
  });
}

// The store sees only pointers: what the sender thinks they point to must be what this server has.
absl::Status CheckPushSizes(const PushRequest& push, const ParameterServer& server) {
  PullRequest same;
  same.header = push.header;
  same.partitions = push.partitions;
  same.dense = !push.dense.empty();
  for (const PushGroup& group : push.groups) same.groups.push_back({group.keys, group.counts, group.tables, {}});
  SHOAL_ASSIGN_OR_RETURN(const PullSizes sizes, server.SizePull(same));
  for (size_t g = 0; g < push.groups.size(); ++g) {
    const PushGroup& group = push.groups[g];
    for (size_t t = 0; t < group.tables.size(); ++t) {
      const uint64_t floats = uint64_t{group.dims[t]} * group.keys.size();
      if (floats != sizes.rows[g][t]) {
        return absl::InvalidArgumentError(absl::StrCat("PushRequest.groups[", g, "].dims[", t, "]: ", group.dims[t],
                                                       ", which makes ", floats, " floats, must be ", sizes.rows[g][t],
                                                       " for table ", group.tables[t]));
      }
    }
  }
  if (!push.dense.empty() && push.dense.size() != sizes.dense) {
    return absl::InvalidArgumentError(
        absl::StrCat("PushRequest.dense_floats: ", push.dense.size(), ", must be 0 or ", sizes.dense));
  }
  return absl::OkStatus();
}

using RawService =
    wire::ParameterService::WithRawCallbackMethod_OpenSplit<wire::ParameterService::WithRawCallbackMethod_Pull<
        wire::ParameterService::WithRawCallbackMethod_Push<wire::ParameterService::WithRawCallbackMethod_StagePush<
            wire::ParameterService::WithRawCallbackMethod_Mark<wire::ParameterService::Service>>>>>;

}  // namespace

// Decodes, calls the ParameterServer, encodes.
class ParameterGrpcServer::Service : public RawService {
 public:
  explicit Service(ParameterServer* server) : server_(server) {}

  CallRegistry* registry() { return &registry_; }

  grpc::ServerUnaryReactor* OpenSplit(grpc::CallbackServerContext*, const grpc::ByteBuffer* message,
                                      grpc::ByteBuffer* response) override {
    using OpenCall = Call<OpenSplitRequest, OpenSplitReply>;
    const auto call = std::make_shared<OpenCall>();
    grpc::ServerUnaryReactor* const reactor = UnaryCall::Start(call, &registry_);
    const absl::Status status = DecodeOpenSplitRequest(ReceivedBytes(*message).chunks(), &call->request);
    if (!status.ok()) {
      Refuse(call.get(), status);
      return reactor;
    }
    server_->OpenSplit(&call->request, &call->reply, [call, response](absl::Status done) {
      Answer(call.get(), done, response,
             [](const UnaryCall& c) { return EncodeOpenSplitReply(static_cast<const OpenCall&>(c).reply); });
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* response) override {
    const auto call = std::make_shared<PullCall>();
    grpc::ServerUnaryReactor* const reactor = UnaryCall::Start(call, &registry_);
    const absl::Status status = PreparePull(*message, call.get());
    if (!status.ok()) {
      Refuse(call.get(), status);
      return reactor;
    }
    // A parked pull may be answered after this service has gone, and then dies with the pool it came from.
    server_->Pull(&call->owned.request, TimeoutOf(*context), &call->reply,
                  [pool = pool()->shared_from_this(), call, response](absl::Status done) {
                    call->Finish([&] {
                      if (done.ok()) *response = call->Encode(pool.get());
                      return ToGrpc(done);
                    });
                  });
    return reactor;
  }

  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext*, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* response) override {
    const auto call = std::make_shared<PushCall>();
    grpc::ServerUnaryReactor* const reactor = UnaryCall::Start(call, &registry_);
    const absl::Status status = PreparePush(*message, call.get());
    if (!status.ok()) {
      Refuse(call.get(), status);
      return reactor;
    }
    server_->Push(&call->owned.request, &call->reply, [call, response](absl::Status done) {
      Answer(call.get(), done, response,
             [](const UnaryCall& c) { return EncodePushReply(static_cast<const PushCall&>(c).reply); });
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* StagePush(grpc::CallbackServerContext*, const grpc::ByteBuffer* message,
                                      grpc::ByteBuffer* response) override {
    const auto call = std::make_shared<PushCall>();
    grpc::ServerUnaryReactor* const reactor = UnaryCall::Start(call, &registry_);
    bool complete = false;
    const absl::Status status = PreparePiece(*message, call.get(), &complete);
    if (!status.ok()) {
      Refuse(call.get(), status);
      return reactor;
    }
    const auto answer = [call, response](const absl::Status& done) {
      Answer(call.get(), done, response,
             [](const UnaryCall& c) { return EncodePushReply(static_cast<const PushCall&>(c).reply); });
    };
    if (!complete) {
      answer(absl::OkStatus());
      return reactor;
    }
    server_->Push(&call->owned.request, &call->reply, answer);
    return reactor;
  }

  grpc::ServerUnaryReactor* Mark(grpc::CallbackServerContext*, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* response) override {
    using MarkCall = Call<MarkRequest, MarkReply>;
    const auto call = std::make_shared<MarkCall>();
    grpc::ServerUnaryReactor* const reactor = UnaryCall::Start(call, &registry_);
    const absl::Status status = DecodeMarkRequest(ReceivedBytes(*message).chunks(), &call->request);
    if (!status.ok()) {
      Refuse(call.get(), status);
      return reactor;
    }
    server_->Mark(&call->request, &call->reply, [call, response](absl::Status done) {
      Answer(call.get(), done, response,
             [](const UnaryCall& c) { return EncodeMarkReply(static_cast<const MarkCall&>(c).reply); });
    });
    return reactor;
  }

 private:
  BufferPool* pool() const { return server_->buffers(); }

  absl::Status PreparePull(const grpc::ByteBuffer& message, PullCall* call) {
    SHOAL_ASSIGN_OR_RETURN(call->owned, DecodePullRequest(ReceivedBytes(message, pool()).chunks(), pool()));
    SHOAL_ASSIGN_OR_RETURN(const PullSizes sizes, server_->SizePull(call->owned.request));
    call->sizes = Flatten(sizes);
    SHOAL_ASSIGN_OR_RETURN(call->values, AllocatePullValues(call->owned.request, call->sizes,
                                                            kMaxMessageBytes - kMaxHeadBytes, &call->reply, pool()));
    return absl::OkStatus();
  }

  absl::Status PreparePush(const grpc::ByteBuffer& message, PushCall* call) {
    SHOAL_ASSIGN_OR_RETURN(call->owned, DecodePushRequest(ReceivedBytes(message, pool()).chunks(), pool()));
    return CheckPushSizes(call->owned.request, *server_);
  }

  // *complete: call->owned is a whole push; else call->reply is the answer.
  absl::Status PreparePiece(const grpc::ByteBuffer& message, PushCall* call, bool* complete) {
    SHOAL_ASSIGN_OR_RETURN(OwnedPushPiece owned, DecodePushPiece(ReceivedBytes(message, pool()).chunks(), pool()));
    std::vector<ByteArray> whole;
    SHOAL_RETURN_IF_ERROR(server_->StagePush(owned.piece, std::move(owned.storage), &whole, &call->reply));
    *complete = !whole.empty();
    if (!*complete) return absl::OkStatus();
    std::pmr::vector<absl::string_view> chunks(pool());
    for (const ByteArray& bytes : whole) chunks.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    SHOAL_ASSIGN_OR_RETURN(call->owned, DecodePushRequest(chunks, pool()));
    return CheckPushSizes(call->owned.request, *server_);
  }

  ParameterServer* const server_;
  CallRegistry registry_;
};

ParameterGrpcServer::ParameterGrpcServer(std::unique_ptr<Service> service,
                                         std::unique_ptr<ReplicationGrpcService> replication,
                                         std::unique_ptr<GrpcServer> grpc)
    : service_(std::move(service)), replication_(std::move(replication)), grpc_(std::move(grpc)) {}

ParameterGrpcServer::~ParameterGrpcServer() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<ParameterGrpcServer>> ParameterGrpcServer::Start(ParameterServer* server,
                                                                                const GrpcServerOptions& options) {
  auto service = std::make_unique<Service>(server);
  auto replication = std::make_unique<ReplicationGrpcService>(server);
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcServer> grpc,
                         GrpcServer::Start(options, {service.get(), replication.get()}));
  return std::unique_ptr<ParameterGrpcServer>(
      new ParameterGrpcServer(std::move(service), std::move(replication), std::move(grpc)));
}

const std::string& ParameterGrpcServer::address() const { return grpc_->address(); }

void ParameterGrpcServer::Shutdown(absl::Duration grace) {
  service_->registry()->EndAll(grace);
  grpc_->Shutdown(kFlush);
}

}  // namespace shoal
