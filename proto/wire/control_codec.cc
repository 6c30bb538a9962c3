// The small messages: protobuf writes and reads them.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/parameters.pb.h"
#include "proto/wire/parameter_codec.h"

namespace shoal {
namespace {

absl::StatusOr<ByteArray> Serialize(const google::protobuf::MessageLite& message) {
  ByteArray bytes(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(bytes.data());
  return bytes;
}

absl::Status Parse(Chunks chunks, google::protobuf::MessageLite* message) {
  std::string joined;
  for (absl::string_view chunk : chunks) joined.append(chunk.data(), chunk.size());
  if (message->ParseFromString(joined)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(message->GetTypeName(), ": ", joined.size(), " bytes are not such a message"));
}

void ToWire(const RequestHeader& header, wire::Header* out) {
  out->set_job(header.job);
  out->set_run(header.run);
  out->set_map_version(header.map_version);
  out->set_lane(header.lane);
}

RequestHeader FromWire(const wire::Header& header) {
  return {header.job(), header.run(), header.map_version(), header.lane()};
}

wire::Outcome ToWire(RequestOutcome outcome) { return static_cast<wire::Outcome>(outcome); }

absl::Status FromWire(wire::Outcome outcome, RequestOutcome* out) {
  if (!wire::Outcome_IsValid(outcome)) {
    return absl::InvalidArgumentError(
        absl::StrCat("outcome: ", static_cast<int>(outcome), ", must be at most ", wire::Outcome_MAX));
  }
  *out = static_cast<RequestOutcome>(outcome);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ByteArray> EncodeOpenSplitRequest(const OpenSplitRequest& request) {
  wire::OpenSplitRequest out;
  ToWire(request.header, out.mutable_header());
  out.set_pass(request.pass);
  out.set_split(request.split);
  out.set_lease(request.lease);
  out.set_logical_lane(request.logical_lane);
  return Serialize(out);
}

absl::Status DecodeOpenSplitRequest(Chunks message, OpenSplitRequest* request) {
  wire::OpenSplitRequest in;
  SHOAL_RETURN_IF_ERROR(Parse(message, &in));
  request->header = FromWire(in.header());
  request->pass = in.pass();
  request->split = in.split();
  request->lease = in.lease();
  request->logical_lane = in.logical_lane();
  return absl::OkStatus();
}

absl::StatusOr<ByteArray> EncodeOpenSplitReply(const OpenSplitReply& reply) {
  wire::OpenSplitReply out;
  out.set_outcome(ToWire(reply.outcome));
  out.set_map_version(reply.map_version);
  out.set_slowest_clock(reply.slowest_clock);
  out.set_rounds_applied(reply.rounds_applied);
  out.mutable_watermarks()->Add(reply.watermarks.begin(), reply.watermarks.end());
  return Serialize(out);
}

absl::Status DecodeOpenSplitReply(Chunks message, OpenSplitReply* reply) {
  wire::OpenSplitReply in;
  SHOAL_RETURN_IF_ERROR(Parse(message, &in));
  SHOAL_RETURN_IF_ERROR(FromWire(in.outcome(), &reply->outcome));
  for (int i = 1; i < in.watermarks_size(); ++i) {
    if (in.watermarks(i) <= in.watermarks(i - 1)) {
      return absl::InvalidArgumentError(absl::StrCat("OpenSplitReply.watermarks: ", in.watermarks(i), " follows ",
                                                     in.watermarks(i - 1), ", must be ascending"));
    }
  }
  reply->map_version = in.map_version();
  reply->slowest_clock = in.slowest_clock();
  reply->rounds_applied = in.rounds_applied();
  reply->watermarks.assign(in.watermarks().begin(), in.watermarks().end());
  return absl::OkStatus();
}

absl::StatusOr<ByteArray> EncodePushReply(const PushReply& reply) {
  wire::PushReply out;
  out.set_outcome(ToWire(reply.outcome));
  out.set_map_version(reply.map_version);
  out.set_pushes_applied(reply.pushes_applied);
  out.set_guard_refused(reply.guard_refused);
  out.set_not_admitted(reply.not_admitted);
  out.set_memory_refused(reply.memory_refused);
  out.set_staged(reply.staged);
  for (const PartitionAnswer& answer : reply.exceptions) {
    wire::PartitionAnswer* exception = out.add_exceptions();
    exception->set_partition(answer.partition);
    exception->set_outcome(static_cast<wire::PartitionOutcome>(answer.outcome));
    exception->set_watermark(answer.watermark);
  }
  return Serialize(out);
}

absl::Status DecodePushReply(Chunks message, PushReply* reply) {
  wire::PushReply in;
  SHOAL_RETURN_IF_ERROR(Parse(message, &in));
  SHOAL_RETURN_IF_ERROR(FromWire(in.outcome(), &reply->outcome));
  reply->map_version = in.map_version();
  reply->pushes_applied = in.pushes_applied();
  reply->guard_refused = in.guard_refused();
  reply->not_admitted = in.not_admitted();
  reply->memory_refused = in.memory_refused();
  reply->staged = in.staged();
  reply->exceptions.clear();
  for (const wire::PartitionAnswer& exception : in.exceptions()) {
    if (!wire::PartitionOutcome_IsValid(exception.outcome())) {
      return absl::InvalidArgumentError(
          absl::StrCat("PushReply.exceptions.outcome: ", static_cast<int>(exception.outcome()), ", must be at most ",
                       wire::PartitionOutcome_MAX));
    }
    reply->exceptions.push_back(
        {exception.partition(), static_cast<PushOutcome>(exception.outcome()), exception.watermark()});
  }
  return absl::OkStatus();
}

absl::StatusOr<ByteArray> EncodeMarkRequest(const MarkRequest& request) {
  wire::MarkRequest out;
  ToWire(request.header, out.mutable_header());
  out.set_lease(request.lease);
  out.set_logical_lane(request.logical_lane);
  out.set_has_round(request.has_round);
  out.set_round(request.round);
  out.set_last(request.last);
  return Serialize(out);
}

absl::Status DecodeMarkRequest(Chunks message, MarkRequest* request) {
  wire::MarkRequest in;
  SHOAL_RETURN_IF_ERROR(Parse(message, &in));
  request->header = FromWire(in.header());
  request->lease = in.lease();
  request->logical_lane = in.logical_lane();
  request->has_round = in.has_round();
  request->round = in.round();
  request->last = in.last();
  return absl::OkStatus();
}

absl::StatusOr<ByteArray> EncodeMarkReply(const MarkReply& reply) {
  wire::MarkReply out;
  out.set_outcome(ToWire(reply.outcome));
  out.set_map_version(reply.map_version);
  return Serialize(out);
}

absl::Status DecodeMarkReply(Chunks message, MarkReply* reply) {
  wire::MarkReply in;
  SHOAL_RETURN_IF_ERROR(Parse(message, &in));
  SHOAL_RETURN_IF_ERROR(FromWire(in.outcome(), &reply->outcome));
  reply->map_version = in.map_version();
  return absl::OkStatus();
}

}  // namespace shoal
