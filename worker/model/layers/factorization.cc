// Factorization: rows of a sparse table and the dot products of all their pairs, one number per example. Never writes
// the rows out: an example may have any number of keys in any slot.
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/pooling.h"
#include "worker/model/layers/slot_table.h"

namespace shoal {
namespace {

// Scratch: the sums of the rows' values and of their squares, both [batch, dim].
class Factorization : public GraphLayer {
 public:
  explicit Factorization(SlotTable table) : GraphLayer(1, 2 * table.dim), table_(std::move(table)) {}

  void Forward(const LayerIo& io) const override {
    const size_t rows = io.output.rows;
    const std::vector<cpu::Bags> slots = table_.AllBagsOf(io);
    float* const squares = io.scratch + rows * table_.dim;
    cpu::FactorizeBags(slots.data(), slots.size(), io.step->rows[table_.table], table_.dim, io.scratch, squares);
    for (size_t r = 0; r < rows; ++r) {
      const float* const sum = io.scratch + r * table_.dim;
      const float* const square = squares + r * table_.dim;
      float twice = 0;
      for (size_t d = 0; d < table_.dim; ++d) twice += sum[d] * sum[d] - square[d];
      io.output.data[r] = 0.5f * twice;
    }
  }

  void Backward(const LayerIo& io) const override {
    const std::vector<cpu::Bags> slots = table_.AllBagsOf(io);
    cpu::FactorizeBagsGradient(slots.data(), slots.size(), io.step->rows[table_.table], table_.dim, io.scratch,
                               io.output_gradient.data, io.step->row_gradients[table_.table]);
  }

 private:
  const SlotTable table_;
};

}  // namespace

LayerOr MakeFactorization(const LayerBuild& build) {
  const FactorizationLayer& config = build.proto.factorization();
  SHOAL_ASSIGN_OR_RETURN(SlotTable table,
                         AddSlotTable(build, config.slots(), config.table(), config.dim(), config.init()));
  return std::make_unique<Factorization>(std::move(table));
}

}  // namespace shoal
