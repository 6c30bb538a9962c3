// What oneDNN's own matmul reaches on one thread with the products of an MLP's training step: the ceiling of T4.
//   onednn_peak ROWS f32|bf16 WIDTH...      prints GFLOP/s over all products, each in the layout that oneDNN likes best
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "dnnl.hpp"

extern "C" void omp_set_num_threads(int);

namespace {

using dnnl::memory;

double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of one product [m, k] x [k, n]: the best of a few, since neighbours can only make it slower.
double SecondsOf(memory::dim m, memory::dim k, memory::dim n, memory::data_type type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto any = memory::format_tag::any;
  const memory::desc a({m, k}, type, any), b({k, n}, type, any), c({m, n}, memory::data_type::f32, any);
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, c), engine);
  memory x(chosen.src_desc(), engine), w(chosen.weights_desc(), engine), y(chosen.dst_desc(), engine);
  std::memset(x.get_data_handle(), 0, chosen.src_desc().get_size());
  std::memset(w.get_data_handle(), 0, chosen.weights_desc().get_size());
  const std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
  const dnnl::matmul product(chosen);
  double best = 1e9;
  for (int i = 0; i < 12; ++i) {
    const double start = ThreadCpuSeconds();
    product.execute(stream, arguments);
    stream.wait();
    if (i > 1) best = std::min(best, ThreadCpuSeconds() - start);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s ROWS f32|bf16 WIDTH WIDTH...\n", argv[0]);
    return 2;
  }
  omp_set_num_threads(1);
  const memory::dim rows = std::atol(argv[1]);
  const memory::data_type type = std::string(argv[2]) == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
  double flop = 0, seconds = 0;
  for (int i = 3; i + 1 < argc; ++i) {
    const memory::dim in = std::atol(argv[i]), out = std::atol(argv[i + 1]);
    seconds += SecondsOf(rows, in, out, type) + SecondsOf(in, rows, out, type) + SecondsOf(rows, out, in, type);
    flop += 6.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }
  std::printf("%.2f\n", flop / seconds * 1e-9);
  return 0;
}
