#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "absl/synchronization/notification.h"
#include "proto/rpc/address.h"
#include "proto/rpc/status_convert.h"
#include "proto/rpc/ticker.h"

namespace shoal {
namespace {

using Catch::Contains;

TEST_CASE("Address: host and port are taken apart and put together", "[rpc][unit]") {
  for (const char* text : {"127.0.0.1:0", "localhost:65535", "[::1]:80", ":8000", "[fe80::1]:1"}) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    REQUIRE(address.ok());
    CHECK(FormatAddress(*address) == text);
  }
  for (const char* text : {"", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", "::1:80",
                           "[::1]80", "[::1", "h:+5", "h: 5"}) {
    const absl::Status status = ParseAddress(text).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains(std::string("\"") + text + "\""));
  }
}

TEST_CASE("Address: only loopback may be bound without --insecure", "[rpc][unit]") {
  for (const char* text : {"127.0.0.1:0", "127.1.2.3:80", "localhost:1", "LocalHost:1", "[::1]:0"}) {
    CHECK(IsLoopback(text));
    CHECK(CheckBindAllowed(text, false).ok());
  }
  for (const char* text :
       {"0.0.0.0:0", ":80", "10.0.0.1:80", "[::]:0", "example.com:80", "128.0.0.1:1", "localhost.x:1"}) {
    CHECK_FALSE(IsLoopback(text));
    const absl::Status status = CheckBindAllowed(text, false);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(status.message()), Contains(text) && Contains("--insecure") && Contains("TLS"));
    CHECK(CheckBindAllowed(text, true).ok());
  }
  CHECK(CheckBindAllowed("nonsense", true).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Address: a bind that cannot work names the address and the reason", "[rpc][unit]") {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in taken = {};
  taken.sin_family = AF_INET;
  taken.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&taken), sizeof(taken)) == 0);
  REQUIRE(listen(fd, 1) == 0);
  socklen_t size = sizeof(taken);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&taken), &size) == 0);
  const uint16_t port = ntohs(taken.sin_port);
  const absl::Status status = ProbeBind({"127.0.0.1", port});
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(status.message()),
             Contains("127.0.0.1:" + std::to_string(port)) && Contains("Address already in use"));
  close(fd);
  CHECK(ProbeBind({"127.0.0.1", 0}).ok());
  CHECK_THAT(std::string(ProbeBind({"192.0.2.1", 0}).message()), Contains("cannot bind 192.0.2.1:0: Cannot assign"));
}

TEST_CASE("Status: codes and messages survive the way to gRPC and back", "[rpc][unit]") {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "field x: 3, must be 4");
    CHECK(FromGrpc(ToGrpc(status)) == status);
  }
  CHECK(FromGrpc(grpc::Status(grpc::StatusCode::DO_NOT_USE, "odd")).code() == absl::StatusCode::kUnknown);
  CHECK(FromServer(grpc::Status(grpc::StatusCode::CANCELLED, "x")).code() == absl::StatusCode::kUnavailable);
  CHECK(FromServer(grpc::Status(grpc::StatusCode::NOT_FOUND, "x")).code() == absl::StatusCode::kNotFound);
  CHECK(ToGrpc(absl::InternalError(std::string(100000, 'x'))).error_message().size() == 2000);
}

TEST_CASE("Ticker: ticks until it is stopped", "[rpc][unit]") {
  std::atomic<int> ticks{0};
  absl::Notification three;
  Ticker ticker(absl::Microseconds(100), [&] {
    if (++ticks == 3) three.Notify();
  });
  CHECK(three.WaitForNotificationWithTimeout(absl::Seconds(30)));
  ticker.Stop();
  const int at_stop = ticks;
  ticker.Stop();
  CHECK(ticks == at_stop);
}

}  // namespace
}  // namespace shoal
