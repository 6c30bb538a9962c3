// Criteo-like rows and the teacher that labels them.
#ifndef SHOAL_WORKER_DATA_TEACHER_H_
#define SHOAL_WORKER_DATA_TEACHER_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace shoal {

// One row before it is written as text or hashed to keys.
struct SyntheticRow {
  static constexpr uint64_t kMissing = ~uint64_t{0};
  static constexpr int64_t kMissingInteger = INT64_MIN;
  std::vector<int64_t> integers;  // kMissingInteger: missing
  std::vector<uint64_t> ranks;    // per category: the id's rank in its power law, 0 is the most frequent; kMissing
  float probability = 0;          // of label 1, as the teacher has it
  bool label = false;
};

// A logistic model of all columns, with interactions also a factorization machine of rank kRank between the first
// kInteracting categories. Weights are a function of the seed, rows of (seed, row). Rare ids weigh less, so that what
// a model cannot learn from few occurrences does not separate it from the teacher. Immutable, so thread-safe.
class Teacher {
 public:
  static constexpr uint32_t kRank = 2;
  static constexpr uint32_t kInteracting = 6;

  explicit Teacher(const SyntheticFormat& options);

  // Fills *row; reuses its memory.
  void MakeRow(uint64_t row, SyntheticRow* out) const;
  // The id of `rank` in category `column` as text: 8 hexadecimal digits, 16 when there are more than 2^32 ids.
  // Distinct ranks have distinct ids. `buffer` holds 16 bytes.
  absl::string_view IdText(uint32_t column, uint64_t rank, char* buffer) const;

  uint32_t integers() const { return integers_; }
  uint32_t categories() const { return categories_; }
  uint64_t ids_per_category() const { return ids_; }

 private:
  static constexpr uint64_t kWeighted = 1024;  // ranks beyond have weight 0

  float Logit(const SyntheticRow& row) const;

  const uint64_t seed_;
  const uint32_t integers_;
  const uint32_t categories_;
  const uint64_t ids_;
  const uint32_t interacting_;           // 0 without interactions
  const double tail_;                    // share of the unbounded power law that `ids_` ranks cover
  const double broad_tail_;              // the same for the law of the broad share
  std::vector<double> missing_integer_;  // per column: probability
  std::vector<double> missing_category_;
  std::vector<uint64_t> id_offsets_;    // per category: where its ids start
  std::vector<double> mu_, sigma_;      // of the integers' logarithms
  std::vector<float> integer_weights_;  // per column: of the bucket's square root, and of a missing value
  std::vector<float> weights_;          // [category][rank]; the last is the missing value's
  std::vector<float> factors_;          // [interacting category][rank][kRank]; the last are the missing value's
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_TEACHER_H_
