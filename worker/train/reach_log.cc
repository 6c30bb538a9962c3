#include "worker/train/reach_log.h"

namespace shoal {
namespace {

// Shorter ones come with every restart of a server.
constexpr absl::Duration kWorthTelling = absl::Seconds(1);
// Longer than a lane pauses between two attempts.
constexpr absl::Duration kForgotten = absl::Seconds(30);

}  // namespace

void ReachLog::Heard(uint64_t server, const absl::Status& status) {
  const bool answered = !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
  if (answered && silent_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(&mu_);
  if (answered) {
    silences_.erase(server);
  } else {
    const absl::Duration now = clock_.Now();
    Silence& silence = silences_.emplace(server, Silence{now, now, {}}).first->second;
    if (now - silence.last_call > kForgotten) silence.since = now;
    silence.last_call = now;
    silence.error = std::string(status.message());
  }
  silent_ = silences_.size();
}

std::vector<Unreachable> ReachLog::Report() const {
  std::vector<Unreachable> out;
  if (silent_.load(std::memory_order_relaxed) == 0) return out;
  MutexLock lock(&mu_);
  const absl::Duration now = clock_.Now();
  for (const auto& [server, silence] : silences_) {
    if (now - silence.since < kWorthTelling || now - silence.last_call > kForgotten) continue;
    Unreachable& entry = out.emplace_back();
    entry.set_server(server);
    entry.set_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(now - silence.since)));
    entry.set_error(silence.error);
  }
  return out;
}

}  // namespace shoal
