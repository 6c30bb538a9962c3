#include "local/checkpoint_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/checkpoint/chain.h"

namespace shoal {
namespace {

using Json = nlohmann::ordered_json;

uint64_t HashOf(absl::Span<const float> values) {
  return HashBytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

struct RowHash {
  uint64_t weights = 0, state = 0;
};
// By table of the diff, then key.
using Rows = std::vector<absl::flat_hash_map<uint64_t, RowHash>>;

struct Dense {
  std::map<uint64_t, std::vector<float>> weights;  // by block
  std::map<uint64_t, uint64_t> state;              // hash by block
};

// Tables and tensors that both sides have, by the number that a side gives them.
struct Matching {
  static constexpr size_t kNone = ~size_t{0};
  std::vector<size_t> table_before, table_after, tensor_before, tensor_after;
};

// Hands the rows of one side on under the diff's numbers. Not thread-safe.
class Side : public SectionVisitor {
 public:
  Side(const PartHeader& header, const std::vector<size_t>& tables, const std::vector<size_t>& tensors,
       std::vector<Dense>* dense)
      : header_(header), tables_(tables), tensors_(tensors), dense_(dense) {}
  virtual void Take(size_t table, uint64_t key, const RowHash& hash) = 0;

  absl::Status Progress(const PartitionProgress&) override { return absl::OkStatus(); }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t, uint64_t, absl::Span<const float> values) override {
    if (tables_[table] == Matching::kNone) return absl::OkStatus();
    const uint32_t dim = header_.tables[table].dim;
    Take(tables_[table], key, {HashOf(values.subspan(0, dim)), HashOf(values.subspan(dim))});
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) override { return absl::OkStatus(); }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Block(const PartBlock& block) override {
    const size_t tensor = tensors_[block.tensor];
    if (tensor == Matching::kNone) return absl::OkStatus();
    (*dense_)[tensor].weights[block.index].assign(block.weights.begin(), block.weights.end());
    (*dense_)[tensor].state[block.index] = HashOf(block.state);
    return absl::OkStatus();
  }

 private:
  const PartHeader& header_;
  const std::vector<size_t>& tables_;
  const std::vector<size_t>& tensors_;
  std::vector<Dense>* const dense_;
};

class Before : public Side {
 public:
  Before(const PartHeader& header, const Matching& match, Rows* rows, CheckpointDiff* diff, std::vector<Dense>* dense)
      : Side(header, match.table_before, match.tensor_before, dense), rows_(rows), diff_(diff) {}
  void Take(size_t table, uint64_t key, const RowHash& hash) override {
    (*rows_)[table][key] = hash;
    ++diff_->tables[table].rows_before;
  }

 private:
  Rows* const rows_;
  CheckpointDiff* const diff_;
};

class After : public Side {
 public:
  After(const PartHeader& header, const Matching& match, Rows* rows, CheckpointDiff* diff, std::vector<Dense>* dense)
      : Side(header, match.table_after, match.tensor_after, dense), rows_(rows), diff_(diff) {}
  void Take(size_t table, uint64_t key, const RowHash& hash) override {
    CheckpointDiff::Table& counts = diff_->tables[table];
    ++counts.rows_after;
    const auto it = (*rows_)[table].find(key);
    if (it == (*rows_)[table].end()) {
      ++counts.added;
      return;
    }
    const bool weights = it->second.weights != hash.weights;
    counts.weights_changed += weights ? 1 : 0;
    counts.changed += weights || it->second.state != hash.state ? 1 : 0;
    (*rows_)[table].erase(it);  // what is left in the end was removed
  }

 private:
  Rows* const rows_;
  CheckpointDiff* const diff_;
};

Matching Match(const PartHeader& before, const PartHeader& after, CheckpointDiff* diff) {
  Matching match;
  match.table_after.assign(after.tables.size(), Matching::kNone);
  match.tensor_after.assign(after.tensors.size(), Matching::kNone);
  for (const PartHeader::Table& table : before.tables) {
    size_t at = 0;
    while (at < after.tables.size() && after.tables[at].name != table.name) ++at;
    if (at == after.tables.size() || after.tables[at].dim != table.dim) {
      match.table_before.push_back(Matching::kNone);
      diff->only_before.push_back(table.name);
      continue;
    }
    match.table_after[at] = diff->tables.size();
    match.table_before.push_back(diff->tables.size());
    diff->tables.emplace_back();
    diff->tables.back().name = table.name;
  }
  for (const std::string& tensor : before.tensors) {
    const auto it = std::find(after.tensors.begin(), after.tensors.end(), tensor);
    if (it == after.tensors.end()) {
      match.tensor_before.push_back(Matching::kNone);
      diff->only_before.push_back(tensor);
      continue;
    }
    match.tensor_after[static_cast<size_t>(it - after.tensors.begin())] = diff->tensors.size();
    match.tensor_before.push_back(diff->tensors.size());
    diff->tensors.emplace_back();
    diff->tensors.back().name = tensor;
  }
  for (size_t t = 0; t < after.tables.size(); ++t) {
    if (match.table_after[t] == Matching::kNone) diff->only_after.push_back(after.tables[t].name);
  }
  for (size_t t = 0; t < after.tensors.size(); ++t) {
    if (match.tensor_after[t] == Matching::kNone) diff->only_after.push_back(after.tensors[t]);
  }
  return match;
}

void CompareDense(const Dense& before, const Dense& after, CheckpointDiff::Tensor* out) {
  double a = 0, b = 0, difference = 0;
  for (const auto& [block, weights] : before.weights) {
    const auto it = after.weights.find(block);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double was = weights[i];
      const double is = it != after.weights.end() && i < it->second.size() ? it->second[i] : 0;
      a += was * was;
      difference += (is - was) * (is - was);
      out->max_abs_difference = std::max(out->max_abs_difference, std::abs(is - was));
    }
  }
  for (const auto& [block, weights] : after.weights) {
    out->floats += weights.size();
    for (float weight : weights) b += static_cast<double>(weight) * weight;
  }
  out->norm_before = std::sqrt(a);
  out->norm_after = std::sqrt(b);
  out->norm_of_difference = std::sqrt(difference);
  out->state_changed = before.state != after.state;
}

absl::Status CompareRows(const CheckpointReader& before, const CheckpointReader& after, const Matching& match,
                         CheckpointDiff* diff, std::vector<Dense>* dense_before, std::vector<Dense>* dense_after) {
  Rows rows(diff->tables.size());
  Before left(before.header(), match, &rows, diff, dense_before);
  After right(after.header(), match, &rows, diff, dense_after);
  const auto removed = [&] {
    for (size_t t = 0; t < rows.size(); ++t) {
      diff->tables[t].removed += rows[t].size();
      rows[t].clear();
    }
  };
  // Keys hash to partitions by their number alone, so equal numbers hold equal keys.
  const bool aligned = before.partitions() == after.partitions();
  for (uint32_t p = 0; p < before.partitions(); ++p) {
    SHOAL_RETURN_IF_ERROR(before.Visit(p, &left));
    if (!aligned) continue;
    SHOAL_RETURN_IF_ERROR(after.Visit(p, &right));
    removed();
  }
  if (aligned) return absl::OkStatus();
  for (uint32_t p = 0; p < after.partitions(); ++p) SHOAL_RETURN_IF_ERROR(after.Visit(p, &right));
  removed();
  return absl::OkStatus();
}

}  // namespace

bool CheckpointDiff::same() const {
  const auto changed = [](const Table& table) { return table.added + table.removed + table.changed > 0; };
  // A sign of zero or a NaN is a difference of bits that norms don't show; blocks of dense weights are small beside
  // what they would hide, so the norm of the difference is taken as it is.
  const auto moved = [](const Tensor& tensor) { return tensor.state_changed || !(tensor.norm_of_difference == 0); };
  return only_before.empty() && only_after.empty() && std::none_of(tables.begin(), tables.end(), changed) &&
         std::none_of(tensors.begin(), tensors.end(), moved);
}

absl::StatusOr<CheckpointDiff> DiffCheckpoints(const std::string& before_path, const std::string& after_path) {
  const auto all = [](uint32_t) { return true; };
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> before, CheckpointReader::Open(before_path, all));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> after, CheckpointReader::Open(after_path, all));
  CheckpointDiff diff;
  diff.before = before->dir();
  diff.after = after->dir();
  const Matching match = Match(before->header(), after->header(), &diff);
  std::vector<Dense> dense_before(diff.tensors.size()), dense_after(diff.tensors.size());
  SHOAL_RETURN_IF_ERROR(CompareRows(*before, *after, match, &diff, &dense_before, &dense_after));
  for (size_t t = 0; t < diff.tensors.size(); ++t) CompareDense(dense_before[t], dense_after[t], &diff.tensors[t]);
  return diff;
}

std::string DiffText(const CheckpointDiff& diff) {
  std::string text = absl::StrFormat("before  %s\nafter   %s\n", diff.before, diff.after);
  if (!diff.tables.empty()) {
    absl::StrAppendFormat(&text, "%-24s %12s %12s %10s %10s %10s %10s\n", "TABLE", "ROWS BEFORE", "ROWS AFTER", "ADDED",
                          "REMOVED", "CHANGED", "WEIGHTS");
  }
  for (const CheckpointDiff::Table& table : diff.tables) {
    absl::StrAppendFormat(&text, "%-24s %12d %12d %10d %10d %10d %10d\n", table.name, table.rows_before,
                          table.rows_after, table.added, table.removed, table.changed, table.weights_changed);
  }
  if (!diff.tensors.empty()) {
    absl::StrAppendFormat(&text, "%-24s %12s %12s %12s %12s %12s\n", "TENSOR", "FLOATS", "NORM BEFORE", "NORM AFTER",
                          "DIFFERENCE", "MAX");
  }
  for (const CheckpointDiff::Tensor& tensor : diff.tensors) {
    absl::StrAppendFormat(&text, "%-24s %12d %12.6g %12.6g %12.6g %12.6g\n", tensor.name, tensor.floats,
                          tensor.norm_before, tensor.norm_after, tensor.norm_of_difference, tensor.max_abs_difference);
  }
  for (const std::string& name : diff.only_before) absl::StrAppend(&text, "only before: ", name, "\n");
  for (const std::string& name : diff.only_after) absl::StrAppend(&text, "only after: ", name, "\n");
  return text + (diff.same() ? "same\n" : "different\n");
}

nlohmann::ordered_json DiffJson(const CheckpointDiff& diff) {
  Json tables = Json::object(), tensors = Json::object();
  for (const CheckpointDiff::Table& table : diff.tables) {
    tables[table.name] = {{"rows_before", table.rows_before},
                          {"rows_after", table.rows_after},
                          {"added", table.added},
                          {"removed", table.removed},
                          {"changed", table.changed},
                          {"weights_changed", table.weights_changed}};
  }
  for (const CheckpointDiff::Tensor& tensor : diff.tensors) {
    tensors[tensor.name] = {{"floats", tensor.floats},
                            {"norm_before", tensor.norm_before},
                            {"norm_after", tensor.norm_after},
                            {"norm_of_difference", tensor.norm_of_difference},
                            {"max_abs_difference", tensor.max_abs_difference},
                            {"state_changed", tensor.state_changed}};
  }
  return {{"before", diff.before},        {"after", diff.after},
          {"same", diff.same()},          {"tables", tables},
          {"tensors", tensors},           {"only_before", diff.only_before},
          {"only_after", diff.only_after}};
}

}  // namespace shoal
