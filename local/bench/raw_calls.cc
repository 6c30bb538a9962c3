#include "local/bench/raw_calls.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/parameters_service.grpc.pb.h"
#include "proto/rpc/byte_buffers.h"
#include "proto/rpc/grpc_server.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/status_convert.h"
#include "proto/wire/wire_format.h"

namespace shoal {
namespace {

constexpr char kMethod[] = "/shoal.wire.ParameterService/Pull";
// As many as the parameter client uses.
constexpr int kChannels = 2;

// A message of `size` bytes of which copies only share the memory.
grpc::ByteBuffer MakeMessage(uint64_t size) {
  ByteArray bytes(size);
  if (size > 0) std::memset(bytes.data(), 1, size);
  return ToByteBuffer(std::move(bytes));
}

using RawService = wire::ParameterService::WithRawCallbackMethod_Pull<wire::ParameterService::Service>;

// Answers with as many bytes as the first eight of the request say.
class Echo : public RawService {
 public:
  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* response) override {
    uint64_t size = 0;
    const ReceivedBytes received(*message);
    WireReader reader(received.chunks());
    if (reader.remaining() >= sizeof(size)) reader.CopyTo(&size, sizeof(size));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    {
      MutexLock lock(&mu_);
      auto [at, made] = messages_.try_emplace(size);
      if (made) at->second = MakeMessage(std::min(size, kMaxMessageBytes));
      *response = at->second;
    }
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  Mutex mu_;
  std::map<uint64_t, grpc::ByteBuffer> messages_ ABSL_GUARDED_BY(mu_);
};

// One child; its standard input is a pipe whose end ends it.
struct Child {
  pid_t pid = -1;
  int input = -1;
  std::string address;
};

absl::StatusOr<Child> Spawn() {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("pipe");
  Child child;
  child.pid = fork();
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl("/proc/self/exe", "shoal", "bench", "raw-server", "--json", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  child.input = in[1];
  std::string line;
  for (char c; read(out[0], &c, 1) == 1 && c != '\n';) line += c;
  close(out[0]);
  const size_t space = line.rfind(' ');
  if (child.pid < 0 || space == std::string::npos) return absl::UnavailableError("a raw server did not start");
  child.address = line.substr(space + 1);
  return child;
}

}  // namespace

absl::StatusOr<BenchRows> RunRawServer(BenchSize) {
  KeepFreedMemory();  // as a server does
  Echo echo;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> server, GrpcServer::Start({}, {&echo}));
  std::printf("listening on %s\n", server->address().c_str());
  std::fflush(stdout);
  for (char c; read(STDIN_FILENO, &c, 1) == 1;) {
  }
  return BenchRows();
}

class RawServers::Impl {
 public:
  explicit Impl(uint32_t lanes) : lanes_(lanes) {}
  ~Impl() {
    for (const Child& child : children_) {
      close(child.input);
      waitpid(child.pid, nullptr, 0);
    }
  }

  absl::Status Start(int servers) {
    for (int s = 0; s < servers; ++s) {
      SHOAL_ASSIGN_OR_RETURN(Child child, Spawn());
      for (int c = 0; c < kChannels; ++c) {
        stubs_.push_back(std::make_unique<grpc::GenericStub>(MakeChannel(child.address, 1 + c)));
      }
      children_.push_back(std::move(child));
    }
    return absl::OkStatus();
  }

  absl::Status Call(int times, uint64_t request, uint64_t reply) {
    ByteArray bytes(std::max<uint64_t>(request, sizeof(reply)));
    std::memset(bytes.data(), 0, bytes.size());
    std::memcpy(bytes.data(), &reply, sizeof(reply));
    const grpc::ByteBuffer message = ToByteBuffer(std::move(bytes));
    std::vector<absl::Status> results(lanes_);
    std::vector<std::thread> threads;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      threads.emplace_back([&, lane] {
        std::vector<std::vector<char>> to(children_.size(), std::vector<char>(reply));
        for (int i = 0; i < times && results[lane].ok(); ++i) {
          results[lane] = CallAll(message, lane + static_cast<uint32_t>(i), &to);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& result : results) SHOAL_RETURN_IF_ERROR(result);
    return absl::OkStatus();
  }

 private:
  // One call to each server at once.
  absl::Status CallAll(const grpc::ByteBuffer& message, uint32_t turn, std::vector<std::vector<char>>* to) {
    struct Pending {
      grpc::ClientContext context;
      grpc::ByteBuffer request, response;
    };
    std::vector<Pending> calls(children_.size());
    Mutex mu;
    CondVar idle;
    size_t open = calls.size();
    absl::Status result;
    for (size_t s = 0; s < calls.size(); ++s) {
      calls[s].request = message;
      stubs_[s * kChannels + turn % kChannels]->UnaryCall(
          &calls[s].context, kMethod, grpc::StubOptions(), &calls[s].request, &calls[s].response,
          [&, s](grpc::Status status) {
            const absl::Status copied = status.ok() ? CopyOut(calls[s].response, &(*to)[s]) : FromGrpc(status);
            MutexLock lock(&mu);
            result.Update(copied);
            if (--open == 0) idle.SignalAll();
          });
    }
    MutexLock lock(&mu);
    while (open > 0) idle.WaitFor(&mu, absl::Seconds(1));
    return result;
  }

  static absl::Status CopyOut(const grpc::ByteBuffer& message, std::vector<char>* to) {
    if (message.Length() != to->size()) return absl::InternalError("a raw reply has another size");
    const ReceivedBytes received(message);
    char* at = to->data();
    for (absl::string_view chunk : received.chunks()) {
      std::memcpy(at, chunk.data(), chunk.size());
      at += chunk.size();
    }
    return absl::OkStatus();
  }

  const uint32_t lanes_;
  std::vector<Child> children_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;  // kChannels a server
};

absl::StatusOr<std::unique_ptr<RawServers>> RawServers::Start(int servers, uint32_t lanes) {
  auto impl = std::make_unique<Impl>(lanes);
  SHOAL_RETURN_IF_ERROR(impl->Start(servers));
  return std::unique_ptr<RawServers>(new RawServers(std::move(impl)));
}

RawServers::RawServers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RawServers::~RawServers() = default;
absl::Status RawServers::Call(int times, uint64_t request, uint64_t reply) {
  return impl_->Call(times, request, reply);
}

}  // namespace shoal
