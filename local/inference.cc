#include "local/inference.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/checkpoint.pb.h"
#include "proto/job/job_file.h"
#include "proto/wire/dense_layout.h"
#include "server/checkpoint/checkpoint.h"
#include "server/parameter_server.h"
#include "worker/data/data_set.h"
#include "worker/model/metrics.h"
#include "worker/model/model.h"
#include "worker/routing/router.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 1, kRun = 1, kSelf = 1, kMapVersion = 1;

// Records per step: enough for efficient matrices, small enough that a wide model's activations stay in memory.
constexpr uint64_t kBatchRecords = 1024;

// Called with each batch and what the model says about it.
using Visitor = std::function<absl::Status(const Batch&, const StepResult&)>;

// A model with the parameters of a checkpoint and the input it is to see. Not thread-safe.
class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(const InferenceOptions& options);
  // All records, in file order.
  absl::Status Run(const Visitor& visit);

  const Job& job() const { return job_; }
  const std::string& checkpoint() const { return checkpoint_; }
  const ModelGraph& graph() const { return *graph_; }
  uint64_t bad_records() const { return bad_records_; }

 private:
  Session() : server_(ParameterServerOptions{"inference", &Clock::Steady()}) {}
  absl::Status ReadJob(const InferenceOptions& options, Manifest* manifest);
  absl::Status OpenInput(const JobPlan& plan, Labels labels);
  absl::Status MakeModel(const JobPlan& plan);
  absl::Status LoadParameters(const JobPlan& plan);
  absl::Status PullTensors();
  absl::Status PullRows();
  absl::Status Pull(const PullRequest& request, PullReply* reply);
  PullRequest NewPull(bool dense) const;
  absl::StatusOr<StepResult> Evaluate();
  absl::Status CountBad();

  Job job_;
  std::string checkpoint_;
  InputPlan input_;
  FeatureSchema schema_;
  std::unique_ptr<DataSet> data_;
  std::unique_ptr<ModelGraph> graph_;
  std::unique_ptr<ModelWorkspace> workspace_;
  ParameterServer server_;
  std::vector<uint32_t> partitions_;              // all of them
  std::vector<std::vector<uint32_t>> tables_of_;  // by group
  std::vector<std::vector<float>> tensors_;       // by tensor
  std::vector<std::vector<float>> rows_;          // by table
  std::vector<Router> routers_;                   // by group
  std::vector<KeyGroup> groups_;
  std::vector<std::vector<uint32_t>> counts_;  // by group: keys by partition
  Batch batch_;
  uint64_t bad_records_ = 0;
};

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const InferenceOptions& options) {
  std::unique_ptr<Session> session(new Session());
  Manifest manifest;
  SHOAL_RETURN_IF_ERROR(session->ReadJob(options, &manifest));
  SHOAL_RETURN_IF_ERROR(session->OpenInput(manifest.plan(), options.labels));
  SHOAL_RETURN_IF_ERROR(session->MakeModel(manifest.plan()));
  SHOAL_RETURN_IF_ERROR(session->LoadParameters(manifest.plan()));
  return session;
}

absl::Status Session::ReadJob(const InferenceOptions& options, Manifest* manifest) {
  SHOAL_ASSIGN_OR_RETURN(*manifest, ReadManifest(options.checkpoint, &checkpoint_));
  job_ = manifest->job();
  if (!options.data.empty()) {
    job_.mutable_data()->clear_eval();
    for (const std::string& path : options.data) {
      job_.mutable_data()->add_eval()->set_path(std::filesystem::absolute(path).lexically_normal().string());
    }
  }
  if (!options.overrides.empty()) {
    SHOAL_ASSIGN_OR_RETURN(
        job_, LoadJobFromText(ResolvedYaml(job_), absl::StrCat("job of ", checkpoint_), "", options.overrides));
  }
  if (!options.data.empty() && job_.data().format().has_synthetic()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", options.data.front(), ": the job's format is synthetic, which takes no files"));
  }
  return absl::OkStatus();
}

absl::Status Session::OpenInput(const JobPlan& plan, Labels labels) {
  const Data& data = job_.data();
  if (data.eval().empty() && !(data.format().has_synthetic() && data.format().synthetic().eval_rows() > 0)) {
    return absl::InvalidArgumentError("the job has no data.eval: name the input with --data");
  }
  SHOAL_ASSIGN_OR_RETURN(input_, PlanInputs(data, InputKind::kEval, job_.batch().size(), labels));
  SHOAL_ASSIGN_OR_RETURN(const FeatureSchema here, MakeSchema(data, input_, labels));
  schema_ = plan.schema();
  const auto same = [](const auto& a, const auto& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  if (!same(here.dense(), schema_.dense()) || !same(here.slots(), schema_.slots())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the input has other features than the model was trained on: dense [", absl::StrJoin(here.dense(), ", "),
        "] instead of [", absl::StrJoin(schema_.dense(), ", "), "], slots [", absl::StrJoin(here.slots(), ", "),
        "] instead of [", absl::StrJoin(schema_.slots(), ", "), "]"));
  }
  DataSetOptions options;
  options.seed = job_.seed();
  options.shuffle = false;
  options.want_ids = true;
  options.labels = labels;
  SHOAL_ASSIGN_OR_RETURN(data_, DataSet::Open(data, input_, schema_, options));
  return absl::OkStatus();
}

absl::Status Session::MakeModel(const JobPlan& plan) {
  SHOAL_ASSIGN_OR_RETURN(graph_, ModelGraph::Create(job_, schema_));
  if (graph_->spec().SerializeAsString() != plan.model().SerializeAsString()) {
    return absl::InvalidArgumentError("model: its tables or tensors differ from those of the checkpoint");
  }
  workspace_ = graph_->NewWorkspace();
  for (const std::vector<uint32_t>& slots : graph_->groups()) routers_.emplace_back(slots, job_.partitions());
  groups_.resize(routers_.size());
  counts_.resize(routers_.size());
  tables_of_.resize(routers_.size());
  for (uint32_t table = 0; table < graph_->group_of_table().size(); ++table) {
    tables_of_[graph_->group_of_table()[table]].push_back(table);
  }
  rows_.resize(graph_->spec().tables_size());
  partitions_.resize(job_.partitions());
  std::iota(partitions_.begin(), partitions_.end(), 0);
  return absl::OkStatus();
}

// One server that owns every partition.
absl::Status Session::LoadParameters(const JobPlan& plan) {
  JobConfig config;
  *config.mutable_job() = job_;
  *config.mutable_plan() = plan;
  JobView view;
  view.set_job(kJob);
  view.set_run(kRun);
  view.set_state(RUNNING);
  view.set_map_version(kMapVersion);
  view.set_live_version(1);
  view.set_next_lane(1);
  for (uint32_t p = 0; p < job_.partitions(); ++p) view.add_owner(0);
  view.add_servers()->set_process(kSelf);
  SHOAL_RETURN_IF_ERROR(server_.PrepareJob(config, view, kSelf, checkpoint_));
  return PullTensors();
}

PullRequest Session::NewPull(bool dense) const {
  PullRequest request;
  request.header.job = kJob;
  request.header.run = kRun;
  request.header.map_version = kMapVersion;
  request.read_only = true;
  request.partitions = partitions_;
  request.dense = dense;
  return request;
}

absl::Status Session::Pull(const PullRequest& request, PullReply* reply) {
  // A read-only pull is never parked, so the bound is only there to turn a mistake into an error.
  const absl::Duration timeout = absl::Seconds(60);
  struct Answer {
    Mutex mu;
    CondVar changed;
    bool done = false;
    absl::Status status;
  } answer;
  server_.Pull(&request, timeout, reply, [&answer](absl::Status status) {
    MutexLock lock(&answer.mu);
    answer.status = std::move(status);
    answer.done = true;
    answer.changed.SignalAll();
  });
  MutexLock lock(&answer.mu);
  while (!answer.done) answer.changed.WaitFor(&answer.mu, timeout);
  SHOAL_RETURN_IF_ERROR(answer.status);
  if (reply->outcome != RequestOutcome::kOk) return absl::InternalError("a read-only pull was refused");
  return absl::OkStatus();
}

absl::Status Session::PullTensors() {
  SHOAL_ASSIGN_OR_RETURN(const DenseLayout layout, DenseLayout::Create(graph_->spec(), job_.partitions()));
  uint64_t floats = 0;
  for (const DenseBlock& block : layout.blocks()) floats += block.size;
  std::vector<float> dense(floats);
  const PullRequest request = NewPull(true);
  PullReply reply;
  reply.dense = dense.data();
  reply.dense_floats = floats;
  SHOAL_RETURN_IF_ERROR(Pull(request, &reply));
  for (int t = 0; t < graph_->spec().tensors_size(); ++t) tensors_.emplace_back(layout.TensorSize(t));
  const float* from = dense.data();
  for (const DenseBlock& block : layout.blocks()) {
    std::copy_n(from, block.size, tensors_[block.tensor].data() + block.offset);
    from += block.size;
  }
  return absl::OkStatus();
}

absl::Status Session::PullRows() {
  PullRequest request = NewPull(false);
  PullReply reply;
  request.groups.resize(groups_.size());
  reply.rows.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    routers_[g].Route(batch_, &groups_[g]);
    const KeyGroup& group = groups_[g];
    counts_[g].resize(partitions_.size());
    for (size_t p = 0; p < partitions_.size(); ++p) {
      counts_[g][p] = group.partition_begin[p + 1] - group.partition_begin[p];
    }
    request.groups[g] = {group.keys, counts_[g], tables_of_[g], {}};
    for (const uint32_t table : tables_of_[g]) {
      rows_[table].resize(group.keys.size() * graph_->spec().tables(table).dim());
      reply.rows[g].push_back(rows_[table].data());
    }
  }
  return Pull(request, &reply);
}

absl::StatusOr<StepResult> Session::Evaluate() {
  SHOAL_RETURN_IF_ERROR(PullRows());
  StepArgs args;
  args.batch = &batch_;
  args.groups = groups_;
  for (const std::vector<float>& rows : rows_) args.rows.push_back(rows.data());
  for (const std::vector<float>& tensor : tensors_) args.tensors.push_back(tensor.data());
  args.seed = job_.seed();
  return graph_->Evaluate(args, workspace_.get());
}

absl::Status Session::CountBad() {
  bad_records_ += batch_.bad.size();
  if (bad_records_ <= job_.data().max_bad_records()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(batch_.bad.front().message, "; data.max_bad_records is ", job_.data().max_bad_records()));
}

absl::Status Session::Run(const Visitor& visit) {
  for (int split = 0; split < input_.splits_size(); ++split) {
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<SplitReader> reader, data_->OpenSplit(0, split, 0));
    do {
      SHOAL_RETURN_IF_ERROR(reader->Next(kBatchRecords, &batch_));
      SHOAL_RETURN_IF_ERROR(CountBad());
      if (batch_.rows == 0) continue;
      SHOAL_ASSIGN_OR_RETURN(const StepResult result, Evaluate());
      SHOAL_RETURN_IF_ERROR(visit(batch_, result));
    } while (!batch_.end_of_split);
  }
  return absl::OkStatus();
}

absl::StatusOr<InferenceResult> RunSession(
    const InferenceOptions& options,
    const std::function<absl::Status(const Session&, const Batch&, const StepResult&)>& visit) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options));
  InferenceResult result;
  result.job = session->job().name();
  result.checkpoint = session->checkpoint();
  const absl::Duration start = Clock::Steady().Now();
  const bool exact_auc = session->job().evaluate().exact_auc();
  SHOAL_RETURN_IF_ERROR(session->Run([&](const Batch& batch, const StepResult& step) {
    AddBatch(batch, step, session->graph().loss(), session->graph().outputs(), exact_auc, &result.metrics);
    return visit(*session, batch, step);
  }));
  result.bad_records = session->bad_records();
  result.seconds = absl::ToDoubleSeconds(Clock::Steady().Now() - start);
  return result;
}

// The most probable labels of one record.
std::string TopLabels(absl::Span<const float> predictions) {
  constexpr size_t kShown = 5;
  std::vector<uint32_t> order(predictions.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t shown = std::min(kShown, order.size());
  std::partial_sort(order.begin(), order.begin() + shown, order.end(), [&](uint32_t a, uint32_t b) {
    return predictions[a] != predictions[b] ? predictions[a] > predictions[b] : a < b;
  });
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppendFormat(&text, "%s%d:%.9g", i == 0 ? "" : " ", order[i], predictions[order[i]]);
  }
  return text;
}

std::string PredictionLines(const Batch& batch, const StepResult& step, uint32_t outputs) {
  std::string lines;
  for (uint32_t row = 0; row < batch.rows; ++row) {
    const absl::Span<const float> predictions = step.predictions.subspan(uint64_t{row} * outputs, outputs);
    if (outputs == 1) {
      absl::StrAppendFormat(&lines, "%s\t%.9g\n", batch.ids[row], predictions[0]);
    } else {
      absl::StrAppend(&lines, batch.ids[row], "\t", TopLabels(predictions), "\n");
    }
  }
  return lines;
}

absl::Status FileError(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// Lines that become visible under `path` only when all of them are written, if that is a regular file or a new one;
// devices, pipes and symbolic links are written to, not replaced. Not thread-safe.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path) {
    std::unique_ptr<OutputFile> file(new OutputFile());
    if (path == "-") {
      file->file_ = stdout;
      return file;
    }
    if (path.empty()) return absl::InvalidArgumentError("--output: expected a file, or - for standard output");
    file->path_ = path;
    if (IsReplaceable(path)) file->temporary_ = path + ".tmp";
    file->file_ = std::fopen(file->Name().c_str(), "w");
    if (file->file_ == nullptr) {
      const absl::Status error = FileError("write", file->Name());
      file->temporary_.clear();  // not made by us
      return error;
    }
    return file;
  }
  ~OutputFile() {
    if (path_.empty()) return;
    if (file_ != nullptr) std::fclose(file_);
    if (!temporary_.empty()) std::remove(temporary_.c_str());
  }
  absl::Status Write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) return FileError("write", Name());
    return absl::OkStatus();
  }
  absl::Status Commit() {
    if (std::fflush(file_) != 0) return FileError("write", Name());
    if (path_.empty()) return absl::OkStatus();
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    if (!closed) return FileError("write", Name());
    if (temporary_.empty()) return absl::OkStatus();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return FileError("rename to", path_);
    temporary_.clear();
    return absl::OkStatus();
  }

 private:
  OutputFile() = default;
  static bool IsReplaceable(const std::string& path) {
    std::error_code error;
    const std::filesystem::file_type type = std::filesystem::symlink_status(path, error).type();
    return type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
  }
  std::string Name() const {
    if (path_.empty()) return "standard output";
    return temporary_.empty() ? path_ : temporary_;
  }

  std::FILE* file_ = nullptr;
  std::string path_;       // empty: standard output
  std::string temporary_;  // empty: written in place
};

// Whether the reader (worker/data) misses labels or cannot read one; names of files and columns may contain the word.
bool SaysNoLabel(absl::string_view message) {
  for (const char* said : {"data.columns.label",
                           ": field label: ", ": field number of labels: ", ": its labels: ", ": expected a label"}) {
    if (absl::StrContains(message, said)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<InferenceResult> EvaluateCheckpoint(const InferenceOptions& options) {
  return RunSession(options, [](const Session&, const Batch&, const StepResult&) { return absl::OkStatus(); });
}

absl::StatusOr<InferenceResult> PredictCheckpoint(const InferenceOptions& options, const std::string& output) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Open(output));
  absl::StatusOr<InferenceResult> result =
      RunSession(options, [&file](const Session& session, const Batch& batch, const StepResult& step) {
        return file->Write(PredictionLines(batch, step, session.graph().outputs()));
      });
  if (!result.ok() && options.labels == Labels::kPresent && SaysNoLabel(result.status().message())) {
    return absl::Status(result.status().code(),
                        absl::StrCat(result.status().message(), "; inputs without labels are read with --no-labels"));
  }
  SHOAL_RETURN_IF_ERROR(result.status());
  SHOAL_RETURN_IF_ERROR(file->Commit());
  return result;
}

}  // namespace shoal
