#include "worker/client/call_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/random.h"

namespace shoal {
namespace {

// A random call: partitions with gaps, groups of tables with odd dims, some partitions much larger than others.
struct Call {
  std::vector<uint32_t> partitions;
  std::deque<std::vector<uint64_t>> keys;
  std::deque<std::vector<uint32_t>> counts, tables, dims, occurrences;
  std::deque<std::vector<uint16_t>> slots;
  std::deque<std::vector<float>> values;  // by group and table
  std::vector<float> dense;
  std::vector<uint64_t> dense_sizes;
  PullRequest pull;
  PullReply reply;
  PushRequest push;

  explicit Call(uint64_t seed) {
    Random random({seed});
    const uint64_t n = 1 + random.Below(12);
    for (uint64_t p = 0; p < n; ++p) {
      partitions.push_back(static_cast<uint32_t>(p * 3 + random.Below(3)));
      dense_sizes.push_back(random.Below(3) == 0 ? random.Below(3000) : random.Below(50));
      for (uint64_t i = 0; i < dense_sizes.back(); ++i) dense.push_back(static_cast<float>(dense.size()));
    }
    pull.header = push.header = {1, 2, 3, 4};
    pull.round = 7;
    pull.has_mark = true;
    pull.partitions = push.partitions = partitions;
    uint64_t next_key = 0;
    const uint64_t groups = random.Below(4);
    for (uint64_t g = 0; g < groups; ++g) {
      keys.emplace_back();
      counts.emplace_back();
      for (uint64_t p = 0; p < n; ++p) {
        counts.back().push_back(static_cast<uint32_t>(random.Below(4) == 0 ? random.Below(400) : random.Below(9)));
        for (uint32_t i = 0; i < counts.back().back(); ++i) keys.back().push_back(next_key++);
      }
      tables.emplace_back();
      dims.emplace_back();
      PushGroup to;
      reply.rows.emplace_back();
      const uint64_t some = 1 + random.Below(3);
      for (uint64_t t = 0; t < some; ++t) {
        tables.back().push_back(static_cast<uint32_t>(10 * g + t));
        dims.back().push_back(std::vector<uint32_t>{1, 3, 17, 40}[random.Below(4)]);
        values.emplace_back(keys.back().size() * dims.back().back());
        for (size_t i = 0; i < values.back().size(); ++i) values.back()[i] = static_cast<float>(i);
        to.gradients.push_back(values.back().data());
        reply.rows.back().push_back(values.back().data());
      }
      occurrences.emplace_back(random.Below(2) == 0 ? 0 : keys.back().size(), 5u);
      slots.emplace_back(random.Below(2) == 0 ? 0 : keys.back().size(), uint16_t{6});
      to.keys = keys.back();
      to.counts = counts.back();
      to.tables = tables.back();
      to.dims = dims.back();
      to.occurrences = occurrences.back();
      to.slots = slots.back();
      pull.groups.push_back({keys.back(), counts.back(), tables.back(), dims.back()});
      push.groups.push_back(std::move(to));
    }
    pull.dense = random.Below(4) != 0;
    reply.dense = dense.data();
    reply.dense_floats = pull.dense ? dense.size() : 0;
    push.dense = dense;
    push.dense_sizes = dense_sizes;
  }
};

// Where the values of (partition, key, table) are to be found.
using Places = std::map<std::pair<uint64_t, std::pair<uint32_t, uint32_t>>, const float*>;

template <typename Group>
void AddPlaces(const Group& group, absl::Span<const uint32_t> partitions, size_t table, const float* values,
               Places* out) {
  size_t key = 0;
  for (size_t p = 0; p < partitions.size(); ++p) {
    for (uint32_t i = 0; i < group.counts[p]; ++i, ++key) {
      const bool fresh =
          out->emplace(std::make_pair(group.keys[key], std::make_pair(partitions[p], group.tables[table])),
                       values + key * group.dims[table])
              .second;
      if (!fresh) FAIL("key " << group.keys[key] << " twice");
    }
  }
  if (key != group.keys.size()) FAIL("counts");
}

Places PlacesOf(const PullRequest& request, const PullReply& reply) {
  Places out;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    for (size_t t = 0; t < request.groups[g].tables.size(); ++t) {
      AddPlaces(request.groups[g], request.partitions, t, reply.rows[g][t], &out);
    }
  }
  return out;
}

Places PlacesOf(const PushRequest& request) {
  Places out;
  for (const PushGroup& group : request.groups) {
    for (size_t t = 0; t < group.tables.size(); ++t) {
      AddPlaces(group, request.partitions, t, group.gradients[t], &out);
    }
  }
  return out;
}

TEST_CASE("Call parts: parts of a pull ask for the same rows and floats, each once, into the same places",
          "[client][unit]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const Call call(seed);
    const uint64_t target = std::vector<uint64_t>{200, 1000, 20000, 1 << 20}[seed % 4];
    const std::deque<PullPart> parts = CutPull(call.pull, call.reply, target);
    REQUIRE(!parts.empty());
    Places places;
    std::vector<int> dense(call.dense.size(), 0);
    for (const PullPart& part : parts) {
      CHECK((part.request.header.lane == 4 && part.request.round == 7 && part.request.has_mark));
      const uint64_t bytes = PullBytes(part.request, part.reply);
      // A part holds at most the target and one partition more, or one row.
      CHECK(bytes <= 2 * target + 3 * 40 * sizeof(float));
      for (const auto& [what, where] : PlacesOf(part.request, part.reply)) {
        if (!places.emplace(what, where).second) FAIL("twice");
      }
      if (!part.request.dense) continue;
      CHECK((part.request.dense_count == part.reply.dense_floats || parts.size() == 1));
      CHECK(part.reply.dense == call.dense.data() + part.request.dense_begin);
      for (uint64_t i = 0; i < part.reply.dense_floats; ++i) ++dense[part.request.dense_begin + i];
    }
    CHECK(places == PlacesOf(call.pull, call.reply));
    CHECK(std::all_of(dense.begin(), dense.end(), [&](int times) { return times == (call.pull.dense ? 1 : 0); }));
    CHECK(parts.size() <= 4 + 4 * call.partitions.size() + 2 * PullBytes(call.pull, call.reply) / target);
  }
}

// Partitions that something is pushed to.
int Filled(const PushRequest& request) {
  int filled = 0;
  for (size_t p = 0; p < request.partitions.size(); ++p) {
    uint64_t all = request.dense.empty() ? 0 : request.dense_sizes[p];
    for (const PushGroup& group : request.groups) all += group.counts[p];
    filled += all > 0;
  }
  return filled;
}

TEST_CASE("Call parts: parts of a push cover each partition once and whole", "[client][unit]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Call call(seed);
    const bool whole = seed % 5 == 4;
    call.push.whole = whole;
    const uint64_t target = std::vector<uint64_t>{200, 1000, 20000, 1 << 20}[seed % 4];
    const std::deque<PushPart> parts = CutPush(call.push, target);
    REQUIRE(!parts.empty());
    if (whole) CHECK(parts.size() == 1);
    Places places;
    std::vector<uint32_t> partitions;
    std::vector<float> dense;
    for (const PushPart& part : parts) {
      CHECK(part.request.continues == !partitions.empty());
      partitions.insert(partitions.end(), part.request.partitions.begin(), part.request.partitions.end());
      dense.insert(dense.end(), part.request.dense.begin(), part.request.dense.end());
      // Only a partition that is larger by itself makes a larger part, and then no other adds to it.
      if (!whole && PushBytes(part.request) > 2 * target) CHECK(Filled(part.request) == 1);
      for (const PushGroup& group : part.request.groups) {
        CHECK((group.occurrences.empty() || group.occurrences.size() == group.keys.size()));
        CHECK((group.slots.empty() || group.slots.size() == group.keys.size()));
      }
      for (const auto& [what, where] : PlacesOf(part.request)) {
        if (!places.emplace(what, where).second) FAIL("twice");
      }
    }
    CHECK(partitions == call.partitions);
    CHECK(dense == call.dense);
    CHECK(places == PlacesOf(call.push));
  }
}

TEST_CASE("Call parts: what does not add up is left whole for the codec to refuse", "[client][unit]") {
  Call call(1);
  REQUIRE(!call.push.groups.empty());
  call.counts[0].back() += 1;
  CHECK(CutPush(call.push, 10).size() == 1);
  CHECK(CutPull(call.pull, call.reply, 10).size() == 1);
  Call dense(1);
  dense.push.dense_sizes = {};
  CHECK(CutPush(dense.push, 10).size() == 1);
}

TEST_CASE("Call parts: answers are joined; the worst of the outcomes counts", "[client][unit]") {
  std::deque<PullPart> pulls(2);
  pulls[0].reply.map_version = 5;
  pulls[0].reply.slowest_clock = 9;
  pulls[0].reply.pushes_applied = 12;
  pulls[0].reply.parked_us = 3;
  pulls[1].reply.map_version = 4;
  pulls[1].reply.slowest_clock = 8;
  pulls[1].reply.pushes_applied = 13;
  pulls[1].reply.parked_us = 4;
  PullReply pull;
  CHECK(JoinPull(pulls, absl::OkStatus(), &pull).ok());
  CHECK((pull.map_version == 5 && pull.slowest_clock == 8 && pull.pushes_applied == 12 && pull.parked_us == 4));
  CHECK(absl::IsUnavailable(JoinPull(pulls, absl::UnavailableError("x"), &pull)));
  pulls[1].reply.outcome = RequestOutcome::kStaleMap;
  CHECK(JoinPull(pulls, absl::CancelledError("x"), &pull).ok());
  CHECK(pull.outcome == RequestOutcome::kStaleMap);
  std::deque<PushPart> pushes(2);
  pushes[0].reply.pushes_applied = 12;
  pushes[0].reply.guard_refused = 1;
  pushes[0].reply.exceptions = {{3, PushOutcome::kDuplicate, 1}};
  pushes[1].reply.pushes_applied = 13;
  pushes[1].reply.guard_refused = 2;
  pushes[1].reply.exceptions = {{7, PushOutcome::kMisaligned, 2}};
  PushReply push;
  CHECK(JoinPush(pushes, absl::OkStatus(), &push).ok());
  CHECK((push.pushes_applied == 12 && push.guard_refused == 3 && push.exceptions.size() == 2));
  pushes[1].reply.outcome = RequestOutcome::kFenced;
  CHECK(JoinPush(pushes, absl::CancelledError("x"), &push).ok());
  CHECK(push.outcome == RequestOutcome::kFenced);
}

TEST_CASE("Part runner: a few at a time, none after an error, told once when the last has ended", "[client][unit]") {
  const size_t bad = GENERATE(0, 3, 6, 100);
  const bool at_once = GENERATE(false, true);
  std::deque<std::pair<size_t, ParameterClient::Done>> open;
  std::vector<size_t> begun;
  int told = 0;
  absl::Status result;
  const auto end = [&](size_t part, const ParameterClient::Done& done) {
    done(part == bad ? absl::UnavailableError("lost") : absl::OkStatus());
  };
  PartRunner::Run(
      7, 3,
      [&](size_t part, ParameterClient::Done done) {
        begun.push_back(part);
        if (at_once) return end(part, done);
        open.emplace_back(part, std::move(done));
      },
      [&](const absl::Status& status) {
        ++told;
        result = status;
      });
  while (!open.empty()) {
    CHECK(open.size() <= 3);
    CHECK(told == 0);
    const auto [part, done] = std::move(open.front());
    open.pop_front();
    end(part, done);
  }
  CHECK(told == 1);
  CHECK(result.ok() == (bad >= 7));
  // Those that were under way when the error came have been begun.
  CHECK(begun.size() == std::min<size_t>(7, bad + (at_once ? 1 : 3)));
}

}  // namespace
}  // namespace shoal
