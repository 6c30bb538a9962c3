#include "proto/job/job_check.h"

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/job/scalar_values.h"

namespace shoal {
namespace {

constexpr size_t kMaxNameLength = 128;  // leaves room in a path component of 255 bytes

void CheckName(const std::string& name, const ReportJobError& report) {
  if (name.empty()) return;  // reported by the reader
  if (name.size() > kMaxNameLength) {
    return report("name", absl::StrCat("has ", name.size(), " characters; at most ", kMaxNameLength, " are allowed"));
  }
  for (const char c : name) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.') continue;
    return report("name", absl::StrCat(QuoteYaml(name), " may hold letters, digits, '-', '_' and '.' only"));
  }
  if (!absl::ascii_isalnum(name[0])) report("name", "must begin with a letter or a digit");
}

// Learning rate of the chosen update rule; 0 where none is chosen.
float LearningRate(const Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd:
      return optimizer.sgd().learning_rate();
    case Optimizer::kMomentum:
      return optimizer.momentum().learning_rate();
    case Optimizer::kAdagrad:
      return optimizer.adagrad().learning_rate();
    case Optimizer::kRowwiseAdagrad:
      return optimizer.rowwise_adagrad().learning_rate();
    case Optimizer::kAdam:
      return optimizer.adam().learning_rate();
    case Optimizer::kAmsgrad:
      return optimizer.amsgrad().learning_rate();
    case Optimizer::kFtrl:
      return optimizer.ftrl().learning_rate();
    case Optimizer::KIND_NOT_SET:
      return 0;
  }
  return 0;
}

void CheckSchedule(const Optimizer& optimizer, const std::string& path, const ReportJobError& report) {
  if (!optimizer.schedule().has_step()) return;
  const StepSchedule& step = optimizer.schedule().step();
  const std::string boundaries = path + ".schedule.step.boundaries_examples";
  if (step.boundaries_examples_size() == 0) report(boundaries, "at least one boundary is needed");
  for (int i = 1; i < step.boundaries_examples_size(); ++i) {
    if (step.boundaries_examples(i) > step.boundaries_examples(i - 1)) continue;
    report(absl::StrCat(boundaries, ".", i), absl::StrCat("boundaries must ascend: ", step.boundaries_examples(i),
                                                          " does not exceed ", step.boundaries_examples(i - 1)));
    break;
  }
}

void CheckOptimizer(const Optimizer& optimizer, const std::string& path, const ReportJobError& report) {
  CheckSchedule(optimizer, path, report);
  if (optimizer.has_ftrl() && optimizer.ftrl().learning_rate() == 0) {
    report(path + ".ftrl.learning_rate", "must be > 0: ftrl divides by it");
  } else if (LearningRate(optimizer) < 0) {
    report(path, absl::StrCat("learning_rate must be >= 0, not ", LearningRate(optimizer),
                              " (only preset counting uses -1)"));
  }
}

// A counting job sums per-record constants, which anything that scales, drops or forgets a gradient would spoil.
void CheckCountingOptimizer(const Optimizer& optimizer, const std::string& path, const ReportJobError& report) {
  if (!optimizer.has_sgd() || optimizer.sgd().learning_rate() != -1) {
    report(path, "preset counting needs {sgd: {learning_rate: -1}}");
  }
  if (optimizer.l1() != 0 || optimizer.l2() != 0 || optimizer.decay() != 0 || optimizer.clip_value() != 0 ||
      optimizer.clip_norm() != 0 || optimizer.has_schedule()) {
    report(path, "preset counting takes no l1, l2, decay, clip_value, clip_norm or schedule");
  }
}

void CheckCounting(const Job& job, const ReportJobError& report) {
  CheckCountingOptimizer(job.optimizer().sparse(), "optimizer.sparse", report);
  CheckCountingOptimizer(job.optimizer().dense(), "optimizer.dense", report);
  if (job.batch().reduce() != BatchConfig::SUM) report("batch.reduce", "preset counting needs sum");
  if (!job.guard().off()) report("guard.off", "preset counting needs true");
  if (job.admission().min_count() > 1) report("admission.min_count", "preset counting needs 1");
  if (job.ttl().examples() != 0) report("ttl.examples", "preset counting needs 0");
}

}  // namespace

void CheckRecovery(const Job& job, const ReportJobError& report) {
  const bool bsp = job.sync().has_bsp();
  if (bsp && job.recovery() == Job::CATCH_UP) {
    report("recovery",
           "catch_up is for asp and ssp: a bsp job whose partitions stand at different rounds would not give "
           "the same bits; use rollback");
  }
  if (!bsp && job.recovery() == Job::ROLLBACK) {
    report("recovery",
           "rollback is for bsp: partitions of an asp or ssp job share no instant to go back to; use catch_up");
  }
  if (bsp && job.replicas() > 1) {
    report("replicas", absl::StrCat(job.replicas(),
                                    " copies are for asp and ssp: a bsp job goes back to its last "
                                    "checkpoint when a server is lost, to the same bits"));
  }
}

// The number of batches stands by itself only when it is not the default.
constexpr uint32_t kDefaultHotRowStaleness = 4;

void CheckWarmStart(const WarmStart& warm_start, const ReportJobError& report) {
  std::set<std::string> seen;
  for (int i = 0; i < warm_start.tables_size(); ++i) {
    if (seen.insert(warm_start.tables(i)).second) continue;
    report(absl::StrCat("warm_start.tables.", i), absl::StrCat("\"", warm_start.tables(i), "\" is named twice"));
  }
}

void CheckTraining(const Job& job, const ReportJobError& report) {
  CheckWarmStart(job.warm_start(), report);
  const uint32_t staleness = job.hot_rows().staleness();
  if (job.hot_rows().bytes() == 0 && staleness != 0 && staleness != kDefaultHotRowStaleness) {
    report("hot_rows.staleness", "no rows are kept without hot_rows.bytes");
  }
  if (job.hot_rows().bytes() > 0 && job.sync().has_bsp()) {
    report("hot_rows",
           "rows are kept between batches in asp and ssp only: a bsp round reads what the round before wrote");
  }
  CheckName(job.name(), report);
  if (job.model().preset() == Model::COUNTING) {
    CheckCounting(job, report);
  } else {
    CheckOptimizer(job.optimizer().sparse(), "optimizer.sparse", report);
    CheckOptimizer(job.optimizer().dense(), "optimizer.dense", report);
  }
  CheckRecovery(job, report);
  const Memory& memory = job.memory();
  if (memory.hard_limit() != 0 && memory.soft_limit() > memory.hard_limit()) {
    report("memory.soft_limit", "must not exceed hard_limit");
  }
}

void CheckJob(const Job& job, const ReportJobError& report) {
  CheckData(job.data(), report);
  CheckModel(job, report);
  CheckTraining(job, report);
}

}  // namespace shoal
