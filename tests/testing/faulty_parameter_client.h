// A bad network between a lane and a server: loses, doubles, delays and reorders calls as a seeded plan says.
#ifndef SHOAL_TESTS_TESTING_FAULTY_PARAMETER_CLIENT_H_
#define SHOAL_TESTS_TESTING_FAULTY_PARAMETER_CLIENT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "base/random.h"
#include "worker/client/parameter_client.h"

namespace shoal {

enum class Method { kOpenSplit = 0, kPull = 1, kPush = 2, kMark = 3 };
inline constexpr size_t kMethods = 4;

// What may happen to a call; the rest goes through untouched.
enum class Fault {
  kNone = 0,
  kRequestLost = 1,  // never reaches the server; the caller gets UNAVAILABLE or DEADLINE_EXCEEDED
  kReplyLost = 2,    // the server acts, then the caller gets UNAVAILABLE and an untouched reply
  kDoubled = 3,      // reaches the server twice, the second time now or later; the second reply is dropped
  kDelayed = 4,      // reaches the server later; the caller waits for the reply
  kLate = 5,         // the caller gets DEADLINE_EXCEEDED at once, and later the request reaches the server all the same
};
inline constexpr size_t kFaults = 6;

// Probabilities of the faults; their sum is at most 1.
struct FaultRates {
  double request_lost = 0;
  double reply_lost = 0;
  double doubled = 0;
  double delayed = 0;
  double late = 0;
};

struct FaultPlan {
  uint64_t seed = 0;
  std::array<FaultRates, kMethods> rates;  // by Method
  // "Later" is at most this much later: long enough to arrive behind requests that were sent after it.
  absl::Duration max_delay = absl::Milliseconds(20);

  // The same rates for every method.
  static FaultPlan Uniform(uint64_t seed, const FaultRates& rates);
};

// How often each fault was injected. Thread-safe; one may serve many clients.
class FaultCounters {
 public:
  uint64_t Of(Method method, Fault fault) const { return counts_[Index(method, fault)].load(); }
  // Over all methods.
  uint64_t Of(Fault fault) const;
  void Add(Method method, Fault fault) { ++counts_[Index(method, fault)]; }

 private:
  static size_t Index(Method method, Fault fault) {
    return static_cast<size_t>(method) * kFaults + static_cast<size_t>(fault);
  }
  std::array<std::atomic<uint64_t>, kMethods * kFaults> counts_{};
};

// Thread-safe. The fate of a method's n-th call is a function of (seed, method, n). Requests that outlive their call
// are deep copies, for which pulls and pushes must carry dims (else INVALID_ARGUMENT). Owns one thread, for delays.
// When it is destroyed, what is still delayed is lost: a caller that waits for it gets UNAVAILABLE.
class FaultyParameterClient : public ParameterClient {
 public:
  FaultyParameterClient(std::unique_ptr<ParameterClient> inner, const FaultPlan& plan,
                        std::shared_ptr<FaultCounters> counters);
  ~FaultyParameterClient() override;

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override;
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override;
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override;
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override;
  void Abort(Calls calls) override { inner_->Abort(calls); }

 private:
  class Timer;

  template <typename Request, typename Reply>
  using Call = void (ParameterClient::*)(const Request*, absl::Duration, Reply*, Done);
  template <typename Request, typename Reply>
  void Run(Method method, Call<Request, Reply> call, const Request* request, absl::Duration timeout, Reply* reply,
           Done done);
  // The fate of the method's next call; *random continues with the details of that fate.
  Fault Draw(Method method, Random* random);
  absl::Duration DrawDelay(Random* random) const;

  const std::unique_ptr<ParameterClient> inner_;
  const FaultPlan plan_;
  const std::shared_ptr<FaultCounters> counters_;
  std::array<std::atomic<uint64_t>, kMethods> calls_{};
  const std::unique_ptr<Timer> timer_;  // last: its thread calls inner_
};

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_FAULTY_PARAMETER_CLIENT_H_
