#include "local/spot_notices.h"

#include <curl/curl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// The services answer from the same machine within milliseconds.
constexpr long kCallTimeoutMs = 2000;
constexpr size_t kMaxBodyBytes = 1 << 20;

// What the providers promise at least; also the bound for a time of day that a wrong clock makes too far away.
constexpr absl::Duration kAwsNotice = absl::Minutes(2);
constexpr absl::Duration kGcpNotice = absl::Seconds(30);
constexpr absl::Duration kAzureNotice = absl::Minutes(15);

size_t AppendBody(char* data, size_t size, size_t count, void* body) {
  std::string& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxBodyBytes) return 0;  // ends the call
  text.append(data, size * count);
  return size * count;
}

absl::StatusOr<HttpReply> Expect200(const HttpRequest& request, absl::StatusOr<HttpReply> reply) {
  SHOAL_RETURN_IF_ERROR(reply.status());
  if (reply->status == 200) return reply;
  return absl::UnavailableError(absl::StrCat(request.url, ": HTTP status ", reply->status, ", must be 200"));
}

// Time until `when`; an announced time that is not in the future has come.
absl::Duration Until(absl::Time when, absl::Time wall, absl::Duration most) {
  return std::clamp(when - wall, absl::ZeroDuration(), most);
}

absl::StatusOr<nlohmann::json> ParseObject(const std::string& url, const std::string& body) {
  nlohmann::json json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(url, ": the answer is no JSON object"));
  return json;
}

std::string Text(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Instance metadata service version 2: a token first, then spot/instance-action, which is 404 as long as nothing is
// planned.
class AwsSource : public SpotSource {
 public:
  AwsSource(std::string url, HttpCall http) : url_(std::move(url)), http_(std::move(http)) {}

  absl::StatusOr<absl::optional<SpotNotice>> Ask(absl::Time wall) override {
    if (token_.empty()) SHOAL_RETURN_IF_ERROR(GetToken());
    const HttpRequest request{
        "GET", url_ + "/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token: " + token_}};
    SHOAL_ASSIGN_OR_RETURN(HttpReply reply, http_(request));
    if (reply.status == 401) token_.clear();  // expired: the next question gets a new one
    if (reply.status == 404) return absl::optional<SpotNotice>();
    SHOAL_ASSIGN_OR_RETURN(reply, Expect200(request, std::move(reply)));
    SHOAL_ASSIGN_OR_RETURN(const nlohmann::json action, ParseObject(request.url, reply.body));
    absl::Time when;
    std::string error;
    const std::string time = Text(action, "time");
    SpotNotice notice{kAwsNotice, absl::StrCat("AWS: ", Text(action, "action"), " at ", time)};
    if (absl::ParseTime(absl::RFC3339_full, time, &when, &error)) notice.left = Until(when, wall, kAwsNotice);
    return absl::optional<SpotNotice>(notice);
  }

 private:
  absl::Status GetToken() {
    const HttpRequest request{"PUT", url_ + "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}};
    SHOAL_ASSIGN_OR_RETURN(const HttpReply reply, Expect200(request, http_(request)));
    token_ = std::string(absl::StripAsciiWhitespace(reply.body));
    return absl::OkStatus();
  }

  const std::string url_;
  const HttpCall http_;
  std::string token_;
};

class GcpSource : public SpotSource {
 public:
  GcpSource(std::string url, HttpCall http) : url_(std::move(url)), http_(std::move(http)) {}

  absl::StatusOr<absl::optional<SpotNotice>> Ask(absl::Time) override {
    const HttpRequest request{"GET", url_ + "/computeMetadata/v1/instance/preempted", {"Metadata-Flavor: Google"}};
    SHOAL_ASSIGN_OR_RETURN(const HttpReply reply, Expect200(request, http_(request)));
    const std::string said = absl::AsciiStrToUpper(absl::StripAsciiWhitespace(reply.body));
    if (said == "FALSE") return absl::optional<SpotNotice>();
    if (said == "TRUE") return absl::optional<SpotNotice>({kGcpNotice, "GCP: preempted"});
    return absl::InvalidArgumentError(absl::StrCat(request.url, ": must be TRUE or FALSE"));
  }

 private:
  const std::string url_;
  const HttpCall http_;
};

// Scheduled events are those of all machines of a scale set, so the name of this one is asked for first.
class AzureSource : public SpotSource {
 public:
  AzureSource(std::string url, HttpCall http) : url_(std::move(url)), http_(std::move(http)) {}

  absl::StatusOr<absl::optional<SpotNotice>> Ask(absl::Time wall) override {
    if (machine_.empty()) {
      SHOAL_ASSIGN_OR_RETURN(const HttpReply reply,
                             Get("/metadata/instance/compute/name?api-version=2021-02-01&format=text"));
      machine_ = std::string(absl::StripAsciiWhitespace(reply.body));
    }
    const std::string path = "/metadata/scheduledevents?api-version=2020-07-01";
    SHOAL_ASSIGN_OR_RETURN(const HttpReply reply, Get(path));
    SHOAL_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(url_ + path, reply.body));
    const auto events = json.find("Events");
    if (events == json.end() || !events->is_array()) return absl::optional<SpotNotice>();
    absl::optional<SpotNotice> first;
    for (const nlohmann::json& event : *events) {
      if (!event.is_object() || !TakesMachineAway(Text(event, "EventType")) || !IsMine(event)) continue;
      const std::string not_before = Text(event, "NotBefore");
      SpotNotice notice{absl::ZeroDuration(), absl::StrCat("Azure: ", Text(event, "EventType"), " ", not_before)};
      absl::Time when;
      std::string error;
      // Empty: it has begun.
      if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", not_before, &when, &error)) {
        notice.left = Until(when, wall, kAzureNotice);
      }
      if (!first.has_value() || notice.left < first->left) first = notice;
    }
    return first;
  }

 private:
  absl::StatusOr<HttpReply> Get(const std::string& path) {
    const HttpRequest request{"GET", url_ + path, {"Metadata: true"}};
    return Expect200(request, http_(request));
  }

  // A frozen machine comes back within seconds, with its memory.
  static bool TakesMachineAway(const std::string& type) {
    return type == "Preempt" || type == "Terminate" || type == "Reboot" || type == "Redeploy";
  }

  bool IsMine(const nlohmann::json& event) const {
    const auto machines = event.find("Resources");
    if (machines == event.end() || !machines->is_array()) return false;
    for (const nlohmann::json& machine : *machines) {
      if (machine.is_string() && machine.get<std::string>() == machine_) return true;
    }
    return false;
  }

  const std::string url_;
  const HttpCall http_;
  std::string machine_;
};

}  // namespace

absl::StatusOr<SpotProvider> ParseSpotProvider(const std::string& name) {
  if (name == "off") return SpotProvider::kOff;
  if (name == "aws") return SpotProvider::kAws;
  if (name == "gcp") return SpotProvider::kGcp;
  if (name == "azure") return SpotProvider::kAzure;
  return absl::InvalidArgumentError(absl::StrCat("spot notices: \"", name, "\", must be aws, gcp, azure or off"));
}

absl::StatusOr<HttpReply> CallHttp(const HttpRequest& request) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (curl == nullptr) return absl::UnavailableError("libcurl cannot be used");
  curl_slist* headers = nullptr;
  for (const std::string& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> owned_headers(headers, &curl_slist_free_all);
  HttpReply reply;
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");  // the service is on this machine: a proxy would ask its own
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, kCallTimeoutMs);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &AppendBody);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &reply.body);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    return absl::UnavailableError(absl::StrCat(request.url, ": ", error[0] != '\0' ? error : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  return reply;
}

std::unique_ptr<SpotSource> NewSpotSource(SpotProvider provider, const std::string& url, HttpCall http) {
  if (provider == SpotProvider::kGcp) {
    return std::make_unique<GcpSource>(url.empty() ? "http://metadata.google.internal" : url, std::move(http));
  }
  const std::string base = url.empty() ? "http://169.254.169.254" : url;
  if (provider == SpotProvider::kAws) return std::make_unique<AwsSource>(base, std::move(http));
  return std::make_unique<AzureSource>(base, std::move(http));
}

SpotNotices::SpotNotices(const SpotOptions& options, HttpCall http, const Clock* clock)
    : clock_(*clock),
      source_(options.provider == SpotProvider::kOff ? nullptr
                                                     : NewSpotSource(options.provider, options.url, std::move(http))) {
  if (source_ != nullptr) thread_ = std::thread([this, every = options.every] { Watch(every); });
}

SpotNotices::~SpotNotices() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::optional<SpotNotice> SpotNotices::notice() const {
  MutexLock lock(&mu_);
  if (!notice_.has_value()) return absl::nullopt;
  SpotNotice notice = *notice_;
  notice.left = std::max(end_ - clock_.Now(), absl::ZeroDuration());
  return notice;
}

void SpotNotices::Watch(absl::Duration every) {
  bool told = false;
  for (;;) {
    const absl::Duration asked = clock_.Now();
    const absl::StatusOr<absl::optional<SpotNotice>> answer = source_->Ask(absl::Now());
    if (!answer.ok() && !told) {
      told = true;
      spdlog::warn("spot notices: {} (asked again every {}; not logged again)", answer.status().ToString(),
                   absl::FormatDuration(every));
    }
    MutexLock lock(&mu_);
    if (answer.ok() && answer->has_value()) {
      notice_ = **answer;
      end_ = asked + notice_->left;
      return;
    }
    const absl::Duration next = clock_.Now() + every;
    while (!stop_ && clock_.Now() < next) changed_.WaitFor(&mu_, next - clock_.Now());
    if (stop_) return;
  }
}

}  // namespace shoal
