#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "scheduler/ledger/pass_ledger.h"
#include "scheduler/ledger/round_ledger.h"

namespace shoal {
namespace {

PartitionDone Done(uint64_t prefix, std::vector<uint64_t> extra) {
  PartitionDone done;
  done.set_prefix(prefix);
  for (uint64_t s : extra) done.add_extra(s);
  return done;
}

TEST_CASE("DoneSet: the prefix grows over extras and falls on removal", "[scheduler][unit]") {
  DoneSet set;
  for (uint64_t s : {3, 1, 0}) set.Add(s);
  CHECK(set.prefix() == 2);
  CHECK(set.Contains(3));
  CHECK_FALSE(set.Contains(2));
  set.Add(2);
  CHECK(set.prefix() == 4);
  set.Remove(1);
  CHECK(set.prefix() == 1);
  CHECK(set.size() == 3);
  CHECK(set.Contains(3));
}

TEST_CASE("Intersect: a split is done when it is done in all partitions", "[scheduler][unit]") {
  const DoneSet set = Intersect({Done(2, {3, 5}), Done(4, {5, 6}), Done(1, {1, 3, 5, 6})}, 100);
  CHECK(set.prefix() == 2);
  CHECK(set.extra() == std::vector<uint64_t>{3, 5});
  CHECK(Intersect({Done(9, {}), Done(9, {})}, 5).size() == 5);
  CHECK(Intersect({}, 5).size() == 0);
}

TEST_CASE("PassLedger: order, returns to the front, next pass opens early", "[scheduler][unit]") {
  PassLedger ledger(3, 2);
  const ThreadId a{1, 0}, b{2, 0};
  CHECK(ledger.Take(10, a)->split == 0);
  CHECK(ledger.Take(11, b)->split == 1);
  CHECK(ledger.Take(12, a)->split == 2);
  const LeasedWork next = *ledger.Take(13, b);
  CHECK(next.pass == 1);
  CHECK(next.split == 0);
  CHECK_FALSE(ledger.Return(11, a));
  CHECK(ledger.ReturnAllOf(b.process) == 2);
  CHECK_FALSE(ledger.Complete(11, b, 0).has_value());
  CHECK(ledger.Take(14, a)->split == 1);
  for (uint64_t lease : {10, 12, 14}) CHECK(ledger.Complete(lease, a, 0).has_value());
  CHECK(ledger.AuditDue());
  CHECK(ledger.AuditLimit() == 3);
  CHECK(ledger.Reconcile(Intersect({Done(1, {2})}, 3), 3) == 1);
  CHECK_FALSE(ledger.AuditDue());
  const LeasedWork again = *ledger.Take(15, a);
  CHECK(again.pass == 0);
  CHECK(again.split == 1);
}

TEST_CASE("RoundLedger: lanes own their positions and end with an announcement", "[scheduler][unit]") {
  RoundLedger ledger(5, 2, 3);  // lane 0: 0 3, lane 1: 1 4, lane 2: 2
  const ThreadId a{1, 0};
  uint64_t lease = 0;
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> seen(3);
  std::vector<uint64_t> finished_at(3, 99);
  while (ledger.HasWork()) {
    const LeasedWork work = *ledger.Take(++lease, a);
    if (work.lane_finished) {
      finished_at[work.logical_lane] = work.first_round;
    } else {
      CHECK(work.first_round == seen[work.logical_lane].size() * 2);
      seen[work.logical_lane].emplace_back(work.pass, work.split);
    }
    if (lease % 3 == 0) {  // died in the middle: the same again
      REQUIRE(ledger.ReturnAllOf(a) == 1);
      if (!work.lane_finished) seen[work.logical_lane].pop_back();
      continue;
    }
    REQUIRE(ledger.Complete(lease, a, work.first_round + 2).has_value());
  }
  CHECK(seen[0] == std::vector<std::pair<uint64_t, uint64_t>>{{0, 0}, {0, 3}, {1, 0}, {1, 3}});
  CHECK(seen[2] == std::vector<std::pair<uint64_t, uint64_t>>{{0, 2}, {1, 2}});
  CHECK(finished_at == std::vector<uint64_t>{8, 8, 4});
  CHECK(ledger.AllDone());
  CHECK(ledger.Reconcile(Intersect({Done(9, {})}, 10), 10) == 1);
  CHECK_FALSE(ledger.Audited());
  CHECK(ledger.Reconcile(Intersect({Done(10, {})}, 10), 10) == 0);
  CHECK(ledger.Audited());
  RoundLedger resumed(5, 2, 3);
  REQUIRE(resumed.Restore(ledger.Snapshot()));
  CHECK(resumed.AllDone());
  CHECK_FALSE(RoundLedger(5, 2, 4).Restore(ledger.Snapshot()));
}

TEST_CASE("RoundLedger: the most lanes that a job may have cost a moment", "[scheduler][unit]") {
  const uint32_t lanes = 65536;
  const uint64_t splits = 2000;
  RoundLedger ledger(splits, 2, lanes);
  const ThreadId a{1, 0};
  uint64_t lease = 0, done = 0;
  while (!ledger.AllDone()) {
    REQUIRE(ledger.HasWork());
    const LeasedWork work = *ledger.Take(++lease, a);
    REQUIRE(ledger.Complete(lease, a, work.first_round + 1).has_value());
    done += !work.lane_finished;
  }
  CHECK(done == 2 * splits);
  CHECK(ledger.splits_done() == 2 * splits);
  CHECK(lease == 2 * splits + lanes);
  CHECK_FALSE(ledger.HasWork());
  RoundLedger restored(splits, 2, lanes);
  REQUIRE(restored.Restore(ledger.Snapshot()));
  CHECK(restored.AllDone());
  CHECK(restored.splits_done() == 2 * splits);
}

TEST_CASE("PassLedger: falls back by what restored partitions miss, in all passes", "[scheduler][unit]") {
  PassLedger ledger(3, 2);
  const ThreadId a{1, 0};
  for (uint64_t lease = 1; lease <= 5; ++lease) ledger.Take(lease, a);
  for (uint64_t lease : {1, 2, 3, 5}) ledger.Complete(lease, a, 0);
  CHECK(ledger.Reconcile(DoneSet(3), 3) == 0);
  CHECK_FALSE(ledger.AuditDue());
  ledger.AuditAgain();
  CHECK(ledger.AuditDue());
  DoneSet truth;
  truth.Restore(1, {2});
  CHECK(ledger.FallBack(truth) == 2);  // splits 1 and 4 of both passes; 3 is still leased
  CHECK(ledger.splits_done() == 2);
  CHECK_FALSE(ledger.AuditDue());
  CHECK(ledger.Take(6, a)->split == 1);
  const LeasedWork next = *ledger.Take(7, a);
  CHECK(next.pass == 1);
  CHECK(next.split == 1);
  CHECK(ledger.FallBack(truth) == 0);
}

PartitionDone Cut(uint64_t prefix, std::vector<uint64_t> extra, uint64_t rounds,
                  std::vector<std::pair<uint64_t, uint64_t>> open) {
  PartitionDone done = Done(prefix, std::move(extra));
  done.set_rounds_applied(rounds);
  for (const auto& [split, watermark] : open) {
    OpenSplitState* const state = done.add_open();
    state->set_split(split);
    state->set_watermark(watermark);
  }
  return done;
}

TEST_CASE("RoundLedger: goes on from done sets and open watermarks", "[scheduler][unit]") {
  // 5 splits, 2 lanes: lane 0 has 0, 2, 4, lane 1 has 1, 3. After 5 rounds of batches of 10, lane 0 is in split 2 with
  // 15 records applied (its last batch was short), lane 1 has finished.
  RoundLedger ledger(5, 1, 2);
  const ThreadId a{1, 0};
  REQUIRE(ledger.Rebuild({Cut(2, {3}, 5, {{2, 15}}), Cut(2, {3}, 5, {{2, 15}})}, 10).ok());
  CHECK(ledger.splits_done() == 3);
  const LeasedWork first = *ledger.Take(1, a);
  CHECK(first.logical_lane == 0);
  CHECK(first.split == 2);
  CHECK(first.first_round == 3);
  const LeasedWork second = *ledger.Take(2, a);
  CHECK(second.lane_finished);
  CHECK(second.first_round == 5);
  CHECK_FALSE(RoundLedger(5, 1, 2).Rebuild({Cut(0, {}, 1, {}), Cut(0, {}, 2, {})}, 10).ok());
  CHECK_FALSE(RoundLedger(5, 1, 2).Rebuild({Cut(0, {}, 1, {{0, 30}})}, 10).ok());
  CHECK_FALSE(RoundLedger(5, 1, 2).Rebuild({}, 10).ok());
}

TEST_CASE("RoundLedger: after a move, lanes end their split again and finished ones are announced again",
          "[scheduler][unit]") {
  RoundLedger ledger(3, 1, 2);  // lane 0: 0, 2; lane 1: 1
  const ThreadId a{1, 0};
  ledger.Take(1, a);
  ledger.Take(2, a);
  ledger.Complete(1, a, 2);  // its last round, 1, is not applied yet
  ledger.Complete(2, a, 1);
  REQUIRE(ledger.Take(3, a)->lane_finished);  // lane 1
  ledger.Complete(3, a, 0);
  REQUIRE(ledger.Take(4, a)->split == 2);
  ledger.AfterMove(1);
  CHECK(ledger.leases() == 0);
  CHECK(ledger.splits_done() == 1);
  CHECK(ledger.Complete(4, a, 9) == absl::nullopt);
  const LeasedWork again = *ledger.Take(5, a);
  CHECK(again.split == 0);
  CHECK(again.first_round == 0);
  CHECK(ledger.Take(6, a)->lane_finished);
  CHECK_FALSE(ledger.AllDone());
}

}  // namespace
}  // namespace shoal
