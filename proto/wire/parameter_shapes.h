// How many floats the rows and dense blocks of a job have: the part of the model that a client must know, because the
// messages carry bare pointers.
#ifndef SHOAL_PROTO_WIRE_PARAMETER_SHAPES_H_
#define SHOAL_PROTO_WIRE_PARAMETER_SHAPES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"
#include "proto/wire/parameter_messages.h"

namespace shoal {

// A plain value.
struct ParameterShapes {
  std::vector<uint32_t> dims;          // by table
  std::vector<uint64_t> dense_floats;  // by partition

  static absl::StatusOr<ParameterShapes> Create(const ModelSpec& model, uint32_t partitions);

  // Floats of the dense blocks of `partitions`. INVALID_ARGUMENT when there is no such partition.
  absl::StatusOr<uint64_t> DenseFloatsOf(absl::Span<const uint32_t> partitions) const;
  // Floats that a pull brings: by group and table of the group, and last of the dense blocks (0 when not asked for).
  absl::StatusOr<std::vector<uint64_t>> SizesOf(const PullRequest& request) const;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_PARAMETER_SHAPES_H_
