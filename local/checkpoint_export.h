// Checkpoints for other programs.
#ifndef SHOAL_LOCAL_CHECKPOINT_EXPORT_H_
#define SHOAL_LOCAL_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

enum class ExportFormat {
  kNpz,  // one NumPy archive
  kTsv,  // a directory with one text file per table and tensor
};

struct ExportOptions {
  std::string checkpoint;  // one, or a directory of them, whose newest is taken; deltas are resolved
  std::string output;      // kNpz: file; kTsv: directory, made if absent
  ExportFormat format = ExportFormat::kNpz;
  std::vector<std::string> tables;  // tables and tensors; empty: all
  bool state = false;               // optimizer state, too
};

struct ExportReport {
  struct Table {
    std::string name;
    bool dense = false;
    uint64_t rows = 0;  // dense: floats
  };
  std::string checkpoint;  // that was read
  std::vector<Table> tables;
};

// npz: of a sparse table <table>.keys (u64), <table>.weights (f32, rows x dim), <table>.slots (i4, index into `slots`,
// if the job has any) and on request <table>.state; of a tensor its weights in its shape, and on request <tensor>.state
// (as the optimizer lays it out, block by block). Rows come in no particular order. tsv: a line per row: key, slot if
// any, weights, state, with all digits; of a tensor a line per float: index, weight. NOT_FOUND names a table that the
// checkpoint has not.
absl::StatusOr<ExportReport> ExportCheckpoint(const ExportOptions& options);

}  // namespace shoal

#endif  // SHOAL_LOCAL_CHECKPOINT_EXPORT_H_
