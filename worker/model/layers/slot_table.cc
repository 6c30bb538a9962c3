#include "worker/model/layers/slot_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Schema indices of the slots that a layer names; all of them when it names none.
absl::StatusOr<std::vector<uint32_t>> FindSlots(const Layer& layer,
                                                const google::protobuf::RepeatedPtrField<std::string>& names,
                                                const FeatureSchema& schema) {
  std::vector<uint32_t> slots;
  for (const std::string& name : names) {
    const auto it = std::find(schema.slots().begin(), schema.slots().end(), name);
    if (it == schema.slots().end()) return LayerError(layer, absl::StrCat("the data has no slot ", name));
    const uint32_t slot = static_cast<uint32_t>(it - schema.slots().begin());
    if (std::find(slots.begin(), slots.end(), slot) != slots.end()) {
      return LayerError(layer, absl::StrCat("slot ", name, " is listed twice"));
    }
    slots.push_back(slot);
  }
  if (slots.empty()) {
    for (int s = 0; s < schema.slots_size(); ++s) slots.push_back(s);
  }
  if (slots.empty()) return LayerError(layer, "it looks up slots, but the data has none");
  return slots;
}

}  // namespace

cpu::Bags SlotTable::BagsOf(const LayerIo& io, uint32_t slot) const {
  const SlotColumn& column = io.step->batch->slots[slot];
  cpu::Bags bags;
  bags.count = io.output.rows;
  bags.offsets = column.offsets.data() + io.first_row;
  bags.index = io.GroupOfTable(table).inverse[slot].data();
  bags.weights = column.weights.empty() ? nullptr : column.weights.data();
  bags.single = bags.weights == nullptr && cpu::AreSingle(bags.offsets, bags.count);
  if (bags.single) bags.index += bags.offsets[0];
  return bags;
}

std::vector<cpu::Bags> SlotTable::AllBagsOf(const LayerIo& io) const {
  std::vector<cpu::Bags> all;
  all.reserve(slots.size());
  for (uint32_t slot : slots) all.push_back(BagsOf(io, slot));
  return all;
}

absl::StatusOr<SlotTable> AddSlotTable(const LayerBuild& build,
                                       const google::protobuf::RepeatedPtrField<std::string>& slots,
                                       const std::string& name, uint32_t dim, float init) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 0));
  if (dim == 0) return LayerError(build.proto, "dim: 0, but must be at least 1");
  SlotTable out;
  out.dim = dim;
  SHOAL_ASSIGN_OR_RETURN(out.slots, FindSlots(build.proto, slots, build.spec->schema()));
  const std::string& table_name = name.empty() ? build.proto.name() : name;
  SHOAL_ASSIGN_OR_RETURN(out.table, build.spec->AddTable(build.proto.name(), table_name, dim, init, out.slots));
  return out;
}

}  // namespace shoal
