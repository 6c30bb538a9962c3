#include "scheduler/ledger/intersect.h"

#include <algorithm>
#include <unordered_map>

namespace shoal {

DoneSet Intersect(const std::vector<PartitionDone>& partitions, uint64_t limit) {
  if (partitions.empty()) return DoneSet();
  uint64_t prefix = limit;
  for (const PartitionDone& p : partitions) prefix = std::min<uint64_t>(prefix, p.prefix());
  DoneSet done(prefix);
  // Beyond the common prefix a split is done when all partitions have it, be it in their prefix or among the extras.
  std::vector<uint64_t> prefixes;
  std::unordered_map<uint64_t, uint64_t> in_extra;
  uint64_t end = prefix;
  for (const PartitionDone& p : partitions) {
    prefixes.push_back(p.prefix());
    end = std::max<uint64_t>(end, p.prefix());
    for (uint64_t s : p.extra()) {
      if (s < p.prefix()) continue;
      ++in_extra[s];
      end = std::max(end, s + 1);
    }
  }
  std::sort(prefixes.begin(), prefixes.end());
  for (uint64_t s = prefix; s < std::min(end, limit); ++s) {
    const uint64_t below = prefixes.end() - std::upper_bound(prefixes.begin(), prefixes.end(), s);
    const auto it = in_extra.find(s);
    if (below + (it == in_extra.end() ? 0 : it->second) == partitions.size()) done.Add(s);
  }
  return done;
}

}  // namespace shoal
