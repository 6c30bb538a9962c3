// What layers that look up rows of a sparse table have in common.
#ifndef SHOAL_WORKER_MODEL_LAYERS_SLOT_TABLE_H_
#define SHOAL_WORKER_MODEL_LAYERS_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/cpu/pooling.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {

// A sparse table and the slots whose keys a layer looks up in it. Immutable.
struct SlotTable {
  size_t table = 0;
  size_t dim = 0;
  std::vector<uint32_t> slots;

  // The keys of one slot, by example.
  cpu::Bags BagsOf(const LayerIo& io, uint32_t slot) const;
  // Of all its slots.
  std::vector<cpu::Bags> AllBagsOf(const LayerIo& io) const;
};

// Adds a table (named as the layer when `name` is empty) for the slots that are named, all when none is. Errors name
// the layer: it has inputs, dim is 0, there is no such slot, a slot is named twice.
absl::StatusOr<SlotTable> AddSlotTable(const LayerBuild& build,
                                       const google::protobuf::RepeatedPtrField<std::string>& slots,
                                       const std::string& name, uint32_t dim, float init);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_LAYERS_SLOT_TABLE_H_
