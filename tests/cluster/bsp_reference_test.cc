// bsp against a plain loop: the same examples, the four logical lanes' batches summed, one sgd step a round, with
// nothing of shoal's in between but the reader and the model.
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/testing/test_jobs.h"
#include "worker/data/data_set.h"
#include "worker/model/model.h"
#include "worker/routing/router.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr uint64_t kLanes = 4;
constexpr uint64_t kMinRounds = 200;
constexpr double kLearningRate = 0.05;
constexpr double kTolerance = 1e-5;  // of the norm of the tensor or table

using Row = std::vector<double>;

// Rows by table and key, tensors by name.
struct Parameters {
  std::map<std::string, std::map<uint64_t, Row>> tables;
  std::map<std::string, Row> tensors;
};

// 12,700 rows make 50 splits, the last of them short; they are dealt unevenly to the lanes, so that two lanes end
// before the others.
Job ReferenceJob(const std::string& dir, double learning_rate) {
  return TestJob(absl::StrCat("name: reference\n"
                              "data: {format: {synthetic: {rows: 12700, categories: 5, integers: 3, "
                              "ids_per_category: 40}}, passes: 2, shuffle: 100}\n"
                              "model: {preset: deepfm, embedding_dim: 4, hidden: [8]}\n"
                              "optimizer: {sparse: {sgd: ",
                              learning_rate, "}, dense: {sgd: ", learning_rate,
                              "}}\n"
                              "batch: {size: 32, reduce: mean}\n"
                              "partitions: 16\n"
                              "checkpoint: {dir: ckpt}\n"
                              "sync: {bsp: 4}\n"),
                 dir);
}

// What the job's final checkpoint holds after a run on 2 servers and 2 workers x 2 threads.
Parameters Train(const Job& job) {
  LocalClusterOptions options;
  options.servers = 2;
  options.workers = 2;
  options.threads = 2;
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  REQUIRE(status.ok());
  INFO(Describe(*status));
  REQUIRE(status->state() == SUCCEEDED);
  REQUIRE(status->rounds() >= kMinRounds);
  Parameters parameters;
  std::string dir;
  REQUIRE(ReadManifest(job.checkpoint().dir(), &dir).ok());
  const absl::Status visited = VisitRows(dir, [&](const CheckpointRow& row) {
    if (!row.dense) {
      parameters.tables[std::string(row.table)][row.key] = Row(row.weights.begin(), row.weights.end());
      return;
    }
    Row& tensor = parameters.tensors[std::string(row.table)];
    if (tensor.size() < row.offset + row.weights.size()) tensor.resize(row.offset + row.weights.size());
    std::copy(row.weights.begin(), row.weights.end(), tensor.begin() + static_cast<int64_t>(row.offset));
  });
  REQUIRE(visited.ok());
  return parameters;
}

// The batches of one logical lane: positions l, l + 4, l + 8 ... of each pass, pass after pass.
class LogicalLane {
 public:
  LogicalLane(DataSet* data, uint64_t lane, uint64_t splits, uint64_t passes)
      : data_(*data), lane_(lane), splits_(splits), passes_(passes), position_(lane) {}
  // False when there is none left.
  absl::StatusOr<bool> Next(uint64_t size, Batch* batch) {
    if (reader_ == nullptr) {
      if (position_ >= splits_) {
        position_ = lane_;
        ++pass_;
      }
      if (pass_ >= passes_) return false;
      SHOAL_ASSIGN_OR_RETURN(reader_, data_.OpenSplit(pass_, position_, 0));
      position_ += kLanes;
    }
    SHOAL_RETURN_IF_ERROR(reader_->Next(size, batch));
    if (batch->end_of_split) reader_ = nullptr;
    return true;
  }

 private:
  DataSet& data_;
  const uint64_t lane_, splits_, passes_;
  uint64_t pass_ = 0, position_;
  std::unique_ptr<SplitReader> reader_;
};

// The plain loop. Single-threaded; everything in maps and double arrays.
class Loop {
 public:
  Loop(const ModelGraph& model, Parameters* parameters)
      : model_(model), parameters_(*parameters), workspace_(model.NewWorkspace()) {
    for (const auto& slots : model.groups()) routers_.emplace_back(slots, 1);
  }

  // Adds the gradients of one batch to the round's.
  void Add(const Batch& batch) {
    std::vector<KeyGroup> groups(routers_.size());
    for (size_t g = 0; g < groups.size(); ++g) routers_[g].Route(batch, &groups[g]);
    StepArgs args;
    args.batch = &batch;
    args.groups = groups;
    std::vector<std::vector<float>> memory;  // of rows, tensors and their gradients
    memory.reserve(2 * (model_.spec().tables().size() + model_.spec().tensors().size()));
    for (int t = 0; t < model_.spec().tables_size(); ++t) {
      const auto& table = parameters_.tables.at(model_.spec().tables(t).name());
      std::vector<float>& rows = memory.emplace_back();
      for (uint64_t key : groups[model_.group_of_table()[t]].keys) {
        for (double value : table.at(key)) rows.push_back(static_cast<float>(value));
      }
      args.rows.push_back(rows.data());
      args.row_gradients.push_back(memory.emplace_back(rows.size()).data());
    }
    for (const TensorSpec& spec : model_.spec().tensors()) {
      const Row& tensor = parameters_.tensors.at(spec.name());
      args.tensors.push_back(memory.emplace_back(tensor.begin(), tensor.end()).data());
      args.tensor_gradients.push_back(memory.emplace_back(tensor.size()).data());
    }
    REQUIRE(model_.Train(args, workspace_.get()).ok());
    examples_ += batch.rows;
    for (int t = 0; t < model_.spec().tables_size(); ++t) {
      auto& table = gradients_.tables[model_.spec().tables(t).name()];
      const size_t dim = model_.spec().tables(t).dim();
      const float* from = args.row_gradients[t];
      for (uint64_t key : groups[model_.group_of_table()[t]].keys) from = Accumulate(from, dim, &table[key]);
    }
    for (int t = 0; t < model_.spec().tensors_size(); ++t) {
      const std::string& name = model_.spec().tensors(t).name();
      Accumulate(args.tensor_gradients[t], parameters_.tensors.at(name).size(), &gradients_.tensors[name]);
    }
  }

  // One step of sgd with the mean over the round's examples.
  void EndRound() {
    const double step = kLearningRate / static_cast<double>(examples_);
    for (const auto& [name, rows] : gradients_.tables) {
      for (const auto& [key, gradient] : rows) Step(step, gradient, &parameters_.tables[name][key]);
    }
    for (const auto& [name, gradient] : gradients_.tensors) Step(step, gradient, &parameters_.tensors[name]);
    gradients_ = {};
    examples_ = 0;
  }

 private:
  static const float* Accumulate(const float* from, size_t size, Row* to) {
    to->resize(size);
    for (double& value : *to) value += static_cast<double>(*from++);
    return from;
  }
  static void Step(double step, const Row& gradient, Row* row) {
    for (size_t i = 0; i < gradient.size(); ++i) (*row)[i] -= step * gradient[i];
  }

  const ModelGraph& model_;
  Parameters& parameters_;
  std::unique_ptr<ModelWorkspace> workspace_;
  std::vector<Router> routers_;
  Parameters gradients_;
  uint64_t examples_ = 0;
};

// Trains `parameters` with the plain loop; returns the number of rounds.
uint64_t TrainPlainly(const Job& job, Parameters* parameters) {
  absl::StatusOr<JobPlan> plan = PlanJob(job);
  REQUIRE(plan.ok());
  absl::StatusOr<std::unique_ptr<ModelGraph>> model = ModelGraph::Create(job, plan->schema());
  REQUIRE(model.ok());
  DataSetOptions options;
  options.seed = job.seed();
  absl::StatusOr<std::unique_ptr<DataSet>> data = DataSet::Open(job.data(), plan->train(), plan->schema(), options);
  REQUIRE(data.ok());
  const uint64_t splits = static_cast<uint64_t>(plan->train().splits_size());
  REQUIRE(splits % kLanes != 0);
  std::vector<LogicalLane> lanes;
  for (uint64_t l = 0; l < kLanes; ++l) lanes.emplace_back(data->get(), l, splits, job.data().passes());
  Loop loop(**model, parameters);
  Batch batch;
  for (uint64_t rounds = 0;; ++rounds) {
    bool any = false;
    for (LogicalLane& lane : lanes) {
      absl::StatusOr<bool> more = lane.Next(job.batch().size(), &batch);
      REQUIRE(more.ok());
      if (*more) loop.Add(batch);
      any = any || *more;
    }
    if (!any) return rounds;
    loop.EndRound();
  }
}

double SumOfSquares(const Row& row) {
  double sum = 0;
  for (double value : row) sum += value * value;
  return sum;
}

double SumOfSquaredDifferences(const Row& a, const Row& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

void RequireClose(const std::string& name, double difference, double norm, double moved) {
  std::cout << name << ": norm " << std::sqrt(norm) << ", moved by " << std::sqrt(moved) << ", relative difference "
            << std::sqrt(difference / norm) << "\n";
  INFO(name);
  REQUIRE(moved > 0);
  REQUIRE(std::sqrt(difference) <= kTolerance * std::sqrt(norm));
}

TEST_CASE("bsp: after 200 rounds of sgd all parameters equal those of a plain loop over the same examples",
          "[cluster]") {
  TempDir start_dir, dir;
  // A run that learns nothing leaves every parameter that the job touches at its initial value.
  const Parameters start = Train(ReferenceJob(start_dir.path(), 0));
  const Job job = ReferenceJob(dir.path(), kLearningRate);
  const Parameters actual = Train(job);
  Parameters expected = start;
  REQUIRE(TrainPlainly(job, &expected) >= kMinRounds);

  REQUIRE(actual.tables.size() == expected.tables.size());
  REQUIRE(actual.tables.size() == 2);
  for (const auto& [name, rows] : expected.tables) {
    const auto& actual_rows = actual.tables.at(name);
    REQUIRE(actual_rows.size() == rows.size());
    double difference = 0, norm = 0, moved = 0;
    for (const auto& [key, row] : rows) {
      difference += SumOfSquaredDifferences(row, actual_rows.at(key));
      norm += SumOfSquares(row);
      moved += SumOfSquaredDifferences(row, start.tables.at(name).at(key));
    }
    RequireClose(name, difference, norm, moved);
  }
  REQUIRE(actual.tensors.size() == expected.tensors.size());
  REQUIRE(actual.tensors.size() == 4);
  for (const auto& [name, tensor] : expected.tensors) {
    RequireClose(name, SumOfSquaredDifferences(tensor, actual.tensors.at(name)), SumOfSquares(tensor),
                 SumOfSquaredDifferences(tensor, start.tensors.at(name)));
  }
}

}  // namespace
}  // namespace shoal
