// What the metadata services of the clouds say, and what is made of it.
#include "local/spot_notices.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>

#include "absl/time/clock.h"

namespace shoal {
namespace {

constexpr char kUrl[] = "http://metadata";

absl::Time At(const char* rfc3339) {
  absl::Time time;
  std::string error;
  REQUIRE(absl::ParseTime(absl::RFC3339_full, rfc3339, &time, &error));
  return time;
}

// Answers by "METHOD path"; what it does not know is 404. Checks the header that each provider demands.
struct FakeService {
  std::string demanded_header;  // with its name
  std::map<std::string, HttpReply> replies;
  std::vector<std::string> asked;

  HttpCall Call() {
    return [this](const HttpRequest& request) -> absl::StatusOr<HttpReply> {
      const std::string path = request.method + " " + request.url.substr(sizeof(kUrl) - 1);
      asked.push_back(path);
      bool has_header = false;
      for (const std::string& header : request.headers) has_header |= header == demanded_header;
      if (request.method == "GET" && !has_header) return HttpReply{401, "who are you?"};
      const auto found = replies.find(path);
      return found == replies.end() ? HttpReply{404, ""} : found->second;
    };
  }
};

TEST_CASE("Spot notices: AWS announces the time; a token comes first and is renewed", "[local][unit]") {
  FakeService service;
  service.demanded_header = "X-aws-ec2-metadata-token: t1";
  service.replies["PUT /latest/api/token"] = {200, "t1\n"};
  const auto source = NewSpotSource(SpotProvider::kAws, kUrl, service.Call());
  const absl::Time now = At("2026-03-01T10:00:00Z");
  absl::StatusOr<absl::optional<SpotNotice>> answer = source->Ask(now);
  REQUIRE(answer.ok());
  CHECK(!answer->has_value());  // 404
  // The token expires.
  service.demanded_header = "X-aws-ec2-metadata-token: t2";
  service.replies["PUT /latest/api/token"] = {200, "t2"};
  CHECK(absl::IsUnavailable(source->Ask(now).status()));
  service.replies["GET /latest/meta-data/spot/instance-action"] = {
      200, R"({"action": "terminate", "time": "2026-03-01T10:01:45Z"})"};
  answer = source->Ask(now);
  REQUIRE(answer.ok());
  REQUIRE(answer->has_value());
  CHECK((*answer)->left == absl::Seconds(105));
  CHECK((*answer)->what == "AWS: terminate at 2026-03-01T10:01:45Z");
  // A wall clock that is far off makes it neither longer than AWS promises nor negative.
  CHECK((*source->Ask(At("2020-01-01T00:00:00Z")))->left == absl::Minutes(2));
  CHECK((*source->Ask(At("2030-01-01T00:00:00Z")))->left == absl::ZeroDuration());
  service.replies["GET /latest/meta-data/spot/instance-action"] = {200, R"({"action": "stop"})"};
  CHECK((*source->Ask(now))->left == absl::Minutes(2));
  service.replies["GET /latest/meta-data/spot/instance-action"] = {200, "<html>"};
  CHECK(absl::IsInvalidArgument(source->Ask(now).status()));
}

TEST_CASE("Spot notices: GCP says TRUE when the machine is preempted", "[local][unit]") {
  FakeService service;
  service.demanded_header = "Metadata-Flavor: Google";
  const std::string path = "GET /computeMetadata/v1/instance/preempted";
  service.replies[path] = {200, "FALSE"};
  const auto source = NewSpotSource(SpotProvider::kGcp, kUrl, service.Call());
  CHECK(!source->Ask(absl::Now())->has_value());
  service.replies[path] = {200, "TRUE\n"};
  CHECK((*source->Ask(absl::Now()))->left == absl::Seconds(30));
  service.replies[path] = {200, "maybe"};
  CHECK(absl::IsInvalidArgument(source->Ask(absl::Now()).status()));
  service.replies[path] = {503, ""};
  CHECK(absl::IsUnavailable(source->Ask(absl::Now()).status()));
}

TEST_CASE("Spot notices: of Azure's events only those that take this machine away count", "[local][unit]") {
  FakeService service;
  service.demanded_header = "Metadata: true";
  service.replies["GET /metadata/instance/compute/name?api-version=2021-02-01&format=text"] = {200, "vm_7"};
  const std::string path = "GET /metadata/scheduledevents?api-version=2020-07-01";
  service.replies[path] = {200, R"({"DocumentIncarnation": 1, "Events": []})"};
  const auto source = NewSpotSource(SpotProvider::kAzure, kUrl, service.Call());
  const absl::Time now = At("2026-03-02T18:29:00Z");
  CHECK(!source->Ask(now)->has_value());
  service.replies[path] = {200, R"({"Events": [
      {"EventType": "Preempt", "Resources": ["vm_8"], "NotBefore": "Mon, 02 Mar 2026 18:29:10 GMT"},
      {"EventType": "Freeze", "Resources": ["vm_7"], "NotBefore": "Mon, 02 Mar 2026 18:29:10 GMT"}]})"};
  CHECK(!source->Ask(now)->has_value());
  service.replies[path] = {200, R"({"Events": [
      {"EventType": "Reboot", "Resources": ["vm_7"], "NotBefore": "Mon, 02 Mar 2026 18:40:00 GMT"},
      {"EventType": "Preempt", "Resources": ["vm_8", "vm_7"], "NotBefore": "Mon, 02 Mar 2026 18:29:30 GMT"}]})"};
  const absl::StatusOr<absl::optional<SpotNotice>> answer = source->Ask(now);
  REQUIRE(answer.ok());
  REQUIRE(answer->has_value());
  CHECK((*answer)->left == absl::Seconds(30));
  CHECK((*answer)->what == "Azure: Preempt Mon, 02 Mar 2026 18:29:30 GMT");
  service.replies[path] = {200, R"({"Events": [{"EventType": "Preempt", "Resources": ["vm_7"], "NotBefore": ""}]})"};
  CHECK((*source->Ask(now))->left == absl::ZeroDuration());
}

TEST_CASE("Spot notices: it asks until there is a notice, and what is left of it shrinks", "[local][unit]") {
  FakeClock clock;
  std::atomic<int> asked{0};
  const HttpCall http = [&](const HttpRequest&) -> absl::StatusOr<HttpReply> {
    const int n = asked++;
    if (n == 0) return absl::UnavailableError("nobody there");
    return HttpReply{200, n < 3 ? "FALSE" : "TRUE"};
  };
  SpotOptions options;
  options.provider = SpotProvider::kGcp;
  options.every = absl::ZeroDuration();
  const SpotNotices notices(options, http, &clock);
  const absl::Duration end = Clock::Steady().Now() + absl::Seconds(30);
  while (!notices.notice().has_value() && Clock::Steady().Now() < end) std::this_thread::yield();
  REQUIRE(notices.notice().has_value());
  CHECK(asked == 4);
  CHECK(notices.notice()->left == absl::Seconds(30));
  clock.Advance(absl::Seconds(12));
  CHECK(notices.notice()->left == absl::Seconds(18));
  clock.Advance(absl::Seconds(60));
  CHECK(notices.notice()->left == absl::ZeroDuration());
}

TEST_CASE("Spot notices: off asks nobody; names are checked", "[local][unit]") {
  const SpotNotices off({}, [](const HttpRequest&) -> absl::StatusOr<HttpReply> {
    FAIL("asked");
    return HttpReply{};
  });
  CHECK(!off.notice().has_value());
  CHECK(*ParseSpotProvider("azure") == SpotProvider::kAzure);
  CHECK_THAT(std::string(ParseSpotProvider("ibm").status().message()), Catch::Contains("\"ibm\", must be aws"));
}

}  // namespace
}  // namespace shoal
