#include "server/store/restore.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"

namespace shoal {
namespace {

// Past a few readers the disk is the bound, and each holds a section in memory.
constexpr uint32_t kMostThreads = 8;

absl::Status In(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

// Work shared by the threads of one restore. Thread-safe.
class Restorer {
 public:
  Restorer(const CheckpointReader& reader, const JobSchema& schema, absl::Span<Partition* const> partitions)
      : reader_(reader), schema_(schema), partitions_(partitions) {}

  // Takes partitions until there is none left or something failed anywhere.
  void Work() {
    std::string section;
    for (;;) {
      const size_t at = next_.fetch_add(1);
      if (at >= partitions_.size() || failed_.load()) return;
      const absl::Status status = Fill(partitions_[at], &section);
      if (status.ok()) continue;
      failed_ = true;
      MutexLock lock(&mu_);
      if (status_.ok()) status_ = status;
    }
  }
  absl::Status status() const {
    MutexLock lock(&mu_);
    return status_;
  }
  uint64_t rows() const { return rows_; }

 private:
  absl::Status Fill(Partition* partition, std::string* bytes) {
    uint64_t rounds = 0;
    std::string file;
    for (const CheckpointReader::Section& section : reader_.SectionsOf(partition->id())) {
      file = section.file;
      SHOAL_RETURN_IF_ERROR(section.part->ReadSection(section.entry, bytes));
      const absl::Status loaded = partition->Load(*bytes, section.part->header(), section.entry, &rounds);
      if (!loaded.ok()) return In(file, loaded);
      rows_ += section.entry.rows;
    }
    const uint64_t cut = reader_.manifest().rounds_applied();
    if (schema_.sync == SyncMode::kBsp && rounds != cut) {
      return In(file, absl::DataLossError(absl::StrCat("partition ", partition->id(), ": cut at round ", rounds,
                                                       ", the manifest at ", cut)));
    }
    return absl::OkStatus();
  }

  const CheckpointReader& reader_;
  const JobSchema& schema_;
  const absl::Span<Partition* const> partitions_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> rows_{0};
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status RestorePartitions(const std::string& path, const JobSchema& schema,
                               absl::Span<Partition* const> partitions, const RestoreOptions& options,
                               RestoreReport* report) {
  std::vector<bool> wanted(schema.partitions, false);
  for (const Partition* partition : partitions) wanted[partition->id()] = true;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                         CheckpointReader::Open(path, [&](uint32_t p) { return p < wanted.size() && wanted[p]; }));
  report->dir = reader->dir();
  report->rounds_applied = reader->manifest().rounds_applied();
  report->partitions = partitions.size();
  report->bytes = reader->bytes();
  if (reader->partitions() != 0) {
    const absl::Status fits = CheckHeader(reader->header(), schema.header, "the job");
    if (!fits.ok()) return In(reader->dir(), fits);
  }
  for (const Partition* partition : partitions) {
    if (!reader->SectionsOf(partition->id()).empty()) continue;
    return In(reader->dir(), absl::DataLossError(absl::StrCat("partition ", partition->id(), " is in no part")));
  }
  Restorer restorer(*reader, schema, partitions);
  const uint32_t cores = std::max(1u, std::min(kMostThreads, std::thread::hardware_concurrency()));
  const uint64_t threads = std::min<uint64_t>(options.threads == 0 ? cores : options.threads, partitions.size());
  std::vector<std::thread> helpers;
  for (uint64_t t = 1; t < threads; ++t) helpers.emplace_back([&] { restorer.Work(); });
  restorer.Work();
  for (std::thread& helper : helpers) helper.join();
  report->rows = restorer.rows();
  return restorer.status();
}

}  // namespace shoal
