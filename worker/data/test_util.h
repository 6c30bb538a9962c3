// Helpers of this folder's tests: files to read, jobs as text protos, all records of an input.
#ifndef SHOAL_WORKER_DATA_TEST_UTIL_H_
#define SHOAL_WORKER_DATA_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"

namespace shoal {

// A folder that is removed with its files when the test ends.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  // Writes a file and returns its absolute path.
  std::string Write(const std::string& name, absl::string_view bytes);
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
std::string Gzip(absl::string_view bytes);
std::string Zstd(absl::string_view bytes);

// The message `Data` in protobuf's text format, with one train (and eval) input `path`.
Data MakeData(const std::string& text, const std::string& path);

// Absolute path of a file of the shared test data; empty, after printing a SKIPPED line, when it is not there.
std::string SharedData(const std::string& name);

// One row, whatever batch it came in.
struct Row {
  uint64_t split = 0, record = 0;
  float label = 0;
  std::vector<uint32_t> labels;
  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> keys;  // per slot
  std::vector<std::vector<float>> weights;  // per slot; 1s where the batch has none
  std::string id;

  // Everything but where the row stands.
  bool SameContent(const Row& other) const;
};

struct AllRows {
  absl::Status status;
  InputPlan plan;
  FeatureSchema schema;
  std::vector<Row> rows;
  std::vector<BadRecord> bad;
  uint64_t records = 0;  // good and bad
};

struct ReadOptions {
  bool shuffle = false;
  bool want_ids = false;
  uint64_t seed = 1, pass = 0, batch = 100;
  InputKind kind = InputKind::kTrain;
  Labels labels = Labels::kPresent;
};

// Appends the rows of a batch.
void AppendRows(const Batch& batch, std::vector<Row>* rows);
// Plans, opens and reads all splits in order of position. Checks that batches are consistent in themselves.
AllRows ReadAll(const Data& data, const ReadOptions& options = {});
// The same with the plan and schema already made.
void ReadPlanned(const Data& data, const ReadOptions& options, AllRows* all);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_TEST_UTIL_H_
