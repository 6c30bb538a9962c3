// Reading whole checkpoints: verification and visiting of all rows.
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal {
namespace {

// Sums digests, or hands rows on. Not thread-safe.
class Summer : public SectionVisitor {
 public:
  Summer(const PartHeader& header, const std::function<void(const CheckpointRow&)>* visit)
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
  absl::Status Erased(uint32_t, uint64_t) override { return absl::OkStatus(); }
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

// Only looks at whether a section parses.
class Nobody : public SectionVisitor {
 public:
  absl::Status Progress(const PartitionProgress&) override { return absl::OkStatus(); }
  absl::Status Row(uint32_t, uint64_t, uint32_t, uint64_t, absl::Span<const float>) override {
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) override { return absl::OkStatus(); }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Block(const PartBlock&) override { return absl::OkStatus(); }
};

// Looks at everything that a checkpoint is made of and collects all that is wrong.
class Verifier {
 public:
  explicit Verifier(const std::vector<ChainLink>& chain) : chain_(chain) {}

  absl::Status Run() {
    for (const ChainLink& link : chain_) Link(link);
    // What the sections amount to can only be told when each of them can be read.
    if (problems_.empty()) Sums();
    if (problems_.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrJoin(problems_, "\n"));
  }

 private:
  static constexpr size_t kMaxProblems = 100;  // enough to see what is going on, too few to flood a terminal

  void Problem(absl::string_view what) {
    if (problems_.size() < kMaxProblems) problems_.emplace_back(what);
  }

  void Link(const ChainLink& link) {
    std::map<uint32_t, int> seen;
    uint32_t partitions = 0;
    for (const PartInfo& info : link.manifest.parts()) {
      const absl::Status status = Part(link.dir, info, &seen, &partitions);
      if (!status.ok()) Problem(status.message());
    }
    for (uint32_t p = 0; p < partitions; ++p) {
      if (seen[p] != 1) Problem(absl::StrCat(link.dir, ": partition ", p, " is in ", seen[p], " parts"));
    }
  }

  absl::Status Part(const std::string& dir, const PartInfo& info, std::map<uint32_t, int>* seen, uint32_t* partitions) {
    const std::string path = absl::StrCat(dir, "/", info.file());
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> part, PartFile::Open(path, info.bytes()));
    SHOAL_ASSIGN_OR_RETURN(const uint64_t checksum, part->Checksum());
    if (checksum != info.checksum()) Problem(absl::StrCat(path, ": checksum of the file differs"));
    *partitions = std::max(*partitions, part->header().partitions);
    uint64_t rows = 0, counted = 0;
    std::string section;
    Nobody nobody;
    for (const PartEntry& entry : part->entries()) {
      ++(*seen)[entry.partition];
      rows += entry.rows;
      counted += entry.counted;
      SHOAL_RETURN_IF_ERROR(part->ReadSection(entry, &section));
      const absl::Status parsed = ParseSection(section, part->header(), entry, &nobody);
      if (!parsed.ok()) Problem(absl::StrCat(path, ": ", parsed.message()));
    }
    if (rows != info.rows() || rows + counted != info.keys()) {
      Problem(absl::StrCat(path, ": holds ", rows, " rows and ", rows + counted, " keys, the manifest says ",
                           info.rows(), " and ", info.keys()));
    }
    if (part->entries().size() != static_cast<size_t>(info.partitions_size())) {
      Problem(absl::StrCat(path, ": holds ", part->entries().size(), " partitions, the manifest says ",
                           info.partitions_size()));
    }
    return absl::OkStatus();
  }

  void Sums() {
    const ChainLink& newest = chain_.front();
    const auto reader = CheckpointReader::Open(newest.dir, [](uint32_t) { return true; });
    if (!reader.ok()) return Problem(reader.status().message());
    Summer summer((*reader)->header(), nullptr);
    for (uint32_t p = 0; p < (*reader)->partitions(); ++p) {
      const absl::Status visited = (*reader)->Visit(p, &summer);
      if (!visited.ok()) Problem(visited.message());
    }
    std::map<std::string, std::pair<uint64_t, uint64_t>> sums = summer.sums();
    for (const TableDigest& digest : newest.manifest.digests()) {
      const auto& [sum, rows] = sums[digest.table()];
      if (sum == digest.sum() && rows == digest.rows()) continue;
      Problem(absl::StrCat(newest.dir, ": table ", digest.table(), ": digest ", absl::Hex(sum), " over ", rows,
                           " rows, the manifest says ", absl::Hex(digest.sum()), " over ", digest.rows()));
    }
  }

  const std::vector<ChainLink>& chain_;
  std::vector<std::string> problems_;
};

}  // namespace

absl::Status VerifyCheckpoint(const std::string& dir) {
  SHOAL_RETURN_IF_ERROR(CheckNewest(dir));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain, ReadChain(dir));
  return Verifier(chain).Run();
}

absl::Status VisitRows(const std::string& dir, const std::function<void(const CheckpointRow&)>& visit) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                         CheckpointReader::Open(dir, [](uint32_t) { return true; }));
  Summer summer(reader->header(), &visit);
  for (uint32_t p = 0; p < reader->partitions(); ++p) SHOAL_RETURN_IF_ERROR(reader->Visit(p, &summer));
  return absl::OkStatus();
}

}  // namespace shoal
