#include "proto/wire/parameter_codec.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "proto/parameters.pb.h"
#include "proto/wire/value_codec.h"

namespace shoal {
namespace {

using Catch::Contains;

std::string Text(const ByteArray& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <typename T>
std::string Packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Decodes with the message cut at every `step` bytes, so that no field lies in one chunk.
std::vector<absl::string_view> Cut(absl::string_view text, size_t step) {
  std::vector<absl::string_view> chunks;
  for (size_t i = 0; i < text.size(); i += step) chunks.push_back(text.substr(i, step));
  return chunks;
}

template <typename T>
std::vector<T> List(absl::Span<const T> span) {
  return {span.begin(), span.end()};
}

// Two tables of dims 3 and 1, and 14 dense floats.
struct Pull {
  std::vector<uint32_t> partitions{0, 2, 3};
  std::vector<uint64_t> keys{0, ~uint64_t{0}, uint64_t{1} << 63, 17, 300};
  std::vector<uint32_t> counts{2, 0, 3};
  std::vector<uint32_t> both{0, 1};
  std::vector<uint32_t> second{1};
  std::vector<uint32_t> none{0, 0, 0};
  std::vector<uint32_t> dims{3, 1};
  PullRequest request;

  Pull() {
    request.header = {7, 2, 300, uint64_t{1} << 40};
    request.batch = 1000;
    request.finished = 998;
    request.logical_lane = 3;
    request.round = 1u << 20;
    request.has_mark = true;
    request.partitions = partitions;
    request.groups = {{keys, counts, both, dims}, {{}, none, second, absl::MakeConstSpan(dims).subspan(1)}};
    request.dense_begin = uint64_t{1} << 33;
    request.dense_count = 14;
  }
};

struct Push {
  Pull pull;
  std::vector<uint32_t> occurrences{1, 2, 3, 4, 500};
  std::vector<uint16_t> slots{0, 65535, 3, 3, 256};
  std::vector<float> wide, narrow, dense;
  PushRequest request;

  Push() {
    for (int i = 0; i < 15; ++i) wide.push_back(0.5f * i);
    for (int i = 0; i < 5; ++i) narrow.push_back(-1.25f * i);
    for (int i = 0; i < 14; ++i) dense.push_back(1e-30f * i);
    request.header = pull.request.header;
    request.pass = 1;
    request.split = 2;
    request.lease = 3;
    request.begin = 256;
    request.end = 512;
    request.end_of_split = true;
    request.examples = 255;
    request.logical_lane = 1;
    request.round = 9;
    request.partitions = pull.partitions;
    PushGroup first;
    first.keys = pull.keys;
    first.counts = pull.counts;
    first.tables = pull.both;
    first.gradients = {wide.data(), narrow.data()};
    first.occurrences = occurrences;
    first.dims = pull.dims;
    first.slots = slots;
    PushGroup empty;
    empty.slot = 300;
    empty.counts = pull.none;
    empty.tables = pull.second;
    empty.gradients = {nullptr};
    empty.dims = absl::MakeConstSpan(pull.dims).subspan(1);
    request.groups = {first, empty};
    request.dense = dense;
    request.continues = true;
  }
};

constexpr uint64_t kLarge = 1 << 20;

TEST_CASE("Codec: a pull request is byte for byte what protobuf writes, and reads back", "[wire][unit]") {
  const Pull pull;
  const std::string bytes = Text(*EncodePullRequest(pull.request, kLarge));
  wire::PullRequest parsed;
  REQUIRE(parsed.ParseFromString(bytes));
  CHECK(parsed.SerializeAsString() == bytes);
  CHECK(parsed.header().lane() == uint64_t{1} << 40);
  CHECK(parsed.partitions() == Packed(pull.partitions));
  CHECK(parsed.groups(0).keys() == Packed(pull.keys));
  CHECK(parsed.dense());
  const size_t step = GENERATE(1, 3, 1000);
  const auto chunks = Cut(bytes, step);
  const absl::StatusOr<OwnedPullRequest> owned = DecodePullRequest(chunks);
  REQUIRE(owned.ok());
  const PullRequest& r = owned->request;
  CHECK(r.header.job == 7);
  CHECK(r.header.run == 2);
  CHECK(r.header.map_version == 300);
  CHECK((!r.read_only && r.batch == 1000 && r.finished == 998 && r.logical_lane == 3));
  CHECK((r.round == 1u << 20 && r.has_mark && r.dense));
  CHECK((r.dense_begin == uint64_t{1} << 33 && r.dense_count == 14));
  CHECK(List(r.partitions) == pull.partitions);
  REQUIRE(r.groups.size() == 2);
  CHECK(List(r.groups[0].keys) == pull.keys);
  CHECK(List(r.groups[0].counts) == pull.counts);
  CHECK(List(r.groups[0].tables) == pull.both);
  CHECK(r.groups[1].keys.empty());
  CHECK(List(r.groups[1].tables) == pull.second);
  CHECK(reinterpret_cast<uintptr_t>(r.groups[0].keys.data()) % ByteArray::kAlignment == 0);
}

TEST_CASE("Codec: a push request is byte for byte what protobuf writes, and reads back", "[wire][unit]") {
  const Push push;
  const std::string bytes = Text(*EncodePushRequest(push.request, kLarge));
  wire::PushRequest parsed;
  REQUIRE(parsed.ParseFromString(bytes));
  CHECK(parsed.SerializeAsString() == bytes);
  CHECK(parsed.values() == Packed(push.wide) + Packed(push.narrow) + Packed(push.dense));
  CHECK(parsed.groups(0).dims() == Packed(std::vector<uint32_t>{3, 1}));
  CHECK(parsed.groups(0).slots() == Packed(push.slots));
  CHECK(parsed.groups(1).slot() == 300);
  const size_t step = GENERATE(1, 5, 1000);
  const auto chunks = Cut(bytes, step);
  const absl::StatusOr<OwnedPushRequest> owned = DecodePushRequest(chunks);
  REQUIRE(owned.ok());
  const PushRequest& r = owned->request;
  CHECK((r.pass == 1 && r.split == 2 && r.lease == 3 && r.begin == 256 && r.end == 512));
  CHECK((r.end_of_split && r.examples == 255 && r.logical_lane == 1 && r.round == 9));
  REQUIRE(r.groups.size() == 2);
  CHECK(List(r.groups[0].keys) == push.pull.keys);
  CHECK(List(r.groups[0].occurrences) == push.occurrences);
  CHECK(List(r.groups[0].slots) == push.slots);
  CHECK((r.groups[0].slot == 0 && r.groups[1].slot == 300 && r.groups[1].slots.empty()));
  REQUIRE(r.groups[0].gradients.size() == 2);
  CHECK(std::vector<float>(r.groups[0].gradients[0], r.groups[0].gradients[0] + 15) == push.wide);
  CHECK(std::vector<float>(r.groups[0].gradients[1], r.groups[0].gradients[1] + 5) == push.narrow);
  CHECK(List(r.dense) == push.dense);
}

// A reply as the server makes it.
std::string EncodeReply(const PullRequest& request, PullReply* reply) {
  const FlatSizes sizes = {15, 5, 0, 14};
  ByteArray values = *AllocatePullValues(request, sizes, kLarge, reply);
  auto* floats = reinterpret_cast<float*>(values.data());
  const size_t n = values.size() / sizeof(float);
  for (size_t i = 0; i < n; ++i) floats[i] = 0.25f * i;
  std::string bytes = Text(EncodePullReplyHead(*reply, sizes, request.value_type));
  ByteArray encoded(n * ValueBytes(request.value_type));
  EncodeValues(request.value_type, floats, n, encoded.data());
  return reply->outcome == RequestOutcome::kOk ? bytes + Text(encoded) : bytes;
}

struct Destinations {
  std::vector<float> wide = std::vector<float>(15), narrow = std::vector<float>(5), dense = std::vector<float>(14);
  PullReply reply;
  Destinations() {
    reply.rows = {{wide.data(), narrow.data()}, {nullptr}};
    reply.dense = dense.data();
    reply.dense_floats = dense.size();
  }
};

TEST_CASE("Codec: a pull reply lands in the caller's destinations", "[wire][unit]") {
  Pull pull;
  pull.request.value_type = GENERATE(ValueType::kF32, ValueType::kBf16, ValueType::kF16);
  PullReply sent;
  sent.map_version = 300;
  sent.slowest_clock = 5;
  sent.pushes_applied = 1000000;
  const std::string bytes = EncodeReply(pull.request, &sent);
  wire::PullReply parsed;
  REQUIRE(parsed.ParseFromString(bytes));
  CHECK(parsed.SerializeAsString() == bytes);
  CHECK(parsed.values().size() == 34 * ValueBytes(pull.request.value_type));
  CHECK(static_cast<int>(parsed.value_type()) == static_cast<int>(pull.request.value_type));
  const auto chunks = Cut(bytes, GENERATE(1, 7, 1000));
  Destinations d;
  REQUIRE(DecodePullReply(chunks, pull.request, &d.reply).ok());
  CHECK((d.reply.map_version == 300 && d.reply.slowest_clock == 5 && d.reply.pushes_applied == 1000000));
  for (int i = 0; i < 15; ++i) CHECK(d.wide[i] == 0.25f * i);
  for (int i = 0; i < 5; ++i) CHECK(d.narrow[i] == 0.25f * (15 + i));
  for (int i = 0; i < 14; ++i) CHECK(d.dense[i] == 0.25f * (20 + i));
}

TEST_CASE("Codec: values of another type than was asked for, or of none that is known, are refused", "[wire][unit]") {
  Pull pull;
  PullReply sent;
  pull.request.value_type = ValueType::kBf16;
  const std::string bytes = EncodeReply(pull.request, &sent);
  Destinations d;
  pull.request.value_type = ValueType::kF16;
  CHECK_THAT(std::string(DecodePullReply(Cut(bytes, 1000), pull.request, &d.reply).message()),
             Contains("PullReply.value_type: 1, must be 2 as asked for"));
  pull.request.value_type = ValueType::kF32;
  CHECK_FALSE(DecodePullReply(Cut(bytes, 1000), pull.request, &d.reply).ok());
  wire::PullReply reply;
  REQUIRE(reply.ParseFromString(bytes));
  reply.set_value_type(static_cast<wire::ValueType>(3));
  const std::string unknown = reply.SerializeAsString();
  CHECK_THAT(std::string(DecodePullReply(Cut(unknown, 1000), pull.request, &d.reply).message()),
             Contains("PullReply.value_type: 3, must be at most 2"));
  wire::PushRequest push;
  push.set_value_type(static_cast<wire::ValueType>(77));
  CHECK_THAT(std::string(DecodePushRequest(Cut(push.SerializeAsString(), 1000)).status().message()),
             Contains("value_type: 77, must be at most 2"));
  push.set_value_type(wire::BF16);
  push.set_values("odd");
  CHECK_THAT(std::string(DecodePushRequest(Cut(push.SerializeAsString(), 1000)).status().message()),
             Contains("values: 3 bytes, must be a multiple of 2"));
}

TEST_CASE("Codec: gradients travel as halves, whichever field comes first", "[wire][unit]") {
  Push push;
  push.request.value_type = GENERATE(ValueType::kBf16, ValueType::kF16);
  const std::string bytes = Text(*EncodePushRequest(push.request, kLarge));
  wire::PushRequest parsed;
  REQUIRE(parsed.ParseFromString(bytes));
  CHECK(parsed.SerializeAsString() == bytes);
  CHECK(parsed.values().size() == 34 * sizeof(uint16_t));
  // value_type behind the values that it is about.
  wire::PushRequest late = parsed;
  late.clear_value_type();
  wire::PushRequest type;
  type.set_value_type(parsed.value_type());
  for (const std::string& text : {bytes, late.SerializeAsString() + type.SerializeAsString()}) {
    const auto owned = DecodePushRequest(Cut(text, 3));
    REQUIRE(owned.ok());
    CHECK(owned->request.value_type == push.request.value_type);
    std::vector<float> wide = push.wide, narrow = push.narrow, dense = push.dense;
    RoundValues(push.request.value_type, wide.data(), wide.size());
    RoundValues(push.request.value_type, narrow.data(), narrow.size());
    RoundValues(push.request.value_type, dense.data(), dense.size());
    const PushGroup& group = owned->request.groups[0];
    CHECK(std::vector<float>(group.gradients[0], group.gradients[0] + 15) == wide);
    CHECK(std::vector<float>(group.gradients[1], group.gradients[1] + 5) == narrow);
    CHECK(List(owned->request.dense) == dense);
  }
  // Values are complete with their last byte; `continues` follows.
  for (size_t n = 1; n < bytes.size() - 3; ++n) {
    if (DecodePushRequest(Cut(bytes.substr(0, n), 1000)).ok()) CHECK(n < 100);
  }
}

TEST_CASE("Codec: a pull reply that refuses carries no values", "[wire][unit]") {
  const Pull pull;
  PullReply sent;
  sent.outcome = RequestOutcome::kStaleMap;
  sent.map_version = 301;
  const std::string bytes = EncodeReply(pull.request, &sent);
  CHECK(bytes.size() < 10);
  Destinations d;
  const auto chunks = Cut(bytes, 1000);
  REQUIRE(DecodePullReply(chunks, pull.request, &d.reply).ok());
  CHECK(d.reply.outcome == RequestOutcome::kStaleMap);
  CHECK(d.reply.map_version == 301);
}

TEST_CASE("Codec: a pull reply that is not what was asked for is refused", "[wire][unit]") {
  const Pull pull;
  PullReply sent;
  wire::PullReply message;
  REQUIRE(message.ParseFromString(EncodeReply(pull.request, &sent)));
  std::string wanted;
  SECTION("values") {
    message.mutable_values()->append(4, '\0');
    wanted = "PullReply.values: 140 bytes, must be 136";
  }
  SECTION("no values") {
    message.clear_values();
    wanted = "PullReply.values: 0 bytes, must be 136";
  }
  SECTION("sizes") {
    message.set_sizes(Packed(std::vector<uint64_t>{14, 6, 0, 14}));
    wanted = "PullReply.sizes[0]: 14 floats, must be 15";
  }
  SECTION("value type") {
    message.set_value_type(static_cast<wire::ValueType>(1));
    wanted = "PullReply.value_type: 1, must be 0 as asked for";
  }
  SECTION("outcome") {
    message.set_outcome(static_cast<wire::Outcome>(9));
    wanted = "PullReply.outcome: 9, must be at most 2";
  }
  Destinations d;
  const std::string bytes = message.SerializeAsString();
  const auto chunks = Cut(bytes, 1000);
  const absl::Status status = DecodePullReply(chunks, pull.request, &d.reply);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains(wanted));
}

TEST_CASE("Codec: inconsistent requests are refused with field, value and bound", "[wire][unit]") {
  const Push push;
  wire::PushRequest message;
  REQUIRE(message.ParseFromString(Text(*EncodePushRequest(push.request, kLarge))));
  wire::PushGroup* group = message.mutable_groups(0);
  std::string wanted;
  SECTION("keys") {
    group->mutable_keys()->append("x");
    wanted = "groups.keys: 41 bytes, must be a multiple of 8";
  }
  SECTION("count of keys") {
    group->set_counts(Packed(std::vector<uint32_t>{2, 0, 4}));
    wanted = "PushRequest.groups.counts: sum 6, must be 5 as in keys";
  }
  SECTION("counts") {
    group->set_counts(Packed(std::vector<uint32_t>{2, 3}));
    wanted = "PushRequest.groups.counts: 2 elements, must be 3 as in partitions";
  }
  SECTION("occurrences") {
    group->mutable_occurrences()->resize(16);
    wanted = "PushRequest.groups.occurrences: 4 elements, must be 0 or 5 as in keys";
  }
  SECTION("slots of fewer keys") {
    group->mutable_slots()->resize(8);
    wanted = "PushRequest.groups.slots: 4 elements, must be 0 or 5 as in keys";
  }
  SECTION("half a slot") {
    group->mutable_slots()->push_back('x');
    wanted = "groups.slots: 11 bytes, must be a multiple of 2";
  }
  SECTION("slot of all keys") {
    group->set_slot(65536);
    wanted = "groups.slot: 65536, must be at most 65535";
  }
  SECTION("dims") {
    group->set_dims(Packed(std::vector<uint32_t>{3}));
    wanted = "PushRequest.groups.dims: 1 elements, must be 2 as in tables";
  }
  SECTION("huge dim") {
    group->set_dims(Packed(std::vector<uint32_t>{~0u, ~0u}));
    wanted = "PushRequest.values: 34 floats, fewer than 0 + 5 keys x dim 4294967295";
  }
  SECTION("values") {
    message.mutable_values()->append(4, '\0');
    wanted = "PushRequest.values: 35 floats, must be 20 for rows and 14 as in dense_floats";
  }
  SECTION("dense floats") {
    message.set_dense_floats(~uint64_t{0});
    wanted = "must be 20 for rows and 18446744073709551615 as in dense_floats";
  }
  SECTION("partitions") {
    message.set_partitions(Packed(std::vector<uint32_t>{0, 2, 2}));
    wanted = "PushRequest.partitions: 2 follows 2, must be ascending";
  }
  SECTION("records") {
    message.set_begin(513);
    wanted = "PushRequest.begin: 513, must be at most end, which is 512";
  }
  SECTION("value type") {
    message.set_value_type(static_cast<wire::ValueType>(3));
    wanted = "value_type: 3, must be at most 2";
  }
  const std::string bytes = message.SerializeAsString();
  const auto chunks = Cut(bytes, 1000);
  const absl::Status status = DecodePushRequest(chunks).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains(wanted));
}

TEST_CASE("Codec: a request that is too large or inconsistent is not sent", "[wire][unit]") {
  Push push;
  CHECK_THAT(std::string(EncodePushRequest(push.request, 100).status().message()),
             Contains("PushRequest: ") && Contains("must be at most 100"));
  CHECK_THAT(std::string(EncodePullRequest(push.pull.request, 100).status().message()),
             Contains("must be at most 100"));
  push.request.groups[0].dims = push.pull.second;
  CHECK_THAT(std::string(EncodePushRequest(push.request, kLarge).status().message()),
             Contains("PushRequest.groups.dims: 1 elements, must be 2 as in tables"));
  PullReply reply;
  const FlatSizes sizes{~uint64_t{0}, 1, 0, 0};
  CHECK_THAT(std::string(AllocatePullValues(push.pull.request, sizes, 400, &reply).status().message()),
             Contains("must be at most 100"));
}

TEST_CASE("Codec: destinations without room are refused before a pull is sent", "[wire][unit]") {
  Pull pull;
  Destinations d;
  REQUIRE(CheckPullDestinations(pull.request, d.reply).ok());
  SECTION("null") {
    d.reply.dense = nullptr;
    CHECK_THAT(std::string(CheckPullDestinations(pull.request, d.reply).message()),
               Contains("no destination for 14 floats"));
  }
  SECTION("dims") {
    pull.request.groups[0].dims = {};
    CHECK_THAT(std::string(CheckPullDestinations(pull.request, d.reply).message()),
               Contains("PullRequest.groups.dims: 0 elements, must be 2 as in PullRequest.groups.tables"));
  }
  SECTION("rows") {
    d.reply.rows.pop_back();
    CHECK_THAT(std::string(CheckPullDestinations(pull.request, d.reply).message()),
               Contains("PullReply.rows: 1 elements, must be 2 as in PullRequest.groups"));
  }
}

TEST_CASE("Codec: truncation at every byte and changed bytes never crash", "[wire][unit]") {
  Push push;
  push.request.value_type = push.pull.request.value_type = GENERATE(ValueType::kF32, ValueType::kBf16, ValueType::kF16);
  PullReply sent;
  const std::string pull_bytes = Text(*EncodePullRequest(push.pull.request, kLarge));
  const std::string push_bytes = Text(*EncodePushRequest(push.request, kLarge));
  const std::string reply_bytes = EncodeReply(push.pull.request, &sent);
  int refused = 0;
  const auto decode_all = [&](absl::string_view bytes) {
    const auto chunks = Cut(bytes, 11);
    Destinations d;
    refused += !DecodePullRequest(chunks).ok();
    refused += !DecodePushRequest(chunks).ok();
    refused += !DecodePullReply(chunks, push.pull.request, &d.reply).ok();
  };
  for (std::string bytes : {pull_bytes, push_bytes, reply_bytes}) {
    for (size_t n = 0; n < bytes.size(); ++n) {
      decode_all(absl::string_view(bytes).substr(0, n));
      for (uint8_t change : {0x01, 0x80, 0xff}) {
        bytes[n] = static_cast<char>(bytes[n] ^ change);
        decode_all(bytes);
        bytes[n] = static_cast<char>(bytes[n] ^ change);
      }
    }
  }
  CHECK(refused > 1000);
  // A push lacks its values until the last byte of them; `continues` follows.
  for (size_t n = 1; n < push_bytes.size() - 3; ++n) {
    if (DecodePushRequest(Cut(push_bytes.substr(0, n), 1000)).ok()) CHECK(n < 100);
  }
}

TEST_CASE("Codec: small messages come back as they went", "[wire][unit]") {
  const auto chunks = [](const ByteArray& bytes, std::string* text) {
    *text = Text(bytes);
    return Cut(*text, 2);
  };
  std::string text;
  OpenSplitRequest open{{1, 2, 3, 4}, 5, 6, 7, 8}, open_back;
  REQUIRE(DecodeOpenSplitRequest(chunks(*EncodeOpenSplitRequest(open), &text), &open_back).ok());
  CHECK((open_back.header.lane == 4 && open_back.pass == 5 && open_back.split == 6));
  CHECK((open_back.lease == 7 && open_back.logical_lane == 8));
  OpenSplitReply reply{RequestOutcome::kFenced, 2, {0, 256, kSplitDone}, 3, 4}, reply_back;
  REQUIRE(DecodeOpenSplitReply(chunks(*EncodeOpenSplitReply(reply), &text), &reply_back).ok());
  CHECK(reply_back.outcome == RequestOutcome::kFenced);
  CHECK(reply_back.watermarks == reply.watermarks);
  CHECK((reply_back.slowest_clock == 3 && reply_back.rounds_applied == 4));
  const std::vector<uint8_t> bytes{0, 255, 7};
  const PushPiece piece{{1, 2, 3, 4}, 5, 6, uint64_t{1} << 40, 8, bytes};
  const auto piece_back = DecodePushPiece(chunks(*EncodePushPiece(piece, kLarge), &text));
  REQUIRE(piece_back.ok());
  CHECK((piece_back->piece.header.lane == 4 && piece_back->piece.attempt == 5 && piece_back->piece.part == 6));
  CHECK((piece_back->piece.total_bytes == uint64_t{1} << 40 && piece_back->piece.offset == 8));
  CHECK(List(piece_back->piece.bytes) == bytes);
  wire::PushPiece parsed;
  REQUIRE(parsed.ParseFromString(text));
  CHECK(parsed.SerializeAsString() == text);
  CHECK(parsed.bytes() == Packed(bytes));
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string cut = text.substr(0, n);
    const auto short_piece = DecodePushPiece(Cut(cut, 3));
    CHECK((!short_piece.ok() || short_piece->piece.bytes.empty()));
  }
  CHECK_FALSE(EncodePushPiece(piece, 4).ok());
  PushReply push{
      RequestOutcome::kOk, 1, 2, 3, 4, 5, {{4, PushOutcome::kMisaligned, 5}, {6, PushOutcome::kDuplicate, 7}}, true};
  PushReply push_back;
  REQUIRE(DecodePushReply(chunks(*EncodePushReply(push), &text), &push_back).ok());
  REQUIRE(push_back.exceptions.size() == 2);
  CHECK((push_back.exceptions[0].partition == 4 && push_back.exceptions[0].outcome == PushOutcome::kMisaligned));
  CHECK((push_back.exceptions[1].watermark == 7 && push_back.pushes_applied == 2));
  CHECK(push_back.staged);
  CHECK((push_back.guard_refused == 3 && push_back.not_admitted == 4 && push_back.memory_refused == 5));
  MarkRequest mark{{1, 2, 3, 4}, 5, 6, false, 7, true}, mark_back;
  REQUIRE(DecodeMarkRequest(chunks(*EncodeMarkRequest(mark), &text), &mark_back).ok());
  CHECK((mark_back.lease == 5 && mark_back.logical_lane == 6 && !mark_back.has_round));
  CHECK((mark_back.round == 7 && mark_back.last));
  MarkReply done{RequestOutcome::kStaleMap, 9}, done_back;
  REQUIRE(DecodeMarkReply(chunks(*EncodeMarkReply(done), &text), &done_back).ok());
  CHECK((done_back.outcome == RequestOutcome::kStaleMap && done_back.map_version == 9));
  wire::MarkReply bad;
  bad.set_outcome(static_cast<wire::Outcome>(77));
  text = bad.SerializeAsString();
  CHECK_THAT(std::string(DecodeMarkReply(Cut(text, 9), &done_back).message()), Contains("outcome: 77"));
  CHECK_FALSE(DecodePushReply(Cut("\x2a\x05", 9), &push_back).ok());
}

TEST_CASE("Push: whole tensors, which only pass within a process, are not left out in silence", "[wire][unit]") {
  const float value = 1;
  const float* const tensors[] = {&value};
  PushRequest request;
  CHECK(EncodePushRequest(request, 1 << 20).ok());
  request.tensors = tensors;
  CHECK(EncodePushRequest(request, 1 << 20).status().message() ==
        "PushRequest.tensors: whole tensors are not sent, dense gradients must be");
}

}  // namespace
}  // namespace shoal
