// Watches the metadata service of a cloud for the news that this machine is about to be taken away.
#ifndef SHOAL_LOCAL_SPOT_NOTICES_H_
#define SHOAL_LOCAL_SPOT_NOTICES_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {

enum class SpotProvider { kOff, kAws, kGcp, kAzure };

// "off", "aws", "gcp" or "azure".
absl::StatusOr<SpotProvider> ParseSpotProvider(const std::string& name);

struct SpotNotice {
  absl::Duration left;  // until the machine goes, as announced
  std::string what;     // for people
};

struct HttpRequest {
  std::string method;  // GET, PUT
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// UNAVAILABLE when there is no reply.
using HttpCall = std::function<absl::StatusOr<HttpReply>(const HttpRequest&)>;

// By libcurl, without proxies and redirects, bounded in time and size.
absl::StatusOr<HttpReply> CallHttp(const HttpRequest& request);

// One provider's way of asking. Not thread-safe.
class SpotSource {
 public:
  virtual ~SpotSource() = default;
  // The notice, if there is one; an error when the service cannot be asked or its answer cannot be read. `wall`: now,
  // for services that announce a time of day.
  virtual absl::StatusOr<absl::optional<SpotNotice>> Ask(absl::Time wall) = 0;
};

// `url`: http://HOST[:PORT] of the metadata service; empty: where the provider has it. REQUIRES: not kOff.
std::unique_ptr<SpotSource> NewSpotSource(SpotProvider provider, const std::string& url, HttpCall http);

struct SpotOptions {
  SpotProvider provider = SpotProvider::kOff;
  std::string url;
  absl::Duration every = absl::Seconds(2);
};

// Asks again and again on a thread of its own until there is a notice; unanswered questions are logged once and
// otherwise ignored. Thread-safe.
class SpotNotices {
 public:
  explicit SpotNotices(const SpotOptions& options, HttpCall http = CallHttp, const Clock* clock = &Clock::Steady());
  ~SpotNotices();
  SpotNotices(const SpotNotices&) = delete;
  SpotNotices& operator=(const SpotNotices&) = delete;

  // The notice with what is left of its time; nothing when there is none.
  absl::optional<SpotNotice> notice() const;

 private:
  void Watch(absl::Duration every);

  const Clock& clock_;
  const std::unique_ptr<SpotSource> source_;  // null: off
  mutable Mutex mu_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  absl::optional<SpotNotice> notice_ ABSL_GUARDED_BY(mu_);
  absl::Duration end_ ABSL_GUARDED_BY(mu_);  // by clock_: when the machine goes
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_SPOT_NOTICES_H_
