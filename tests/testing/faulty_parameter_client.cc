#include "tests/testing/faulty_parameter_client.h"

#include <functional>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/wire/parameter_codec.h"

namespace shoal {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// Whether the request may still be needed when the caller has its answer.
bool OutlivesCall(Fault fault) {
  return fault == Fault::kReplyLost || fault == Fault::kDoubled || fault == Fault::kLate;
}

// A request and a place for its reply that live as long as the server needs them.
template <typename Request, typename Reply>
struct Copy {
  Request request;
  Reply reply;
  std::vector<ByteArray> storage;
  std::vector<std::vector<uint32_t>> dims;
};

template <typename Request, typename Reply>
absl::Status Fill(const Request& request, const Reply&, Copy<Request, Reply>* copy) {
  copy->request = request;
  return absl::OkStatus();
}

// By way of the wire, which makes a copy that owns its memory.
absl::Status Fill(const PullRequest& request, const PullReply& reply, Copy<PullRequest, PullReply>* copy) {
  SHOAL_RETURN_IF_ERROR(CheckPullDestinations(request, reply));
  SHOAL_ASSIGN_OR_RETURN(const ByteArray bytes, EncodePullRequest(request, kNoLimit));
  const absl::string_view chunk(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  SHOAL_ASSIGN_OR_RETURN(OwnedPullRequest owned, DecodePullRequest(absl::MakeConstSpan(&chunk, 1)));
  copy->request = std::move(owned.request);
  copy->storage = std::move(owned.storage);
  FlatSizes sizes;
  copy->dims.reserve(request.groups.size());  // spans point to its elements
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const PullGroup& group = request.groups[g];
    copy->dims.emplace_back(group.dims.begin(), group.dims.end());
    copy->request.groups[g].dims = copy->dims.back();
    for (uint32_t dim : group.dims) sizes.push_back(uint64_t{dim} * group.keys.size());
  }
  sizes.push_back(request.dense ? reply.dense_floats : 0);
  SHOAL_ASSIGN_OR_RETURN(ByteArray values, AllocatePullValues(copy->request, sizes, kNoLimit, &copy->reply));
  copy->storage.push_back(std::move(values));
  return absl::OkStatus();
}

absl::Status Fill(const PushRequest& request, const PushReply&, Copy<PushRequest, PushReply>* copy) {
  SHOAL_ASSIGN_OR_RETURN(const ByteArray bytes, EncodePushRequest(request, kNoLimit));
  const absl::string_view chunk(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  SHOAL_ASSIGN_OR_RETURN(OwnedPushRequest owned, DecodePushRequest(absl::MakeConstSpan(&chunk, 1)));
  copy->request = std::move(owned.request);
  copy->storage = std::move(owned.storage);
  return absl::OkStatus();
}

}  // namespace

FaultPlan FaultPlan::Uniform(uint64_t seed, const FaultRates& rates) {
  FaultPlan plan;
  plan.seed = seed;
  plan.rates.fill(rates);
  return plan;
}

uint64_t FaultCounters::Of(Fault fault) const {
  uint64_t sum = 0;
  for (size_t m = 0; m < kMethods; ++m) sum += Of(static_cast<Method>(m), fault);
  return sum;
}

// Runs functions later, each once: with true when its time has come, with false when the timer ends first. Thread-safe.
class FaultyParameterClient::Timer {
 public:
  using Task = std::function<void(bool)>;

  Timer() : thread_([this] { Run(); }) {}
  ~Timer() {
    {
      MutexLock lock(&mu_);
      stop_ = true;
      changed_.SignalAll();
    }
    thread_.join();
  }

  void After(absl::Duration delay, Task task) {
    MutexLock lock(&mu_);
    tasks_.emplace(Clock::Steady().Now() + delay, std::move(task));
    changed_.SignalAll();
  }

 private:
  void Run() {
    for (;;) {
      Task task;
      bool due = true;
      {
        MutexLock lock(&mu_);
        while (!stop_ && (tasks_.empty() || tasks_.begin()->first > Clock::Steady().Now())) {
          changed_.WaitFor(&mu_, tasks_.empty() ? absl::Seconds(1) : tasks_.begin()->first - Clock::Steady().Now());
        }
        if (tasks_.empty()) return;
        due = !stop_;
        task = std::move(tasks_.begin()->second);
        tasks_.erase(tasks_.begin());
      }
      task(due);
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::multimap<absl::Duration, Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

FaultyParameterClient::FaultyParameterClient(std::unique_ptr<ParameterClient> inner, const FaultPlan& plan,
                                             std::shared_ptr<FaultCounters> counters)
    : inner_(std::move(inner)), plan_(plan), counters_(std::move(counters)), timer_(std::make_unique<Timer>()) {}

FaultyParameterClient::~FaultyParameterClient() = default;

Fault FaultyParameterClient::Draw(Method method, Random* random) {
  const FaultRates& rates = plan_.rates[static_cast<size_t>(method)];
  const std::pair<Fault, double> faults[] = {{Fault::kRequestLost, rates.request_lost},
                                             {Fault::kReplyLost, rates.reply_lost},
                                             {Fault::kDoubled, rates.doubled},
                                             {Fault::kDelayed, rates.delayed},
                                             {Fault::kLate, rates.late}};
  double left = random->Uniform();
  for (const auto& [fault, rate] : faults) {
    if (left < rate) return fault;
    left -= rate;
  }
  return Fault::kNone;
}

absl::Duration FaultyParameterClient::DrawDelay(Random* random) const { return plan_.max_delay * random->Uniform(); }

template <typename Request, typename Reply>
void FaultyParameterClient::Run(Method method, Call<Request, Reply> call, const Request* request,
                                absl::Duration timeout, Reply* reply, Done done) {
  const auto index = static_cast<size_t>(method);
  Random random({plan_.seed, index, calls_[index]++});
  const Fault fault = Draw(method, &random);
  const auto copy = std::make_shared<Copy<Request, Reply>>();
  const absl::Status copied = OutlivesCall(fault) ? Fill(*request, *reply, copy.get()) : absl::OkStatus();
  if (!copied.ok()) {
    done(copied);
    return;
  }
  counters_->Add(method, fault);
  ParameterClient* const inner = inner_.get();
  // The copy lives until the server is through with it; nobody sees its reply.
  const auto send_copy = [inner, call, copy, timeout](Done after) {
    (inner->*call)(&copy->request, timeout, &copy->reply,
                   [copy, after = std::move(after)](absl::Status status) { after(status); });
  };
  const auto send_copy_later = [&] {
    timer_->After(DrawDelay(&random), [send_copy](bool due) {
      if (due) send_copy([](absl::Status) {});
    });
  };
  switch (fault) {
    case Fault::kNone:
      (inner->*call)(request, timeout, reply, std::move(done));
      return;
    case Fault::kRequestLost:
      done(random.Below(2) == 0 ? absl::UnavailableError("injected: request lost")
                                : absl::DeadlineExceededError("injected: request lost"));
      return;
    case Fault::kReplyLost:
      send_copy([done = std::move(done)](absl::Status) { done(absl::UnavailableError("injected: reply lost")); });
      return;
    case Fault::kDoubled:
      if (random.Below(2) == 0) {
        send_copy([](absl::Status) {});
      } else {
        send_copy_later();
      }
      (inner->*call)(request, timeout, reply, std::move(done));
      return;
    case Fault::kDelayed:
      timer_->After(DrawDelay(&random), [inner, call, request, timeout, reply, done = std::move(done)](bool due) {
        if (due) {
          (inner->*call)(request, timeout, reply, done);
        } else {
          done(absl::UnavailableError("injected: connection closed"));
        }
      });
      return;
    case Fault::kLate:
      send_copy_later();
      done(absl::DeadlineExceededError("injected: request late"));
      return;
  }
}

void FaultyParameterClient::OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply,
                                      Done done) {
  Run(Method::kOpenSplit, &ParameterClient::OpenSplit, request, timeout, reply, std::move(done));
}

void FaultyParameterClient::Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
  Run(Method::kPull, &ParameterClient::Pull, request, timeout, reply, std::move(done));
}

void FaultyParameterClient::Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) {
  Run(Method::kPush, &ParameterClient::Push, request, timeout, reply, std::move(done));
}

void FaultyParameterClient::Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) {
  Run(Method::kMark, &ParameterClient::Mark, request, timeout, reply, std::move(done));
}

}  // namespace shoal
