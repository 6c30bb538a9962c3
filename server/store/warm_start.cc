#include "server/store/warm_start.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"
#include "server/store/key_hash.h"

namespace shoal {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
constexpr uint32_t kMostThreads = 8;  // as for a restore: past a few readers the disk is the bound

// The optimizer's name in the job file ("adam"): what its state means.
std::string VariantOf(const Optimizer& optimizer) {
  const auto* which = Optimizer::descriptor()->FindOneofByName("kind");
  const auto* field = which == nullptr ? nullptr : optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, which);
  return field == nullptr ? "the default" : field->name();
}

// Numbers of the checkpoint's tables, tensors and slots in the job.
struct Mapping {
  std::vector<uint32_t> tables, tensors;  // kNone: not taken
  std::vector<uint32_t> slots;            // 0 where the job has no such slot, in which such a key cannot come again
};

// Pairs the checkpoint's tables and tensors with the job's and checks that those to be taken fit.
class Matcher {
 public:
  Matcher(const WarmStart& warm_start, const JobSchema& schema, const CheckpointReader& reader)
      : warm_start_(warm_start), schema_(schema), header_(reader.header()), manifest_(reader.manifest()) {}

  absl::Status Run(Mapping* mapping, WarmStartReport* report) {
    report->dir.clear();
    for (const std::string& name : warm_start_.tables()) SHOAL_RETURN_IF_ERROR(CheckName(name));
    for (const PartHeader::Table& table : header_.tables) {
      SHOAL_ASSIGN_OR_RETURN(const uint32_t to, Table(table));
      mapping->tables.push_back(to);
      Note(table.name, false, to, report);
    }
    for (const std::string& tensor : header_.tensors) {
      SHOAL_ASSIGN_OR_RETURN(const uint32_t to, Tensor(tensor));
      mapping->tensors.push_back(to);
      Note(tensor, true, to, report);
    }
    for (const std::string& slot : header_.slots) {
      const auto it = std::find(schema_.slots.begin(), schema_.slots.end(), slot);
      mapping->slots.push_back(it == schema_.slots.end() ? 0 : static_cast<uint32_t>(it - schema_.slots.begin()));
    }
    if (mapping->slots.empty()) mapping->slots.push_back(0);
    const auto taken = [&](const std::string& name) {
      return std::any_of(report->tables.begin(), report->tables.end(), [&](const auto& t) { return t.name == name; });
    };
    for (const SparseSchema& table : schema_.tables) {
      if (!taken(table.name)) report->missing.push_back(table.name);
    }
    for (const TensorSpec& tensor : schema_.tensors) {
      if (!taken(tensor.name())) report->missing.push_back(tensor.name());
    }
    if (!report->missing.empty() && warm_start_.tables().empty() && !warm_start_.allow_missing()) {
      return absl::InvalidArgumentError(
          absl::StrCat("warm_start: the checkpoint has no ", absl::StrJoin(report->missing, ", "),
                       "; name the tables to take in warm_start.tables, or set warm_start.allow_missing"));
    }
    return absl::OkStatus();
  }

 private:
  bool Wanted(const std::string& name) const {
    const auto& names = warm_start_.tables();
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
  absl::Status CheckName(const std::string& name) const {
    const bool here =
        std::any_of(schema_.tables.begin(), schema_.tables.end(), [&](const auto& t) { return t.name == name; }) ||
        std::any_of(schema_.tensors.begin(), schema_.tensors.end(), [&](const auto& t) { return t.name() == name; });
    const bool there =
        std::any_of(header_.tables.begin(), header_.tables.end(), [&](const auto& t) { return t.name == name; }) ||
        std::find(header_.tensors.begin(), header_.tensors.end(), name) != header_.tensors.end();
    if (here && there) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("warm_start.tables: ", name, ": ", here ? "the checkpoint" : "the job",
                                            " has no table or tensor of that name"));
  }
  static void Note(const std::string& name, bool dense, uint32_t to, WarmStartReport* report) {
    if (to == kNone) {
      report->extra.push_back(name);
    } else {
      report->tables.push_back({name, dense, 0});
    }
  }
  absl::Status CheckState(const std::string& name, const Optimizer& theirs, const Optimizer& ours) const {
    const std::string was = VariantOf(theirs), is = VariantOf(ours);
    if (!warm_start_.optimizer_state() || was == is) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("warm_start.optimizer_state: ", name, " was trained by ", was,
                                                   ", the job uses ", is, "; set it to false"));
  }

  absl::StatusOr<uint32_t> Table(const PartHeader::Table& table) const {
    const auto it = std::find_if(schema_.tables.begin(), schema_.tables.end(),
                                 [&](const SparseSchema& ours) { return ours.name == table.name; });
    if (it == schema_.tables.end() || !Wanted(table.name)) return kNone;
    if (it->dim != table.dim) {
      return absl::InvalidArgumentError(absl::StrCat("warm_start: table ", table.name, " has dim ", table.dim,
                                                     " in the checkpoint, ", it->dim, " in the job"));
    }
    SHOAL_RETURN_IF_ERROR(CheckState(table.name, manifest_.job().optimizer().sparse(), schema_.optimizer.sparse()));
    return static_cast<uint32_t>(it - schema_.tables.begin());
  }
  absl::StatusOr<uint32_t> Tensor(const std::string& name) const {
    const auto it = std::find_if(schema_.tensors.begin(), schema_.tensors.end(),
                                 [&](const TensorSpec& ours) { return ours.name() == name; });
    if (it == schema_.tensors.end() || !Wanted(name)) return kNone;
    for (const TensorSpec& theirs : manifest_.plan().model().tensors()) {
      if (theirs.name() != name) continue;
      const auto& was = theirs.shape();
      const auto& is = it->shape();
      if (!std::equal(was.begin(), was.end(), is.begin(), is.end())) {
        return absl::InvalidArgumentError(absl::StrCat("warm_start: tensor ", name, " has shape ",
                                                       absl::StrJoin(was, "x"), " in the checkpoint, ",
                                                       absl::StrJoin(is, "x"), " in the job"));
      }
    }
    SHOAL_RETURN_IF_ERROR(CheckState(name, manifest_.job().optimizer().dense(), schema_.optimizer.dense()));
    return static_cast<uint32_t>(it - schema_.tensors.begin());
  }

  const WarmStart& warm_start_;
  const JobSchema& schema_;
  const PartHeader& header_;
  const Manifest& manifest_;
};

// Puts what a reader hands over where it belongs. One per thread.
class Adopter : public SectionVisitor {
 public:
  Adopter(const JobSchema& schema, const PartHeader& header, const Mapping& mapping, bool state,
          absl::Span<Partition* const> by_id, StoreStats* stats)
      : schema_(schema),
        header_(header),
        mapping_(mapping),
        state_(state),
        by_id_(by_id),
        tally_(stats),
        tables_(schema.tables.size()),
        tensors_(schema.tensors.size()) {}

  absl::Status Progress(const PartitionProgress&) override { return absl::OkStatus(); }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t, absl::Span<const float> values) override {
    const uint32_t to = mapping_.tables[table];
    if (to == kNone) return absl::OkStatus();
    Partition* const partition = by_id_[PlaceOfKey(key, schema_.partitions).partition];
    if (partition == nullptr) return absl::OkStatus();
    if (!state_) values = values.subspan(0, header_.tables[table].dim);
    if (!partition->AdoptRow(to, key, mapping_.slots[slot], values, &tally_)) {
      return absl::DataLossError(absl::StrCat("table ", header_.tables[table].name, " holds key ", key, " twice"));
    }
    ++tables_[to];
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) override { return absl::OkStatus(); }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Block(const PartBlock& block) override {
    const uint32_t to = mapping_.tensors[block.tensor];
    if (to == kNone) return absl::OkStatus();
    Partition* const partition =
        by_id_[PartitionOfBlock(header_.tensors[block.tensor], block.index, schema_.partitions)];
    if (partition == nullptr) return absl::OkStatus();
    PartBlock ours = block;
    ours.tensor = to;
    ++tensors_[to];
    return partition->AdoptBlock(ours, state_);
  }
  const std::vector<uint64_t>& tables() const { return tables_; }
  const std::vector<uint64_t>& tensors() const { return tensors_; }

 private:
  const JobSchema& schema_;
  const PartHeader& header_;
  const Mapping& mapping_;
  const bool state_;
  const absl::Span<Partition* const> by_id_;
  PushTally tally_;
  std::vector<uint64_t> tables_, tensors_;  // rows and blocks taken
};

absl::StatusOr<std::unique_ptr<CheckpointReader>> OpenSource(const WarmStart& warm_start, const JobSchema& schema,
                                                             Mapping* mapping, WarmStartReport* report) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                         CheckpointReader::Open(warm_start.checkpoint(), [](uint32_t) { return true; }));
  SHOAL_RETURN_IF_ERROR(Matcher(warm_start, schema, *reader).Run(mapping, report));
  report->dir = reader->dir();
  return reader;
}

}  // namespace

absl::StatusOr<WarmStartReport> CheckWarmStart(const WarmStart& warm_start, const JobSchema& schema) {
  Mapping mapping;
  WarmStartReport report;
  SHOAL_RETURN_IF_ERROR(OpenSource(warm_start, schema, &mapping, &report).status());
  return report;
}

absl::StatusOr<WarmStartReport> WarmStartPartitions(const WarmStart& warm_start, const JobSchema& schema,
                                                    absl::Span<Partition* const> partitions) {
  Mapping mapping;
  WarmStartReport report;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                         OpenSource(warm_start, schema, &mapping, &report));
  if (partitions.empty()) return report;
  std::vector<Partition*> by_id(schema.partitions, nullptr);
  for (Partition* partition : partitions) by_id[partition->id()] = partition;
  // Keys hash to partitions by their number alone: with equal numbers the others hold nothing for us.
  const bool aligned = reader->partitions() == schema.partitions;
  std::atomic<uint32_t> next{0};
  Mutex mu;
  absl::Status status;
  std::vector<uint64_t> tables(schema.tables.size()), tensors(schema.tensors.size());
  const auto work = [&] {
    Adopter adopter(schema, reader->header(), mapping, warm_start.optimizer_state(), by_id, partitions[0]->stats());
    absl::Status mine;
    for (uint32_t p = next++; mine.ok() && p < reader->partitions(); p = next++) {
      // Blocks are placed by number of partitions, too.
      if (!aligned || by_id[p] != nullptr) mine = reader->Visit(p, &adopter);
    }
    MutexLock lock(&mu);
    if (!mine.ok()) next = reader->partitions();
    if (status.ok()) status = mine;
    for (size_t t = 0; t < tables.size(); ++t) tables[t] += adopter.tables()[t];
    for (size_t t = 0; t < tensors.size(); ++t) tensors[t] += adopter.tensors()[t];
  };
  std::vector<std::thread> helpers;
  const uint32_t threads = std::max(1u, std::min(kMostThreads, std::thread::hardware_concurrency()));
  for (uint32_t t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (!status.ok()) return status;
  for (WarmStartReport::Table& table : report.tables) {
    for (size_t t = 0; !table.dense && t < tables.size(); ++t) {
      if (schema.tables[t].name == table.name) table.rows = tables[t];
    }
    for (size_t t = 0; table.dense && t < tensors.size(); ++t) {
      if (schema.tensors[t].name() == table.name) table.rows = tensors[t];
    }
  }
  return report;
}

}  // namespace shoal
