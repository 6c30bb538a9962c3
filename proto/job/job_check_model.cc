// CheckModel: preset or layers, the graph's names, loss and outputs.
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/job/job_check.h"

namespace shoal {
namespace {

constexpr uint32_t kMaxHiddenUnits = 1 << 20;

std::string LossName(Model::Loss loss) { return absl::AsciiStrToLower(Model::Loss_Name(loss)); }

bool IsName(absl::string_view name) {
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') return false;
  }
  return !name.empty();
}

void CheckWidths(const google::protobuf::RepeatedField<uint32_t>& widths, const std::string& path,
                 const ReportJobError& report) {
  for (int i = 0; i < widths.size(); ++i) {
    if (widths[i] >= 1 && widths[i] <= kMaxHiddenUnits) continue;
    report(absl::StrCat(path, ".", i), absl::StrCat(widths[i], " is not a width from 1 to ", kMaxHiddenUnits));
  }
}

void CheckLayer(const Layer& layer, bool first, const std::set<std::string>& earlier, const std::string& path,
                const ReportJobError& report) {
  if (!layer.name().empty()) {
    if (!IsName(layer.name())) {
      report(path + ".name", "may hold letters, digits, '-', '_' and '.' only");
    } else if (layer.name() == "dense") {
      report(path + ".name", "\"dense\" stands for the dense features; take another name");
    } else if (earlier.count(layer.name()) != 0) {
      report(path + ".name", absl::StrCat("a second layer called ", layer.name()));
    }
  }
  for (int i = 0; i < layer.inputs_size(); ++i) {
    if (layer.inputs(i) == "dense" || earlier.count(layer.inputs(i)) != 0) continue;
    report(absl::StrCat(path, ".inputs.", i), absl::StrCat("no earlier layer is called \"", layer.inputs(i), "\""));
  }
  if (layer.has_embedding() || layer.has_factorization()) {
    const std::string kind = layer.has_embedding() ? "embedding" : "factorization";
    if (layer.inputs_size() > 0) {
      report(path + ".inputs",
             absl::StrCat(layer.has_embedding() ? "an " : "a ", kind, " takes no inputs; choose slots instead"));
    }
    const std::string& table = layer.has_embedding() ? layer.embedding().table() : layer.factorization().table();
    if (!table.empty() && !IsName(table)) {
      report(absl::StrCat(path, ".", kind, ".table"), "may hold letters, digits, '-', '_' and '.' only");
    }
  } else if (first && layer.inputs_size() == 0) {
    report(path, "the first layer must be an embedding, a factorization or name its inputs ([dense])");
  }
}

void CheckLayers(const Model& model, const ReportJobError& report) {
  std::set<std::string> earlier;
  for (int i = 0; i < model.layers_size(); ++i) {
    CheckLayer(model.layers(i), i == 0, earlier, absl::StrCat("model.layers.", i), report);
    earlier.insert(model.layers(i).name());
  }
  constexpr absl::string_view kPresetOnly = "belongs to preset; layers say their own widths";
  if (model.hidden_size() > 0) report("model.hidden", kPresetOnly);
  if (model.bottom_size() > 0) report("model.bottom", kPresetOnly);
}

void CheckLoss(const Job& job, const ReportJobError& report) {
  const Format& format = job.data().format();
  const Model::Loss loss = EffectiveLoss(job);
  if (format.kind_case() == Format::KIND_NOT_SET || loss == Model::DEFAULT) return;
  if (format.has_idx() && loss != Model::SOFTMAX_CROSS_ENTROPY) {
    return report("model.loss", absl::StrCat(LossName(loss),
                                             " does not fit format idx, whose labels are classes; use "
                                             "softmax_cross_entropy"));
  }
  if (format.has_xmc() != (loss == Model::MULTI_LABEL_BCE)) {
    return report("model.loss", format.has_xmc()
                                    ? absl::StrCat(LossName(loss), " does not fit format xmc; use multi_label_bce")
                                    : "multi_label_bce needs format xmc");
  }
  const uint32_t outputs = job.model().outputs();
  const bool many = loss == Model::SOFTMAX_CROSS_ENTROPY || loss == Model::MULTI_LABEL_BCE;
  if (many && outputs == 1) {
    report("model.outputs", absl::StrCat(LossName(loss), " needs outputs > 1: one per ",
                                         loss == Model::MULTI_LABEL_BCE ? "label" : "class"));
  } else if (!many && outputs > 1) {
    report("model.outputs", absl::StrCat(LossName(loss), " has one output, not ", outputs));
  }
}

}  // namespace

Model::Loss EffectiveLoss(const Job& job) {
  if (job.model().loss() != Model::DEFAULT) return job.model().loss();
  switch (job.data().format().kind_case()) {
    case Format::KIND_NOT_SET:
      return Model::DEFAULT;
    case Format::kIdx:
      return Model::SOFTMAX_CROSS_ENTROPY;
    case Format::kXmc:
      return Model::MULTI_LABEL_BCE;
    default:
      return Model::BINARY_CROSS_ENTROPY;
  }
}

void CheckModel(const Job& job, const ReportJobError& report) {
  const Model& model = job.model();
  const bool preset = model.preset() != Model::NONE;
  if (preset == (model.layers_size() > 0)) {
    report("model", preset ? "only one of preset, layers may be set" : "one of preset, layers must be set");
  } else if (!preset) {
    CheckLayers(model, report);
  }
  CheckWidths(model.hidden(), "model.hidden", report);
  CheckWidths(model.bottom(), "model.bottom", report);
  if (model.preset() != Model::COUNTING) CheckLoss(job, report);
}

}  // namespace shoal
