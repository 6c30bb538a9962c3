#include "proto/metrics_convert.h"

#include "absl/strings/str_cat.h"

namespace shoal {

MetricSumsProto ToProto(const MetricSums& sums) {
  MetricSumsProto proto;
  proto.set_examples(sums.examples);
  proto.set_loss(sums.loss);
  proto.set_label(sums.label);
  proto.set_prediction(sums.prediction);
  proto.set_squared_error(sums.squared_error);
  proto.set_correct(sums.correct);
  proto.set_classified(sums.classified);
  for (double p : sums.precision_at) proto.add_precision_at(p);
  proto.set_ranked(sums.ranked);
  for (const AucHistogram::Bin& bin : sums.auc.NonEmptyBins()) {
    proto.add_auc_bin(bin.bin);
    proto.add_auc_negatives(bin.negatives);
    proto.add_auc_positives(bin.positives);
  }
  proto.set_auc_nan(sums.auc.nan_count());
  for (const auto& [score, positive] : sums.scored) {
    proto.add_scores(score);
    proto.add_positives(positive);
  }
  return proto;
}

absl::StatusOr<MetricSums> FromProto(const MetricSumsProto& proto) {
  MetricSums sums;
  sums.examples = proto.examples();
  sums.loss = proto.loss();
  sums.label = proto.label();
  sums.prediction = proto.prediction();
  sums.squared_error = proto.squared_error();
  sums.correct = proto.correct();
  sums.classified = proto.classified();
  if (proto.precision_at_size() != 0 && proto.precision_at_size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("precision_at: ", proto.precision_at_size(), " values, must be 3"));
  }
  for (int i = 0; i < proto.precision_at_size(); ++i) sums.precision_at[i] = proto.precision_at(i);
  sums.ranked = proto.ranked();
  const int bins = proto.auc_bin_size();
  if (proto.auc_negatives_size() != bins || proto.auc_positives_size() != bins) {
    return absl::InvalidArgumentError(absl::StrCat("auc_bin: ", bins, " bins but ", proto.auc_negatives_size(), " and ",
                                                   proto.auc_positives_size(), " counts"));
  }
  for (int i = 0; i < bins; ++i) {
    if (!sums.auc.AddBin({proto.auc_bin(i), proto.auc_negatives(i), proto.auc_positives(i)})) {
      return absl::InvalidArgumentError(
          absl::StrCat("auc_bin: ", proto.auc_bin(i), ", must be below ", AucHistogram::kBins));
    }
  }
  sums.auc.AddNan(proto.auc_nan());
  if (proto.scores_size() != proto.positives_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("scores: ", proto.scores_size(), " but ", proto.positives_size(), " labels"));
  }
  for (int i = 0; i < proto.scores_size(); ++i) sums.scored.emplace_back(proto.scores(i), proto.positives(i));
  return sums;
}

}  // namespace shoal
