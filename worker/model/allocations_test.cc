// Training allocates nothing that grows with the batch or the model once it has seen a batch of that size.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "worker/model/testing.h"

namespace {

// What oneDNN keeps for one call, an argument list, is a few hundred bytes.
constexpr size_t kLarge = 4096;
std::atomic<bool> counting{false};
std::atomic<uint64_t> large{0};

void* Allocate(size_t bytes) {
  if (counting && bytes >= kLarge) ++large;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace shoal {
namespace {

TEST_CASE("Training in the steady state makes no large allocation", "[unit]") {
  constexpr uint32_t kRows = 700;
  const FeatureSchema schema = MakeTestSchema(5, 7);
  for (Precision precision : {F32, BF16}) {
    for (Model::Preset preset : {Model::DEEPFM, Model::DCN, Model::DLRM, Model::FM}) {
      INFO(Model::Preset_Name(preset) << ", " << Precision_Name(precision));
      Job job;
      job.set_precision(precision);
      job.mutable_model()->set_preset(preset);
      job.mutable_model()->set_embedding_dim(17);
      for (uint32_t width : {40, 33}) job.mutable_model()->add_hidden(width);
      job.mutable_model()->add_bottom(20);
      job.mutable_model()->set_dropout(0.1f);
      auto graph = ModelGraph::Create(job, schema);
      REQUIRE(graph.status() == absl::OkStatus());
      BatchBuilder builder(schema);
      Random random({1});
      for (uint32_t r = 0; r < kRows; ++r) {
        std::vector<std::vector<uint64_t>> bags(5);
        for (std::vector<uint64_t>& bag : bags) bag.push_back(random.Below(300));
        builder.Add(static_cast<float>(random.Below(2)), bags, std::vector<float>(7, 0.5f));
      }
      const ModelGraph& model = **graph;
      const auto workspace = model.NewWorkspace();
      std::vector<KeyGroup> groups(model.groups().size());
      for (size_t g = 0; g < groups.size(); ++g) Router(model.groups()[g], 4).Route(*builder.batch(), &groups[g]);
      std::vector<std::vector<float>> memory;
      memory.reserve(2 * (model.spec().tables_size() + model.spec().tensors_size()));
      const auto room = [&](size_t floats) {
        memory.emplace_back(floats, 0.01f);
        return memory.back().data();
      };
      StepArgs args;
      args.batch = builder.batch();
      args.groups = groups;
      for (int t = 0; t < model.spec().tables_size(); ++t) {
        const size_t floats = groups[model.group_of_table()[t]].keys.size() * model.spec().tables(t).dim();
        args.rows.push_back(room(floats));
        args.row_gradients.push_back(room(floats));
      }
      for (const TensorSpec& tensor : model.spec().tensors()) {
        size_t floats = 1;
        for (uint64_t extent : tensor.shape()) floats *= extent;
        args.tensors.push_back(room(floats));
        args.tensor_gradients.push_back(room(floats));
      }
      for (int i = 0; i < 2; ++i) REQUIRE(model.Train(args, workspace.get()).ok());
      large = 0;
      counting = true;
      for (int i = 0; i < 5; ++i) REQUIRE(model.Train(args, workspace.get()).ok());
      counting = false;
      CHECK(large == 0);
    }
  }
}

}  // namespace
}  // namespace shoal
