#include "tests/testing/faulty_parameter_client.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/mutex.h"

namespace shoal {
namespace {

// A server that adds the gradients that it gets and answers at once. Thread-safe.
class SummingClient : public ParameterClient {
 public:
  struct State {
    Mutex mu;
    CondVar changed;
    std::vector<float> pushed ABSL_GUARDED_BY(mu);
    int opened ABSL_GUARDED_BY(mu) = 0;
    int pulled ABSL_GUARDED_BY(mu) = 0;
  };
  explicit SummingClient(State* state) : state_(state) {}

  void OpenSplit(const OpenSplitRequest*, absl::Duration, OpenSplitReply* reply, Done done) override {
    {
      MutexLock lock(&state_->mu);
      ++state_->opened;
    }
    reply->map_version = 7;
    done(absl::OkStatus());
  }
  void Pull(const PullRequest* request, absl::Duration, PullReply* reply, Done done) override {
    {
      MutexLock lock(&state_->mu);
      ++state_->pulled;
    }
    for (size_t i = 0; i < request->groups[0].keys.size(); ++i) reply->rows[0][0][i] = request->groups[0].keys[i];
    done(absl::OkStatus());
  }
  void Push(const PushRequest* request, absl::Duration, PushReply*, Done done) override {
    {
      MutexLock lock(&state_->mu);
      state_->pushed.push_back(request->groups[0].gradients[0][0]);
      state_->changed.SignalAll();
    }
    done(absl::OkStatus());
  }
  void Mark(const MarkRequest*, absl::Duration, MarkReply*, Done done) override { done(absl::OkStatus()); }

 private:
  State* const state_;
};

// A push whose memory is overwritten as soon as it is answered.
struct OnePush {
  std::vector<uint64_t> keys{5};
  std::vector<uint32_t> partitions{0}, counts{1}, tables{0}, dims{1};
  std::vector<float> gradients;
  PushRequest request;
  PushReply reply;

  explicit OnePush(float value) : gradients{value} {
    request.partitions = partitions;
    PushGroup group;
    group.keys = keys;
    group.counts = counts;
    group.tables = tables;
    group.gradients = {gradients.data()};
    group.dims = dims;
    request.groups = {group};
  }
};

absl::Status Send(ParameterClient* client, float value) {
  OnePush push(value);
  absl::Notification done;
  absl::Status result;
  client->Push(&push.request, absl::Seconds(30), &push.reply, [&](absl::Status status) {
    result = std::move(status);
    push.gradients[0] = -1;
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

// Sends 200 pushes, counts those that failed and waits until expected() of them have reached the server.
template <typename Expected>
std::vector<float> Push200(const FaultRates& rates, std::shared_ptr<FaultCounters> counters, uint64_t* failed,
                           Expected expected) {
  SummingClient::State state;
  FaultyParameterClient client(std::make_unique<SummingClient>(&state), FaultPlan::Uniform(3, rates),
                               std::move(counters));
  for (int i = 0; i < 200; ++i) *failed += !Send(&client, static_cast<float>(i)).ok();
  const size_t wanted = expected();
  MutexLock lock(&state.mu);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (state.pushed.size() < wanted && absl::Now() < deadline) state.changed.WaitFor(&state.mu, absl::Seconds(1));
  return state.pushed;
}

TEST_CASE("FaultyParameterClient: a lost request never reaches the server", "[testing][unit]") {
  const auto counters = std::make_shared<FaultCounters>();
  uint64_t failed = 0;
  FaultRates rates;
  rates.request_lost = 0.3;
  const auto pushed = Push200(rates, counters, &failed, [&] { return counters->Of(Method::kPush, Fault::kNone); });
  const uint64_t lost = counters->Of(Method::kPush, Fault::kRequestLost);
  CHECK((lost > 30 && lost < 90));
  CHECK(failed == lost);
  CHECK(pushed.size() == 200 - lost);
}

TEST_CASE("FaultyParameterClient: a lost reply, a doubled and a late request reach the server with their values",
          "[testing][unit]") {
  const auto counters = std::make_shared<FaultCounters>();
  uint64_t failed = 0;
  FaultRates rates;
  rates.reply_lost = 0.2;
  rates.doubled = 0.3;
  rates.delayed = 0.1;
  rates.late = 0.2;
  const auto pushed =
      Push200(rates, counters, &failed, [&] { return 200 + counters->Of(Method::kPush, Fault::kDoubled); });
  for (Fault fault : {Fault::kNone, Fault::kReplyLost, Fault::kDoubled, Fault::kDelayed, Fault::kLate}) {
    CHECK(counters->Of(fault) > 5);
  }
  CHECK(failed == counters->Of(Fault::kReplyLost) + counters->Of(Fault::kLate));
  REQUIRE(pushed.size() == 200 + counters->Of(Fault::kDoubled));
  std::vector<int> seen(200);
  for (float value : pushed) {
    REQUIRE((value >= 0 && value < 200));  // -1: the caller's memory, read after it was answered
    ++seen[static_cast<size_t>(value)];
  }
  uint64_t twice = 0;
  for (int n : seen) {
    CHECK((n == 1 || n == 2));
    twice += n == 2;
  }
  CHECK(twice == counters->Of(Fault::kDoubled));
}

TEST_CASE("FaultyParameterClient: a pull whose reply is lost leaves the caller's memory alone", "[testing][unit]") {
  SummingClient::State state;
  FaultRates rates;
  rates.reply_lost = 1;
  auto counters = std::make_shared<FaultCounters>();
  FaultyParameterClient client(std::make_unique<SummingClient>(&state), FaultPlan::Uniform(1, rates), counters);
  OnePush same(0);
  PullRequest request;
  request.partitions = same.partitions;
  request.groups = {{same.keys, same.counts, same.tables, same.dims}};
  float row = 0.5f;
  PullReply reply;
  reply.rows = {{&row}};
  absl::Status result;
  client.Pull(&request, absl::Seconds(1), &reply, [&](absl::Status status) { result = status; });
  CHECK(absl::IsUnavailable(result));
  CHECK(row == 0.5f);
  MutexLock lock(&state.mu);
  CHECK(state.pulled == 1);
}

TEST_CASE("FaultyParameterClient: what is delayed when it ends is answered", "[testing][unit]") {
  SummingClient::State state;
  FaultRates rates;
  rates.delayed = 1;
  FaultPlan plan = FaultPlan::Uniform(1, rates);
  plan.max_delay = absl::Hours(1000);
  auto client = std::make_unique<FaultyParameterClient>(std::make_unique<SummingClient>(&state), plan,
                                                        std::make_shared<FaultCounters>());
  OpenSplitRequest request;
  OpenSplitReply reply;
  absl::Status result;
  client->OpenSplit(&request, absl::Seconds(1), &reply, [&](absl::Status status) { result = status; });
  client.reset();
  CHECK(absl::IsUnavailable(result));
  MutexLock lock(&state.mu);
  CHECK(state.opened == 0);
}

}  // namespace
}  // namespace shoal
