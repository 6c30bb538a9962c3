// Embedding: pooled rows of a sparse table, one group of `dim` columns per slot, or their sum over the slots.
#include <algorithm>

#include "base/status_macros.h"
#include "kernels/cpu/pooling.h"
#include "worker/model/layers/slot_table.h"

namespace shoal {
namespace {

class Embedding : public GraphLayer {
 public:
  Embedding(size_t width, SlotTable table, bool mean, bool sum_slots)
      : GraphLayer(width), table_(std::move(table)), mean_(mean), sum_slots_(sum_slots) {}

  void Forward(const LayerIo& io) const override {
    std::fill_n(io.output.data, io.output.size(), 0.0f);
    for (size_t i = 0; i < table_.slots.size(); ++i) {
      cpu::PoolBags(BagsOf(io, table_.slots[i]), io.step->rows[table_.table], table_.dim, width(),
                    io.output.data + Column(i));
    }
  }

  void Backward(const LayerIo& io) const override {
    for (size_t i = 0; i < table_.slots.size(); ++i) {
      cpu::PoolBagsGradient(BagsOf(io, table_.slots[i]), io.output_gradient.data + Column(i), table_.dim, width(),
                            io.step->row_gradients[table_.table]);
    }
  }

 private:
  size_t Column(size_t i) const { return sum_slots_ ? 0 : i * table_.dim; }

  cpu::Bags BagsOf(const LayerIo& io, uint32_t slot) const {
    cpu::Bags bags = table_.BagsOf(io, slot);
    bags.mean = mean_;
    return bags;
  }

  const SlotTable table_;
  const bool mean_;
  const bool sum_slots_;
};

}  // namespace

LayerOr MakeEmbedding(const LayerBuild& build) {
  const EmbeddingLayer& config = build.proto.embedding();
  SHOAL_ASSIGN_OR_RETURN(SlotTable table,
                         AddSlotTable(build, config.slots(), config.table(), config.dim(), config.init()));
  const size_t width = config.sum_slots() ? table.dim : table.dim * table.slots.size();
  return std::make_unique<Embedding>(width, std::move(table), config.pooling() == EmbeddingLayer::MEAN,
                                     config.sum_slots());
}

}  // namespace shoal
