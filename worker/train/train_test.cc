// Units of the lane loop that need no cluster: progress between heartbeats, repeating of lost calls.
#include <catch2/catch.hpp>

#include "proto/metrics_convert.h"
#include "worker/train/progress.h"
#include "worker/train/retry.h"

namespace shoal {
namespace {

Progress::Trained Records(uint64_t begin, uint64_t end) {
  return {/*job=*/7, /*run=*/1, /*pass=*/0, /*split=*/3, begin, end};
}

void Train(Progress* progress, uint64_t begin, uint64_t end) {
  progress->AddTrained(0, Records(begin, end), [&](MetricSums* sums) { sums->examples += end - begin; });
}

TEST_CASE("Progress: consecutive batches become one segment, a gap starts another", "[worker][unit]") {
  Progress progress(1);
  Train(&progress, 0, 100);
  Train(&progress, 100, 200);
  Train(&progress, 300, 350);
  const HeartbeatRequest request = progress.Collect();
  REQUIRE(request.segments_size() == 2);
  CHECK(request.segments(0).begin() == 0);
  CHECK(request.segments(0).end() == 200);
  CHECK(request.segments(0).sums().examples() == 200);
  CHECK(request.segments(1).begin() == 300);
  CHECK(request.segments(1).sums().examples() == 50);
  CHECK(progress.Collect().segments_size() == 0);
}

TEST_CASE("Progress: a batch that may have been counted before stays a segment of its own", "[worker][unit]") {
  Progress progress(1);
  Progress::Trained recomputed = Records(100, 200);
  recomputed.alone = true;
  progress.AddTrained(0, recomputed, [](MetricSums* sums) { sums->examples += 100; });
  Train(&progress, 200, 300);
  Train(&progress, 300, 400);
  const HeartbeatRequest request = progress.Collect();
  REQUIRE(request.segments_size() == 2);
  CHECK(request.segments(0).end() == 200);
  CHECK(request.segments(1).begin() == 200);
  CHECK(request.segments(1).end() == 400);
}

TEST_CASE("Progress: what could not be delivered is in the next heartbeat, in order and once", "[worker][unit]") {
  Progress progress(2);
  Train(&progress, 0, 100);
  progress.AddBatch(7, 100, /*clock_staleness=*/2, /*apply_staleness=*/5);
  progress.AddError(7, 1, "loss is NaN");
  progress.Restore(progress.Collect());
  Train(&progress, 100, 200);
  progress.AddBatch(7, 100, 2, 0);
  const HeartbeatRequest request = progress.Collect();
  REQUIRE(request.segments_size() == 2);
  CHECK(request.segments(0).begin() == 0);
  CHECK(request.segments(1).begin() == 100);
  REQUIRE(request.worker_jobs_size() == 1);
  CHECK(request.worker_jobs(0).batches() == 2);
  CHECK(request.worker_jobs(0).examples() == 200);
  CHECK(request.worker_jobs(0).clock_staleness().count().at(2) == 2);
  CHECK(request.worker_jobs(0).apply_staleness().count().at(5) == 1);
  REQUIRE(request.errors_size() == 1);
  CHECK(request.errors(0).message() == "loss is NaN");
}

TEST_CASE("Progress: an empty range is no segment; errors and samples are bounded", "[worker][unit]") {
  Progress progress(1);
  Train(&progress, 100, 100);
  for (int i = 0; i < 1000; ++i) progress.AddError(7, 1, "again");
  progress.AddBadRecords(7, std::vector<BadRecord>(1000));
  const HeartbeatRequest request = progress.Collect();
  CHECK(request.segments_size() == 0);
  CHECK(request.errors_size() == 10);
  REQUIRE(request.worker_jobs_size() == 1);
  CHECK(request.worker_jobs(0).bad_records() == 1000);
  CHECK(request.worker_jobs(0).bad_record_samples_size() == 10);
}

constexpr uint64_t kMapVersion = 5;

// Answers call n of each slot with the n-th status of a script.
struct Script {
  std::vector<std::vector<absl::Status>> statuses;
  std::vector<size_t> calls;
  CallSet set;
  const RouteMap* routes = nullptr;

  explicit Script(std::vector<std::vector<absl::Status>> by_slot)
      : statuses(std::move(by_slot)), calls(statuses.size()) {
    set.Reset(statuses.size());
    for (size_t slot = 0; slot < statuses.size(); ++slot) Issue(slot);
  }
  void Issue(size_t slot) {
    const size_t call = calls[slot]++;
    set.Begin(slot)(statuses[slot][std::min(call, statuses[slot].size() - 1)]);
  }
  absl::StatusOr<CallsEnd> Repeat(const RetryPolicy& policy, CallKind kind, uint64_t* retries) {
    return RepeatCalls(
        &set, statuses.size(), policy, kMapVersion, kind, [this](size_t slot) { Issue(slot); }, retries, routes);
  }
  absl::Status RepeatOther(const RetryPolicy& policy) {
    uint64_t retries = 0;
    return Repeat(policy, CallKind::kOther, &retries).status();
  }
};

RetryPolicy Policy() {
  RetryPolicy policy;
  policy.clock = &Clock::Steady();
  policy.retry_limit = absl::Seconds(30);
  policy.reach_limit = absl::Seconds(10);
  policy.keep_going = [] { return true; };
  return policy;
}

TEST_CASE("Retry: only the calls that failed are repeated, until they succeed", "[worker][unit]") {
  Script script(
      {{absl::OkStatus()}, {absl::UnavailableError("lost"), absl::ResourceExhaustedError("full"), absl::OkStatus()}});
  uint64_t retries = 0;
  const absl::StatusOr<CallsEnd> end = script.Repeat(Policy(), CallKind::kOther, &retries);
  REQUIRE(end.ok());
  CHECK(*end == CallsEnd::kAnswered);
  CHECK(script.calls == std::vector<size_t>{1, 3});
  CHECK(retries == 2);
}

TEST_CASE("Retry: servers that do not answer are reported until they do", "[worker][unit]") {
  FakeClock clock;
  ReachLog reach(&clock);
  RouteMap routes;
  for (uint64_t process : {11, 12}) routes.servers.push_back({process, nullptr, {}});
  RetryPolicy policy = Policy();
  policy.reach = &reach;
  policy.reach_limit = absl::ZeroDuration();
  const auto call = [&](absl::Status first, absl::Status second) {
    policy.superseded = [](uint64_t) { return true; };  // once is enough
    Script script({{first}, {second}});
    script.routes = &routes;
    return script.RepeatOther(policy);
  };
  CHECK(call(absl::OkStatus(), absl::UnavailableError("connection refused")).ok());
  CHECK(reach.Report().empty());  // it may be starting
  clock.Advance(absl::Seconds(3));
  CHECK(call(absl::OkStatus(), absl::DeadlineExceededError("no answer")).ok());
  REQUIRE(reach.Report().size() == 1);
  CHECK(reach.Report()[0].server() == 12);
  CHECK(reach.Report()[0].seconds() == 3);
  CHECK(reach.Report()[0].error() == "no answer");
  CHECK(call(absl::OkStatus(), absl::ResourceExhaustedError("full")).ok());  // an answer
  CHECK(reach.Report().empty());
  CHECK(call(absl::UnavailableError("reset"), absl::OkStatus()).ok());
  clock.Advance(absl::Seconds(20));
  CHECK(reach.Report().size() == 1);
  clock.Advance(absl::Seconds(20));  // it is not called any more: it has gone, perhaps
  CHECK(reach.Report().empty());
}

TEST_CASE("Retry: errors that repeating cannot mend end it at once", "[worker][unit]") {
  Script script({{absl::InvalidArgumentError("keys: 3, must be 4")}});
  CHECK(script.RepeatOther(Policy()) == absl::InvalidArgumentError("keys: 3, must be 4"));
  CHECK(script.calls == std::vector<size_t>{1});
}

TEST_CASE("Retry: a parked pull is no failure, and a lane that is told to stop stops", "[worker][unit]") {
  Script script({{absl::AbortedError("parked")}});
  RetryPolicy policy = Policy();
  policy.retry_limit = policy.reach_limit = absl::ZeroDuration();  // would end at once if it counted as a failure
  int asked = 0;
  policy.keep_going = [&] { return ++asked < 100; };
  uint64_t retries = 0;
  CHECK(absl::IsCancelled(script.Repeat(policy, CallKind::kPull, &retries).status()));
  CHECK(script.calls == std::vector<size_t>{100});
  CHECK(retries == 0);
}

TEST_CASE("Retry: a server that stays away or stays full is given up after its limit, with its own words",
          "[worker][unit]") {
  FakeClock clock;
  RetryPolicy policy = Policy();
  policy.clock = &clock;
  policy.keep_going = [&] {
    clock.Advance(absl::Seconds(6));
    return true;
  };
  Script away({{absl::UnavailableError("connection refused")}});
  const absl::Status status = away.RepeatOther(policy);
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("connection refused") && Catch::Contains("gave up after 10s"));
  CHECK(away.calls == std::vector<size_t>{3});
  Script full({{absl::ResourceExhaustedError("no memory")}});
  CHECK_THAT(std::string(full.RepeatOther(policy).message()),
             Catch::Contains("no memory") && Catch::Contains("gave up after 30s"));
  CHECK(full.calls == std::vector<size_t>{7});
}

TEST_CASE("Retry: maps with the same owners do not make full servers wait for ever, other owners do begin anew",
          "[worker][unit]") {
  FakeClock clock;
  MemoryWait memory;
  RouteMap routes;
  routes.servers.push_back({11, nullptr, {0, 1}});
  RetryPolicy policy = Policy();
  policy.clock = &clock;
  policy.memory = &memory;
  policy.superseded = [](uint64_t) { return true; };  // a new map each time
  const auto refused = [&] {
    clock.Advance(absl::Seconds(8));
    Script script({{absl::ResourceExhaustedError("no memory")}});
    script.routes = &routes;
    uint64_t retries = 0;
    return script.Repeat(policy, CallKind::kOther, &retries).status();
  };
  for (int map = 0; map < 4; ++map) REQUIRE(refused().ok());
  CHECK(absl::IsResourceExhausted(refused()));
  routes.servers.push_back({12, nullptr, {1}});
  routes.servers[0].partitions = {0};
  for (int map = 0; map < 4; ++map) REQUIRE(refused().ok());
  CHECK(absl::IsResourceExhausted(refused()));
  memory.End();
  CHECK(refused().ok());
}

TEST_CASE("Retry: a newer map ends the repeating, whatever the limit; an answer still counts", "[worker][unit]") {
  const absl::Status lost = GENERATE(absl::UnavailableError("dead"), absl::DeadlineExceededError("hung"),
                                     absl::ResourceExhaustedError("full"), absl::AbortedError("parked"));
  RetryPolicy policy = Policy();
  policy.retry_limit = policy.reach_limit = absl::Hours(1);
  int asked = 0;
  policy.superseded = [&](uint64_t version) {
    CHECK(version == kMapVersion);
    return ++asked == 3;
  };
  Script script({{absl::OkStatus()}, {lost}});
  uint64_t retries = 0;
  const absl::StatusOr<CallsEnd> end = script.Repeat(policy, CallKind::kPull, &retries);
  REQUIRE(end.ok());
  CHECK(*end == CallsEnd::kSuperseded);
  CHECK(script.calls == std::vector<size_t>{1, 3});
  policy.superseded = [](uint64_t) { return true; };
  Script answered({{absl::OkStatus()}, {absl::OkStatus()}});
  const absl::StatusOr<CallsEnd> good = answered.Repeat(policy, CallKind::kOther, &retries);
  REQUIRE(good.ok());
  CHECK(*good == CallsEnd::kAnswered);
}

TEST_CASE("Retry: a server without the job is asked again only after a look at the map", "[worker][unit]") {
  Script script({{absl::NotFoundError("job 7: not on this server")}});
  uint64_t retries = 0;
  const absl::StatusOr<CallsEnd> end = script.Repeat(Policy(), CallKind::kOther, &retries);
  REQUIRE(end.ok());
  CHECK(*end == CallsEnd::kSuperseded);
  CHECK(script.calls == std::vector<size_t>{1});
}

TEST_CASE("Retry: a lane that is stopping gives up pulls at once, a push after half a second", "[worker][unit]") {
  FakeClock clock;
  RetryPolicy policy = Policy();
  policy.clock = &clock;
  policy.stopping = [&] {
    clock.Advance(absl::Milliseconds(200));
    return true;
  };
  uint64_t retries = 0;
  Script parked({{absl::AbortedError("parked")}});
  CHECK(absl::IsCancelled(parked.Repeat(policy, CallKind::kPull, &retries).status()));
  CHECK(parked.calls == std::vector<size_t>{1});
  Script lost({{absl::UnavailableError("dead")}});
  CHECK(absl::IsCancelled(lost.RepeatOther(policy)));
  CHECK(lost.calls == std::vector<size_t>{4});
  Script slow({{absl::UnavailableError("lost"), absl::OkStatus()}});
  CHECK(slow.RepeatOther(policy).ok());
}

TEST_CASE("Backoff: waits grow to half a second and start again after a success", "[worker][unit]") {
  Backoff backoff;
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 8; ++i) waits.push_back(backoff.Next());
  CHECK(waits[0] == absl::Milliseconds(10));
  CHECK(waits[1] == absl::Milliseconds(20));
  CHECK(waits[7] == absl::Milliseconds(500));
  backoff.Reset();
  CHECK(backoff.Next() == absl::Milliseconds(10));
}

}  // namespace
}  // namespace shoal
