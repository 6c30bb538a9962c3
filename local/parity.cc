#include "local/parity.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "local/connection.h"
#include "local/local_cluster.h"
#include "local/process_cluster.h"
#include "local/report.h"
#include "local/run_job.h"

namespace shoal {
namespace {

// By table: sum of row hashes and number of rows.
std::map<std::string, std::pair<uint64_t, uint64_t>> Digests(const JobStatus& status) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> digests;
  for (const TableDigest& digest : status.digests()) digests[digest.table()] = {digest.sum(), digest.rows()};
  return digests;
}

absl::StatusOr<ParityRun> RunOn(SchedulerClient* scheduler, std::string name, const Job& job,
                                const std::atomic<bool>* stop) {
  RunJobOptions options;
  options.stop = stop;
  ParityRun run;
  run.name = std::move(name);
  SHOAL_ASSIGN_OR_RETURN(run.status, RunJob(scheduler, job, options));
  if (run.status.state() == CANCELLED) return absl::CancelledError(absl::StrCat(run.name, ": cancelled"));
  if (run.status.state() != SUCCEEDED) {
    return absl::FailedPreconditionError(absl::StrCat(run.name, ": job failed: ", run.status.reason()));
  }
  if (run.status.digests().empty()) return absl::InternalError(absl::StrCat(run.name, ": no digest was reported"));
  return run;
}

absl::StatusOr<ParityRun> RunInProcess(uint32_t threads, const Job& job, const std::atomic<bool>* stop) {
  LocalClusterOptions options;
  options.threads = threads;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<LocalCluster> cluster, LocalCluster::Start(options));
  return RunOn(cluster->scheduler(), absl::StrCat("1 process x ", threads, threads == 1 ? " thread" : " threads"), job,
               stop);
}

absl::StatusOr<ParityRun> RunOnProcesses(const Job& job, const std::atomic<bool>* stop) {
  ProcessClusterOptions options;
  options.servers = 2;
  options.workers = 2;
  options.threads = 2;
  options.log_level = "warning";
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessCluster> cluster, ProcessCluster::Start(options));
  absl::StatusOr<ParityRun> run = absl::UnknownError("");
  {
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerClient> scheduler,
                           ConnectScheduler(cluster->scheduler(), absl::Seconds(10)));
    run = RunOn(scheduler.get(), "2 processes x 2 threads, 2 servers", job, stop);
  }
  cluster->Stop(absl::Seconds(5));
  return run;
}

}  // namespace

absl::StatusOr<ParityResult> VerifyParity(const Job& job, const std::atomic<bool>* stop) {
  if (!job.sync().has_bsp()) {
    return absl::InvalidArgumentError(
        "sync: only bsp promises equal bits; use sync: {bsp: {lanes: N}}, for instance --set sync.bsp.lanes=4");
  }
  Job bare = job;
  bare.clear_checkpoint();
  bare.mutable_data()->clear_eval();
  if (bare.data().format().has_synthetic()) {
    bare.mutable_data()->mutable_format()->mutable_synthetic()->set_eval_rows(0);
  }
  ParityResult result;
  for (const uint32_t threads : {1, 4}) {
    SHOAL_ASSIGN_OR_RETURN(ParityRun run, RunInProcess(threads, bare, stop));
    result.runs.push_back(std::move(run));
  }
  // Both workers should have joined before this run starts, so that they share the job.
  bare.mutable_workers()->set_min(2);
  SHOAL_ASSIGN_OR_RETURN(ParityRun run, RunOnProcesses(bare, stop));
  result.runs.push_back(std::move(run));
  result.equal = true;
  for (const ParityRun& other : result.runs) {
    result.equal = result.equal && Digests(other.status) == Digests(result.runs.front().status);
  }
  return result;
}

std::string ParityText(const ParityResult& result) {
  std::string text =
      absl::StrFormat("%-36s %8s %12s  %-24s %12s  %s\n", "RUN", "ROUNDS", "EXAMPLES", "TABLE", "ROWS", "DIGEST");
  for (const ParityRun& run : result.runs) {
    for (const auto& [table, digest] : Digests(run.status)) {
      absl::StrAppendFormat(&text, "%-36s %8d %12d  %-24s %12d  %016x\n", run.name, run.status.rounds(),
                            run.status.examples(), table, digest.second, digest.first);
    }
  }
  return absl::StrCat(text, result.equal ? "equal: the same bits in every run\n" : "NOT EQUAL: the runs differ\n");
}

std::string ParityJson(const std::string& job, const ParityResult& result) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const ParityRun& run : result.runs) {
    nlohmann::ordered_json json = JobJson(run.status);
    runs.push_back({{"run", run.name},
                    {"rounds", run.status.rounds()},
                    {"examples", run.status.examples()},
                    {"train", json["train"]},
                    {"digest", json["digest"]}});
  }
  return nlohmann::ordered_json({{"job", job}, {"equal", result.equal}, {"runs", runs}}).dump();
}

}  // namespace shoal
