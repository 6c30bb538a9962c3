#include "base/metrics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "base/random.h"

namespace shoal {
namespace {

using Score = std::function<double(Random*, bool positive)>;

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

TEST_CASE("AUC: hand-computed values, ties count one half", "[unit]") {
  CHECK(ExactAuc({{0.1f, false}, {0.4f, false}, {0.35f, true}, {0.8f, true}}) == 0.75);
  CHECK(ExactAuc({{0.5f, false}, {0.5f, true}}) == 0.5);
  CHECK(ExactAuc({{0.2f, false}, {0.5f, false}, {0.5f, true}, {0.9f, true}}) == 0.875);
  CHECK(std::isnan(ExactAuc({{0.5f, true}})));
  CHECK(std::isnan(ExactAuc({})));
  CHECK(ExactAuc({{NAN, true}, {0.1f, false}, {0.9f, true}}) == 1.0);

  AucHistogram histogram;
  CHECK(std::isnan(histogram.Auc()));
  histogram.Add(0.1f, false);
  histogram.Add(0.4f, false);
  CHECK(std::isnan(histogram.Auc()));
  histogram.Add(0.35f, true);
  histogram.Add(0.8f, true);
  histogram.Add(NAN, true);
  CHECK(histogram.Auc() == 0.75);
  CHECK(histogram.positives() == 2);
  CHECK(histogram.negatives() == 2);
  CHECK(histogram.nan_count() == 1);
}

TEST_CASE("AUC: the ends of the range are counted", "[unit]") {
  AucHistogram histogram;
  for (float p : {0.0f, 1e-30f, 1.0f, -1.0f, 2.0f}) histogram.Add(p, p >= 1);
  CHECK(histogram.Auc() == 1.0);
  const std::vector<AucHistogram::Bin> bins = histogram.NonEmptyBins();
  REQUIRE(bins.size() == 2);
  CHECK(bins[0].bin == 0);
  CHECK(bins[0].negatives == 3);
  CHECK(bins[1].bin == AucHistogram::kBins - 1);
  CHECK(bins[1].positives == 2);
}

TEST_CASE("AUC: the histogram is within 1e-4 of the exact value at 0.1 % positives", "[unit]") {
  const std::vector<std::pair<const char*, Score>> distributions = {
      {"calibrated around the base rate",
       [](Random* r, bool positive) { return Sigmoid(-7 + r->Normal() + (positive ? 1.0 : 0)); }},
      {"all tiny", [](Random* r, bool positive) { return 1e-5 * Sigmoid(r->Normal() + (positive ? 0.7 : 0)); }},
      {"narrow: a model that knows little",
       [](Random* r, bool positive) { return 1e-3 * (1 + 0.05 * r->Normal() + (positive ? 0.02 : 0)); }},
      {"uniform", [](Random* r, bool positive) { return positive ? std::sqrt(r->Uniform()) : r->Uniform(); }},
      {"over-confident", [](Random* r, bool positive) { return Sigmoid(8 * r->Normal() + (positive ? 6 : -2)); }},
      {"a few distinct scores",
       [](Random* r, bool positive) { return 0.001 * (1.0 + r->Below(4) + (positive ? r->Below(2) : 0)); }},
  };
  for (const auto& [name, score] : distributions) {
    INFO(name);
    Random random({11});
    AucHistogram histogram;
    std::vector<std::pair<float, bool>> scored;
    for (int i = 0; i < 1000000; ++i) {
      const bool positive = i % 1000 == 0;
      const float p = static_cast<float>(score(&random, positive));
      histogram.Add(p, positive);
      scored.emplace_back(p, positive);
    }
    CHECK(histogram.positives() == 1000);
    CHECK(std::fabs(histogram.Auc() - ExactAuc(std::move(scored))) < 1e-4);
  }
}

TEST_CASE("AUC: merged parts and bins sent one by one equal the whole", "[unit]") {
  Random random({3});
  AucHistogram whole, parts[3], sent;
  for (int i = 0; i < 30000; ++i) {
    const bool positive = random.Below(10) == 0;
    const float p = static_cast<float>(Sigmoid(random.Normal() + positive));
    whole.Add(p, positive);
    parts[i % 3].Add(p, positive);
  }
  whole.AddNan(4);
  parts[2].AddNan(4);
  for (const AucHistogram::Bin& bin : whole.NonEmptyBins()) REQUIRE(sent.AddBin(bin));
  AucHistogram merged;
  for (const AucHistogram& part : parts) merged.Merge(part);
  CHECK(merged.Auc() == whole.Auc());
  CHECK(merged.positives() == whole.positives());
  CHECK(merged.negatives() == whole.negatives());
  CHECK(merged.nan_count() == 4);
  CHECK(sent.Auc() == whole.Auc());
  CHECK_FALSE(sent.AddBin({AucHistogram::kBins, 1, 1}));
  CHECK(sent.positives() == whole.positives());
}

TEST_CASE("Summarize: binary", "[unit]") {
  MetricSums sums;
  for (const auto& [p, y] :
       std::vector<std::pair<float, bool>>{{0.25f, false}, {0.75f, true}, {0.6f, false}, {0.5f, true}}) {
    ++sums.examples;
    sums.loss += y ? -std::log(p) : -std::log(1 - p);
    sums.label += y;
    sums.prediction += p;
    sums.correct += (p >= 0.5) == y;
    ++sums.classified;
    sums.auc.Add(p, y);
  }
  MetricSums doubled = sums;
  doubled.Merge(sums);
  CHECK(doubled.examples == 8);
  for (const MetricSums& each : {sums, doubled}) {
    const MetricValues values = Summarize(each);
    CHECK(values.auc == 0.75);
    CHECK(values.accuracy == 0.75);
    CHECK(values.calibration == Approx(2.1 / 2));
    CHECK(values.logloss == Approx(-(2 * std::log(0.75) + std::log(0.4) + std::log(0.5)) / 4));
    CHECK(values.ne == Approx(values.logloss / std::log(2)));
    CHECK(std::isnan(values.rmse));
    CHECK(std::isnan(values.precision_at_1));
  }
  sums.scored = {{0.1f, true}, {0.2f, false}};
  CHECK(Summarize(sums).auc == 0);
}

TEST_CASE("Summarize: what does not apply is NaN", "[unit]") {
  const MetricValues empty = Summarize(MetricSums());
  CHECK(empty.examples == 0);
  CHECK(std::isnan(empty.logloss));
  CHECK(std::isnan(empty.rmse));

  MetricSums one_class;
  one_class.examples = one_class.classified = 2;
  one_class.loss = 1;
  one_class.auc.Add(0.5f, false);
  one_class.auc.Add(0.5f, false);
  CHECK(std::isnan(Summarize(one_class).auc));
  CHECK(std::isnan(Summarize(one_class).ne));
  CHECK(std::isnan(Summarize(one_class).calibration));
  CHECK(Summarize(one_class).logloss == 0.5);

  MetricSums regression;
  regression.examples = 4;
  regression.squared_error = 9;
  regression.label = 8;
  regression.prediction = 6;
  CHECK(Summarize(regression).rmse == 1.5);
  CHECK(Summarize(regression).calibration == 0.75);
  CHECK(std::isnan(Summarize(regression).logloss));
  CHECK(std::isnan(Summarize(regression).accuracy));

  MetricSums ranking;
  ranking.examples = ranking.ranked = 4;
  ranking.precision_at[0] = 3;
  ranking.precision_at[1] = 2;
  ranking.precision_at[2] = 1;
  CHECK(Summarize(ranking).precision_at_1 == 0.75);
  CHECK(Summarize(ranking).precision_at_3 == 0.5);
  CHECK(Summarize(ranking).precision_at_5 == 0.25);
  CHECK(std::isnan(Summarize(ranking).auc));
  CHECK(std::isnan(Summarize(ranking).rmse));
}

}  // namespace
}  // namespace shoal
