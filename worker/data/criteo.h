// The feature space of Criteo-like rows: shared by the criteo reader and the synthetic rows that imitate it.
#ifndef SHOAL_WORKER_DATA_CRITEO_H_
#define SHOAL_WORKER_DATA_CRITEO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/batch.h"

namespace shoal {

// Token of an integer field: floor(ln(x)^2) for x > 2, else x itself. Small values share tokens with larger ones (3 and
// 1): that is the transform behind the published results, kept so that results compare.
int64_t CriteoBucket(int64_t x);

// Integers I1.. and categories C1.. as slots and dense values. A missing field, integer or category, is a token of its
// own: the empty one. Immutable after construction.
class CriteoColumns {
 public:
  CriteoColumns(uint32_t integers, uint32_t categories, CriteoFormat::Integers integer_features);

  FeatureSchema Schema() const;
  bool buckets() const { return buckets_; }
  bool dense() const { return dense_; }

  // Appends integer column `column` (from 0).
  void AddInteger(uint32_t column, bool missing, int64_t x, Batch* batch) const;
  // Appends categorical column `column` (from 0); an empty token is a missing one.
  void AddCategory(uint32_t column, absl::string_view token, Batch* batch) const;

 private:
  static constexpr int64_t kFirstCached = -8;  // tokens whose keys are computed once: nearly all that occur
  static constexpr int64_t kCachedKeys = 1024;

  const uint32_t integers_;
  const uint32_t categories_;
  const bool buckets_;
  const bool dense_;
  std::vector<uint64_t> slot_seeds_;                // in slot order: integers (if slots), then categories
  std::vector<uint64_t> missing_keys_;              // in slot order
  std::vector<std::vector<uint64_t>> bucket_keys_;  // [integer column][token - kFirstCached]
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_CRITEO_H_
