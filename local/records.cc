#include "local/records.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/data_set.h"

namespace shoal {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kBatchRecords = 1024;

// JSON has no NaN and no infinity, which are just what one looks for.
Json Number(float value) { return std::isfinite(value) ? Json(value) : Json(absl::StrCat(value)); }

Json LabelsOf(const Batch& batch, uint32_t row) {
  Json labels = Json::array();
  for (uint32_t i = batch.label_offsets[row]; i < batch.label_offsets[row + 1]; ++i)
    labels.push_back(batch.label_ids[i]);
  return labels;
}

Json RecordJson(const FeatureSchema& schema, const Batch& batch, uint32_t row) {
  Json json = {{"record", batch.records[row]}};
  if (row < batch.ids.size()) json["id"] = batch.ids[row];
  if (schema.label_kind() == FeatureSchema::MULTI_LABEL) {
    json["labels"] = LabelsOf(batch, row);
  } else {
    json["label"] = Number(batch.labels[row]);
  }
  json["dense"] = Json::object();
  for (uint32_t d = 0; d < batch.dense_dim; ++d) {
    json["dense"][schema.dense(static_cast<int>(d))] = Number(batch.dense[size_t{row} * batch.dense_dim + d]);
  }
  json["slots"] = Json::object();
  for (size_t s = 0; s < batch.slots.size(); ++s) {
    const SlotColumn& slot = batch.slots[s];
    const std::string& name = schema.slots(static_cast<int>(s));
    Json keys = Json::array(), weights = Json::array();
    for (uint32_t i = slot.offsets[row]; i < slot.offsets[row + 1]; ++i) {
      keys.push_back(slot.keys[i]);
      if (!slot.weights.empty()) weights.push_back(Number(slot.weights[i]));
    }
    json["slots"][name] = std::move(keys);
    if (!weights.empty()) json["weights"][name] = std::move(weights);
  }
  return json;
}

}  // namespace

absl::Status VisitRecords(const Job& job, const RecordRange& range, const std::function<void(const Json&)>& visit) {
  if (range.begin >= range.end) {
    return absl::InvalidArgumentError(absl::StrCat("end: ", range.end, ", must be above begin, ", range.begin));
  }
  if (range.pass >= job.data().passes()) {
    return absl::OutOfRangeError(absl::StrCat("pass: ", range.pass, ", must be below ", job.data().passes()));
  }
  SHOAL_ASSIGN_OR_RETURN(const InputPlan plan, PlanInputs(job.data(), InputKind::kTrain, job.batch().size()));
  SHOAL_ASSIGN_OR_RETURN(const FeatureSchema schema, MakeSchema(job.data(), plan));
  if (range.split >= static_cast<uint64_t>(plan.splits_size())) {
    return absl::OutOfRangeError(absl::StrCat("split: ", range.split, ", must be below ", plan.splits_size()));
  }
  DataSetOptions options;
  options.seed = job.seed();
  options.want_ids = true;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> data, DataSet::Open(job.data(), plan, schema, options));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<SplitReader> reader,
                         data->OpenSplit(range.pass, range.split, range.begin));
  Batch batch;
  for (uint64_t next = range.begin; next < range.end && !batch.end_of_split; next = batch.end) {
    SHOAL_RETURN_IF_ERROR(reader->Next(std::min(kBatchRecords, range.end - next), &batch));
    for (uint32_t row = 0; row < batch.rows; ++row) visit(RecordJson(schema, batch, row));
    for (const BadRecord& bad : batch.bad) visit({{"error", bad.message}});
  }
  return absl::OkStatus();
}

}  // namespace shoal
