// The state that a full section and its deltas amount to.
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"
#include "server/checkpoint/expiry.h"

namespace shoal {
namespace {

// Takes the sections of one partition newest first: what a newer one says about a key hides what older ones say. Only
// keys of deltas are remembered, so a long full section streams through. Not thread-safe.
class Merger : public SectionVisitor {
 public:
  Merger(const PartHeader& header, uint64_t ttl_examples, SectionVisitor* visitor)
      : expiry_(ttl_examples), visitor_(visitor), seen_(header.tables.size()) {}

  // Before each section, newest first.
  void Begin(bool delta) { delta_ = delta; }

  absl::Status Progress(const PartitionProgress& progress) override {
    if (first_) {
      first_ = false;
      base_ = progress.base;
      now_ = progress.examples;
      PartitionProgress full = progress;
      full.base = PartitionProgress::kNoBase;
      return visitor_->Progress(full);
    }
    if (progress.version != base_) {
      return absl::DataLossError(absl::StrCat("partition ", progress.partition, ": stands at version ",
                                              progress.version, ", the delta to it needs ", base_));
    }
    base_ = progress.base;
    return absl::OkStatus();
  }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                   absl::Span<const float> values) override {
    if (Hidden(table, key) || expiry_.Row(touched, now_)) return absl::OkStatus();
    return visitor_->Row(table, key, slot, Touched(touched), values);
  }
  absl::Status Counted(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) override {
    if (Hidden(table, key) || expiry_.Counted(touched / expiry_.quantum, now_)) return absl::OkStatus();
    return visitor_->Counted(table, key, slot, Touched(touched), count);
  }
  absl::Status Erased(uint32_t table, uint64_t key) override {
    (void)Hidden(table, key);
    return absl::OkStatus();
  }
  absl::Status Block(const PartBlock& block) override {
    return blocks_.emplace(block.tensor, block.index).second ? visitor_->Block(block) : absl::OkStatus();
  }

 private:
  bool Hidden(uint32_t table, uint64_t key) {
    return delta_ ? !seen_[table].insert(key).second : seen_[table].contains(key);
  }
  // Without a TTL it is the time of saving.
  uint64_t Touched(uint64_t touched) const { return expiry_.ttl == 0 ? now_ : touched; }

  const Expiry expiry_;
  SectionVisitor* const visitor_;
  std::vector<absl::flat_hash_set<uint64_t>> seen_;  // by table
  std::set<std::pair<uint32_t, uint64_t>> blocks_;
  bool first_ = true, delta_ = false;
  uint64_t base_ = 0, now_ = 0;
};

}  // namespace

absl::Status CheckpointReader::Visit(uint32_t partition, SectionVisitor* visitor) const {
  const absl::Span<const Section> sections = SectionsOf(partition);
  Merger merger(header_, manifest().job().ttl().examples(), visitor);
  std::string bytes;
  for (auto section = sections.rbegin(); section != sections.rend(); ++section) {
    SHOAL_RETURN_IF_ERROR(section->part->ReadSection(section->entry, &bytes));
    merger.Begin(section->entry.delta);
    const absl::Status parsed = ParseSection(bytes, section->part->header(), section->entry, &merger);
    if (!parsed.ok()) return absl::Status(parsed.code(), absl::StrCat(section->file, ": ", parsed.message()));
  }
  return absl::OkStatus();
}

}  // namespace shoal
