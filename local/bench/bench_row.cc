#include "local/bench/bench_row.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace shoal {
namespace {

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

const char* Verdict(const BenchRow& row) {
  if (row.target == 0 || row.other.empty()) return "";
  const double ratio = RatioOf(row);
  return (row.at_most ? ratio <= row.target : ratio >= row.target) ? "ok" : "short";
}

}  // namespace

void Interleave(int repeats, const std::function<double()>& ours, const std::function<double()>& other, BenchRow* row) {
  for (int i = 0; i < repeats; ++i) {
    row->ours.push_back(ours());
    row->other.push_back(other());
  }
}

double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

double RatioOf(const BenchRow& row) {
  const double other = Median(row.other);
  return row.ours.empty() || other == 0 ? 0 : Median(row.ours) / other;
}

std::string ToJsonLine(const BenchRow& row) {
  nlohmann::ordered_json json = {{"id", row.id}, {"name", row.name}};
  if (!row.skipped.empty()) {
    json["skip"] = row.skipped;
    return json.dump();
  }
  json["unit"] = row.unit;
  json["ours"] = row.ours;
  json["other"] = row.other;
  json["other_name"] = row.other_name;
  json["target"] = row.target == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(row.target);
  json["at_most"] = row.at_most;
  json["note"] = row.note;
  return json.dump();
}

std::string ToTextLine(const BenchRow& row) {
  if (!row.skipped.empty()) return absl::StrFormat("%-8s %-44s skipped: %s", row.id, row.name, row.skipped);
  std::string line = absl::StrFormat("%-8s %-44s %10.4g %s", row.id, row.name, Median(row.ours), row.unit);
  if (!row.other.empty()) {
    absl::StrAppendFormat(&line, ", %s %.4g, ratio %.3f", row.other_name, Median(row.other), RatioOf(row));
  }
  if (row.target != 0) {
    absl::StrAppendFormat(&line, " (target %s %.3g: %s)", row.at_most ? "<=" : ">=", row.target, Verdict(row));
  }
  if (!row.note.empty()) absl::StrAppendFormat(&line, "  [%s]", row.note);
  return line;
}

double ThreadCpuSeconds() { return Seconds(CLOCK_THREAD_CPUTIME_ID); }
double ProcessCpuSeconds() { return Seconds(CLOCK_PROCESS_CPUTIME_ID); }
double WallSeconds() { return Seconds(CLOCK_MONOTONIC); }

}  // namespace shoal
