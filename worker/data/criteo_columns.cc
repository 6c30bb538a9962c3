#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "worker/data/criteo.h"

namespace shoal {

namespace {

int64_t LogBucket(int64_t x) {
  const double log = std::log(static_cast<double>(x));
  return static_cast<int64_t>(std::floor(log * log));
}

// Buckets of the values that are nearly all of a real column; a look-up costs a fraction of a logarithm.
constexpr int64_t kTabulated = 4096;

std::array<uint8_t, kTabulated> TabulateBuckets() {
  std::array<uint8_t, kTabulated> buckets{};
  // The last is floor(ln(4095)^2) = 69.
  for (int64_t x = 0; x < kTabulated; ++x) buckets[x] = static_cast<uint8_t>(x <= 2 ? x : LogBucket(x));
  return buckets;
}

}  // namespace

int64_t CriteoBucket(int64_t x) {
  if (x <= 2) return x;
  static const std::array<uint8_t, kTabulated> buckets = TabulateBuckets();
  return x < kTabulated ? buckets[x] : LogBucket(x);
}

namespace {

float LogOf(int64_t x) { return x <= 0 ? 0.f : static_cast<float>(std::log1p(static_cast<double>(x))); }

std::array<float, kTabulated> TabulateLogs() {
  std::array<float, kTabulated> logs{};
  for (int64_t x = 0; x < kTabulated; ++x) logs[x] = LogOf(x);
  return logs;
}

// ln(1 + max(x, 0)).
float DenseValue(int64_t x) {
  static const std::array<float, kTabulated> logs = TabulateLogs();
  return x < kTabulated ? logs[std::max<int64_t>(x, 0)] : LogOf(x);
}

}  // namespace

CriteoColumns::CriteoColumns(uint32_t integers, uint32_t categories, CriteoFormat::Integers integer_features)
    : integers_(integers),
      categories_(categories),
      buckets_(integer_features != CriteoFormat::DENSE),
      dense_(integer_features != CriteoFormat::BUCKETS) {
  const FeatureSchema schema = Schema();
  for (const std::string& slot : schema.slots()) {
    slot_seeds_.push_back(SlotSeed(slot));
    missing_keys_.push_back(FeatureKey(slot_seeds_.back(), ""));
  }
  if (!buckets_) return;
  bucket_keys_.resize(integers_);
  for (uint32_t column = 0; column < integers_; ++column) {
    for (int64_t i = 0; i < kCachedKeys; ++i) {
      bucket_keys_[column].push_back(FeatureKey(slot_seeds_[column], absl::StrCat(kFirstCached + i)));
    }
  }
}

FeatureSchema CriteoColumns::Schema() const {
  FeatureSchema schema;
  schema.set_label_kind(FeatureSchema::NUMBER);
  for (uint32_t i = 1; i <= integers_; ++i) {
    if (buckets_) schema.add_slots(absl::StrCat("I", i));
    if (dense_) schema.add_dense(absl::StrCat("I", i));
  }
  for (uint32_t i = 1; i <= categories_; ++i) schema.add_slots(absl::StrCat("C", i));
  return schema;
}

void CriteoColumns::AddInteger(uint32_t column, bool missing, int64_t x, Batch* batch) const {
  if (dense_) {
    batch->dense.push_back(missing ? 0.f : DenseValue(x));
  }
  if (!buckets_) return;
  std::vector<uint64_t>& keys = batch->slots[column].keys;
  if (missing) {
    keys.push_back(missing_keys_[column]);
    return;
  }
  const int64_t token = CriteoBucket(x);
  // The subtraction cannot wrap once both bounds are compared first.
  if (token >= kFirstCached && token < kFirstCached + kCachedKeys) {
    keys.push_back(bucket_keys_[column][token - kFirstCached]);
  } else {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof(text), token).ptr;
    keys.push_back(FeatureKey(slot_seeds_[column], absl::string_view(text, end - text)));
  }
}

void CriteoColumns::AddCategory(uint32_t column, absl::string_view token, Batch* batch) const {
  const uint32_t slot = column + (buckets_ ? integers_ : 0);
  batch->slots[slot].keys.push_back(token.empty() ? missing_keys_[slot] : FeatureKey(slot_seeds_[slot], token));
}

}  // namespace shoal
