// Metrics that are merged, never averaged: every quantity is a sum over examples, so the result does not depend on who
// measured which example.
#ifndef SHOAL_BASE_METRICS_H_
#define SHOAL_BASE_METRICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// Area under the ROC curve from counts in fixed bins, mergeable. Bins are even in logit space, so that rare positives
// (scores crowded near 0) are still told apart. A few observations are kept as a list, so that the many histograms of a
// split or less each do not cost the megabyte of all bins. Not thread-safe.
class AucHistogram {
 public:
  static constexpr int kBins = 1 << 16;

  // `probability` in [0, 1]; NaN is counted in nan_count() only.
  void Add(float probability, bool positive);
  void Merge(const AucHistogram& other);
  // Ties inside a bin count one half. NaN when there is only one class.
  double Auc() const;
  uint64_t positives() const { return positives_; }
  uint64_t negatives() const { return negatives_; }
  uint64_t nan_count() const { return nan_count_; }

  // Sparse form for the wire: (bin, negatives, positives) of the bins that are not empty, ascending.
  struct Bin {
    uint32_t bin;
    uint64_t negatives;
    uint64_t positives;
  };
  std::vector<Bin> NonEmptyBins() const;
  // False, unchanged, when the bin is out of range.
  bool AddBin(const Bin& bin);
  void AddNan(uint64_t count) { nan_count_ += count; }

 private:
  void Count(const Bin& bin);
  void Spread();  // from the list to all bins

  std::vector<Bin> few_;             // in no order, bins may repeat; empty once counts_ is in use
  std::vector<uint64_t> counts_[2];  // [class][bin]; empty while there are few observations
  uint64_t positives_ = 0, negatives_ = 0, nan_count_ = 0;
};

// Exact AUC of (probability, positive) pairs: ties count one half; NaN for one class. O(n log n).
double ExactAuc(std::vector<std::pair<float, bool>> scored);

// Sums from which every reported metric follows. Not thread-safe.
struct MetricSums {
  uint64_t examples = 0;
  double loss = 0;                             // sum of the model's loss
  double label = 0;                            // binary, regression: sum of labels
  double prediction = 0;                       // binary, regression: sum of predictions
  double squared_error = 0;                    // regression
  uint64_t correct = 0;                        // binary: prediction >= .5 equals label; class: arg max equals label
  uint64_t classified = 0;                     // examples that `correct` is about
  double precision_at[3] = {0, 0, 0};          // multi-label: sums of precision at 1, 3, 5
  uint64_t ranked = 0;                         // examples that precision_at is about
  AucHistogram auc;                            // binary only
  std::vector<std::pair<float, bool>> scored;  // binary, only when exact AUC was asked for

  void Merge(const MetricSums& other);
};

// What is shown. NaN marks a metric that does not apply or is undefined.
struct MetricValues {
  uint64_t examples;
  double logloss, auc, accuracy, ne, calibration, rmse;
  double precision_at_1, precision_at_3, precision_at_5;
};
// ne: log loss / entropy of the base rate; calibration: sum of predictions / sum of labels.
MetricValues Summarize(const MetricSums& sums);

}  // namespace shoal

#endif  // SHOAL_BASE_METRICS_H_
