// The set of finished splits, of a partition or of a whole job: a prefix of all numbers plus a few beyond it.
#ifndef SHOAL_BASE_DONE_SET_H_
#define SHOAL_BASE_DONE_SET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal {

// Not thread-safe. Splits finish nearly in order, so `extra` stays as short as the number of lanes.
class DoneSet {
 public:
  DoneSet() = default;
  explicit DoneSet(uint64_t prefix) : prefix_(prefix) {}
  uint64_t prefix() const { return prefix_; }                    // all below are done
  const std::vector<uint64_t>& extra() const { return extra_; }  // ascending, all above prefix

  uint64_t size() const { return prefix_ + extra_.size(); }

  bool Contains(uint64_t number) const {
    return number < prefix_ || std::binary_search(extra_.begin(), extra_.end(), number);
  }
  void Add(uint64_t number) {
    if (Contains(number)) return;
    extra_.insert(std::upper_bound(extra_.begin(), extra_.end(), number), number);
    auto it = extra_.begin();
    while (it != extra_.end() && *it == prefix_) ++it, ++prefix_;
    extra_.erase(extra_.begin(), it);
  }
  void Remove(uint64_t number) {
    if (number < prefix_) {
      std::vector<uint64_t> above;
      for (uint64_t n = number + 1; n < prefix_; ++n) above.push_back(n);
      extra_.insert(extra_.begin(), above.begin(), above.end());
      prefix_ = number;
      return;
    }
    auto it = std::lower_bound(extra_.begin(), extra_.end(), number);
    if (it != extra_.end() && *it == number) extra_.erase(it);
  }
  void Restore(uint64_t prefix, const std::vector<uint64_t>& extra) {
    prefix_ = prefix;
    extra_.clear();
    for (uint64_t number : extra) Add(number);
  }

 private:
  uint64_t prefix_ = 0;
  std::vector<uint64_t> extra_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_DONE_SET_H_
