#include "server/push_stage.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/random.h"

namespace shoal {
namespace {

using Catch::Contains;

constexpr uint64_t kMax = 1 << 20;

// Pieces of requests, and what became of them.
struct Rig {
  FakeClock clock;
  PushStage stage{kMax, absl::Seconds(30), &clock};
  std::string whole;

  absl::Status Take(uint64_t lane, uint64_t attempt, uint64_t part, absl::string_view text, uint64_t offset,
                    uint64_t size) {
    PushPiece piece;
    piece.header = {1, 1, 1, lane};
    piece.attempt = attempt;
    piece.part = part;
    piece.total_bytes = text.size();
    piece.offset = offset;
    ByteArray storage(size);
    std::memcpy(storage.data(), text.data() + offset, size);
    piece.bytes = absl::MakeConstSpan(storage.data(), size);
    std::vector<ByteArray> out;
    const absl::Status status = stage.Take(piece, std::move(storage), &out);
    whole.clear();
    for (const ByteArray& bytes : out) whole.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return status;
  }
};

std::string Text(uint64_t n) {
  std::string text;
  for (uint64_t i = 0; i < n; ++i) text.push_back(static_cast<char>('a' + i % 23));
  return text;
}

TEST_CASE("Push stage: pieces in any order, with repeats, make the request once", "[server][unit]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Random random({seed});
    Rig rig;
    const std::string text = Text(1 + random.Below(500));
    const uint64_t size = 1 + random.Below(60);
    std::vector<uint64_t> offsets;
    for (uint64_t at = 0; at < text.size(); at += size) offsets.push_back(at);
    for (size_t i = offsets.size(); i > 1; --i) std::swap(offsets[i - 1], offsets[random.Below(i)]);
    std::vector<uint64_t> sent;
    int complete = 0;
    for (size_t i = 0; i < offsets.size(); ++i) {
      sent.push_back(offsets[i]);
      if (random.Below(3) == 0) sent.push_back(offsets[random.Below(i + 1)]);
    }
    sent.push_back(offsets[0]);
    for (uint64_t offset : sent) {
      REQUIRE(rig.Take(5, 1, 0, text, offset, std::min<uint64_t>(size, text.size() - offset)).ok());
      if (rig.whole.empty()) continue;
      ++complete;
      CHECK(rig.whole == text);
    }
    CHECK(complete == 1);
    CHECK(rig.stage.bytes() == 0);
  }
}

TEST_CASE("Push stage: parts and lanes do not mix; a newer attempt frees older ones, which are refused",
          "[server][unit]") {
  Rig rig;
  const std::string text = Text(100), other = Text(60);
  REQUIRE(rig.Take(5, 1, 0, text, 0, 50).ok());
  REQUIRE(rig.Take(5, 1, 1, other, 0, 30).ok());
  REQUIRE(rig.Take(6, 1, 0, other, 0, 30).ok());
  const uint64_t all = rig.stage.bytes();
  REQUIRE(rig.Take(5, 1, 1, other, 30, 30).ok());
  CHECK(rig.whole == other);
  CHECK(rig.stage.bytes() < all);
  REQUIRE(rig.Take(5, 2, 0, text, 50, 50).ok());
  CHECK(rig.whole.empty());
  const absl::Status late = rig.Take(5, 1, 0, text, 50, 50);
  CHECK(absl::IsFailedPrecondition(late));
  CHECK_THAT(std::string(late.message()), Contains("attempt: 1, the lane has begun attempt 2"));
  REQUIRE(rig.Take(5, 2, 0, text, 0, 50).ok());
  CHECK(rig.whole == text);
  REQUIRE(rig.Take(6, 1, 0, other, 30, 30).ok());
  CHECK(rig.whole == other);
  CHECK(rig.stage.bytes() == 0);
}

TEST_CASE("Push stage: what does not fit is refused, and what is there can still be completed", "[server][unit]") {
  Rig rig;
  const std::string large = Text(700'000), small = Text(10);
  REQUIRE(rig.Take(5, 1, 0, large, 0, 1000).ok());
  const absl::Status full = rig.Take(6, 1, 0, large, 0, 1000);
  CHECK(absl::IsResourceExhausted(full));
  CHECK_THAT(std::string(full.message()), Contains("total_bytes: 700000"));
  CHECK(rig.Take(6, 2, 0, small, 0, 5).ok());
  const absl::Status never = rig.Take(7, 1, 0, Text(kMax), 0, 1000);
  CHECK(absl::IsInvalidArgument(never));
  CHECK_THAT(std::string(never.message()), Contains("more servers or smaller batches"));
  REQUIRE(rig.Take(5, 1, 0, large, 1000, large.size() - 1000).ok());
  CHECK(rig.whole == large);
  REQUIRE(rig.Take(6, 3, 0, large, 0, 1000).ok());
}

TEST_CASE("Push stage: pieces that contradict one another are refused by name", "[server][unit]") {
  Rig rig;
  const std::string text = Text(100);
  REQUIRE(rig.Take(5, 1, 0, text, 20, 30).ok());
  for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{10, 20}, {40, 20}, {20, 40}, {25, 5}, {0, 100}}) {
    INFO(offset << " " << size);
    const absl::Status status = rig.Take(5, 1, 0, text, offset, size);
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Contains("cuts a piece that is here"));
  }
  CHECK_THAT(std::string(rig.Take(5, 1, 0, Text(99), 0, 20).message()), Contains("total_bytes: 99, must be 100"));
  PushPiece piece;
  piece.header.lane = 5;
  piece.total_bytes = 10;
  std::vector<ByteArray> out;
  CHECK_THAT(std::string(rig.stage.Take(piece, ByteArray(), &out).message()), Contains("bytes: 0 bytes"));
  const std::vector<uint8_t> bytes(4);
  piece.bytes = bytes;
  for (const uint64_t offset : {uint64_t{7}, ~uint64_t{0}, ~uint64_t{0} - 3}) {
    piece.offset = offset;
    CHECK_THAT(std::string(rig.stage.Take(piece, ByteArray(4), &out).message()), Contains("must end within"));
  }
  piece.offset = 0;
  piece.total_bytes = ~uint64_t{0};
  CHECK(absl::IsInvalidArgument(rig.stage.Take(piece, ByteArray(4), &out)));
  piece.header.lane = 0;
  CHECK_THAT(std::string(rig.stage.Take(piece, ByteArray(4), &out).message()), Contains("header.lane: 0"));
  REQUIRE(rig.Take(5, 1, 0, text, 0, 20).ok());
  REQUIRE(rig.Take(5, 1, 0, text, 50, 50).ok());
  CHECK(rig.whole == text);
}

TEST_CASE("Push stage: what comes of lanes that are gone or silent is freed", "[server][unit]") {
  Rig rig;
  const std::string text = Text(100);
  REQUIRE(rig.Take(5, 1, 0, text, 0, 50).ok());
  REQUIRE(rig.Take(6, 1, 0, text, 0, 50).ok());
  const uint64_t both = rig.stage.bytes();
  rig.stage.Sweep([](const RequestHeader&) { return true; });
  CHECK(rig.stage.bytes() == both);
  rig.stage.Sweep([](const RequestHeader& header) { return header.lane != 5; });
  CHECK(rig.stage.bytes() == both / 2);
  rig.clock.Advance(absl::Seconds(29));
  REQUIRE(rig.Take(6, 1, 0, text, 60, 40).ok());
  rig.clock.Advance(absl::Seconds(29));
  rig.stage.Sweep([](const RequestHeader&) { return true; });
  CHECK(rig.stage.bytes() == both / 2);
  rig.clock.Advance(absl::Seconds(2));
  rig.stage.Sweep([](const RequestHeader&) { return true; });
  CHECK(rig.stage.bytes() == 0);
  // A late piece begins the request anew and does not complete it.
  REQUIRE(rig.Take(6, 1, 0, text, 50, 10).ok());
  CHECK(rig.whole.empty());
}

}  // namespace
}  // namespace shoal
