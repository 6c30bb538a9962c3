#include "base/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shoal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Floats are far apart near 1 (the last below it, 1 - 2^-24, has logit 16.6) but not near 0: a score of 1e-14 is logit
// -32.
constexpr double kMinLogit = -32, kMaxLogit = 17;

// About where sorting the list costs what clearing and searching all bins does.
constexpr size_t kMaxFew = 4096;

int BinOf(float probability) {
  const double p = probability;
  if (!(p > 0)) return 0;
  if (!(p < 1)) return AucHistogram::kBins - 1;
  const double logit = std::log(p / (1 - p));
  const double bin = std::floor((logit - kMinLogit) * (AucHistogram::kBins / (kMaxLogit - kMinLogit)));
  return static_cast<int>(std::clamp(bin, 0.0, AucHistogram::kBins - 1.0));
}

// Adds up a ranking from the lowest score to the highest, a group of equal scores at a time.
class AucSum {
 public:
  void AddGroup(double negatives, double positives) {
    below_ += positives * (negatives_ + negatives / 2);
    negatives_ += negatives;
    positives_ += positives;
  }
  double Value() const { return positives_ == 0 || negatives_ == 0 ? kNan : below_ / positives_ / negatives_; }

 private:
  double below_ = 0;  // pairs in the right order
  double negatives_ = 0, positives_ = 0;
};

double Entropy(double rate) { return -rate * std::log(rate) - (1 - rate) * std::log1p(-rate); }

}  // namespace

void AucHistogram::Spread() {
  for (std::vector<uint64_t>& counts : counts_) counts.assign(kBins, 0);
  for (const Bin& bin : few_) {
    counts_[0][bin.bin] += bin.negatives;
    counts_[1][bin.bin] += bin.positives;
  }
  few_ = {};
}

void AucHistogram::Count(const Bin& bin) {
  negatives_ += bin.negatives;
  positives_ += bin.positives;
  if (counts_[0].empty()) {
    if (few_.size() < kMaxFew) {
      few_.push_back(bin);
      return;
    }
    Spread();
  }
  counts_[0][bin.bin] += bin.negatives;
  counts_[1][bin.bin] += bin.positives;
}

void AucHistogram::Add(float probability, bool positive) {
  if (std::isnan(probability)) {
    ++nan_count_;
    return;
  }
  Count({static_cast<uint32_t>(BinOf(probability)), positive ? 0u : 1u, positive ? 1u : 0u});
}

void AucHistogram::Merge(const AucHistogram& other) {
  nan_count_ += other.nan_count_;
  if (other.counts_[0].empty()) {
    for (size_t i = 0, size = other.few_.size(); i < size; ++i) Count(Bin(other.few_[i]));
    return;
  }
  if (counts_[0].empty()) Spread();
  for (int c = 0; c < 2; ++c) {
    for (int b = 0; b < kBins; ++b) counts_[c][b] += other.counts_[c][b];
  }
  positives_ += other.positives_;
  negatives_ += other.negatives_;
}

double AucHistogram::Auc() const {
  AucSum sum;
  for (const Bin& bin : NonEmptyBins()) {
    sum.AddGroup(static_cast<double>(bin.negatives), static_cast<double>(bin.positives));
  }
  return sum.Value();
}

std::vector<AucHistogram::Bin> AucHistogram::NonEmptyBins() const {
  std::vector<Bin> bins;
  for (size_t b = 0; b < counts_[0].size(); ++b) {
    if (counts_[0][b] + counts_[1][b] == 0) continue;
    bins.push_back({static_cast<uint32_t>(b), counts_[0][b], counts_[1][b]});
  }
  if (few_.empty()) return bins;
  std::vector<Bin> sorted = few_;
  std::sort(sorted.begin(), sorted.end(), [](const Bin& a, const Bin& b) { return a.bin < b.bin; });
  for (const Bin& bin : sorted) {
    if (bin.negatives + bin.positives == 0) continue;
    if (bins.empty() || bins.back().bin != bin.bin) {
      bins.push_back(bin);
      continue;
    }
    bins.back().negatives += bin.negatives;
    bins.back().positives += bin.positives;
  }
  return bins;
}

bool AucHistogram::AddBin(const Bin& bin) {
  if (bin.bin >= static_cast<uint32_t>(kBins)) return false;
  Count(bin);
  return true;
}

double ExactAuc(std::vector<std::pair<float, bool>> scored) {
  // NaN cannot be ranked (and would break the order that sort needs).
  scored.erase(std::remove_if(scored.begin(), scored.end(), [](const auto& s) { return std::isnan(s.first); }),
               scored.end());
  std::sort(scored.begin(), scored.end());
  AucSum sum;
  for (size_t i = 0; i < scored.size();) {
    uint64_t of_class[2] = {0, 0};
    const float score = scored[i].first;
    for (; i < scored.size() && scored[i].first == score; ++i) ++of_class[scored[i].second];
    sum.AddGroup(static_cast<double>(of_class[0]), static_cast<double>(of_class[1]));
  }
  return sum.Value();
}

void MetricSums::Merge(const MetricSums& other) {
  examples += other.examples;
  loss += other.loss;
  label += other.label;
  prediction += other.prediction;
  squared_error += other.squared_error;
  correct += other.correct;
  classified += other.classified;
  for (int k = 0; k < 3; ++k) precision_at[k] += other.precision_at[k];
  ranked += other.ranked;
  auc.Merge(other.auc);
  scored.insert(scored.end(), other.scored.begin(), other.scored.end());
}

MetricValues Summarize(const MetricSums& sums) {
  MetricValues values{sums.examples, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan};
  const double examples = static_cast<double>(sums.examples);
  const bool binary = sums.auc.positives() + sums.auc.negatives() + sums.auc.nan_count() > 0;
  const bool regression = sums.examples > 0 && !binary && sums.classified == 0 && sums.ranked == 0;
  if (sums.examples > 0 && !regression) values.logloss = sums.loss / examples;
  if (sums.classified > 0) values.accuracy = static_cast<double>(sums.correct) / static_cast<double>(sums.classified);
  if (binary) {
    values.auc = sums.scored.empty() ? sums.auc.Auc() : ExactAuc(sums.scored);
    const double rate = sums.label / examples;
    if (rate > 0 && rate < 1) values.ne = values.logloss / Entropy(rate);
  }
  if ((binary || regression) && sums.label != 0) values.calibration = sums.prediction / sums.label;
  if (regression) values.rmse = std::sqrt(sums.squared_error / examples);
  if (sums.ranked > 0) {
    const double ranked = static_cast<double>(sums.ranked);
    values.precision_at_1 = sums.precision_at[0] / ranked;
    values.precision_at_3 = sums.precision_at[1] / ranked;
    values.precision_at_5 = sums.precision_at[2] / ranked;
  }
  return values;
}

}  // namespace shoal
