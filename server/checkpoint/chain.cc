#include "server/checkpoint/chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/manifest_file.h"

namespace shoal {
namespace {

absl::Status In(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

std::string Sibling(const std::string& dir, const std::string& name) {
  std::string base = dir;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  const size_t slash = base.rfind('/');
  return slash == std::string::npos ? name : absl::StrCat(base.substr(0, slash + 1), name);
}

// Checks that `parent` is what `link` was written against.
absl::Status CheckParent(const ChainLink& link, const ChainLink& parent) {
  SHOAL_ASSIGN_OR_RETURN(const uint64_t checksum, ManifestChecksum(parent.dir));
  if (checksum != link.manifest.parent_checksum()) {
    return absl::DataLossError(absl::StrCat(link.dir, ": its parent ", parent.dir, " has a manifest with checksum ",
                                            absl::Hex(checksum), ", it was written against ",
                                            absl::Hex(link.manifest.parent_checksum())));
  }
  if (parent.manifest.sequence() >= link.manifest.sequence()) {
    return absl::DataLossError(absl::StrCat(link.dir, ": sequence ", link.manifest.sequence(), ", its parent ",
                                            parent.dir, " has ", parent.manifest.sequence(), ", must be smaller"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ChainLink>> ReadChain(const std::string& path) {
  std::vector<ChainLink> chain(1);
  SHOAL_ASSIGN_OR_RETURN(chain[0].manifest, ReadManifest(path, &chain[0].dir));
  while (!chain.back().manifest.parent().empty()) {
    const ChainLink& link = chain.back();
    ChainLink parent;
    parent.dir = Sibling(link.dir, link.manifest.parent());
    absl::StatusOr<Manifest> manifest = ReadManifestFile(parent.dir);
    if (!manifest.ok()) {
      return absl::Status(manifest.status().code(), absl::StrCat(link.dir, ": its parent ", link.manifest.parent(),
                                                                 ": ", manifest.status().message()));
    }
    parent.manifest = *std::move(manifest);
    SHOAL_RETURN_IF_ERROR(CheckParent(link, parent));
    chain.push_back(std::move(parent));
  }
  return chain;
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& path,
                                                                         const std::function<bool(uint32_t)>& wanted) {
  SHOAL_ASSIGN_OR_RETURN(std::vector<ChainLink> chain, ReadChain(path));
  auto reader = std::unique_ptr<CheckpointReader>(new CheckpointReader(std::move(chain)));
  SHOAL_RETURN_IF_ERROR(reader->OpenParts(wanted));
  return reader;
}

absl::Status CheckpointReader::OpenParts(const std::function<bool(uint32_t)>& wanted) {
  uint32_t partitions = 0;
  for (const PartInfo& part : manifest().parts()) {
    for (uint32_t p : part.partitions()) partitions = std::max(partitions, p + 1);
  }
  // Those whose full section has not been met yet. The job says how many there are; a manifest of a test may not.
  std::vector<bool> open(std::max(partitions, manifest().job().partitions()));
  for (uint32_t p = 0; p < open.size(); ++p) open[p] = wanted(p);
  sections_.resize(open.size());
  for (const ChainLink& link : chain_) {
    if (std::find(open.begin(), open.end(), true) == open.end()) break;
    SHOAL_RETURN_IF_ERROR(OpenLink(link, &open));
  }
  for (uint32_t p = 0; p < open.size(); ++p) {
    if (open[p]) {
      return absl::DataLossError(
          absl::StrCat(sections_[p].back().file, ": partition ", p, ": a delta, but the checkpoint has no parent"));
    }
    std::reverse(sections_[p].begin(), sections_[p].end());
    for (const Section& section : sections_[p]) bytes_ += section.entry.bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::OpenLink(const ChainLink& link, std::vector<bool>* open) {
  const std::vector<bool> needed = *open;
  std::vector<bool> found(needed.size(), false);
  for (const PartInfo& info : link.manifest.parts()) {
    const bool wanted = std::any_of(info.partitions().begin(), info.partitions().end(),
                                    [&](uint32_t p) { return p < needed.size() && needed[p]; });
    if (!wanted) continue;
    const std::string file = absl::StrCat(link.dir, "/", info.file());
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<PartFile> part, PartFile::Open(file, info.bytes()));
    if (parts_.empty()) header_ = part->header();
    const absl::Status fits = CheckHeader(part->header(), header_, "the newest part");
    if (!fits.ok()) return In(file, fits);
    for (const PartEntry& entry : part->entries()) {
      const uint32_t p = entry.partition;
      if (p >= needed.size() || !needed[p]) continue;
      if (found[p]) return In(file, absl::DataLossError(absl::StrCat("partition ", p, " is in two parts")));
      found[p] = true;
      sections_[p].push_back({file, part.get(), entry});
      if (!entry.delta) (*open)[p] = false;
    }
    parts_.push_back(std::move(part));
  }
  for (uint32_t p = 0; p < needed.size(); ++p) {
    if (needed[p] && !found[p]) {
      return In(link.dir, absl::DataLossError(absl::StrCat("partition ", p, " is in no part")));
    }
  }
  return absl::OkStatus();
}

absl::Span<const CheckpointReader::Section> CheckpointReader::SectionsOf(uint32_t partition) const {
  if (partition >= sections_.size()) return {};
  return sections_[partition];
}

}  // namespace shoal
