#include "server/push_stage.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// What a request costs besides its bytes: many tiny ones must not get past the bound.
constexpr uint64_t kOverheadBytes = 4096;

uint64_t CostOf(uint64_t total) { return total + kOverheadBytes; }

absl::Status CheckPiece(const PushPiece& piece, uint64_t max_bytes) {
  if (piece.header.lane == 0) return absl::InvalidArgumentError("header.lane: 0, which is for read-only pulls");
  if (piece.total_bytes > max_bytes || CostOf(piece.total_bytes) > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes: ", piece.total_bytes, ", this server keeps at most ", max_bytes,
                     " of pushes that are not complete; use more servers or smaller batches"));
  }
  if (piece.bytes.empty()) return absl::InvalidArgumentError("bytes: 0 bytes, must be at least 1");
  if (piece.bytes.size() > piece.total_bytes || piece.offset > piece.total_bytes - piece.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("bytes: ", piece.bytes.size(), " at offset ", piece.offset,
                                                   ", must end within total_bytes, ", piece.total_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PushStage::Begin(const PushPiece& piece, Lane* lane) {
  const uint64_t cost = CostOf(piece.total_bytes);
  if (cost > max_bytes_ - reserved_) {
    return absl::ResourceExhaustedError(absl::StrCat("total_bytes: ", piece.total_bytes, ", this server keeps ",
                                                     reserved_, " of at most ", max_bytes_,
                                                     " bytes of pushes that are not complete"));
  }
  reserved_ += cost;
  lane->requests[piece.part].total = piece.total_bytes;
  return absl::OkStatus();
}

void PushStage::Free(Lane* lane) {
  for (const auto& [part, request] : lane->requests) reserved_ -= CostOf(request.total);
  lane->requests.clear();
  lane->complete.clear();
}

absl::Status PushStage::Take(const PushPiece& piece, ByteArray storage, std::vector<ByteArray>* whole) {
  whole->clear();
  SHOAL_RETURN_IF_ERROR(CheckPiece(piece, max_bytes_));
  MutexLock lock(&mu_);
  Lane& lane = lanes_[{piece.header.job, piece.header.lane}];
  if (piece.attempt < lane.attempt) {
    return absl::FailedPreconditionError(
        absl::StrCat("attempt: ", piece.attempt, ", the lane has begun attempt ", lane.attempt));
  }
  if (piece.attempt > lane.attempt) Free(&lane);
  lane.attempt = piece.attempt;
  lane.header = piece.header;
  lane.last = clock_.Now();
  if (lane.complete.count(piece.part) != 0) return absl::OkStatus();
  if (lane.requests.count(piece.part) == 0) SHOAL_RETURN_IF_ERROR(Begin(piece, &lane));
  Request& request = lane.requests[piece.part];
  if (request.total != piece.total_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes: ", piece.total_bytes, ", must be ", request.total, " as in the pieces before"));
  }
  const uint64_t end = piece.offset + piece.bytes.size();
  const auto after = request.pieces.lower_bound(piece.offset);
  if (after != request.pieces.end() && after->first == piece.offset && after->second.size() == storage.size()) {
    return absl::OkStatus();  // a repeat
  }
  const bool overlaps_next = after != request.pieces.end() && after->first < end;
  const bool overlaps_last =
      after != request.pieces.begin() && std::prev(after)->first + std::prev(after)->second.size() > piece.offset;
  if (overlaps_next || overlaps_last) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset: ", piece.offset, " with ", piece.bytes.size(), " bytes, cuts a piece that is here"));
  }
  request.received += storage.size();
  request.pieces.emplace(piece.offset, std::move(storage));
  if (request.received < request.total) return absl::OkStatus();
  for (auto& [offset, bytes] : request.pieces) whole->push_back(std::move(bytes));
  reserved_ -= CostOf(request.total);
  lane.requests.erase(piece.part);
  lane.complete.insert(piece.part);
  return absl::OkStatus();
}

void PushStage::Sweep(const std::function<bool(const RequestHeader&)>& welcome) {
  std::vector<RequestHeader> lanes;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, lane] : lanes_) lanes.push_back(lane.header);
  }
  for (const RequestHeader& header : lanes) {
    const bool stay = welcome(header);  // takes the job's lock: not under ours
    MutexLock lock(&mu_);
    const auto it = lanes_.find({header.job, header.lane});
    if (it == lanes_.end() || (stay && clock_.Now() - it->second.last < patience_)) continue;
    Free(&it->second);
    lanes_.erase(it);
  }
}

uint64_t PushStage::bytes() const {
  MutexLock lock(&mu_);
  return reserved_;
}

}  // namespace shoal
