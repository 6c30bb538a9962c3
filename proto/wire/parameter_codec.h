// parameter_messages.h <-> the messages of proto/parameters.proto, on flat bytes (proto/rpc puts them into gRPC
// buffers). Encoding writes each array once, straight from the caller's memory; decoding a pull's reply copies values
// once, straight into the caller's destinations. Everything that comes from the wire is checked: INVALID_ARGUMENT names
// the field, the value and the bound. Functions of their arguments only. Bulk messages, and arrays that are read from
// them, are put into memory of `pool`, or of operator new when it is null.
#ifndef SHOAL_PROTO_WIRE_PARAMETER_CODEC_H_
#define SHOAL_PROTO_WIRE_PARAMETER_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/parameter_messages.h"
#include "proto/wire/push_piece.h"
#include "proto/wire/wire_format.h"

namespace shoal {

// What a message may list at most; arrays of keys and values are bounded by the size of the message.
inline constexpr uint64_t kMaxPartitions = uint64_t{1} << 20;
inline constexpr uint64_t kMaxGroups = 4096;
inline constexpr uint64_t kMaxTablesPerGroup = 65536;
// What a pull's reply may need besides its values.
inline constexpr uint64_t kMaxHeadBytes = uint64_t{1} << 20;

// A request with the memory that its spans and pointers point to. Moving it leaves them valid.
struct OwnedPullRequest {
  PullRequest request;
  std::vector<ByteArray> storage;
};
struct OwnedPushRequest {
  PushRequest request;
  std::vector<ByteArray> storage;
};
struct OwnedPushPiece {
  PushPiece piece;
  ByteArray storage;
};

// --- Requests. Encode: INVALID_ARGUMENT when the request is inconsistent or would be larger than max_bytes. ---
absl::StatusOr<ByteArray> EncodeOpenSplitRequest(const OpenSplitRequest& request);
absl::Status DecodeOpenSplitRequest(Chunks message, OpenSplitRequest* request);
absl::StatusOr<ByteArray> EncodePullRequest(const PullRequest& request, uint64_t max_bytes, BufferPool* pool = nullptr);
absl::StatusOr<OwnedPullRequest> DecodePullRequest(Chunks message, BufferPool* pool = nullptr);
absl::StatusOr<ByteArray> EncodePushRequest(const PushRequest& request, uint64_t max_bytes, BufferPool* pool = nullptr);
absl::StatusOr<OwnedPushRequest> DecodePushRequest(Chunks message, BufferPool* pool = nullptr);
absl::StatusOr<ByteArray> EncodePushPiece(const PushPiece& piece, uint64_t max_bytes, BufferPool* pool = nullptr);
absl::StatusOr<OwnedPushPiece> DecodePushPiece(Chunks message, BufferPool* pool = nullptr);
absl::StatusOr<ByteArray> EncodeMarkRequest(const MarkRequest& request);
absl::Status DecodeMarkRequest(Chunks message, MarkRequest* request);

// --- Replies ---
absl::StatusOr<ByteArray> EncodeOpenSplitReply(const OpenSplitReply& reply);
absl::Status DecodeOpenSplitReply(Chunks message, OpenSplitReply* reply);
absl::StatusOr<ByteArray> EncodePushReply(const PushReply& reply);
absl::Status DecodePushReply(Chunks message, PushReply* reply);
absl::StatusOr<ByteArray> EncodeMarkReply(const MarkReply& reply);
absl::Status DecodeMarkReply(Chunks message, MarkReply* reply);

// Floats that a pull's reply brings: by group and table of the group, and last of the dense blocks.
using FlatSizes = std::vector<uint64_t>;

// Memory for the values of a pull's reply, with reply->rows, dense and dense_floats set to it, so that rows are
// gathered where they are sent from. INVALID_ARGUMENT when larger than max_bytes.
absl::StatusOr<ByteArray> AllocatePullValues(const PullRequest& request, const FlatSizes& sizes, uint64_t max_bytes,
                                             PullReply* reply, BufferPool* pool = nullptr);
// All bytes of the reply up to the values. When the outcome is kOk the message goes on with the bytes of
// AllocatePullValues; otherwise this is all of it.
// `type`: of the values that follow; the caller encodes them (value_codec.h) unless they are f32.
ByteArray EncodePullReplyHead(const PullReply& reply, const FlatSizes& sizes, ValueType type,
                              BufferPool* pool = nullptr);
// `request` is what was asked, with dims: the reply must have exactly its values. reply->rows, reply->dense and
// reply->dense_floats are the caller's destinations; their contents are undefined when this is not OK or the outcome is
// not kOk.
absl::Status DecodePullReply(Chunks message, const PullRequest& request, PullReply* reply, BufferPool* pool = nullptr);
// What DecodePullReply demands of the caller; check it before the request is sent.
absl::Status CheckPullDestinations(const PullRequest& request, const PullReply& reply);

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_PARAMETER_CODEC_H_
