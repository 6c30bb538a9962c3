// Embedding: pooled rows of a sparse table, one group of `dim` columns per slot, or their sum over the slots.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/pooling.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class Embedding : public GraphLayer {
 public:
  Embedding(size_t width, size_t table, size_t dim, bool mean, bool sum_slots, std::vector<uint32_t> slots)
      : GraphLayer(width), table_(table), dim_(dim), mean_(mean), sum_slots_(sum_slots), slots_(std::move(slots)) {}

  void Forward(const LayerIo& io) const override {
    std::fill_n(io.output.data, io.output.size(), 0.0f);
    for (size_t i = 0; i < slots_.size(); ++i) {
      cpu::PoolBags(BagsOf(io, slots_[i]), io.step->rows[table_], dim_, width(), io.output.data + Column(i));
    }
  }

  void Backward(const LayerIo& io) const override {
    for (size_t i = 0; i < slots_.size(); ++i) {
      cpu::PoolBagsGradient(BagsOf(io, slots_[i]), io.output_gradient.data + Column(i), dim_, width(),
                            io.step->row_gradients[table_]);
    }
  }

 private:
  size_t Column(size_t i) const { return sum_slots_ ? 0 : i * dim_; }

  cpu::Bags BagsOf(const LayerIo& io, uint32_t slot) const {
    const SlotColumn& column = io.step->batch->slots[slot];
    cpu::Bags bags;
    bags.count = io.output.rows;
    bags.offsets = column.offsets.data();
    bags.index = io.GroupOfTable(table_).inverse[slot].data();
    bags.weights = column.weights.empty() ? nullptr : column.weights.data();
    bags.mean = mean_;
    return bags;
  }

  const size_t table_;
  const size_t dim_;
  const bool mean_;
  const bool sum_slots_;
  const std::vector<uint32_t> slots_;
};

}  // namespace

LayerOr MakeEmbedding(const LayerBuild& build) {
  const EmbeddingLayer& config = build.proto.embedding();
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 0));
  if (config.dim() == 0) return LayerError(build.proto, "dim: 0, but must be at least 1");
  SHOAL_ASSIGN_OR_RETURN(std::vector<uint32_t> slots, FindSlots(build.proto, config.slots(), build.spec->schema()));
  const std::string& table_name = config.table().empty() ? build.proto.name() : config.table();
  SHOAL_ASSIGN_OR_RETURN(const size_t table,
                         build.spec->AddTable(build.proto.name(), table_name, config.dim(), config.init(), slots));
  const size_t width = config.sum_slots() ? config.dim() : size_t{config.dim()} * slots.size();
  return std::make_unique<Embedding>(width, table, config.dim(), config.pooling() == EmbeddingLayer::MEAN,
                                     config.sum_slots(), std::move(slots));
}

}  // namespace shoal
