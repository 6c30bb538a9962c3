// Fuzzes the parser of checkpoint parts: header, footer, index and sections. The checksums in the way of a fuzzer are
// recomputed, so that it reaches what lies behind them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "server/checkpoint/part_format.h"

namespace shoal {
namespace {

constexpr uint32_t kSlots = 2;

// Reads every float that it is handed, so that a span beyond its buffer is seen.
class Reader : public SectionVisitor {
 public:
  absl::Status Progress(const PartitionProgress& progress) override {
    sum_ += static_cast<double>(progress.done_extra.size() + progress.open.size());
    return absl::OkStatus();
  }
  absl::Status Row(uint32_t, uint64_t, uint32_t slot, uint64_t, absl::Span<const float> values) override {
    if (slot >= kSlots) std::abort();
    return Add(values);
  }
  absl::Status Counted(uint32_t, uint64_t, uint32_t slot, uint64_t, uint32_t) override {
    if (slot >= kSlots) std::abort();
    return absl::OkStatus();
  }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Block(const PartBlock& block) override {
    (void)Add(block.weights);
    return Add(block.state);
  }

 private:
  absl::Status Add(absl::Span<const float> values) {
    for (float value : values) sum_ += value;
    return absl::OkStatus();
  }
  double sum_ = 0;
};

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  uint64_t consumed = 0;
  (void)shoal::ParsePartHeader(bytes, &consumed);
  if (size >= shoal::kPartFooterBytes) {
    const absl::string_view footer = bytes.substr(size - shoal::kPartFooterBytes);
    (void)shoal::ParsePartFooter(footer, size);
  }
  shoal::PartFooter footer;
  footer.index_offset = 1000;
  footer.index_checksum = shoal::HashBytes(bytes);
  (void)shoal::ParsePartIndex(bytes, footer, 16);
  shoal::PartHeader header;
  header.partitions = 16;
  header.tables = {{"t", 3, 1}, {"u", 1, 0}};
  header.tensors = {"w"};
  header.slots = {"a", "b"};
  shoal::PartEntry entry;
  entry.bytes = size;
  entry.checksum = shoal::HashBytes(bytes);
  shoal::Reader reader;
  for (bool delta : {false, true}) {
    entry.delta = delta;
    (void)shoal::ParseSection(bytes, header, entry, &reader);
  }
  if (size >= shoal::kImageHeadBytes) {
    std::string image(bytes);
    const uint64_t checksum = shoal::HashBytes(bytes.substr(0, shoal::kImageHeadBytes - sizeof(checksum)));
    std::memcpy(&image[shoal::kImageHeadBytes - sizeof(checksum)], &checksum, sizeof(checksum));
    absl::string_view section;
    (void)shoal::ParseImage(image, 0, &section);
  }
  return 0;
}
