// Evaluation and prediction against numbers computed from the checkpoint's rows.
#include "local/inference.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/hash.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string id;
  int label;
  std::string a, b;
};

// Row r's label is likely that of a's parity; ids are not in order.
std::vector<Row> MakeRows(int count, int first) {
  std::vector<Row> rows;
  for (int r = first; r < first + count; ++r) {
    const uint64_t draw = Mix64(static_cast<uint64_t>(r));
    const int a = static_cast<int>(draw % 6);
    const int label = draw / 7 % 5 == 0 ? 1 - a % 2 : a % 2;
    rows.push_back({absl::StrCat("id-", draw % 100000), label, absl::StrCat("a", a), absl::StrCat("b", draw / 64 % 9)});
  }
  return rows;
}

void Write(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "id,y,a,b\n";
  for (const Row& row : rows) out << row.id << "," << row.label << "," << row.a << "," << row.b << "\n";
}

// A logistic regression of two slots, trained on 600 rows, and 2500 others to be judged, in several splits and batches.
// Among those are tokens that training never saw.
struct Trained {
  TempDir dir;
  std::vector<Row> eval;
  std::string checkpoint;
  float bias = 0;
  std::map<uint64_t, float> weights;

  Trained() {
    Write(dir.path() + "/train.csv", MakeRows(600, 0));
    eval = MakeRows(2500, 1000);
    for (size_t r = 0; r < eval.size(); r += 100) eval[r].b = absl::StrCat("new", r);
    Write(dir.path() + "/eval.csv", eval);
    const Job job = TestJob(
        "name: tiny\n"
        "data:\n"
        "  train: [train.csv]\n"
        "  eval: [eval.csv]\n"
        "  format: {csv: {header: true}}\n"
        "  columns: {label: {column: y}, sparse: [a, b], id: id}\n"
        "  split_bytes: 8192\n"
        "model: {preset: lr}\n"
        "optimizer: {sparse: {adagrad: 0.5}, dense: {adagrad: 0.5}}\n"
        "batch: {size: 50}\n"
        "partitions: 8\n"
        "sync: asp\n"
        "checkpoint: {dir: ckpt}\n",
        dir.path());
    auto cluster = LocalCluster::Start({});
    REQUIRE(cluster.ok());
    const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
    REQUIRE(status.ok());
    INFO(Describe(*status));
    REQUIRE(status->state() == SUCCEEDED);
    checkpoint = status->checkpoint();
    REQUIRE(VisitRows(checkpoint, [&](const CheckpointRow& row) {
              if (row.dense) {
                REQUIRE(row.weights.size() == 1);
                bias = row.weights[0];
              } else {
                weights[row.key] = row.weights[0];
              }
            }).ok());
    REQUIRE(weights.size() == 15);  // 6 tokens of a, 9 of b
  }

  double Predict(const Row& row) const {
    double logit = bias;
    for (const auto& [slot, token] : {std::pair{"a", row.a}, std::pair{"b", row.b}}) {
      const auto it = weights.find(FeatureKey(SlotSeed(slot), token));
      if (it != weights.end()) logit += it->second;
    }
    return 1 / (1 + std::exp(-logit));
  }
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::map<std::string, std::string> FilesOf(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(dir)) out[entry.path().filename()] = ReadFile(entry.path());
  return out;
}

TEST_CASE("Inference: evaluation gives the metrics of the checkpoint's weights", "[cluster]") {
  const Trained trained;
  const std::map<std::string, std::string> before = FilesOf(trained.checkpoint);
  InferenceOptions options;
  options.checkpoint = trained.checkpoint;
  options.overrides = {"evaluate.exact_auc=true"};
  const absl::StatusOr<InferenceResult> result = EvaluateCheckpoint(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(result->job == "tiny");
  CHECK(result->checkpoint == trained.checkpoint);
  CHECK(result->bad_records == 0);
  double loss = 0, pairs = 0, right = 0, correct = 0;
  std::vector<double> scores;
  for (const Row& row : trained.eval) {
    const double p = trained.Predict(row);
    loss -= std::log(row.label == 1 ? p : 1 - p);
    correct += (p >= 0.5) == (row.label == 1) ? 1 : 0;
    // As the model has them: equal sums of floats are equal scores.
    scores.push_back(std::round(p * 1e6));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (trained.eval[i].label != 1 || trained.eval[j].label != 0) continue;
      ++pairs;
      right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  const MetricValues values = Summarize(result->metrics);
  const double count = static_cast<double>(trained.eval.size());
  CHECK(values.examples == trained.eval.size());
  CHECK(values.logloss == Approx(loss / count).epsilon(1e-5));
  CHECK(values.accuracy == Approx(correct / count).epsilon(1e-12));
  CHECK(values.auc == Approx(right / pairs).margin(1e-5));
  CHECK(values.auc > 0.7);  // it has learnt something, so that the figures above say something
  // Nothing was created, counted or written, although tokens were new.
  CHECK(FilesOf(trained.checkpoint) == before);
  const absl::StatusOr<InferenceResult> again = EvaluateCheckpoint(options);
  REQUIRE(again.ok());
  CHECK(again->metrics.loss == result->metrics.loss);
}

TEST_CASE("Inference: predictions come in the order of the file, with its ids", "[cluster]") {
  const Trained trained;
  const std::string output = trained.dir.path() + "/predictions.tsv";
  InferenceOptions options;
  options.checkpoint = trained.dir.path() + "/ckpt";  // the newest of the directory
  const absl::StatusOr<InferenceResult> result = PredictCheckpoint(options, output);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(result->checkpoint == trained.checkpoint);
  const std::string text = ReadFile(output);
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == trained.eval.size());
  size_t wrong = 0;
  for (size_t r = 0; r < lines.size(); ++r) {
    const std::vector<std::string> fields = absl::StrSplit(lines[r], '\t');
    double p = -1;
    const bool good = fields.size() == 2 && fields[0] == trained.eval[r].id && absl::SimpleAtod(fields[1], &p) &&
                      std::abs(p - trained.Predict(trained.eval[r])) < 1e-6;
    if (!good && ++wrong == 1) UNSCOPED_INFO("line " << r << ": " << lines[r]);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(fs::exists(output + ".tmp"));
}

TEST_CASE("Inference: other data without the job's own, and what does not fit is an error", "[cluster]") {
  const Trained trained;
  const std::string other = trained.dir.path() + "/other.csv", output = trained.dir.path() + "/out.tsv";
  Write(other, {trained.eval[1], trained.eval[2]});
  InferenceOptions options;
  options.checkpoint = trained.checkpoint;
  options.data = {other};
  REQUIRE(PredictCheckpoint(options, output).ok());
  const std::string text = ReadFile(output);
  CHECK(text.substr(0, text.find('\t')) == trained.eval[1].id);
  // An error leaves an older file as it is.
  std::ofstream(other, std::ios::app) << "id-x,1,a1\n";
  CHECK(PredictCheckpoint(options, output).status().message().find("other.csv") != absl::string_view::npos);
  CHECK(ReadFile(output) == text);
  options.data = {trained.dir.path() + "/absent.csv"};
  CHECK(EvaluateCheckpoint(options).status().message().find("absent.csv") != absl::string_view::npos);
  options.data.clear();
  options.overrides = {"data.columns.sparse=[a]"};
  CHECK(EvaluateCheckpoint(options).status().message().find("slots [a] instead of [a, b]") != absl::string_view::npos);
  options.overrides.clear();
  options.checkpoint = trained.dir.path() + "/nothing";
  CHECK(EvaluateCheckpoint(options).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace shoal
