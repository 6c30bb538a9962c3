// The arithmetic of all optimizers on rows, vectorised for the widest instruction set that the machine has. Each value
// goes through the same operations in the same order on every one of them, so results are the same bits everywhere.
#ifndef SHOAL_SERVER_OPTIMIZER_ROW_KERNELS_H_
#define SHOAL_SERVER_OPTIMIZER_ROW_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace shoal::row_kernels {

// Row i has its weights at rows[i], its state at states[i] and its gradient at gradients + i * dim.
struct RowBatch {
  float* const* rows;
  float* const* states;
  const float* gradients;
  size_t count;
  size_t dim;
};

// out = sums / divisor for `rows` rows; good[r] is 1 when every |out| of row r is at most max_abs (a NaN is not).
void DivideRows(const float* sums, size_t rows, size_t dim, float divisor, float max_abs, float* out, uint8_t* good);

// Sum of squares: value i goes to partial sum i % 8; the partial sums are added pairwise.
float SumSquares(const float* values, size_t count);

// One step each; the files of the variants state the formulas.
void Sgd(const RowBatch& batch, float rate);
void Momentum(const RowBatch& batch, float rate, float momentum, bool nesterov);
void Adagrad(const RowBatch& batch, float rate, float epsilon);
void RowwiseAdagrad(const RowBatch& batch, float rate, float epsilon);
struct AdamParameters {
  float rate, beta1, beta2, epsilon;
};
// corrections: 1 / (1 - beta^t) of row i at 2 * i and, for beta2, 2 * i + 1.
void Adam(const RowBatch& batch, const AdamParameters& parameters, const float* corrections);
void Amsgrad(const RowBatch& batch, const AdamParameters& parameters, const float* corrections);
// REQUIRES: alpha != 0.
void Ftrl(const RowBatch& batch, float alpha, float beta, float l1, float l2);

}  // namespace shoal::row_kernels

#endif  // SHOAL_SERVER_OPTIMIZER_ROW_KERNELS_H_
