#include "kernels/cpu/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "dnnl.h"

// Declared here because <omp.h> belongs to g++ only, while oneDNN of the distribution always runs on libgomp.
extern "C" void omp_set_num_threads(int);

namespace shoal::cpu {

void MatMul(ConstMatrix a, Transpose transpose_a, ConstMatrix b, Transpose transpose_b, bool accumulate, Matrix c) {
  const bool ta = transpose_a == Transpose::kYes, tb = transpose_b == Transpose::kYes;
  const size_t m = ta ? a.columns : a.rows;
  const size_t k = ta ? a.rows : a.columns;
  const size_t n = tb ? b.rows : b.columns;
  SHOAL_CHECK(k == (tb ? b.columns : b.rows) && m == c.rows && n == c.columns);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) std::fill_n(c.data, c.size(), 0.0f);
    return;
  }
  omp_set_num_threads(1);
  const dnnl_status_t status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a.data, a.columns, b.data,
                                          b.columns, accumulate ? 1.0f : 0.0f, c.data, c.columns);
  SHOAL_CHECK(status == dnnl_success);
}

}  // namespace shoal::cpu
