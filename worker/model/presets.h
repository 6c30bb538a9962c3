// Networks by name: each preset is a short function that writes the layers a user could have written.
#ifndef SHOAL_WORKER_MODEL_PRESETS_H_
#define SHOAL_WORKER_MODEL_PRESETS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace shoal {

// The loss that DEFAULT means for this kind of label, or the chosen one; an error when the labels don't fit it.
absl::StatusOr<Model::Loss> ResolveLoss(const Job& job, const FeatureSchema& schema);

// Outputs of the network: model.outputs, or the number of classes or labels in the data when that was left at 1.
absl::StatusOr<uint32_t> ResolveOutputs(const Job& job, const FeatureSchema& schema);

// The layers of model.preset, or model.layers themselves without a preset. An error when both or none are given, for
// the counting preset (which is no layer graph), and when the data lacks what the preset needs.
absl::StatusOr<std::vector<Layer>> ExpandPreset(const Job& job, const FeatureSchema& schema);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_PRESETS_H_
