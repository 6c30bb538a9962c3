// The data-plane benchmarks of `shoal bench` as a program of its own, which links in seconds:
//   plane_bench store --size full     prints rows as tests/bench/rows.py states them
#include <cstdio>
#include <cstring>
#include <string>

#include "local/bench/benchmarks.h"

namespace {

int Usage(const char* program) {
  std::fprintf(stderr, "usage: %s NAME [--size smoke|quick|full]\n", program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && !(argc == 4 && std::strcmp(argv[2], "--size") == 0)) return Usage(argv[0]);
  const std::string size = argc == 4 ? argv[3] : "full";
  for (const shoal::Benchmark& benchmark : shoal::Benchmarks()) {
    if (benchmark.name != argv[1]) continue;
    const absl::StatusOr<shoal::BenchRows> rows = benchmark.run(size == "smoke"   ? shoal::BenchSize::kSmoke
                                                                : size == "quick" ? shoal::BenchSize::kQuick
                                                                                  : shoal::BenchSize::kFull);
    if (!rows.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[1], rows.status().ToString().c_str());
      return 1;
    }
    for (const shoal::BenchRow& row : *rows) std::printf("%s\n", shoal::ToJsonLine(row).c_str());
    return 0;
  }
  return Usage(argv[0]);
}
