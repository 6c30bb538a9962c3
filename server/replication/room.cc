#include "server/replication/room.h"

#include <algorithm>

namespace shoal {
namespace {

// A source gets an eighth of what is free, so that several and the server itself find some; a push that needs more says
// so. Above the most it would lie idle.
constexpr uint64_t kShare = 8;
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

uint64_t SlackOf(const Partition::Space& space) { return space.need > space.used ? space.need - space.used : 0; }

}  // namespace

void RoomGrants::Applied(uint64_t source, uint32_t partition, const Partition::Space& before,
                         const Partition::Space& after) {
  if (!limited()) return;
  MutexLock lock(&mu_);
  uint64_t& slack = slack_[partition];
  stats_.reserved_bytes += static_cast<int64_t>(SlackOf(after)) - static_cast<int64_t>(slack);
  slack = SlackOf(after);
  uint64_t& grant = grants_[source];
  const uint64_t used = std::min(grant, after.need > before.need ? after.need - before.need : 0);
  grant -= used;
  stats_.reserved_bytes -= static_cast<int64_t>(used);
}

uint64_t RoomGrants::Grant(uint64_t source, uint64_t wanted) {
  MutexLock lock(&mu_);
  uint64_t& grant = grants_[source];
  const int64_t free = std::max<int64_t>(0, limit_ - stats_.used_bytes.load() - stats_.reserved_bytes.load());
  const uint64_t share = std::min((grant + static_cast<uint64_t>(free)) / kShare, kMostBytes);
  for (const uint64_t target : {std::max(wanted, share), share}) {
    if (target <= grant) return grant;
    if (!stats_.TryReserve(target - grant, static_cast<uint64_t>(limit_))) continue;
    grant = target;
    return grant;
  }
  return grant;
}

void RoomGrants::Keep(absl::FunctionRef<std::map<uint32_t, uint64_t>()> copies_here) {
  MutexLock lock(&mu_);
  const std::map<uint32_t, uint64_t> copies = copies_here();
  std::set<uint64_t> sources;
  for (const auto& [partition, source] : copies) sources.insert(source);
  const auto sweep = [this](auto* map, const auto& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (auto it = map->begin(); it != map->end();) {
      if (kept.count(it->first) != 0) {
        ++it;
        continue;
      }
      stats_.reserved_bytes -= static_cast<int64_t>(it->second);
      it = map->erase(it);
    }
  };
  sweep(&grants_, sources);
  sweep(&slack_, copies);
}

}  // namespace shoal
