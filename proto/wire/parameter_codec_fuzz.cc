// Whatever arrives, decoding answers with a status; what it accepts survives being encoded again.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "proto/wire/parameter_codec.h"

namespace shoal {
namespace {

void Expect(bool condition) {
  if (!condition) std::abort();
}

void CheckPull(Chunks chunks) {
  const absl::StatusOr<OwnedPullRequest> first = DecodePullRequest(chunks);
  if (!first.ok()) return;
  const absl::StatusOr<ByteArray> bytes = EncodePullRequest(first->request, ~uint64_t{0});
  Expect(bytes.ok());
  const absl::string_view again(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const absl::StatusOr<OwnedPullRequest> second = DecodePullRequest(absl::MakeConstSpan(&again, 1));
  Expect(second.ok() && second->request.groups.size() == first->request.groups.size());
  for (size_t g = 0; g < first->request.groups.size(); ++g) {
    Expect(second->request.groups[g].keys == first->request.groups[g].keys);
  }
}

void CheckPush(Chunks chunks) {
  const absl::StatusOr<OwnedPushRequest> push = DecodePushRequest(chunks);
  if (!push.ok()) return;
  // Every float that the request points to must be readable.
  volatile float sum = 0;
  for (const PushGroup& group : push->request.groups) {
    for (size_t t = 0; t < group.gradients.size(); ++t) {
      for (uint64_t i = 0; i < group.keys.size() * group.dims[t]; ++i) sum = sum + group.gradients[t][i];
    }
    Expect(group.slots.empty() || group.slots.size() == group.keys.size());
    for (uint16_t slot : group.slots) sum = sum + slot;
  }
  for (float value : push->request.dense) sum = sum + value;
}

void CheckPullReply(Chunks chunks) {
  const std::vector<uint64_t> keys{1, 2};
  const std::vector<uint32_t> partitions{0}, counts{2}, tables{0}, dims{2};
  PullRequest request;
  request.partitions = partitions;
  request.groups = {{keys, counts, tables, dims}};
  std::vector<float> rows(4), dense(3);
  PullReply reply;
  reply.rows = {{rows.data()}};
  reply.dense = dense.data();
  reply.dense_floats = dense.size();
  (void)DecodePullReply(chunks, request, &reply);
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<absl::string_view> chunks{text.substr(0, size / 3), text.substr(size / 3)};
  shoal::CheckPull(chunks);
  shoal::CheckPush(chunks);
  shoal::CheckPullReply(chunks);
  (void)shoal::DecodePushPiece(chunks);
  shoal::OpenSplitRequest open;
  shoal::OpenSplitReply open_reply;
  shoal::PushReply push_reply;
  shoal::MarkRequest mark;
  shoal::MarkReply mark_reply;
  (void)shoal::DecodeOpenSplitRequest(chunks, &open);
  (void)shoal::DecodeOpenSplitReply(chunks, &open_reply);
  (void)shoal::DecodePushReply(chunks, &push_reply);
  (void)shoal::DecodeMarkRequest(chunks, &mark);
  (void)shoal::DecodeMarkReply(chunks, &mark_reply);
  return 0;
}
