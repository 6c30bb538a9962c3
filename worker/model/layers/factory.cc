// The list of layers, and what their factories share.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {

size_t SpecBuilder::AddTensor(const std::string& name, std::vector<uint64_t> shape, TensorSpec::Init init) {
  TensorSpec* tensor = spec_.add_tensors();
  tensor->set_name(name);
  for (uint64_t extent : shape) tensor->add_shape(extent);
  tensor->set_init(init);
  return spec_.tensors_size() - 1;
}

absl::StatusOr<size_t> SpecBuilder::AddTable(const std::string& layer, const std::string& name, uint32_t dim,
                                             float init_stddev, const std::vector<uint32_t>& slots) {
  for (int t = 0; t < spec_.tables_size(); ++t) {
    const TableSpec& table = spec_.tables(t);
    if (table.name() != name) continue;
    if (table.dim() != dim || table.init_stddev() != init_stddev) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer, ": its rows of table ", name, " have dim ", dim,
                                                     " and init ", init_stddev, ", but those of layer ",
                                                     first_layer_of_table_[t], " have dim ", table.dim(), " and init ",
                                                     table.init_stddev()));
    }
    std::vector<uint32_t>& all = slots_of_table_[t];
    all.insert(all.end(), slots.begin(), slots.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return t;
  }
  TableSpec* table = spec_.add_tables();
  table->set_name(name);
  table->set_dim(dim);
  table->set_init_stddev(init_stddev);
  slots_of_table_.push_back(slots);
  std::sort(slots_of_table_.back().begin(), slots_of_table_.back().end());
  first_layer_of_table_.push_back(layer);
  return spec_.tables_size() - 1;
}

absl::Status LayerError(const Layer& layer, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("layer ", layer.name(), ": ", what));
}

std::string ShapeText(size_t width) { return absl::StrCat("[batch, ", width, "]"); }

absl::Status CheckInputCount(const LayerBuild& build, size_t count) {
  if (build.input_widths.size() == count) return absl::OkStatus();
  return LayerError(build.proto, absl::StrCat("needs ", count, count == 1 ? " input" : " inputs", ", but has ",
                                              build.input_widths.size()));
}

LayerOr MakeLayer(const LayerBuild& build) {
  switch (build.proto.kind_case()) {
    case Layer::kEmbedding:
      return MakeEmbedding(build);
    case Layer::kFactorization:
      return MakeFactorization(build);
    case Layer::kLinear:
      return MakeLinear(build);
    case Layer::kActivation:
      return MakeActivation(build);
    case Layer::kFm:
      return MakeFm(build);
    case Layer::kDotInteraction:
      return MakeDotInteraction(build);
    case Layer::kCross:
      return MakeCross(build);
    case Layer::kConcat:
      return MakeConcat(build);
    case Layer::kSum:
      return MakeSum(build);
    case Layer::kDropout:
      return MakeDropout(build);
    case Layer::kLayerNorm:
      return MakeLayerNorm(build);
    case Layer::KIND_NOT_SET:
      break;
  }
  return LayerError(build.proto,
                    "has no kind; one of embedding, linear, activation, fm, dot_interaction, cross, "
                    "concat, sum, dropout, layer_norm, factorization is needed");
}

}  // namespace shoal
