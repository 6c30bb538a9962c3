#include "server/rpc/grpc_replica_client.h"

#include <grpcpp/client_context.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/replication_service.grpc.pb.h"
#include "proto/rpc/address.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/status_convert.h"

namespace shoal {
namespace {

// A connection of its own: copies must not queue before the pushes of lanes in the same process.
constexpr int kReplicaChannel = 10;

}  // namespace

// Lives as long as its last call, so that a callback may be the last to know of the client.
class GrpcReplicaClient::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(std::string address)
      : address_(std::move(address)), stub_(ReplicationService::NewStub(MakeChannel(address_, kReplicaChannel))) {}

  void Start(const ReplicaRequest& request, absl::Duration timeout, Done done) {
    auto call = std::make_shared<Call>();
    call->request = request;
    call->context.set_deadline(DeadlineAfter(timeout));
    {
      MutexLock lock(&mu_);
      calls_.insert(call);
    }
    stub_->async()->Replicate(&call->context, &call->request, &call->reply,
                              [self = shared_from_this(), call, done = std::move(done)](grpc::Status status) {
                                self->End(call, FromServer(status), done);
                              });
  }

  void CancelAll() {
    MutexLock lock(&mu_);
    for (const std::shared_ptr<Call>& call : calls_) call->context.TryCancel();
  }

 private:
  struct Call {
    grpc::ClientContext context;
    ReplicaRequest request;
    ReplicaReply reply;
  };

  void End(const std::shared_ptr<Call>& call, const absl::Status& status, const Done& done) {
    {
      MutexLock lock(&mu_);
      calls_.erase(call);
    }
    if (status.ok()) return done(std::move(call->reply));
    done(absl::Status(status.code(), absl::StrCat("server ", address_, ": ", status.message())));
  }

  const std::string address_;
  const std::unique_ptr<ReplicationService::Stub> stub_;
  Mutex mu_;
  std::set<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<GrpcReplicaClient>> GrpcReplicaClient::Create(const std::string& address) {
  SHOAL_RETURN_IF_ERROR(ParseAddress(address).status());
  return std::unique_ptr<GrpcReplicaClient>(new GrpcReplicaClient(std::make_shared<Impl>(address)));
}

GrpcReplicaClient::~GrpcReplicaClient() { impl_->CancelAll(); }

void GrpcReplicaClient::Replicate(const ReplicaRequest& request, absl::Duration timeout, Done done) {
  impl_->Start(request, timeout, std::move(done));
}

}  // namespace shoal
