#include "proto/wire/dense_layout.h"

#include <catch2/catch.hpp>

#include "base/hash.h"

namespace shoal {
namespace {

ModelSpec Spec(const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors) {
  ModelSpec spec;
  for (const auto& [name, shape] : tensors) {
    TensorSpec* const tensor = spec.add_tensors();
    tensor->set_name(name);
    for (uint64_t extent : shape) tensor->add_shape(extent);
  }
  return spec;
}

TEST_CASE("Dense layout: blocks cover every element once, whatever the shapes and partitions", "[wire][unit]") {
  const uint32_t partitions = GENERATE(1u, 7u, 256u);
  const ModelSpec spec =
      Spec({{"bias", {}}, {"small", {3, 5}}, {"tall", {100000, 3}}, {"wide", {2, 40000}}, {"flat", {50000}}});
  const absl::StatusOr<DenseLayout> layout = DenseLayout::Create(spec, partitions);
  REQUIRE(layout.ok());
  const std::vector<uint64_t> sizes = {1, 15, 300000, 80000, 50000};
  std::vector<std::vector<int>> covered;
  for (uint32_t t = 0; t < sizes.size(); ++t) {
    CHECK(layout->TensorSize(t) == sizes[t]);
    covered.emplace_back(sizes[t]);
  }
  uint64_t floats = 0;
  for (uint32_t p = 0; p < partitions; ++p) {
    uint64_t here = 0;
    for (const DenseBlock& block : layout->BlocksOf(p)) {
      CHECK(block.partition == p);
      CHECK(block.partition ==
            PartitionOfBlock(spec.tensors(static_cast<int>(block.tensor)).name(), block.index, partitions));
      CHECK(block.size <= DenseLayout::kBlockFloats);
      CHECK(block.size % block.row_size == 0);
      for (uint64_t i = 0; i < block.size; ++i) ++covered[block.tensor][block.offset + i];
      here += block.size;
    }
    CHECK(layout->FloatsOf(p) == here);
    floats += here;
  }
  CHECK(floats == 430016);
  for (const std::vector<int>& tensor : covered) {
    CHECK(std::count(tensor.begin(), tensor.end(), 1) == static_cast<int64_t>(tensor.size()));
  }
}

TEST_CASE("Dense layout: a block holds whole rows; a row longer than a block is cut at its own end", "[wire][unit]") {
  const absl::StatusOr<DenseLayout> layout = DenseLayout::Create(Spec({{"tall", {10000, 3}}, {"wide", {2, 40000}}}), 1);
  REQUIRE(layout.ok());
  std::vector<uint64_t> tall, wide;
  for (const DenseBlock& block : layout->blocks()) (block.tensor == 0 ? tall : wide).push_back(block.size);
  CHECK(tall == std::vector<uint64_t>{16383, 13617});  // 5461 and 4539 rows of 3
  CHECK(wide == std::vector<uint64_t>{16384, 16384, 7232, 16384, 16384, 7232});
}

TEST_CASE("Dense layout: sizes that overflow are refused before anything is allocated", "[wire][unit]") {
  const absl::Status huge = DenseLayout::Create(Spec({{"big", {uint64_t{1} << 33, uint64_t{1} << 33}}}), 8).status();
  CHECK(absl::IsInvalidArgument(huge));
  CHECK_THAT(std::string(huge.message()), Catch::Contains("tensor big") && Catch::Contains("2^40"));
  CHECK(absl::IsInvalidArgument(DenseLayout::Create(Spec({{"none", {4, 0}}}), 8).status()));
  CHECK(absl::IsInvalidArgument(DenseLayout::Create(Spec({{"w", {4}}}), 0).status()));
}

}  // namespace
}  // namespace shoal
