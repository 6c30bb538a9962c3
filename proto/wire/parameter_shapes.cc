#include "proto/wire/parameter_shapes.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/wire/dense_layout.h"

namespace shoal {

absl::StatusOr<ParameterShapes> ParameterShapes::Create(const ModelSpec& model, uint32_t partitions) {
  SHOAL_ASSIGN_OR_RETURN(const DenseLayout layout, DenseLayout::Create(model, partitions));
  ParameterShapes shapes;
  for (const TableSpec& table : model.tables()) shapes.dims.push_back(table.dim());
  for (uint32_t p = 0; p < partitions; ++p) shapes.dense_floats.push_back(layout.FloatsOf(p));
  return shapes;
}

absl::StatusOr<uint64_t> ParameterShapes::DenseFloatsOf(absl::Span<const uint32_t> partitions) const {
  uint64_t floats = 0;
  for (uint32_t p : partitions) {
    if (p >= dense_floats.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("partitions: ", p, ", the job has ", dense_floats.size(), " partitions"));
    }
    floats += dense_floats[p];
  }
  return floats;
}

absl::StatusOr<std::vector<uint64_t>> ParameterShapes::SizesOf(const PullRequest& request) const {
  std::vector<uint64_t> sizes;
  for (const PullGroup& group : request.groups) {
    for (uint32_t table : group.tables) {
      if (table >= dims.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("groups.tables: ", table, ", the job has ", dims.size(), " tables"));
      }
      sizes.push_back(uint64_t{dims[table]} * group.keys.size());
    }
  }
  uint64_t dense = 0;
  if (request.dense) {
    SHOAL_ASSIGN_OR_RETURN(dense, DenseFloatsOf(request.partitions));
  }
  sizes.push_back(dense);
  return sizes;
}

}  // namespace shoal
