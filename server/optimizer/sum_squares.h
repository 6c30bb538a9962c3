// Sum of squares in a fixed order of additions, so that its bits don't depend on how the compiler vectorises.
#ifndef SHOAL_SERVER_OPTIMIZER_SUM_SQUARES_H_
#define SHOAL_SERVER_OPTIMIZER_SUM_SQUARES_H_

#include <cstdint>

namespace shoal {

// Value i goes to partial sum i % 8; the partial sums are added pairwise.
inline float SumSquares(const float* values, uint64_t count) {
  float partial[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int k = 0; k < 8; ++k) partial[k] += values[i + k] * values[i + k];
  }
  for (int k = 0; i < count; ++i, ++k) partial[k] += values[i] * values[i];
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

}  // namespace shoal

#endif  // SHOAL_SERVER_OPTIMIZER_SUM_SQUARES_H_
