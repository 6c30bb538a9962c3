// Checkpoints that build on others: a delta, its parent, and so on to a full one.
#ifndef SHOAL_SERVER_CHECKPOINT_CHAIN_H_
#define SHOAL_SERVER_CHECKPOINT_CHAIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/part_file.h"

namespace shoal {

struct ChainLink {
  std::string dir;
  Manifest manifest;
};

// The checkpoint at `path` (a directory of checkpoints: its newest complete one) and what it builds on, newest first;
// the last one is full. DATA_LOSS or NOT_FOUND name the link that is missing, changed or out of order.
absl::StatusOr<std::vector<ChainLink>> ReadChain(const std::string& path);

// Reads partitions of a checkpoint, full or delta, whatever servers wrote its parts. Thread-safe once open.
class CheckpointReader {
 public:
  // One section that a partition's state is made of.
  struct Section {
    std::string file;
    const PartFile* part = nullptr;
    PartEntry entry;
  };

  // Opens the parts that hold partitions for which wanted(partition) is true. Each of these must be there, once per
  // checkpoint, and lead to a full section; all parts must have one shape.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& path,
                                                                const std::function<bool(uint32_t)>& wanted);

  const std::vector<ChainLink>& chain() const { return chain_; }
  const std::string& dir() const { return chain_.front().dir; }
  const Manifest& manifest() const { return chain_.front().manifest; }
  // Of the newest part that was opened; empty when nothing was wanted.
  const PartHeader& header() const { return header_; }
  uint32_t partitions() const { return header_.partitions; }
  // Full one first, then its deltas in the order in which they apply; empty when the partition was not wanted.
  absl::Span<const Section> SectionsOf(uint32_t partition) const;
  // Bytes of all sections that were wanted.
  uint64_t bytes() const { return bytes_; }

  // Hands over the partition's state as a full section would hold it, without a store: Progress first, then rows,
  // counted keys and blocks in no particular order, each once, nothing that has expired.
  absl::Status Visit(uint32_t partition, SectionVisitor* visitor) const;

 private:
  explicit CheckpointReader(std::vector<ChainLink> chain) : chain_(std::move(chain)) {}
  absl::Status OpenParts(const std::function<bool(uint32_t)>& wanted);
  absl::Status OpenLink(const ChainLink& link, std::vector<bool>* open);

  const std::vector<ChainLink> chain_;
  PartHeader header_;
  std::vector<std::unique_ptr<PartFile>> parts_;
  std::vector<std::vector<Section>> sections_;  // by partition
  uint64_t bytes_ = 0;
};

// What tells two parts' tables, tensors, slots and partitions apart, in words; empty: nothing.
std::string HeaderDifference(const PartHeader& a, const PartHeader& b);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_CHAIN_H_
