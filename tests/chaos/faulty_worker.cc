// A worker daemon behind a bad network, for the chaos harness: `shoal worker` whose calls to servers are lost, doubled,
// delayed and answered wrongly, as a seeded plan says, and which is slowed down so that a job lasts long enough.
//
//   faulty_worker --scheduler HOST:PORT --name w0 --seed 7 --rate 0.002 --log w0.jsonl
//
// Writes one JSON object a line to --log: every answer to OpenSplit, how often each fault happened so far and, with
// --log-batches, when each batch began. Times are of the steady clock, which all processes of a machine share.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "local/daemons.h"
#include "tests/testing/faulty_parameter_client.h"
#include "tests/testing/forwarding_parameter_client.h"

namespace shoal {
namespace {

// Whole lines, each on its way to the file before Write returns: the process may be killed at any time. Thread-safe.
class LineLog {
 public:
  explicit LineLog(const std::string& path) : file_(path.empty() ? nullptr : std::fopen(path.c_str(), "a")) {}
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

// Notes what a server says about the watermarks of a split.
class WatermarkLog : public ForwardingParameterClient {
 public:
  WatermarkLog(std::unique_ptr<ParameterClient> inner, uint64_t server, LineLog* log)
      : ForwardingParameterClient(std::move(inner)), server_(server), log_(*log) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    const double sent = SteadySeconds();
    const OpenSplitRequest asked = *request;
    ForwardingParameterClient::OpenSplit(
        request, timeout, reply, [this, asked, reply, sent, done = std::move(done)](absl::Status status) {
          if (status.ok() && reply->outcome == RequestOutcome::kOk && !reply->watermarks.empty()) {
            log_.Write({{"open",
                         {{"server", server_},
                          {"run", asked.header.run},
                          {"map", asked.header.map_version},
                          {"pass", asked.pass},
                          {"split", asked.split},
                          {"lease", asked.lease},
                          {"least", reply->watermarks.front()},
                          {"most", reply->watermarks.back()},
                          {"sent", sent},
                          {"received", SteadySeconds()}}}});
          }
          done(std::move(status));
        });
  }

 private:
  const uint64_t server_;
  LineLog& log_;
};

// Now and then tells the lane a watermark that is off by a tenth of a batch, as answers that were overtaken would: the
// lane must be put right by MISALIGNED and OUT_OF_ORDER. All connections of a worker agree on it, each once a lease.
class WrongWatermarks : public ForwardingParameterClient {
 public:
  WrongWatermarks(std::unique_ptr<ParameterClient> inner, uint64_t seed, double rate, std::atomic<uint64_t>* injected)
      : ForwardingParameterClient(std::move(inner)), seed_(seed), rate_(rate), injected_(*injected) {}

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
    if (watermarks->empty() || watermarks->front() == kSplitDone) return;
    const uint64_t real = watermarks->front();
    Random random({seed_, lease});
    // Splits that were begun by somebody else are rare, and only there is something behind which one can begin.
    if (random.Uniform() >= (real < kOff ? rate_ : 10 * rate_)) return;
    {
      MutexLock lock(&mu_);
      if (!tampered_.insert(lease).second) return;
    }
    // A lane that begins at the right place and stops there tells nobody anything new, so the right one is left out.
    *watermarks = {random.Below(2) == 0 || real < kOff ? real + kOff : real - kOff};
    ++injected_;
  }

  const uint64_t seed_;
  const double rate_;
  std::atomic<uint64_t>& injected_;
  Mutex mu_;
  std::set<uint64_t> tampered_ ABSL_GUARDED_BY(mu_);
};

struct Options {
  WorkerDaemonOptions daemon;
  uint64_t seed = 1;
  double rate = 0;         // of each fault
  double wrong_rate = 0;   // of wrong watermarks
  int batch_ms = 0;        // a lane takes at least so long for a batch
  std::string full_speed;  // once this file exists: no longer
  std::string log;
  bool log_batches = false;
};

bool Exists(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file != nullptr) std::fclose(file);
  return file != nullptr;
}

int Run(Options options) {
  LineLog log(options.log);
  auto counters = std::make_shared<FaultCounters>();
  std::atomic<uint64_t> wrong{0}, clients{0};
  std::atomic<bool> full_speed{options.batch_ms == 0};
  FaultRates rates;
  rates.request_lost = rates.reply_lost = rates.doubled = rates.delayed = rates.late = options.rate;
  options.daemon.wrap = [&](const ServerAddress& server, std::unique_ptr<ParameterClient> client) {
    const uint64_t seed = HashCoordinates({options.seed, clients++});
    client = std::make_unique<WatermarkLog>(std::move(client), server.process(), &log);
    if (options.rate > 0) {
      client = std::make_unique<FaultyParameterClient>(std::move(client), FaultPlan::Uniform(seed, rates), counters);
    }
    if (options.wrong_rate > 0) {
      client = std::make_unique<WrongWatermarks>(std::move(client), options.seed, options.wrong_rate, &wrong);
    }
    return client;
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
      log.Write({{"faults",
                  {{"request_lost", counters->Of(Fault::kRequestLost)},
                   {"reply_lost", counters->Of(Fault::kReplyLost)},
                   {"doubled", counters->Of(Fault::kDoubled)},
                   {"delayed", counters->Of(Fault::kDelayed)},
                   {"late", counters->Of(Fault::kLate)},
                   {"wrong_watermark", wrong.load()}}}});
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
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
  app.add_option("--wrong-rate", options.wrong_rate);
  app.add_option("--batch-ms", options.batch_ms);
  app.add_option("--full-speed-file", options.full_speed);
  app.add_option("--log", options.log);
  app.add_flag("--log-batches", options.log_batches);
  CLI11_PARSE(app, argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("shoal"));  // stdout is for the line that says "ready"
  return shoal::Run(options);
}
