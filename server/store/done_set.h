// The set of finished splits of a partition: a prefix of all numbers plus a few beyond it.
#ifndef SHOAL_SERVER_STORE_DONE_SET_H_
#define SHOAL_SERVER_STORE_DONE_SET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal {

// Not thread-safe. Splits finish nearly in order, so `extra` stays as short as the number of lanes.
class DoneSet {
 public:
  uint64_t prefix() const { return prefix_; }                    // all below are done
  const std::vector<uint64_t>& extra() const { return extra_; }  // ascending, all above prefix

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

#endif  // SHOAL_SERVER_STORE_DONE_SET_H_
