#include "server/checkpoint/merge.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal {
namespace {

constexpr char kPart[] = "merged.part";

// Builds a full section from what a reader hands over in any order. Not thread-safe.
class Assembler : public SectionVisitor {
 public:
  explicit Assembler(const PartHeader& header) {
    for (size_t t = 0; t < header.tables.size(); ++t) {
      tables_.push_back(std::make_unique<Table>());
      tables_.back()->writer.BeginTable();
    }
  }

  absl::Status Progress(const PartitionProgress& progress) override {
    progress_ = progress;
    return absl::OkStatus();
  }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                   absl::Span<const float> values) override {
    tables_[table]->writer.Row(key, slot, touched, values);
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) override {
    tables_[table]->writer.Counted(key, slot, touched, count);
    return absl::OkStatus();
  }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::InternalError("an erased key in a full state"); }
  absl::Status Block(const PartBlock& block) override {
    SectionWriter(&blocks_).Block(block);
    ++block_count_;
    return absl::OkStatus();
  }

  PartEntry Finish(std::string* section) {
    section->clear();
    PartEntry entry;
    entry.partition = progress_.partition;
    SectionWriter(section).Progress(progress_, static_cast<uint32_t>(tables_.size()));
    for (const auto& table : tables_) {
      table->writer.EndTable();
      *section += table->bytes;
      entry.rows += table->writer.rows();
      entry.counted += table->writer.counted();
    }
    SectionWriter(section).BeginBlocks(block_count_);
    *section += blocks_;
    return entry;
  }

 private:
  struct Table {
    std::string bytes;
    SectionWriter writer{&bytes};
  };
  std::vector<std::unique_ptr<Table>> tables_;
  PartitionProgress progress_;
  std::string blocks_;
  uint64_t block_count_ = 0;
};

absl::StatusOr<PartInfo> WriteMerged(const CheckpointReader& reader, const std::string& dir, MergeReport* report) {
  PartHeader header = reader.header();
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartWriter> writer, PartWriter::Create(dir, kPart, header));
  PartInfo info;
  info.set_file(kPart);
  std::string section;
  for (uint32_t p = 0; p < reader.partitions(); ++p) {
    Assembler assembler(header);
    SHOAL_RETURN_IF_ERROR(reader.Visit(p, &assembler));
    const PartEntry entry = assembler.Finish(&section);
    SHOAL_RETURN_IF_ERROR(writer->Add(entry, section));
    info.add_partitions(p);
    report->rows += entry.rows;
    report->counted += entry.counted;
  }
  SHOAL_RETURN_IF_ERROR(writer->Finish());
  // What each partition had done was said by the part that it came from.
  for (const PartInfo& part : reader.manifest().parts()) {
    for (const PartitionDone& done : part.done()) *info.add_done() = done;
  }
  info.set_bytes(writer->bytes());
  info.set_checksum(writer->checksum());
  info.set_rows(report->rows);
  info.set_keys(report->rows + report->counted);
  return info;
}

}  // namespace

absl::StatusOr<MergeReport> MergeCheckpoint(const std::string& path, const std::string& output) {
  namespace fs = std::filesystem;
  const fs::path target = fs::absolute(output).lexically_normal();
  const fs::path named = target.has_filename() ? target : target.parent_path();
  const std::string dir = named.parent_path().string(), name = named.filename().string();
  std::error_code error;
  if (fs::exists(named, error)) return absl::AlreadyExistsError(absl::StrCat(named.string(), ": is there already"));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                         CheckpointReader::Open(path, [](uint32_t) { return true; }));
  MergeReport report;
  report.source = reader->dir();
  report.links = reader->chain().size();
  report.partitions = reader->partitions();
  const std::string temporary = absl::StrCat(named.string(), ".tmp");
  absl::StatusOr<PartInfo> part = WriteMerged(*reader, temporary, &report);
  if (!part.ok()) {
    DiscardPart(temporary, kPart);
    return part.status();
  }
  report.bytes = part->bytes();
  Manifest manifest = reader->manifest();
  manifest.clear_parts();
  manifest.clear_parent();
  manifest.clear_parent_checksum();
  *manifest.add_parts() = *std::move(part);
  SHOAL_ASSIGN_OR_RETURN(report.written, CommitCheckpoint(dir, name, manifest, std::numeric_limits<uint32_t>::max()));
  return report;
}

}  // namespace shoal
