// Tests of checkpoint_name.h, parse_units.h and text_distance.h.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checkpoint_name.h"
#include "base/parse_units.h"
#include "base/text_distance.h"

namespace shoal {
namespace {

TEST_CASE("CheckpointName: reads back to its number, and nothing else is a name", "[base][unit]") {
  CHECK(CheckpointName(7) == "ckpt-00000007");
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{7}, uint64_t{99999999}, uint64_t{100000000}, uint64_t{INT64_MAX} - 1}) {
    CHECK(CheckpointNumber(CheckpointName(number)) == number);
  }
  for (const char* name : {"", "ckpt-", "ckpt-7.tmp", "ckpt-x", "checkpoint-7", "/d/ckpt-00000007", "ckpt-+7",
                           "ckpt--7", "ckpt- 7", "ckpt-7 ", "ckpt-0x7", "ckpt-9223372036854775807",
                           "ckpt-9223372036854775808", "ckpt-18446744073709551615", "ckpt-18446744073709551616"}) {
    INFO(name);
    CHECK_FALSE(CheckpointNumber(name).has_value());
  }
}

TEST_CASE("ParseDurationMs: units add up and the printed form reads back", "[base][unit]") {
  const std::vector<std::pair<std::string, uint64_t>> good = {
      {"0s", 0},         {"60s", 60000},  {"1m30s", 90000},    {"500ms", 500},
      {"1s500ms", 1500}, {"2h", 7200000}, {"1d1ms", 86400001}, {"18446744073709551615ms", UINT64_MAX}};
  for (const auto& [text, expected] : good) {
    INFO(text);
    REQUIRE(ParseDurationMs(text).ok());
    CHECK(*ParseDurationMs(text) == expected);
    CHECK(*ParseDurationMs(FormatDurationMs(expected)) == expected);
  }
  CHECK(FormatDurationMs(60000) == "60s");
  CHECK(FormatDurationMs(1500) == "1500ms");
}

TEST_CASE("ParseDurationMs: what is not a duration is refused", "[base][unit]") {
  for (const char* text : {"", "60", "s", "1.5s", "-1s", "1s1m", "1s1s", "1x", "1s ", " 1s", "1 s",
                           "18446744073709551616ms", "18446744073709551615s", "1m18446744073709551615ms"}) {
    INFO(text);
    CHECK_FALSE(ParseDurationMs(text).ok());
  }
  CHECK(ParseDurationMs("60").status().message() ==
        "\"60\" is not a duration; write it like 60s, 1m30s or 500ms (units d, h, m, s, ms)");
}

TEST_CASE("ParseBytes: decimal and binary units", "[base][unit]") {
  const std::vector<std::pair<std::string, uint64_t>> good = {{"0", 0},
                                                              {"1024", 1024},
                                                              {"64KiB", 65536},
                                                              {"4MiB", 4194304},
                                                              {"1GB", 1000000000},
                                                              {"7B", 7},
                                                              {"2TiB", 2ull << 40},
                                                              {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, expected] : good) {
    INFO(text);
    REQUIRE(ParseBytes(text).ok());
    CHECK(*ParseBytes(text) == expected);
    CHECK(*ParseBytes(FormatBytes(expected)) == expected);
  }
  CHECK(FormatBytes(4194304) == "4MiB");
  CHECK(FormatBytes(1000) == "1000B");
  for (const char* text : {"", "KiB", "1.5MiB", "-1", "1 MiB", "1mib", "1K", "18446744073709551616", "16777216TiB"}) {
    INFO(text);
    CHECK_FALSE(ParseBytes(text).ok());
  }
}

TEST_CASE("TextDistance and NearestName: typing errors are found, other words are not", "[base][unit]") {
  CHECK(TextDistance("", "abc") == 3);
  CHECK(TextDistance("kitten", "sitting") == 3);
  CHECK(TextDistance("abdc", "abcd") == 1);  // a swap is one change
  const std::vector<std::string> names = {"learning_rate", "epsilon", "dim"};
  CHECK(NearestName("learning_rat", names) == "learning_rate");
  CHECK(NearestName("epislon", names) == "epsilon");
  CHECK(NearestName("momentum", names).empty());
  CHECK(NearestName("dmi", names) == "dim");
  CHECK(NearestName("max", std::vector<std::string>{"mean", "sum"})
            .empty());  // two of three characters are no typing error
  CHECK(NearestName(std::string(100000, 'a'), names).empty());
}

}  // namespace
}  // namespace shoal
