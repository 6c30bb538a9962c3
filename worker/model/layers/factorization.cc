// Factorization: rows of a sparse table and the dot products of all their pairs, one number per example. Never writes
// the rows out: an example may have any number of keys in any slot.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/pooling.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

// Scratch: the sums of the rows' values and of their squares, both [batch, dim].
class Factorization : public GraphLayer {
 public:
  Factorization(size_t table, size_t dim, std::vector<uint32_t> slots)
      : GraphLayer(1, 2 * dim), table_(table), dim_(dim), slots_(std::move(slots)) {}

  void Forward(const LayerIo& io) const override {
    const size_t rows = io.output.rows;
    std::fill_n(io.scratch, 2 * rows * dim_, 0.0f);
    float* const squares = io.scratch + rows * dim_;
    for (uint32_t slot : slots_) cpu::FactorizeBags(BagsOf(io, slot), io.step->rows[table_], dim_, io.scratch, squares);
    for (size_t r = 0; r < rows; ++r) {
      const float* const sum = io.scratch + r * dim_;
      const float* const square = squares + r * dim_;
      float twice = 0;
      for (size_t d = 0; d < dim_; ++d) twice += sum[d] * sum[d] - square[d];
      io.output.data[r] = 0.5f * twice;
    }
  }

  void Backward(const LayerIo& io) const override {
    for (uint32_t slot : slots_) {
      cpu::FactorizeBagsGradient(BagsOf(io, slot), io.step->rows[table_], dim_, io.scratch, io.output_gradient.data,
                                 io.step->row_gradients[table_]);
    }
  }

 private:
  cpu::Bags BagsOf(const LayerIo& io, uint32_t slot) const {
    const SlotColumn& column = io.step->batch->slots[slot];
    cpu::Bags bags;
    bags.count = io.output.rows;
    bags.offsets = column.offsets.data();
    bags.index = io.GroupOfTable(table_).inverse[slot].data();
    bags.weights = column.weights.empty() ? nullptr : column.weights.data();
    return bags;
  }

  const size_t table_;
  const size_t dim_;
  const std::vector<uint32_t> slots_;
};

}  // namespace

LayerOr MakeFactorization(const LayerBuild& build) {
  const FactorizationLayer& config = build.proto.factorization();
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 0));
  if (config.dim() == 0) return LayerError(build.proto, "dim: 0, but must be at least 1");
  SHOAL_ASSIGN_OR_RETURN(std::vector<uint32_t> slots, FindSlots(build.proto, config.slots(), build.spec->schema()));
  const std::string& table_name = config.table().empty() ? build.proto.name() : config.table();
  SHOAL_ASSIGN_OR_RETURN(const size_t table,
                         build.spec->AddTable(build.proto.name(), table_name, config.dim(), config.init(), slots));
  return std::make_unique<Factorization>(table, config.dim(), std::move(slots));
}

}  // namespace shoal
