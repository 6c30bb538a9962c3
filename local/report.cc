#include "local/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "proto/metrics_convert.h"

namespace shoal {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void AddIfDefined(const char* name, double value, Json* json) {
  if (!std::isnan(value)) (*json)[name] = NumberOrNull(value);
}

void AppendIfDefined(const char* name, double value, std::string* text) {
  if (!std::isnan(value)) absl::StrAppendFormat(text, "  %s %.5f", name, value);
}

Json HistogramJson(const HistogramProto& histogram) {
  // Map fields of protos have no order; an ordered map keeps equal runs textually equal.
  const std::map<uint64_t, uint64_t> sorted(histogram.count().begin(), histogram.count().end());
  Json json = Json::object();
  for (const auto& [value, count] : sorted) json[absl::StrCat(value)] = count;
  return json;
}

uint64_t LargestValue(const HistogramProto& histogram) {
  uint64_t largest = 0;
  for (const auto& [value, count] : histogram.count()) {
    if (count > 0) largest = std::max<uint64_t>(largest, value);
  }
  return largest;
}

Json StalenessJson(const WorkerJobReport& counters) {
  return {{"histogram", HistogramJson(counters.clock_staleness())},
          {"max", LargestValue(counters.clock_staleness())},
          {"applies_histogram", HistogramJson(counters.apply_staleness())},
          {"applies_max", LargestValue(counters.apply_staleness())}};
}

struct TimePart {
  const char* name;
  uint64_t us;
};

std::vector<TimePart> PartsOf(const StepTime& time) {
  return {{"data", time.data_us()},       {"pull", time.pull_us()}, {"gate", time.gate_us()},
          {"compute", time.compute_us()}, {"push", time.push_us()}, {"other", time.other_us()}};
}

uint64_t WholeOf(const StepTime& time) {
  uint64_t whole = 0;
  for (const TimePart& part : PartsOf(time)) whole += part.us;
  return whole;
}

double ShareOf(const TimePart& part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part.us) / static_cast<double>(whole);
}

// Seconds of all lanes together, and what shares of them went where.
Json TimeJson(const StepTime& time) {
  const uint64_t whole = WholeOf(time);
  Json json = {{"lane_seconds", static_cast<double>(whole) * 1e-6}};
  for (const TimePart& part : PartsOf(time)) json[part.name] = ShareOf(part, whole);
  return json;
}

// "data 3 %, pull 2 %, ..."; empty before anything was trained.
std::string TimeText(const StepTime& time) {
  const uint64_t whole = WholeOf(time);
  if (whole == 0) return "";
  std::string text;
  for (const TimePart& part : PartsOf(time)) {
    absl::StrAppendFormat(&text, "%s%s %.0f %%", text.empty() ? "" : ", ", part.name, 100 * ShareOf(part, whole));
  }
  return text;
}

Json CountersJson(const WorkerJobReport& counters) {
  return {{"batches", counters.batches()},
          {"duplicate", counters.duplicate()},
          {"fenced", counters.fenced()},
          {"stale_map", counters.stale_map()},
          {"misaligned", counters.misaligned()},
          {"out_of_order", counters.out_of_order()},
          {"retries", counters.retries()},
          {"bad_records", counters.bad_records()},
          {"hot_rows_served", counters.hot_rows_served()},
          {"hot_rows_pulled", counters.hot_rows_pulled()}};
}

uint64_t ExamplesOfAll(const JobStatus& status) {
  uint64_t sum = 0;
  for (const WorkerShare& worker : status.workers()) sum += worker.examples();
  return sum;
}

double ShareOf(const WorkerShare& worker, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(worker.examples()) / static_cast<double>(all);
}

Json WorkersJson(const JobStatus& status) {
  const uint64_t all = ExamplesOfAll(status);
  Json json = Json::array();
  for (const WorkerShare& worker : status.workers()) {
    json.push_back({{"name", worker.worker()},
                    {"examples", worker.examples()},
                    {"share", ShareOf(worker, all)},
                    {"lanes", worker.lanes()},
                    {"time", TimeJson(worker.time())}});
  }
  return json;
}

Json ServersJson(const JobStatus& status) {
  Json json = Json::array();
  for (const ServerShare& server : status.servers()) {
    const ServerJobReport& report = server.report();
    json.push_back({{"name", server.server()},
                    {"rows", report.rows()},
                    {"bytes", report.bytes()},
                    {"pushes", report.pushes()},
                    {"guard_refused", report.guard_refused()},
                    {"not_admitted", report.not_admitted()},
                    {"memory_refused", report.memory_refused()},
                    {"expired", report.expired()},
                    {"warning", report.warning()}});
  }
  return json;
}

Json SlotsJson(const JobStatus& status) {
  Json json = Json::array();
  for (const SlotReport& slot : status.slots()) {
    json.push_back({{"table", slot.table()},
                    {"slot", slot.slot()},
                    {"rows", slot.rows()},
                    {"keys", slot.keys()},
                    {"bytes", slot.bytes()},
                    {"guard_refused", slot.guard_refused()},
                    {"not_admitted", slot.not_admitted()},
                    {"memory_refused", slot.memory_refused()},
                    {"expired", slot.expired()}});
  }
  return json;
}

Json RefusedJson(const RefusedBatch& batch) {
  Json rows = Json::array();
  for (const RefusedRows& refused : batch.rows()) {
    rows.push_back({{refused.dense() ? "tensor" : "table", refused.table()},
                    {refused.dense() ? "blocks" : "rows", refused.rows()}});
    if (!refused.dense()) rows.back()["slot"] = refused.slot();
  }
  return {{"worker", batch.worker()},     {"lane", batch.lane()},   {"pass", batch.pass()},
          {"split", batch.split()},       {"begin", batch.begin()}, {"end", batch.end()},
          {"round", batch.round()},       {"file", batch.file()},   {"file_begin", batch.file_begin()},
          {"file_end", batch.file_end()}, {"refused", rows}};
}

std::string Hex(uint64_t value) { return absl::StrFormat("%016x", value); }

void AppendHistogramText(const char* name, const HistogramProto& histogram, std::string* text) {
  if (histogram.count().empty()) return;
  // More values than fit a line are left to --json.
  constexpr size_t kShown = 8;
  const std::map<uint64_t, uint64_t> sorted(histogram.count().begin(), histogram.count().end());
  absl::StrAppendFormat(text, "  %-11s", name);
  size_t shown = 0;
  for (const auto& [value, count] : sorted) {
    if (shown++ == kShown) break;
    absl::StrAppendFormat(text, " %d:%d", value, count);
  }
  absl::StrAppend(text, sorted.size() > kShown ? " ..." : "", "  (max ", sorted.rbegin()->first, ")\n");
}

void AppendMetricsLine(const char* name, const MetricSumsProto& proto, std::string* text) {
  const absl::StatusOr<MetricSums> sums = FromProto(proto);
  if (sums.ok()) absl::StrAppendFormat(text, "  %-11s %s\n", name, MetricsText(*sums));
}

void AppendShares(const JobStatus& status, std::string* text) {
  const uint64_t all = ExamplesOfAll(status);
  for (const WorkerShare& worker : status.workers()) {
    absl::StrAppendFormat(text, "  worker      %s: %d examples (%.1f %%)\n", worker.worker(), worker.examples(),
                          100 * ShareOf(worker, all));
    // Alone it is the job's own line.
    if (status.workers_size() > 1 && WholeOf(worker.time()) > 0) {
      absl::StrAppend(text, "              ", TimeText(worker.time()), "\n");
    }
  }
  for (const ServerShare& server : status.servers()) {
    absl::StrAppendFormat(text, "  server      %s: %d rows, %.1f MiB, %d pushes\n", server.server(),
                          server.report().rows(), static_cast<double>(server.report().bytes()) / (1 << 20),
                          server.report().pushes());
    if (!server.report().warning().empty()) absl::StrAppend(text, "              ", server.report().warning(), "\n");
  }
}

bool Unusual(const SlotReport& slot) {
  return slot.guard_refused() + slot.not_admitted() + slot.memory_refused() + slot.expired() > 0;
}

// Of each table a line; only of slots of which something was refused or has expired a row each: --json has all.
void AppendSlots(const JobStatus& status, std::string* text) {
  struct Sums {
    uint64_t slots = 0, rows = 0, bytes = 0;
  };
  std::map<std::string, Sums> tables;
  size_t table = 5, slot = 4;
  for (const SlotReport& report : status.slots()) {
    Sums& sums = tables[report.table()];
    ++sums.slots;
    sums.rows += report.rows();
    sums.bytes += report.bytes();
    if (!Unusual(report)) continue;
    table = std::max(table, report.table().size());
    slot = std::max(slot, report.slot().size());
  }
  for (const auto& [name, sums] : tables) {
    absl::StrAppendFormat(text, "  table       %s: %d rows, %.1f MiB%s\n", name, sums.rows,
                          static_cast<double>(sums.bytes) / (1 << 20),
                          sums.slots == 1 ? "" : absl::StrCat(" in ", sums.slots, " slots"));
  }
  bool header = false;
  for (const SlotReport& report : status.slots()) {
    if (!Unusual(report)) continue;
    if (!std::exchange(header, true)) {
      absl::StrAppendFormat(text, "  %-*s  %-*s %11s %9s %11s %11s %9s %9s\n", table, "TABLE", slot, "SLOT", "ROWS",
                            "MIB", "GUARD", "NOT ADMITTED", "MEMORY", "EXPIRED");
    }
    absl::StrAppendFormat(text, "  %-*s  %-*s %11d %9.1f %11d %12d %9d %9d\n", table, report.table(), slot,
                          report.slot(), report.rows(), static_cast<double>(report.bytes()) / (1 << 20),
                          report.guard_refused(), report.not_admitted(), report.memory_refused(), report.expired());
  }
}

void AppendRefused(const JobStatus& status, std::string* text) {
  if (status.refused_batches() == 0) return;
  // More are in --json.
  constexpr int kShown = 4;
  absl::StrAppend(text, "  refused     ", status.refused_batches(),
                  " batches in part, by the guard; `shoal records` prints them. The newest:\n");
  for (int i = std::max(0, status.refused_size() - kShown); i < status.refused_size(); ++i) {
    const RefusedBatch& batch = status.refused(i);
    absl::StrAppend(text, "              ", batch.worker(), " pass ", batch.pass(), " split ", batch.split(),
                    " records [", batch.begin(), ", ", batch.end(), ")", batch.round() ? " (of the round)" : "", ":");
    for (const RefusedRows& rows : batch.rows()) {
      absl::StrAppend(text, " ", rows.table(), rows.slot().empty() ? "" : "/", rows.slot(), " ", rows.rows());
    }
    absl::StrAppend(text, "\n");
  }
}

void AppendCounters(const WorkerJobReport& counters, std::string* text) {
  const std::pair<const char*, uint64_t> unusual[] = {
      {"duplicate", counters.duplicate()},       {"fenced", counters.fenced()},
      {"stale map", counters.stale_map()},       {"misaligned", counters.misaligned()},
      {"out of order", counters.out_of_order()}, {"retries", counters.retries()},
      {"bad records", counters.bad_records()}};
  std::string line;
  for (const auto& [name, count] : unusual) {
    if (count > 0) absl::StrAppend(&line, " ", name, " ", count);
  }
  if (!line.empty()) absl::StrAppend(text, "  counters   ", line, "\n");
  for (const std::string& sample : counters.bad_record_samples()) absl::StrAppend(text, "    ", sample, "\n");
}

Json RecoveriesJson(const JobStatus& status) {
  Json list = Json::array();
  for (const Recovery& recovery : status.recoveries()) {
    list.push_back({{"what", recovery.what()},
                    {"seconds", recovery.seconds()},
                    {"partitions", recovery.partitions()},
                    {"splits_again", recovery.splits_again()}});
  }
  return list;
}

// What is out of the ordinary with where partitions are, and what the job went through.
void AppendRecoveries(const JobStatus& status, std::string* text) {
  const std::pair<const char*, uint32_t> places[] = {{"to be restored", status.partitions_restoring()},
                                                     {"moving", status.partitions_moving()},
                                                     {"without a backup", status.partitions_without_backup()}};
  for (const auto& [what, count] : places) {
    if (count > 0) absl::StrAppend(text, "  partitions  ", count, " ", what, "\n");
  }
  if (status.recoveries_in_all() > 0) absl::StrAppend(text, "  recoveries  ", status.recoveries_in_all(), "\n");
  for (const Recovery& recovery : status.recoveries()) {
    absl::StrAppend(text, "    ", recovery.what());
    if (recovery.seconds() > 0) absl::StrAppendFormat(text, "; first good step after %.1f s", recovery.seconds());
    if (recovery.splits_again() > 0) absl::StrAppend(text, "; splits trained again: ", recovery.splits_again());
    absl::StrAppend(text, "\n");
  }
}

double ShareDone(const JobStatus& status) {
  return status.splits() == 0 ? 0 : static_cast<double>(status.splits_done()) / static_cast<double>(status.splits());
}

// NaN until there is something to extrapolate from.
double SecondsLeft(const JobStatus& status) {
  const double done = ShareDone(status);
  return done <= 0 ? std::nan("") : status.seconds() * (1 - done) / done;
}

// A table has a line for each row: `logs` and --json have the whole text.
std::string FirstLine(const std::string& text) {
  const size_t end = text.find('\n');
  return end == std::string::npos ? text : absl::StrCat(text.substr(0, end), " ...");
}

}  // namespace

std::string StateName(JobState state) { return JobState_Name(state); }

std::string EffectiveBatchText(const Job& job) {
  if (!job.sync().has_bsp()) return "";
  const uint64_t lanes = job.sync().bsp().lanes();
  return absl::StrCat("effective batch: ", lanes, " lanes x ", job.batch().size(), " = ", lanes * job.batch().size(),
                      " examples");
}

bool IsFinal(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

nlohmann::ordered_json MetricsJson(const MetricSums& sums) {
  const MetricValues values = Summarize(sums);
  Json json = {
      {"examples", values.examples}, {"logloss", NumberOrNull(values.logloss)}, {"auc", NumberOrNull(values.auc)}};
  AddIfDefined("accuracy", values.accuracy, &json);
  AddIfDefined("ne", values.ne, &json);
  AddIfDefined("calibration", values.calibration, &json);
  AddIfDefined("rmse", values.rmse, &json);
  AddIfDefined("precision_at_1", values.precision_at_1, &json);
  AddIfDefined("precision_at_3", values.precision_at_3, &json);
  AddIfDefined("precision_at_5", values.precision_at_5, &json);
  return json;
}

std::string MetricsText(const MetricSums& sums) {
  const MetricValues values = Summarize(sums);
  std::string text = absl::StrCat("examples ", values.examples);
  AppendIfDefined("log loss", values.logloss, &text);
  AppendIfDefined("AUC", values.auc, &text);
  AppendIfDefined("accuracy", values.accuracy, &text);
  AppendIfDefined("NE", values.ne, &text);
  AppendIfDefined("calibration", values.calibration, &text);
  AppendIfDefined("RMSE", values.rmse, &text);
  AppendIfDefined("P@1", values.precision_at_1, &text);
  AppendIfDefined("P@3", values.precision_at_3, &text);
  AppendIfDefined("P@5", values.precision_at_5, &text);
  return text;
}

nlohmann::ordered_json JobSummaryJson(const JobStatus& status) {
  return {{"job", status.name()},
          {"id", status.job()},
          {"state", StateName(status.state())},
          {"reason", status.reason()},
          {"pass", status.pass()},
          {"passes", status.passes()},
          {"examples", status.examples()},
          {"examples_before", status.examples_before()},
          {"examples_per_second", NumberOrNull(status.examples_per_second())},
          {"splits_done", status.splits_done()},
          {"splits", status.splits()},
          {"seconds", NumberOrNull(status.seconds())},
          {"sync", status.sync()}};
}

nlohmann::ordered_json JobJson(const JobStatus& status) {
  Json json = JobSummaryJson(status);
  json["rounds"] = status.rounds();
  const absl::StatusOr<MetricSums> train = FromProto(status.train());
  if (train.ok()) json["train"] = MetricsJson(*train);
  if (status.has_eval()) {
    const absl::StatusOr<MetricSums> eval = FromProto(status.eval());
    if (eval.ok()) json["eval"] = MetricsJson(*eval);
  }
  json["time"] = TimeJson(status.counters().time());
  json["staleness"] = StalenessJson(status.counters());
  json["checkpoint"] = status.checkpoint().empty() ? Json(nullptr) : Json(status.checkpoint());
  json["counters"] = CountersJson(status.counters());
  json["recoveries"] = RecoveriesJson(status);
  json["recoveries_in_all"] = status.recoveries_in_all();
  json["partitions"] = {{"restoring", status.partitions_restoring()},
                        {"moving", status.partitions_moving()},
                        {"without_backup", status.partitions_without_backup()}};
  json["bad_record_samples"] = Json::array();
  for (const std::string& sample : status.counters().bad_record_samples()) json["bad_record_samples"].push_back(sample);
  json["workers"] = WorkersJson(status);
  json["servers"] = ServersJson(status);
  json["slots"] = SlotsJson(status);
  json["refused_batches"] = {{"count", status.refused_batches()}, {"newest", Json::array()}};
  for (const RefusedBatch& batch : status.refused()) json["refused_batches"]["newest"].push_back(RefusedJson(batch));
  json["digest"] = Json::object();
  for (const TableDigest& digest : status.digests()) json["digest"][digest.table()] = Hex(digest.sum());
  return json;
}

std::string JobText(const JobStatus& status) {
  std::string text = absl::StrFormat("job %d %s: %s", status.job(), status.name(), StateName(status.state()));
  if (!status.reason().empty()) absl::StrAppend(&text, " (", status.reason(), ")");
  absl::StrAppendFormat(&text, "\n  examples    %d in %d pass%s, %.1f s, %.0f examples/s, %s\n", status.examples(),
                        status.passes(), status.passes() == 1 ? "" : "es", status.seconds(),
                        status.examples_per_second(), status.sync());
  if (status.examples_before() > 0) {
    absl::StrAppendFormat(&text, "              %d of them in the checkpoint that it went on from\n",
                          status.examples_before());
  }
  if (status.rounds() > 0) absl::StrAppend(&text, "  rounds      ", status.rounds(), "\n");
  AppendMetricsLine("train", status.train(), &text);
  if (status.has_eval()) AppendMetricsLine("eval", status.eval(), &text);
  const std::string time = TimeText(status.counters().time());
  if (!time.empty()) absl::StrAppend(&text, "  time        ", time, "\n");
  AppendHistogramText("staleness", status.counters().clock_staleness(), &text);
  AppendHistogramText("applies", status.counters().apply_staleness(), &text);
  AppendCounters(status.counters(), &text);
  AppendRecoveries(status, &text);
  AppendShares(status, &text);
  AppendSlots(status, &text);
  AppendRefused(status, &text);
  if (!status.checkpoint().empty()) absl::StrAppend(&text, "  checkpoint  ", status.checkpoint(), "\n");
  return text;
}

nlohmann::ordered_json ClusterJson(const ClusterStatus& status) {
  Json processes = Json::array();
  for (const ProcessStatus& process : status.processes()) {
    processes.push_back(
        {{"name", process.name()},
         {"process", process.process()},
         {"role", process.role() == WORKER ? "worker" : "server"},
         {"state", process.state()},
         {"address", process.address()},
         {"seconds_since_heartbeat", NumberOrNull(process.seconds_since_heartbeat())},
         {"threads", process.threads()},
         {"cores", process.cores()},
         {"memory_bytes", process.memory_bytes()},
         {"device", process.device()},
         {"unreachable", std::vector<std::string>(process.unreachable().begin(), process.unreachable().end())}});
  }
  Json jobs = Json::array();
  for (const JobStatus& job : status.jobs()) jobs.push_back(JobSummaryJson(job));
  return {{"version", status.version()}, {"processes", processes}, {"jobs", jobs}};
}

std::string ClusterText(const ClusterStatus& status) {
  std::string text;
  int workers = 0;
  absl::StrAppendFormat(&text, "%-20s %-7s %-8s %-22s %7s %6s  %s\n", "NAME", "ROLE", "STATE", "ADDRESS", "THREADS",
                        "CORES", "HEARTBEAT");
  for (const ProcessStatus& process : status.processes()) {
    const bool worker = process.role() == WORKER;
    workers += worker && process.state() == "ALIVE" ? 1 : 0;
    absl::StrAppendFormat(&text, "%-20s %-7s %-8s %-22s %7d %6d  %.1f s ago\n", process.name(),
                          worker ? "worker" : "server", process.state(), process.address(), process.threads(),
                          process.cores(), process.seconds_since_heartbeat());
    for (const std::string& server : process.unreachable()) absl::StrAppend(&text, "  cannot reach ", server, "\n");
  }
  if (workers == 0) absl::StrAppend(&text, "no workers: jobs wait until one joins\n");
  return absl::StrCat(text, "\n", JobListText(status.jobs()));
}

std::string JobListText(const google::protobuf::RepeatedPtrField<JobStatus>& jobs) {
  if (jobs.empty()) return "no jobs\n";
  std::string text = absl::StrFormat("%6s  %-24s %-10s %6s %12s %12s  %s\n", "JOB", "NAME", "STATE", "DONE", "EXAMPLES",
                                     "PER SECOND", "");
  for (const JobStatus& job : jobs) {
    absl::StrAppendFormat(&text, "%6d  %-24s %-10s %4.0f %% %12d %12.0f  %s\n", job.job(), job.name(),
                          StateName(job.state()), 100 * ShareDone(job), job.examples(), job.examples_per_second(),
                          FirstLine(job.reason()));
  }
  return text;
}

nlohmann::ordered_json ProgressJson(const JobStatus& status) {
  Json json = {{"state", StateName(status.state())},
               {"pass", status.pass()},
               {"seconds", NumberOrNull(status.seconds())},
               {"examples", status.examples()},
               {"examples_per_second", NumberOrNull(status.examples_per_second())},
               {"splits_done", status.splits_done()},
               {"splits", status.splits()}};
  const absl::StatusOr<MetricSums> train = FromProto(status.train());
  if (train.ok()) json["train"] = MetricsJson(*train);
  if (status.has_eval()) {
    const absl::StatusOr<MetricSums> eval = FromProto(status.eval());
    if (eval.ok()) json["eval"] = MetricsJson(*eval);
  }
  json["time"] = TimeJson(status.counters().time());
  if (!status.checkpoint().empty()) json["checkpoint"] = status.checkpoint();
  return json;
}

std::string ProgressText(const JobStatus& status) {
  std::string text = absl::StrFormat("%s  pass %d/%d  %.0f %%  %.0f examples/s", StateName(status.state()),
                                     std::min(status.pass() + 1, status.passes()), status.passes(),
                                     100 * ShareDone(status), status.examples_per_second());
  const double left = SecondsLeft(status);
  if (!std::isnan(left) && !IsFinal(status.state())) {
    absl::StrAppend(&text, "  ETA ", absl::FormatDuration(absl::Seconds(std::ceil(left))));
  }
  const absl::StatusOr<MetricSums> train = FromProto(status.train());
  if (train.ok() && train->examples > 0) {
    const MetricValues values = Summarize(*train);
    AppendIfDefined("log loss", values.logloss, &text);
    AppendIfDefined("AUC", values.auc, &text);
  }
  const std::string time = TimeText(status.counters().time());
  if (!time.empty()) absl::StrAppend(&text, "  [", time, "]");
  if (!status.reason().empty()) absl::StrAppend(&text, "  (", FirstLine(status.reason()), ")");
  return text;
}

}  // namespace shoal
