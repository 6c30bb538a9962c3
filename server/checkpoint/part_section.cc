// Sections of partitions: writing and parsing.
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/checkpoint/byte_reader.h"
#include "server/checkpoint/part_format.h"

namespace shoal {
namespace {

constexpr uint64_t kOpenSplitBytes = 24;
constexpr uint64_t kRowHeadBytes = 20;
constexpr uint64_t kCountedBytes = 24;
constexpr uint64_t kBlockHeadBytes = 40;

void AppendFloats(std::string* out, absl::Span<const float> values) {
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

// Parses one section; every error says which partition.
class SectionParser {
 public:
  SectionParser(absl::string_view bytes, const PartHeader& header, const PartEntry& entry, SectionVisitor* visitor)
      : in_(bytes), header_(header), entry_(entry), visitor_(visitor) {}

  absl::Status Run() {
    SHOAL_RETURN_IF_ERROR(Progress());
    for (uint32_t table = 0; table < header_.tables.size(); ++table) SHOAL_RETURN_IF_ERROR(Table(table));
    SHOAL_RETURN_IF_ERROR(Blocks());
    if (in_.left() != 0) return Damaged(absl::StrCat(in_.left(), " bytes too many"));
    if (rows_ != entry_.rows || counted_ != entry_.counted || erased_ != entry_.erased) {
      return Damaged(absl::StrCat("holds ", rows_, " rows, ", counted_, " counted and ", erased_,
                                  " erased keys, the index says ", entry_.rows, ", ", entry_.counted, " and ",
                                  entry_.erased));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("partition ", entry_.partition, ": ", what));
  }

  absl::Status BadSlot(const PartHeader::Table& table, uint64_t key, uint32_t slot) const {
    return Damaged(
        absl::StrCat("table ", table.name, " key ", key, ": slot ", slot, ", the header has ", header_.slot_count()));
  }

  absl::Status Progress() {
    PartitionProgress progress;
    uint32_t tables;
    uint64_t extras, open;
    if (!in_.Read(&progress.partition) || !in_.Read(&tables) || !in_.Read(&progress.base) ||
        !in_.Read(&progress.version) || !in_.Read(&progress.examples) || !in_.Read(&progress.rounds_applied) ||
        !in_.Read(&progress.done_prefix) || !in_.Read(&extras) || !in_.Has(extras, sizeof(uint64_t))) {
      return Damaged("progress cut short");
    }
    if (progress.partition != entry_.partition) {
      return Damaged(absl::StrCat("its section says it is partition ", progress.partition));
    }
    if (tables != header_.tables.size()) {
      return Damaged(absl::StrCat("has ", tables, " tables, the header ", header_.tables.size()));
    }
    if ((progress.base != PartitionProgress::kNoBase) != entry_.delta) {
      return Damaged(absl::StrCat("its section is ", entry_.delta ? "full" : "a delta", ", the index says it is ",
                                  entry_.delta ? "a delta" : "full"));
    }
    progress.done_extra.resize(extras);
    for (uint64_t& number : progress.done_extra) (void)in_.Read(&number);
    if (!in_.Read(&open) || !in_.Has(open, kOpenSplitBytes)) return Damaged("open splits cut short");
    progress.open.resize(open);
    for (auto& split : progress.open) {
      (void)(in_.Read(&split.number) && in_.Read(&split.lease) && in_.Read(&split.watermark));
    }
    return visitor_->Progress(progress);
  }

  // Copies floats out of the section, which need not be aligned.
  absl::Span<const float> Floats(uint64_t count) {
    absl::string_view bytes;
    if (count == 0 || !in_.Take(count * sizeof(float), &bytes)) return {};
    floats_.resize(count);
    std::memcpy(floats_.data(), bytes.data(), bytes.size());
    return floats_;
  }

  absl::Status Table(uint32_t table) {
    const PartHeader::Table& shape = header_.tables[table];
    const uint64_t values = uint64_t{shape.dim} + shape.state;
    uint64_t rows = 0, counted = 0, erased = 0, key = 0, touched = 0;
    uint32_t slot = 0, count = 0;
    if (!in_.Read(&rows) || !in_.Read(&counted) || !in_.Read(&erased) ||
        !in_.Has(rows, kRowHeadBytes + values * sizeof(float))) {
      return Damaged(absl::StrCat("rows of table ", shape.name, " cut short"));
    }
    visitor_->Table(table, rows, in_.Has(counted, kCountedBytes) ? counted : 0);
    for (uint64_t i = 0; i < rows; ++i) {
      (void)(in_.Read(&key) && in_.Read(&touched) && in_.Read(&slot));
      if (slot >= header_.slot_count()) return BadSlot(shape, key, slot);
      SHOAL_RETURN_IF_ERROR(visitor_->Row(table, key, slot, touched, Floats(values)));
    }
    if (!in_.Has(counted, kCountedBytes)) {
      return Damaged(absl::StrCat("counted keys of table ", shape.name, " cut short"));
    }
    for (uint64_t i = 0; i < counted; ++i) {
      (void)(in_.Read(&key) && in_.Read(&touched) && in_.Read(&slot) && in_.Read(&count));
      if (slot >= header_.slot_count()) return BadSlot(shape, key, slot);
      SHOAL_RETURN_IF_ERROR(visitor_->Counted(table, key, slot, touched, count));
    }
    if (!in_.Has(erased, sizeof(key))) return Damaged(absl::StrCat("erased keys of table ", shape.name, " cut short"));
    if (erased != 0 && !entry_.delta) {
      return Damaged(absl::StrCat("table ", shape.name, " has ", erased, " erased keys, but is full"));
    }
    for (uint64_t i = 0; i < erased; ++i) {
      (void)in_.Read(&key);
      SHOAL_RETURN_IF_ERROR(visitor_->Erased(table, key));
    }
    rows_ += rows;
    counted_ += counted;
    erased_ += erased;
    return absl::OkStatus();
  }

  absl::Status Blocks() {
    uint64_t blocks;
    if (!in_.Read(&blocks) || !in_.Has(blocks, kBlockHeadBytes)) return Damaged("blocks cut short");
    for (uint64_t i = 0; i < blocks; ++i) {
      PartBlock block;
      uint32_t zero;
      uint64_t size, state;
      if (!in_.Read(&block.tensor) || !in_.Read(&zero) || !in_.Read(&block.index) || !in_.Read(&block.offset) ||
          !in_.Read(&size) || !in_.Read(&state) || !in_.Has(size, sizeof(float)) || !in_.Has(state, sizeof(float)) ||
          !in_.Has(size + state, sizeof(float))) {
        return Damaged(absl::StrCat("block ", i, " cut short"));
      }
      if (block.tensor >= header_.tensors.size()) {
        return Damaged(
            absl::StrCat("block ", i, ": tensor ", block.tensor, ", the header has ", header_.tensors.size()));
      }
      const absl::Span<const float> floats = Floats(size + state);
      block.weights = floats.subspan(0, size);
      block.state = floats.subspan(size);
      SHOAL_RETURN_IF_ERROR(visitor_->Block(block));
    }
    return absl::OkStatus();
  }

  ByteReader in_;
  const PartHeader& header_;
  const PartEntry& entry_;
  SectionVisitor* const visitor_;
  std::vector<float> floats_;
  uint64_t rows_ = 0, counted_ = 0, erased_ = 0;
};

}  // namespace

void SectionWriter::Progress(const PartitionProgress& progress, uint32_t tables) {
  AppendValue(out_, progress.partition);
  AppendValue(out_, tables);
  AppendValue(out_, progress.base);
  AppendValue(out_, progress.version);
  AppendValue(out_, progress.examples);
  AppendValue(out_, progress.rounds_applied);
  AppendValue(out_, progress.done_prefix);
  AppendValue(out_, static_cast<uint64_t>(progress.done_extra.size()));
  for (uint64_t number : progress.done_extra) AppendValue(out_, number);
  AppendValue(out_, static_cast<uint64_t>(progress.open.size()));
  for (const PartitionProgress::OpenSplit& split : progress.open) {
    AppendValue(out_, split.number);
    AppendValue(out_, split.lease);
    AppendValue(out_, split.watermark);
  }
}

void SectionWriter::BeginTable() {
  table_at_ = out_->size();
  for (int count = 0; count < 3; ++count) AppendValue(out_, uint64_t{0});
  counted_bytes_.clear();
  erased_bytes_.clear();
  table_rows_ = table_counted_ = table_erased_ = 0;
}

void SectionWriter::Row(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values) {
  // One append for all of it: this is what a checkpoint of many rows spends its time with.
  const size_t at = out_->size();
  out_->resize(at + kRowHeadBytes + values.size() * sizeof(float));
  char* to = &(*out_)[at];
  std::memcpy(to, &key, sizeof(key));
  std::memcpy(to + sizeof(key), &touched, sizeof(touched));
  std::memcpy(to + sizeof(key) + sizeof(touched), &slot, sizeof(slot));
  std::memcpy(to + kRowHeadBytes, values.data(), values.size() * sizeof(float));
  ++table_rows_;
}

void SectionWriter::Counted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) {
  AppendValue(&counted_bytes_, key);
  AppendValue(&counted_bytes_, touched);
  AppendValue(&counted_bytes_, slot);
  AppendValue(&counted_bytes_, count);
  ++table_counted_;
}

void SectionWriter::Erased(uint64_t key) {
  AppendValue(&erased_bytes_, key);
  ++table_erased_;
}

void SectionWriter::EndTable() {
  const uint64_t counts[] = {table_rows_, table_counted_, table_erased_};
  std::memcpy(&(*out_)[table_at_], counts, sizeof(counts));
  *out_ += counted_bytes_;
  *out_ += erased_bytes_;
  rows_ += table_rows_;
  counted_ += table_counted_;
  erased_ += table_erased_;
}

void SectionWriter::BeginBlocks(uint64_t count) { AppendValue(out_, count); }

void SectionWriter::Block(const PartBlock& block) {
  AppendValue(out_, block.tensor);
  AppendValue(out_, uint32_t{0});
  AppendValue(out_, block.index);
  AppendValue(out_, block.offset);
  AppendValue(out_, static_cast<uint64_t>(block.weights.size()));
  AppendValue(out_, static_cast<uint64_t>(block.state.size()));
  AppendFloats(out_, block.weights);
  AppendFloats(out_, block.state);
}

absl::Status ParseSection(absl::string_view bytes, const PartHeader& header, const PartEntry& entry,
                          SectionVisitor* visitor) {
  if (bytes.size() != entry.bytes || HashBytes(bytes) != entry.checksum) {
    return absl::DataLossError(absl::StrCat("partition ", entry.partition, ": checksum differs"));
  }
  return SectionParser(bytes, header, entry, visitor).Run();
}

}  // namespace shoal
