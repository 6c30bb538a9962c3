// Values that parameters have before the first push: pure functions of their coordinates, so that it never matters who
// computes them or when.
#ifndef SHOAL_SERVER_STORE_INITIAL_VALUES_H_
#define SHOAL_SERVER_STORE_INITIAL_VALUES_H_

#include <cstdint>

#include "proto/plan.pb.h"

namespace shoal {

// Row of a sparse table: normal with mean 0, a function of (seed, hash of the table's name, key, column); zeros when
// stddev is 0. A longer row starts with the values of a shorter one.
void FillInitialRow(uint64_t seed, uint64_t table_hash, uint64_t key, float stddev, uint64_t dim, float* out);

// Elements [offset, offset + size) of a tensor, each a function of (seed, the tensor's name, its element index).
void FillInitialBlock(uint64_t seed, const TensorSpec& tensor, uint64_t offset, uint64_t size, float* out);

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_INITIAL_VALUES_H_
