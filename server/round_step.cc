#include "server/round_step.h"

#include <algorithm>
#include <vector>

#include "base/mutex.h"
#include "base/side_by_side.h"

namespace shoal {
namespace {

// Shares of the partitions for each thread: they are not equally large.
constexpr size_t kSharesPerThread = 4;

}  // namespace

uint64_t RoundStep::Apply(const Rounds& rounds, const OwnerMap& map, absl::Span<const uint32_t> partitions,
                          PushTally* tally) {
  std::vector<PushRange> ranges;
  uint64_t examples = 0, floats = 0;
  for (const Contribution* contribution : rounds.Next()) {
    ranges.push_back(contribution->range());
    examples += contribution->range().examples;
    floats += contribution->floats();
  }
  const uint64_t most = schema_.soft_limit_bytes != 0 ? 1 : threads_;
  const size_t threads = std::max<size_t>(1, std::min<uint64_t>(most, floats / floats_per_thread_));
  const size_t shares = threads == 1 ? 1 : threads * kSharesPerThread;
  while (folds_.size() < threads) folds_.emplace_back(schema_);
  Mutex mu;
  std::vector<RoundFold*> idle;  // under mu
  for (RoundFold& fold : folds_) idle.push_back(&fold);
  std::deque<PushTally> tallies;
  for (size_t share = 0; share < shares; ++share) tallies.emplace_back(stats_);
  const auto apply = [&](size_t share) {
    RoundFold* fold;
    {
      MutexLock lock(&mu);
      fold = idle.back();
      idle.pop_back();
    }
    std::vector<const Contribution*> covering;
    const size_t begin = partitions.size() * share / shares, end = partitions.size() * (share + 1) / shares;
    for (uint32_t id : partitions.subspan(begin, end - begin)) {
      rounds.NextFor(id, &covering);
      map.Owned(id)->ApplyRound(ranges, fold->Fold(id, covering), examples, &tallies[share]);
    }
    MutexLock lock(&mu);
    idle.push_back(fold);
    return absl::OkStatus();
  };
  SideBySide(
      shares, static_cast<uint32_t>(threads), 0, [](size_t) { return uint64_t{0}; }, apply)
      .IgnoreError();
  for (PushTally& some : tallies) tally->Take(&some);
  return examples;
}

}  // namespace shoal
