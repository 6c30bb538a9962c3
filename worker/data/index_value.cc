#include "worker/data/index_value.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

absl::string_view WithoutLeadingZeros(absl::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

}  // namespace

IndexValueParser::IndexValueParser(const Limits& limits) : limits_(limits), slot_seed_(SlotSeed(kIndexSlot)) {}

bool IndexValueParser::ParseOne(absl::string_view token, Batch* batch, Problem* problem) {
  size_t colon = 0;
  uint64_t value = 0;  // wraps with more than kMaxDigits digits
  for (; colon < token.size() && token[colon] >= '0' && token[colon] <= '9'; ++colon) {
    value = value * 10 + static_cast<uint64_t>(token[colon] - '0');
  }
  const bool is_digits = colon > 0 && colon < token.size() && token[colon] == ':';
  if (!is_digits) colon = token.find(':');
  if (colon == absl::string_view::npos) return Bad(problem, "feature", token, "index:value");
  const absl::string_view digits = token.substr(0, colon);
  const absl::string_view number = token.substr(colon + 1);
  if (!is_digits) {
    if (limits_.skip_qid && digits == "qid") return true;
    return Bad(problem, "index", digits, "an integer of digits only, as in index:value");
  }
  const absl::string_view index = WithoutLeadingZeros(digits);
  if (limits_.one_based && index == "0") return Bad(problem, "index", digits, "at least 1 (format.libsvm.one_based)");
  if (limits_.index_limit != 0) {
    if (index.size() > kMaxDigits || value >= limits_.index_limit) {
      return Bad(problem, "index", digits, absl::StrCat("less than ", limits_.index_limit, ", as the header says"));
    }
  }
  float weight = 1;
  // Most values are "1".
  if (!(number.size() == 1 && number[0] == '1') && !ParseFiniteFloat(number, &weight)) {
    const bool another = number.find(':') != absl::string_view::npos;
    return Bad(problem, absl::StrCat("value of index ", absl::string_view(Quoted(index))), number,
               another ? "one finite number (field:index:value of libffm is not index:value)" : "a finite number");
  }
  NoticeOrder(index, value);
  batch->slots[0].keys.push_back(FeatureKey(slot_seed_, index));
  batch->slots[0].weights.push_back(weight);
  return true;
}

void IndexValueParser::NoticeOrder(absl::string_view index, uint64_t value) {
  if (index.size() == previous_.size()) {
    ascending_ &= index.size() <= kMaxDigits ? value > previous_value_ : index > previous_;
  } else {
    ascending_ &= index.size() > previous_.size();
  }
  previous_ = index;
  previous_value_ = value;
}

bool IndexValueParser::CheckDistinct(absl::string_view features, const SlotColumn& column, size_t first,
                                     Problem* problem) {
  sorted_.assign(column.keys.begin() + first, column.keys.end());
  std::sort(sorted_.begin(), sorted_.end());
  const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
  if (twice == sorted_.end()) return true;
  absl::string_view token;
  while (!(token = NextToken(&features)).empty()) {
    const absl::string_view index = WithoutLeadingZeros(token.substr(0, token.find(':')));
    if (FeatureKey(slot_seed_, index) == *twice) break;
  }
  return Bad(problem, "index", token.substr(0, token.find(':')), "each index at most once in a row");
}

bool IndexValueParser::ParsePlain(absl::string_view* rest, SlotColumn* column) {
  const char* at = rest->data();
  const char* const end = at + rest->size();
  while (at < end && *at == ' ') ++at;
  const char* const index = at;
  uint64_t value = 0;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  const size_t digits = static_cast<size_t>(at - index);
  // Leading zeros, limits and anything that is not "digits:" are for ParseOne.
  if (digits == 0 || digits > kMaxDigits || *index == '0' || end - at < 2 || *at != ':') return false;
  if (limits_.index_limit != 0 && value >= limits_.index_limit) return false;
  const char* const number = ++at;
  float weight = 1;
  if (*at == '1' && (at + 1 == end || at[1] == ' ')) {
    ++at;
  } else {
    while (at < end && *at != ' ' && *at != '\t') ++at;
    if (!ParseFiniteFloat(absl::string_view(number, static_cast<size_t>(at - number)), &weight)) return false;
  }
  const absl::string_view token(index, digits);
  NoticeOrder(token, value);
  column->keys.push_back(FeatureKey(slot_seed_, token));
  column->weights.push_back(weight);
  rest->remove_prefix(static_cast<size_t>(at - rest->data()));
  return true;
}

bool IndexValueParser::Parse(absl::string_view features, Batch* batch, Problem* problem) {
  const size_t first = batch->slots[0].keys.size();
  previous_ = {};
  ascending_ = true;
  absl::string_view rest = features;
  for (;;) {
    while (ParsePlain(&rest, &batch->slots[0])) continue;
    const absl::string_view token = NextToken(&rest);
    if (token.empty()) break;
    if (!ParseOne(token, batch, problem)) return false;
  }
  return ascending_ || CheckDistinct(features, batch->slots[0], first, problem);
}

}  // namespace shoal
