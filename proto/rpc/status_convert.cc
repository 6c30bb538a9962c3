#include "proto/rpc/status_convert.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// gRPC sends messages in HTTP/2 trailers, which proxies and gRPC itself limit to 8 KiB, escaped.
constexpr size_t kMaxMessageChars = 2000;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message().substr(0, kMaxMessageChars)));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::UnknownError(absl::StrCat("gRPC code ", code, ": ", status.error_message()));
  }
  const auto absl_code = static_cast<absl::StatusCode>(code);
  // gRPC's own answers may come without a text, which would be printed as nothing at all.
  if (status.error_message().empty()) return absl::Status(absl_code, absl::StatusCodeToString(absl_code));
  return absl::Status(absl_code, status.error_message());
}

absl::Status FromServer(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED) return FromGrpc(status);
  return absl::UnavailableError(absl::StrCat("cancelled by the server: ", status.error_message()));
}

}  // namespace shoal
