// A set of record numbers as ranges.
#ifndef SHOAL_SCHEDULER_JOBS_RANGE_SET_H_
#define SHOAL_SCHEDULER_JOBS_RANGE_SET_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace shoal {

// Ranges [begin, end) that neither overlap nor touch: what comes in order is one range. Not thread-safe.
class RangeSet {
 public:
  // False, and nothing changed, when some of it is there already, or it is empty.
  bool Add(uint64_t begin, uint64_t end) {
    if (begin >= end) return false;
    auto next = ranges_.upper_bound(begin);
    const auto before = next == ranges_.begin() ? ranges_.end() : std::prev(next);
    if (before != ranges_.end() && before->second > begin) return false;
    if (next != ranges_.end() && next->first < end) return false;
    if (next != ranges_.end() && next->first == end) {
      end = next->second;
      ranges_.erase(next);
    }
    if (before != ranges_.end() && before->second == begin) {
      before->second = end;
    } else {
      ranges_[begin] = end;
    }
    return true;
  }
  bool Covers(uint64_t count) const {  // all below
    return count == 0 || (!ranges_.empty() && ranges_.begin()->first == 0 && ranges_.begin()->second >= count);
  }
  uint64_t end() const { return ranges_.empty() ? 0 : ranges_.rbegin()->second; }  // one past the last
  const std::map<uint64_t, uint64_t>& ranges() const { return ranges_; }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_RANGE_SET_H_
