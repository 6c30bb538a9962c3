// MetricSums to and from its wire form.
#ifndef SHOAL_PROTO_METRICS_CONVERT_H_
#define SHOAL_PROTO_METRICS_CONVERT_H_

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "proto/metrics.pb.h"

namespace shoal {

MetricSumsProto ToProto(const MetricSums& sums);
// INVALID_ARGUMENT for arrays of unequal length or bins out of range.
absl::StatusOr<MetricSums> FromProto(const MetricSumsProto& proto);

}  // namespace shoal

#endif  // SHOAL_PROTO_METRICS_CONVERT_H_
