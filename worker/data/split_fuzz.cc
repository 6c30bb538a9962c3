// Feeds bytes as an input file through plan, schema and readers. Built once per
// format, as <format>_fuzz, with SHOAL_FUZZ_FORMAT defined as an index of kFormats. Compressed bytes reach the
// decompressor in all of them. One split and many must give the same records and rows.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"
#include "worker/data/data_set.h"

namespace shoal {
namespace {

constexpr const char* kFormats[] = {
    "format { criteo {} }",
    R"(format { csv { quote: "\"" trim: true } } columns { label { column: "c0" } sparse { column: "c0" } })",
    "format { libsvm {} }",
    "format { xmc {} }",
    "format { idx {} }",
};

struct Counts {
  bool ok = false;
  uint64_t records = 0, rows = 0, keys = 0, key_sum = 0, bad_offsets = 0;
};

void Add(const Batch& batch, Counts* counts) {
  SHOAL_CHECK(batch.rows + batch.bad.size() == batch.end - batch.begin);
  counts->records += batch.end - batch.begin;
  counts->rows += batch.rows;
  for (const SlotColumn& slot : batch.slots) {
    SHOAL_CHECK(slot.offsets.size() == batch.rows + 1 && slot.offsets.back() == slot.keys.size());
    SHOAL_CHECK(slot.weights.empty() || slot.weights.size() == slot.keys.size());
    counts->keys += slot.keys.size();
    for (const uint64_t key : slot.keys) counts->key_sum += key;
  }
  SHOAL_CHECK(batch.dense.size() == size_t{batch.rows} * batch.dense_dim);
  for (const BadRecord& bad : batch.bad) counts->bad_offsets += bad.offset + 1;
}

Counts Read(const Data& data, bool shuffle) {
  Counts counts;
  const auto plan = PlanInputs(data, InputKind::kTrain);
  if (!plan.ok()) return counts;
  const auto schema = MakeSchema(data, *plan);
  if (!schema.ok()) return counts;
  DataSetOptions options;
  options.shuffle = shuffle;
  const auto set = DataSet::Open(data, *plan, *schema, options);
  SHOAL_CHECK(set.ok());
  for (int position = 0; position < plan->splits_size(); ++position) {
    auto reader = (*set)->OpenSplit(1, position, 0);
    SHOAL_CHECK(reader.ok());
    Batch batch;
    while (!batch.end_of_split) {
      SHOAL_CHECK((*reader)->Next(3, &batch).ok());
      Add(batch, &counts);
    }
  }
  SHOAL_CHECK(counts.records == plan->records());
  counts.ok = true;
  return counts;
}

// The file whose bytes change from run to run; removed when the process ends.
struct FuzzFile {
  FuzzFile() : path(absl::StrCat("/tmp/shoal_fuzz_", getpid(), "-images-idx3")) {}
  ~FuzzFile() { unlink(path.c_str()); }
  const std::string path;
};

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace shoal;  // NOLINT: a C entry point cannot stand in the namespace
  static FuzzFile file;
  std::ofstream(file.path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), size);
  // Labels for the idx reader: as many as the image file declares, as far as that is plausible.
  const std::string labels_path = file.path.substr(0, file.path.size() - 11) + "labels-idx1";
  if (size >= 8) {
    std::string labels("\0\0\x08\x01", 4);
    labels.append(reinterpret_cast<const char*>(bytes) + 4, 4);
    const uint32_t count = bytes[6] * 256u + bytes[7];
    labels.append(count, '\x03');
    std::ofstream(labels_path, std::ios::binary) << labels;
  }
  Data data;
  SHOAL_CHECK(google::protobuf::TextFormat::ParseFromString(kFormats[SHOAL_FUZZ_FORMAT], &data));
  data.add_train()->set_path(file.path);
  const Counts whole = Read(data, false);
  for (const uint64_t split_bytes : {1, 16, 100}) {
    data.set_split_bytes(split_bytes);
    const Counts cut = Read(data, split_bytes != 16);
    SHOAL_CHECK(cut.ok == whole.ok && cut.records == whole.records && cut.rows == whole.rows);
    SHOAL_CHECK(cut.keys == whole.keys && cut.key_sum == whole.key_sum && cut.bad_offsets == whole.bad_offsets);
  }
  unlink(labels_path.c_str());
  return 0;
}
