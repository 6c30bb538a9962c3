#include "proto/rpc/rpc_options.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace shoal {
namespace {

constexpr int kClientKeepaliveMs = 60'000;
// At most the client's interval, or the server cuts clients off for pinging too often.
constexpr int kServerMinPingIntervalMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Restarts are common here; the default first wait of a second would be felt.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 1'000;
// How long one attempt to connect may take.
constexpr int kConnectAttemptMs = 5'000;
// Memory that messages in flight may hold in one server.
constexpr size_t kServerBufferBytes = size_t{4} << 30;
// Calls per connection, parked ones included.
constexpr int kMaxConcurrentCalls = 4096;

}  // namespace

gpr_timespec DeadlineAfter(absl::Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN));
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, int number) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  args.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kClientKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  // 0: no limit. A parked call sends no data, and pings must not stop meanwhile.
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  // The callers decide what is worth a retry.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // gRPC shares a connection between channels with equal arguments: this one makes them differ.
  args.SetInt("shoal.channel_number", number);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

void ConfigureServer(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder->SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kServerMinPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentCalls);
  // Two servers must never share a port silently.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("shoal");
  quota.Resize(kServerBufferBytes);
  builder->SetResourceQuota(quota);
}

}  // namespace shoal
