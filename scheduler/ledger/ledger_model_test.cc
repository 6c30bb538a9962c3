// Every interleaving of a small model: the real ledger, two workers, two
// partitions on a server each, a split of three batches; messages are lost,
// doubled and late, workers die or are given up while they go on, a server dies
// and its partition goes back to a checkpoint or to nothing. States are
// remembered by what they hold, so each is visited once.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/hash.h"
#include "scheduler/ledger/pass_ledger.h"

namespace shoal {
namespace {

constexpr int kWorkers = 2, kPartitions = 2, kBatches = 3;
constexpr size_t kMaxMessages = 2;  // on their way at once
constexpr uint8_t kFaults = 2;
constexpr uint8_t kNothing = 255;

struct PartitionState {
  uint8_t lease = 0, watermark = 0;  // watermark kBatches: done
  std::array<uint8_t, kBatches> applied = {};
};

struct WorkerState {
  uint8_t lease = 0;  // 0: idle
  bool open = false;
  uint8_t position = 0;
  std::array<bool, kPartitions> taken = {};  // of the batch in flight
};

struct Message {
  uint8_t worker, lease, batch, partition;
};

struct State {
  std::array<PartitionState, kPartitions> partitions;
  std::array<PartitionState, kPartitions> saved;  // checkpoint
  std::array<WorkerState, kWorkers> workers;
  std::array<Message, kMaxMessages> messages = {};  // the first `count`
  uint8_t count = 0;
  // The ledger, by what was done to it: who holds the split, or whether it is
  // handed in.
  uint8_t holder = kNothing, held = 0;  // worker and lease
  bool handed_in = false, ended = false;
  uint8_t next_lease = 1;
  // Faults that are left, of each kind and in all. Messages may be lost as
  // often as they are sent.
  uint8_t deaths = 1, given_up = 1, losses = 1, repeats = 1, faults = kFaults;
  uint8_t checkpoints = 1;
};

using StateHash = std::pair<uint64_t, uint64_t>;

StateHash Key(const State &s) {
  std::string key;
  const auto put = [&key](int value) { key.push_back(static_cast<char>(value)); };
  for (const auto *side : {&s.partitions, &s.saved}) {
    for (const PartitionState &p : *side) {
      put(p.lease);
      put(p.watermark);
      for (uint8_t a : p.applied) put(a);
    }
  }
  for (const WorkerState &w : s.workers) {
    put(w.lease);
    put(w.open * 4 + w.taken[0] * 2 + w.taken[1]);
    put(w.position);
  }
  for (uint8_t v : {s.holder, s.held, s.next_lease, s.faults}) put(v);
  put(((s.deaths * 2 + s.given_up) * 2 + s.losses) * 2 + s.repeats);
  put((s.checkpoints * 2 + s.handed_in) * 2 + s.ended);
  for (uint8_t m = 0; m < s.count; ++m) {
    put(s.messages[m].worker * 64 + s.messages[m].batch * 2 + s.messages[m].partition);
    put(s.messages[m].lease);
  }
  return {HashBytes(key, 0), HashBytes(key, 1)};
}

// The ledger in the state's condition.
PassLedger LedgerOf(const State &s) {
  PassLedger ledger(1, 1);
  if (s.handed_in || s.ended) {
    ledger.Take(1, {1, 0});
    ledger.Complete(1, {1, 0}, 0);
  } else if (s.holder != kNothing) {
    ledger.Take(s.held, {s.holder, 0});
  }
  return ledger;
}

DoneSet DoneOf(const PartitionState &p) { return DoneSet(p.watermark == kBatches ? 1 : 0); }

class Model {
 public:
  // All states that can follow; each is checked.
  std::vector<State> Next(const State &s) {
    next_.clear();
    Scheduler(s);
    for (uint8_t w = 0; w < kWorkers; ++w) Worker(s, w);
    for (size_t m = 0; m < s.count; ++m) Travel(s, m);
    for (uint8_t p = 0; p < kPartitions; ++p) Server(s, p);
    return next_;
  }

 private:
  void Add(State s) { next_.push_back(std::move(s)); }

  void Scheduler(const State &s) {
    PassLedger ledger = LedgerOf(s);
    if (ledger.AuditDue() && !s.ended) {  // the audit: what all partitions have done
      DoneSet truth(1);
      for (const PartitionState &p : s.partitions) {
        if (!DoneOf(p).Contains(0)) truth = DoneSet();
      }
      State n = s;
      const uint64_t missing = ledger.Reconcile(truth, ledger.AuditLimit());
      n.ended = missing == 0 && ledger.AllDone() && ledger.Audited();
      n.handed_in = missing == 0;
      REQUIRE((missing == 0 || ledger.HasWork()));
      Add(n);
    }
    if (s.holder != kNothing && s.given_up > 0 && s.faults > 0) {  // silent for too long, but it goes on
      State n = s;
      REQUIRE(ledger.ReturnAllOf(uint64_t{s.holder}) == 1);
      n.holder = kNothing;
      --n.given_up;
      --n.faults;
      Add(n);
    }
  }

  void Worker(const State &s, uint8_t w) {
    const WorkerState &worker = s.workers[w];
    PassLedger ledger = LedgerOf(s);
    if (worker.lease == 0) {
      if (!s.ended && ledger.HasWork()) {
        State n = s;
        n.workers[w] = {s.next_lease, false, 0, {}};
        REQUIRE(ledger.Take(s.next_lease, {w, 0}).has_value());
        n.holder = w;
        n.held = n.next_lease++;
        Add(n);
      }
      return;
    }
    if (s.deaths > 0 && s.faults > 0) {
      State n = s;
      n.workers[w] = {};
      if (s.holder == w && s.held == worker.lease) n.holder = kNothing;
      --n.deaths;
      --n.faults;
      Add(n);
    }
    if (!worker.open) {
      Open(s, w);
    } else if (worker.position == kBatches) {
      State n = s;
      n.workers[w] = {};
      if (ledger.Complete(worker.lease, {w, 0}, 0).has_value()) {
        n.holder = kNothing;
        n.handed_in = true;
      }
      Add(n);
    } else if (worker.taken[0] && worker.taken[1]) {
      State n = s;
      ++n.workers[w].position;
      n.workers[w].taken = {};
      Add(n);
    } else {
      for (uint8_t p = 0; p < kPartitions; ++p) Send(s, w, p);
    }
  }

  void Open(const State &s, uint8_t w) {
    State n = s;
    WorkerState &worker = n.workers[w];
    uint8_t least = kBatches;
    for (PartitionState &p : n.partitions) {
      if (p.lease > worker.lease) {  // fenced: the lease is dropped, and
                                     // returned if it is still held
        PassLedger ledger = LedgerOf(s);
        if (ledger.Return(worker.lease, {w, 0})) n.holder = kNothing;
        worker = {};
        Add(n);
        return;
      }
      p.lease = worker.lease;
      least = std::min(least, p.watermark);
    }
    worker.open = true;
    worker.position = least;
    worker.taken = {};
    Add(n);
  }

  void Send(const State &s, uint8_t w, uint8_t p) {
    const WorkerState &worker = s.workers[w];
    if (worker.taken[p] || s.count >= kMaxMessages) return;
    for (uint8_t i = 0; i < s.count; ++i) {
      const Message &m = s.messages[i];
      if (m.worker == w && m.lease == worker.lease && m.batch == worker.position && m.partition == p) return;
    }
    State n = s;
    n.messages[n.count++] = {w, worker.lease, worker.position, p};
    Add(n);
  }

  // A message is lost, delivered with its answer, delivered without, or
  // delivered and comes again.
  void Travel(const State &s, size_t index) {
    State lost = s;
    lost.messages[index] = lost.messages[--lost.count];
    Add(lost);
    const Message m = s.messages[index];
    for (bool answered : {true, false}) {
      State n = lost;
      Deliver(&n, m, answered);
      Add(n);
    }
    if (s.repeats == 0 || s.faults == 0) return;
    State again = s;
    --again.repeats;
    --again.faults;
    Deliver(&again, m, true);
    Add(again);
  }

  // docs/semantics.md section 1: the first row that fits.
  void Deliver(State *s, const Message &m, bool answered) {
    PartitionState &p = s->partitions[m.partition];
    const bool fenced = m.lease < p.lease;
    const bool duplicate = !fenced && m.batch < p.watermark;
    const bool accepted = !fenced && !duplicate && m.batch == p.watermark;
    if (accepted) {
      ++p.applied[m.batch];
      ++p.watermark;
    }
    for (int b = 0; b < kBatches; ++b) REQUIRE(p.applied[b] == (b < p.watermark ? 1 : 0));
    WorkerState &worker = s->workers[m.worker];
    if (!answered || worker.lease != m.lease || !worker.open || worker.position != m.batch) return;
    if (fenced) {
      PassLedger ledger = LedgerOf(*s);
      if (ledger.Return(worker.lease, {m.worker, 0})) s->holder = kNothing;
      worker = {};
    } else if (accepted || duplicate) {
      worker.taken[m.partition] = true;
    } else {
      worker.open = false;  // OUT_OF_ORDER: it opens the split again
      worker.taken = {};
    }
  }

  void Server(const State &s, uint8_t p) {
    if (s.checkpoints > 0 && s.partitions[p].watermark > 0) {
      State n = s;
      n.saved[p] = s.partitions[p];
      --n.checkpoints;
      Add(n);
    }
    // Its partition is restored on a server that knows nothing else, and the
    // ledger falls back by what it misses. After the end of the job it does not
    // matter.
    if (s.losses == 0 || s.faults == 0 || s.ended) return;
    State n = s;
    n.partitions[p] = s.saved[p];
    --n.losses;
    --n.faults;
    PassLedger ledger = LedgerOf(s);
    const uint64_t again = ledger.FallBack(DoneOf(n.partitions[p]));
    if (again > 0) {
      REQUIRE(ledger.HasWork());
      n.handed_in = false;
    }
    Add(n);
  }

  std::vector<State> next_;
};

TEST_CASE(
    "Ledger model: in every interleaving each batch is applied once to "
    "each partition, and the job can end",
    "[scheduler][unit]") {
  Model model;
  absl::flat_hash_map<StateHash, uint32_t> index;
  std::deque<State> states;
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // to, from
  std::vector<uint32_t> reach;
  const auto visit = [&](const State &s) {
    const auto [it, fresh] = index.emplace(Key(s), static_cast<uint32_t>(states.size()));
    if (fresh) states.push_back(s);
    return it->second;
  };
  visit(State());
  for (uint32_t i = 0; i < states.size(); ++i) {
    const State state = states[i];
    if (state.ended) {
      for (const PartitionState &p : state.partitions) {
        REQUIRE(p.watermark == kBatches);
        for (uint8_t applied : p.applied) REQUIRE(applied == 1);
      }
      reach.push_back(i);
      continue;
    }
    for (const State &next : model.Next(state)) edges.push_back({visit(next), i});
  }
  const size_t ends = reach.size();
  // From every state the end can be reached: no interleaving leaves the job
  // stuck.
  std::sort(edges.begin(), edges.end());
  std::vector<bool> can_end(states.size(), false);
  for (uint32_t i : reach) can_end[i] = true;
  size_t count = 0;
  for (; count < reach.size(); ++count) {
    const uint32_t to = reach[count];
    for (auto it = std::lower_bound(edges.begin(), edges.end(), std::make_pair(to, 0u));
         it != edges.end() && it->first == to; ++it) {
      if (can_end[it->second]) continue;
      can_end[it->second] = true;
      reach.push_back(it->second);
    }
  }
  std::cout << states.size() << " states, " << edges.size() << " steps, " << ends << " ways to end\n";
  CHECK(count == states.size());
  CHECK(states.size() > 100000);
  CHECK(ends > 100);
}

}  // namespace
}  // namespace shoal
