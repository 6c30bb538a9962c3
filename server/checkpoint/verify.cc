// Reading whole checkpoints: verification and visiting of all rows.
#include <xxhash.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/manifest_file.h"
#include "server/checkpoint/part_file.h"

namespace shoal {
namespace {

// Sums digests, counts, and hands rows on. Not thread-safe.
class Summer : public SectionVisitor {
 public:
  explicit Summer(const PartHeader& header, const std::function<void(const CheckpointRow&)>* visit)
      : header_(header), visit_(visit), hasher_(XXH64_createState()) {}
  ~Summer() override { XXH64_freeState(hasher_); }

  absl::Status Progress(const PartitionProgress&) override { return absl::OkStatus(); }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t, absl::Span<const float> values) override {
    const PartHeader::Table& shape = header_.tables[table];
    CheckpointRow row;
    row.table = shape.name;
    row.key = key;
    if (!header_.slots.empty()) row.slot = header_.slots[slot];
    row.weights = values.subspan(0, shape.dim);
    row.state = values.subspan(shape.dim);
    Take(row);
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) override { return absl::OkStatus(); }
  absl::Status Block(const PartBlock& block) override {
    CheckpointRow row;
    row.table = header_.tensors[block.tensor];
    row.dense = true;
    row.key = block.index;
    row.offset = block.offset;
    row.weights = block.weights;
    row.state = block.state;
    Take(row);
    return absl::OkStatus();
  }
  const std::map<std::string, std::pair<uint64_t, uint64_t>>& sums() const { return sums_; }

 private:
  void Take(const CheckpointRow& row) {
    if (visit_ != nullptr) return (*visit_)(row);
    XXH64_reset(hasher_, 0);
    XXH64_update(hasher_, &row.key, sizeof(row.key));
    XXH64_update(hasher_, row.weights.data(), row.weights.size() * sizeof(float));
    if (!row.state.empty()) XXH64_update(hasher_, row.state.data(), row.state.size() * sizeof(float));
    auto& [sum, rows] = sums_[std::string(row.table)];
    sum += XXH64_digest(hasher_);
    ++rows;
  }

  const PartHeader& header_;
  const std::function<void(const CheckpointRow&)>* const visit_;
  XXH64_state_t* const hasher_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> sums_;  // by table: digest, rows
};

// Adds up what a checkpoint holds and collects everything that is wrong.
class Verifier {
 public:
  Verifier(std::string dir, const Manifest& manifest) : dir_(std::move(dir)), manifest_(manifest) {}

  absl::Status Run() {
    for (const PartInfo& info : manifest_.parts()) {
      const absl::Status status = Part(info);
      if (!status.ok()) problems_.push_back(std::string(status.message()));
    }
    uint32_t partitions = partitions_;
    for (uint32_t p = 0; p < partitions; ++p) {
      if (seen_[p] != 1) problems_.push_back(absl::StrCat(dir_, ": partition ", p, " is in ", seen_[p], " parts"));
      if (problems_.size() >= kMaxProblems) break;
    }
    for (const TableDigest& digest : manifest_.digests()) {
      const auto& [sum, rows] = sums_[digest.table()];
      if (sum == digest.sum() && rows == digest.rows()) continue;
      problems_.push_back(absl::StrCat(dir_, ": table ", digest.table(), ": digest ", absl::Hex(sum), " over ", rows,
                                       " rows, the manifest says ", absl::Hex(digest.sum()), " over ", digest.rows()));
    }
    if (problems_.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrJoin(problems_, "\n"));
  }

 private:
  static constexpr size_t kMaxProblems = 100;  // enough to see what is going on, too few to flood a terminal

  absl::Status Part(const PartInfo& info) {
    const std::string path = absl::StrCat(dir_, "/", info.file());
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> part, PartFile::Open(path, info.bytes()));
    SHOAL_ASSIGN_OR_RETURN(const uint64_t checksum, part->Checksum());
    if (checksum != info.checksum()) problems_.push_back(absl::StrCat(path, ": checksum of the file differs"));
    partitions_ = std::max(partitions_, part->header().partitions);
    Summer summer(part->header(), nullptr);
    uint64_t rows = 0, counted = 0;
    std::string section;
    for (const PartEntry& entry : part->entries()) {
      ++seen_[entry.partition];
      rows += entry.rows;
      counted += entry.counted;
      SHOAL_RETURN_IF_ERROR(part->ReadSection(entry, &section));
      const absl::Status parsed = ParseSection(section, part->header(), entry, &summer);
      if (!parsed.ok()) problems_.push_back(absl::StrCat(path, ": ", parsed.message()));
    }
    for (const auto& [table, sum] : summer.sums()) {
      sums_[table].first += sum.first;
      sums_[table].second += sum.second;
    }
    if (rows != info.rows() || rows + counted != info.keys()) {
      problems_.push_back(absl::StrCat(path, ": holds ", rows, " rows and ", rows + counted,
                                       " keys, the manifest says ", info.rows(), " and ", info.keys()));
    }
    if (part->entries().size() != static_cast<size_t>(info.partitions_size())) {
      problems_.push_back(absl::StrCat(path, ": holds ", part->entries().size(), " partitions, the manifest says ",
                                       info.partitions_size()));
    }
    return absl::OkStatus();
  }

  const std::string dir_;
  const Manifest& manifest_;
  std::vector<std::string> problems_;
  std::map<uint32_t, int> seen_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> sums_;
  uint32_t partitions_ = 0;
};

}  // namespace

absl::Status VerifyCheckpoint(const std::string& dir) {
  std::string resolved;
  SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(dir, &resolved));
  return Verifier(resolved, manifest).Run();
}

absl::Status VisitRows(const std::string& dir, const std::function<void(const CheckpointRow&)>& visit) {
  std::string resolved;
  SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(dir, &resolved));
  std::string section;
  for (const PartInfo& info : manifest.parts()) {
    const std::string path = absl::StrCat(resolved, "/", info.file());
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> part, PartFile::Open(path, info.bytes()));
    Summer summer(part->header(), &visit);
    for (const PartEntry& entry : part->entries()) {
      SHOAL_RETURN_IF_ERROR(part->ReadSection(entry, &section));
      const absl::Status parsed = ParseSection(section, part->header(), entry, &summer);
      if (!parsed.ok()) return absl::Status(parsed.code(), absl::StrCat(path, ": ", parsed.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
