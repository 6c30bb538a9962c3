// Fuzzes what a partition does with an image from another server: a full one or a delta, whose checksums are recomputed
// so that the fuzzer reaches what lies behind them.
#include <cstddef>
#include <cstdint>

#include "server/store/partition.h"

namespace shoal {
namespace {

std::shared_ptr<const JobSchema> MakeSchema() {
  JobConfig config;
  config.mutable_job()->set_partitions(1);
  config.mutable_job()->mutable_ttl()->set_examples(100);
  config.mutable_job()->mutable_admission()->set_min_count(3);
  ModelSpec* model = config.mutable_plan()->mutable_model();
  TableSpec* table = model->add_tables();
  table->set_name("t");
  table->set_dim(2);
  TensorSpec* tensor = model->add_tensors();
  tensor->set_name("w");
  tensor->add_shape(3);
  for (const char* slot : {"a", "b"}) config.mutable_plan()->mutable_schema()->add_slots(slot);
  return JobSchema::Create(config).value();
}

void Run(absl::string_view bytes) {
  static const std::shared_ptr<const JobSchema> schema = MakeSchema();
  StoreStats stats(schema->tables.size(), schema->slot_count());
  std::vector<std::unique_ptr<SlabPool>> pools;
  pools.push_back(std::make_unique<SlabPool>(SparseTable::SlabBytes(*schema, 0)));
  Partition partition(*schema, 0, pools, &stats);
  // What the section says last is what its head says: counts of rows, counted and erased keys, one byte each.
  PartEntry entry;
  uint64_t* const counts[] = {&entry.rows, &entry.counted, &entry.erased};
  for (uint64_t* count : counts) {
    if (bytes.empty()) return;
    *count = static_cast<uint8_t>(bytes.back());
    bytes.remove_suffix(1);
  }
  uint64_t rounds;
  partition.Close();
  for (bool delta : {false, true}) {
    entry.delta = delta;
    std::string image(kImageHeadBytes, '\0');
    image.append(bytes.data(), bytes.size());
    SealImage(entry, schema->shape, &image);
    (void)partition.Apply(image, &rounds);
  }
  (void)partition.Apply(bytes, &rounds);
  // What came of it can be read and saved.
  std::vector<DigestSum> sums(2);
  partition.AddDigests(absl::MakeSpan(sums));
  (void)partition.TakeFull(0, nullptr);
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shoal::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
