// What a benchmark says: the same figure of two sides that were measured in turn.
#ifndef SHOAL_LOCAL_BENCH_BENCH_ROW_H_
#define SHOAL_LOCAL_BENCH_BENCH_ROW_H_

#include <functional>
#include <string>
#include <vector>

namespace shoal {

// How much a benchmark does: enough to see that it works (seconds in all), a look, or the record.
enum class BenchSize { kSmoke, kQuick, kFull };

// One line of the table; tests/bench/rows.py states what the fields mean.
struct BenchRow {
  std::string id;  // as in the table of targets: "T3"
  std::string name;
  std::string unit;
  std::vector<double> ours;   // samples in the order in which they were taken
  std::vector<double> other;  // the other side's, or one figure: a bound
  std::string other_name;
  double target = 0;  // of ours / other; 0: the row only informs
  bool at_most = false;
  std::string note;
  std::string skipped;  // why nothing was measured
};

using BenchRows = std::vector<BenchRow>;

// Takes `repeats` samples of both functions in turn, so that what disturbs the machine disturbs both.
void Interleave(int repeats, const std::function<double()>& ours, const std::function<double()>& other, BenchRow* row);

double Median(std::vector<double> samples);
// ours / other, of the medians; 0 without both.
double RatioOf(const BenchRow& row);

// One object on one line, as tests/bench/run.py reads it.
std::string ToJsonLine(const BenchRow& row);
// A line for people.
std::string ToTextLine(const BenchRow& row);

// CPU time of the calling thread: what other processes take from it does not count.
double ThreadCpuSeconds();
// ... and of all threads of the process.
double ProcessCpuSeconds();
double WallSeconds();

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_BENCH_ROW_H_
