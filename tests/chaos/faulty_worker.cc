// A worker daemon behind a bad network, for the chaos harness: `shoal worker` whose calls to servers are lost, doubled,
// delayed and answered wrongly, as a seeded plan says, and which is slowed down so that a job lasts long enough.
//
//   faulty_worker --scheduler HOST:PORT --name w0 --seed 7 --rate 0.002 --log w0.jsonl
//
// Writes one JSON object a line to --log: every answer to OpenSplit and Push, leases whose watermarks were falsified or
// whose pushes were reordered, how often each fault happened so far and, with --log-batches, when each batch began.
// Times are of the steady clock, which all processes of a machine share. --scale-every N --scale-by F plant what the
// harness must find: the sums of every N-th push are multiplied by F, so that its updates are lost (0) or counted twice
// (2).
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "local/daemons.h"
#include "tests/testing/faulty_parameter_client.h"
#include "tests/testing/forwarding_parameter_client.h"
#include "tests/testing/overtaking_parameter_client.h"

namespace shoal {
namespace {

// Whole lines, each on its way to the file before Write returns: the process may be killed at any time. Thread-safe.
class LineLog {
 public:
  explicit LineLog(const std::string& path) : file_(path.empty() ? nullptr : std::fopen(path.c_str(), "a")) {
    if (file_ != nullptr) std::fputs("\n", file_);  // an earlier life may have died in the middle of a line
  }
  ~LineLog() {
    if (file_ != nullptr) std::fclose(file_);
  }
  void Write(const nlohmann::json& line) {
    const std::string text = line.dump() + "\n";
    MutexLock lock(&mu_);
    if (file_ == nullptr) return;
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);
  }

 private:
  Mutex mu_;
  std::FILE* const file_;
};

double SteadySeconds() { return absl::ToDoubleSeconds(Clock::Steady().Now()); }

// Notes what each server answers to OpenSplit and Push, and how far ahead of the slowest lane rows were read. Sits next
// to the real client, so it sees the calls that the bad network doubles or delivers late, too. Thread-safe.
class AnswerLog : public ForwardingParameterClient {
 public:
  AnswerLog(std::unique_ptr<ParameterClient> inner, uint64_t server, LineLog* log)
      : ForwardingParameterClient(std::move(inner)), server_(server), log_(*log) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    const double sent = SteadySeconds();
    const OpenSplitRequest asked = *request;
    ForwardingParameterClient::OpenSplit(request, timeout, reply,
                                         [this, asked, reply, sent, done = std::move(done)](absl::Status status) {
                                           if (status.ok()) {
                                             nlohmann::json open = {{"server", server_},
                                                                    {"run", asked.header.run},
                                                                    {"map", reply->map_version},
                                                                    {"lane", asked.header.lane},
                                                                    {"pass", asked.pass},
                                                                    {"split", asked.split},
                                                                    {"lease", asked.lease},
                                                                    {"outcome", static_cast<int>(reply->outcome)},
                                                                    {"sent", sent},
                                                                    {"received", SteadySeconds()}};
                                             if (reply->outcome == RequestOutcome::kOk && !reply->watermarks.empty()) {
                                               open["least"] = reply->watermarks.front();
                                               open["most"] = reply->watermarks.back();
                                             }
                                             log_.Write({{"open", std::move(open)}});
                                           }
                                           done(std::move(status));
                                         });
  }

  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    const bool gated = !request->read_only;
    const uint64_t batch = request->batch;
    ForwardingParameterClient::Pull(request, timeout, reply,
                                    [this, gated, batch, reply, done = std::move(done)](absl::Status status) {
                                      if (gated && status.ok() && reply->outcome == RequestOutcome::kOk) {
                                        NoteStaleness(batch, reply->slowest_clock);
                                      }
                                      done(std::move(status));
                                    });
  }

  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    const double sent = SteadySeconds();
    const PushRequest& r = *request;
    const nlohmann::json asked = {server_, r.header.run,   r.header.lane,       r.pass,    r.split, r.lease, r.begin,
                                  r.end,   r.end_of_split, r.partitions.size(), r.examples};
    ForwardingParameterClient::Push(request, timeout, reply,
                                    [this, asked, reply, sent, done = std::move(done)](absl::Status status) {
                                      if (status.ok()) {
                                        // By PushOutcome, kAccepted left to the reader: those that are not listed.
                                        std::array<int, 6> answers{};
                                        for (const PartitionAnswer& answer : reply->exceptions)
                                          ++answers[static_cast<size_t>(answer.outcome) % 6];
                                        log_.Write({{"push",
                                                     {{"asked", asked},
                                                      {"map", reply->map_version},
                                                      {"outcome", static_cast<int>(reply->outcome)},
                                                      {"answers", answers},
                                                      {"sent", sent},
                                                      {"received", SteadySeconds()}}}});
                                      }
                                      done(std::move(status));
                                    });
  }

 private:
  void NoteStaleness(uint64_t batch, uint64_t slowest) {
    const int64_t ahead = static_cast<int64_t>(batch) - static_cast<int64_t>(slowest);
    int64_t most = most_ahead_;
    while (ahead > most && !most_ahead_.compare_exchange_weak(most, ahead)) {
    }
    if (ahead > most) log_.Write({{"ahead", {{"server", server_}, {"batch", batch}, {"slowest", slowest}}}});
  }

  const uint64_t server_;
  LineLog& log_;
  std::atomic<int64_t> most_ahead_{0};
};

// Calls go through a bad network while a switch is on, else directly. Thread-safe.
class BadSpell : public ParameterClient {
 public:
  BadSpell(std::shared_ptr<ParameterClient> good, std::unique_ptr<ParameterClient> bad, const std::atomic<bool>* on)
      : good_(std::move(good)), bad_(std::move(bad)), on_(*on) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    Current().OpenSplit(request, timeout, reply, std::move(done));
  }
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    Current().Pull(request, timeout, reply, std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    Current().Push(request, timeout, reply, std::move(done));
  }
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override {
    Current().Mark(request, timeout, reply, std::move(done));
  }
  void Abort(Calls calls) override { bad_->Abort(calls); }  // which hands it on

 private:
  ParameterClient& Current() { return on_ ? *bad_ : *good_; }

  const std::shared_ptr<ParameterClient> good_;
  const std::unique_ptr<ParameterClient> bad_;
  const std::atomic<bool>& on_;
};

// Now and then tells the lane a watermark that is a tenth of a batch too small: the lane must be put right by
// MISALIGNED, which nothing else leads to while all leases of a job have the same batch size. All connections of a
// worker agree on it, each once a lease.
class WrongWatermarks : public ForwardingParameterClient {
 public:
  WrongWatermarks(std::unique_ptr<ParameterClient> inner, uint64_t seed, double rate, std::atomic<uint64_t>* injected,
                  LineLog* log)
      : ForwardingParameterClient(std::move(inner)), seed_(seed), rate_(rate), injected_(*injected), log_(*log) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    const uint64_t lease = request->lease;
    ForwardingParameterClient::OpenSplit(request, timeout, reply,
                                         [this, lease, reply, done = std::move(done)](absl::Status status) {
                                           if (status.ok() && reply->outcome == RequestOutcome::kOk) {
                                             Tamper(lease, &reply->watermarks);
                                           }
                                           done(std::move(status));
                                         });
  }

 private:
  void Tamper(uint64_t lease, std::vector<uint64_t>* watermarks) {
    constexpr uint64_t kOff = 50;
    if (watermarks->empty() || watermarks->front() == kSplitDone || watermarks->front() < kOff) return;
    const uint64_t real = watermarks->front();
    Random random({seed_, lease});
    if (random.Uniform() >= rate_) return;
    {
      MutexLock lock(&mu_);
      if (!tampered_.insert(lease).second) return;
    }
    // A lane that begins at the right place and stops there tells nobody anything new, so the right one is left out.
    *watermarks = {real - kOff};
    ++injected_;
    log_.Write({{"planted", lease}});
  }

  const uint64_t seed_;
  const double rate_;
  std::atomic<uint64_t>& injected_;
  LineLog& log_;
  Mutex mu_;
  std::set<uint64_t> tampered_ ABSL_GUARDED_BY(mu_);
};

// Multiplies the sums of every N-th push: a defect for the harness to find, which no server can see. Thread-safe.
class WrongSums : public ForwardingParameterClient {
 public:
  WrongSums(std::unique_ptr<ParameterClient> inner, uint64_t every, float factor)
      : ForwardingParameterClient(std::move(inner)), every_(every), factor_(factor) {}

  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    if (++pushes_ % every_ != 0) return ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
    auto wrong = std::make_shared<PushRequest>(*request);
    auto sums = std::make_shared<std::vector<std::vector<float>>>();
    const auto scaled = [&](const float* begin, size_t size) {
      sums->emplace_back(begin, begin + size);
      for (float& sum : sums->back()) sum *= factor_;
      return sums->back().data();
    };
    for (PushGroup& group : wrong->groups) {
      for (size_t t = 0; t < group.gradients.size(); ++t) {
        group.gradients[t] = scaled(group.gradients[t], group.keys.size() * group.dims[t]);
      }
    }
    if (!request->dense.empty())
      wrong->dense = {scaled(request->dense.data(), request->dense.size()), request->dense.size()};
    ForwardingParameterClient::Push(
        wrong.get(), timeout, reply,
        [wrong, sums, done = std::move(done)](absl::Status status) { done(std::move(status)); });
  }

 private:
  const uint64_t every_;
  const float factor_;
  std::atomic<uint64_t> pushes_{0};
};

struct Options {
  WorkerDaemonOptions daemon;
  uint64_t seed = 1;
  double rate = 0;  // of each fault
  std::string kinds = "request_lost,reply_lost,doubled,delayed,late";
  std::string bad_while;     // these faults happen only while this file exists; empty: always
  double wrong_rate = 0;     // of wrong watermarks, by opening of a split that was begun before
  double overtake_rate = 0;  // of pushes that the next one overtakes
  int batch_ms = 0;          // a lane takes at least so long for a batch
  std::string full_speed;    // once this file exists: no longer
  std::string log;
  bool log_batches = false;
  uint64_t scale_every = 0;  // 0: no push
  float scale_by = 2;
};

bool Exists(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file != nullptr) std::fclose(file);
  return file != nullptr;
}

FaultRates RatesOf(const Options& options) {
  FaultRates rates;
  for (absl::string_view kind : absl::StrSplit(options.kinds, ',')) {
    (kind == "request_lost" ? rates.request_lost
     : kind == "reply_lost" ? rates.reply_lost
     : kind == "doubled"    ? rates.doubled
     : kind == "delayed"    ? rates.delayed
                            : rates.late) = options.rate;
  }
  return rates;
}

// What the daemon does to its connections.
struct Network {
  const Options& options;
  LineLog& log;
  const std::shared_ptr<FaultCounters> counters = std::make_shared<FaultCounters>();
  std::atomic<uint64_t> wrong{0}, overtaken{0}, clients{0};
  std::atomic<bool> bad{true};

  std::unique_ptr<ParameterClient> Wrap(const ServerAddress& server, std::unique_ptr<ParameterClient> client) {
    const uint64_t seed = HashCoordinates({options.seed, clients++});
    client = std::make_unique<AnswerLog>(std::move(client), server.process(), &log);
    if (options.scale_every > 0) {
      client = std::make_unique<WrongSums>(std::move(client), options.scale_every, options.scale_by);
    }
    if (options.overtake_rate > 0) {
      client = std::make_unique<OvertakingParameterClient>(std::move(client), seed, options.overtake_rate,
                                                           [this](uint64_t lease) {
                                                             ++overtaken;
                                                             log.Write({{"overtaken", lease}});
                                                           });
    }
    if (options.rate > 0) {
      const std::shared_ptr<ParameterClient> good = std::move(client);
      auto faulty = std::make_unique<FaultyParameterClient>(std::make_unique<ForwardingParameterClient>(good),
                                                            FaultPlan::Uniform(seed, RatesOf(options)), counters);
      client = std::make_unique<BadSpell>(good, std::move(faulty), &bad);
    }
    if (options.wrong_rate > 0) {
      client = std::make_unique<WrongWatermarks>(std::move(client), options.seed, options.wrong_rate, &wrong, &log);
    }
    return client;
  }

  nlohmann::json Counts() const {
    return {{"request_lost", counters->Of(Fault::kRequestLost)},
            {"reply_lost", counters->Of(Fault::kReplyLost)},
            {"doubled", counters->Of(Fault::kDoubled)},
            {"delayed", counters->Of(Fault::kDelayed)},
            {"late", counters->Of(Fault::kLate)},
            {"overtaken", overtaken.load()},
            {"wrong_watermark", wrong.load()}};
  }
};

int Run(Options options) {
  LineLog log(options.log);
  Network network{options, log};
  std::atomic<bool> full_speed{options.batch_ms == 0};
  options.daemon.wrap = [&](const ServerAddress& server, std::unique_ptr<ParameterClient> client) {
    return network.Wrap(server, std::move(client));
  };
  options.daemon.before_batch = [&](uint32_t thread, uint64_t finished) {
    if (options.log_batches) {
      log.Write({{"batch", {{"at", SteadySeconds()}, {"thread", thread}, {"finished", finished}}}});
    }
    if (!full_speed) std::this_thread::sleep_for(std::chrono::milliseconds(options.batch_ms));
  };
  StopSignals stop;
  std::atomic<bool> ended{false};
  std::thread reporter([&] {
    while (!ended) {
      if (!options.full_speed.empty() && Exists(options.full_speed)) full_speed = true;
      if (!options.bad_while.empty()) network.bad = Exists(options.bad_while);
      log.Write({{"faults", network.Counts()}});
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const absl::Status status = RunWorkerDaemon(options.daemon, &stop);
  ended = true;
  reporter.join();
  if (!status.ok()) std::fprintf(stderr, "faulty_worker: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::Options options;
  CLI::App app("A worker behind a bad network.");
  app.add_option("--scheduler", options.daemon.scheduler)->required();
  app.add_option("--name", options.daemon.name)->required();
  app.add_option("--threads", options.daemon.threads);
  app.add_option("--seed", options.seed);
  app.add_option("--rate", options.rate);
  app.add_option("--kinds", options.kinds);
  app.add_option("--bad-while", options.bad_while);
  app.add_option("--wrong-rate", options.wrong_rate);
  app.add_option("--overtake-rate", options.overtake_rate);
  app.add_option("--batch-ms", options.batch_ms);
  app.add_option("--full-speed-file", options.full_speed);
  app.add_option("--log", options.log);
  app.add_flag("--log-batches", options.log_batches);
  app.add_option("--scale-every", options.scale_every);
  app.add_option("--scale-by", options.scale_by);
  CLI11_PARSE(app, argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("shoal"));  // stdout is for the line that says "ready"
  return shoal::Run(options);
}
