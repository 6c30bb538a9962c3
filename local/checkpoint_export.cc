#include "local/checkpoint_export.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "local/npz_writer.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr char kFloat[] = "<f4";

// What of a manifest is exported.
struct Selection {
  std::vector<TableSpec> tables;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> slots;
};

absl::StatusOr<Selection> Select(const Manifest& manifest, const std::vector<std::string>& names) {
  Selection out;
  out.slots.assign(manifest.plan().schema().slots().begin(), manifest.plan().schema().slots().end());
  const auto wanted = [&](const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> found;
  for (const TableSpec& table : manifest.plan().model().tables()) {
    found.push_back(table.name());
    if (wanted(table.name())) out.tables.push_back(table);
  }
  for (const TensorSpec& tensor : manifest.plan().model().tensors()) {
    found.push_back(tensor.name());
    if (wanted(tensor.name())) out.tensors.push_back(tensor);
  }
  for (const std::string& name : names) {
    if (std::find(found.begin(), found.end(), name) == found.end()) {
      return absl::NotFoundError(absl::StrCat("--tables ", name, ": the checkpoint has no such table or tensor"));
    }
  }
  return out;
}

uint64_t Floats(const TensorSpec& tensor) {
  uint64_t floats = 1;
  for (uint64_t extent : tensor.shape()) floats *= extent;
  return floats;
}

// Tensors are small beside tables and their blocks come in any order: they are put together in memory.
struct Tensor {
  std::vector<float> weights;
  std::map<uint64_t, std::vector<float>> state;  // by block
};

// Where rows and tensors go. Not thread-safe.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual absl::Status Row(size_t table, const CheckpointRow& row) = 0;
  virtual absl::Status Dense(const TensorSpec& spec, const Tensor& tensor) = 0;
  virtual absl::Status Finish() = 0;
};

class NpzSink : public Sink {
 public:
  static absl::StatusOr<std::unique_ptr<Sink>> Create(const ExportOptions& options, const Selection& selection) {
    auto sink = std::unique_ptr<NpzSink>(new NpzSink(options));
    for (size_t s = 0; s < selection.slots.size(); ++s) sink->slot_of_[selection.slots[s]] = static_cast<int32_t>(s);
    for (const TableSpec& spec : selection.tables) {
      Table table;
      SHOAL_ASSIGN_OR_RETURN(table.keys, sink->Column(spec.name() + ".keys", "<u8", {}));
      SHOAL_ASSIGN_OR_RETURN(table.weights, sink->Column(spec.name() + ".weights", kFloat, {spec.dim()}));
      if (!selection.slots.empty()) {
        SHOAL_ASSIGN_OR_RETURN(table.slots, sink->Column(spec.name() + ".slots", "<i4", {}));
      }
      table.name = spec.name();
      sink->tables_.push_back(std::move(table));
    }
    SHOAL_ASSIGN_OR_RETURN(sink->writer_, NpzWriter::Create(options.output + ".tmp"));
    return std::unique_ptr<Sink>(std::move(sink));
  }

  absl::Status Row(size_t at, const CheckpointRow& row) override {
    Table& table = tables_[at];
    SHOAL_RETURN_IF_ERROR(table.keys->Append(&row.key, sizeof(row.key)));
    SHOAL_RETURN_IF_ERROR(table.weights->Append(row.weights.data(), row.weights.size() * sizeof(float)));
    if (table.slots != nullptr) {
      const int32_t slot = slot_of_[std::string(row.slot)];
      SHOAL_RETURN_IF_ERROR(table.slots->Append(&slot, sizeof(slot)));
    }
    if (!options_.state || row.state.empty()) return absl::OkStatus();
    if (table.state == nullptr) {
      SHOAL_ASSIGN_OR_RETURN(table.state, Column(table.name + ".state", kFloat, {row.state.size()}));
    }
    return table.state->Append(row.state.data(), row.state.size() * sizeof(float));
  }
  absl::Status Dense(const TensorSpec& spec, const Tensor& tensor) override {
    SHOAL_ASSIGN_OR_RETURN(const auto weights, Column(spec.name(), kFloat, {}));
    SHOAL_RETURN_IF_ERROR(weights->Append(tensor.weights.data(), tensor.weights.size() * sizeof(float)));
    SHOAL_RETURN_IF_ERROR(writer_->Add(weights.get(), {spec.shape().begin(), spec.shape().end()}));
    if (!options_.state) return absl::OkStatus();
    SHOAL_ASSIGN_OR_RETURN(const auto state, Column(spec.name() + ".state", kFloat, {}));
    for (const auto& [block, floats] : tensor.state) {
      SHOAL_RETURN_IF_ERROR(state->Append(floats.data(), floats.size() * sizeof(float)));
    }
    return writer_->Add(state.get());
  }
  absl::Status Finish() override {
    for (Table& table : tables_) {
      for (NpyColumn* column : {table.keys.get(), table.weights.get(), table.slots.get(), table.state.get()}) {
        if (column != nullptr) SHOAL_RETURN_IF_ERROR(writer_->Add(column));
      }
    }
    SHOAL_RETURN_IF_ERROR(writer_->Finish());
    std::error_code error;
    fs::rename(options_.output + ".tmp", options_.output, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("rename to ", options_.output, ": ", error.message()));
  }
  ~NpzSink() override {
    std::error_code error;
    fs::remove(options_.output + ".tmp", error);
  }

 private:
  struct Table {
    std::string name;
    std::unique_ptr<NpyColumn> keys, weights, slots, state;
  };
  explicit NpzSink(const ExportOptions& options) : options_(options) {
    const std::string dir = fs::path(options.output).parent_path().string();
    dir_ = dir.empty() ? "." : dir;
  }
  absl::StatusOr<std::unique_ptr<NpyColumn>> Column(const std::string& name, const std::string& type,
                                                    std::vector<uint64_t> row_shape) {
    return NpyColumn::Create(dir_, name, type, std::move(row_shape));
  }

  const ExportOptions& options_;
  std::string dir_;
  std::vector<Table> tables_;
  std::map<std::string, int32_t> slot_of_;
  std::unique_ptr<NpzWriter> writer_;
};

class TsvSink : public Sink {
 public:
  static absl::StatusOr<std::unique_ptr<Sink>> Create(const ExportOptions& options, const Selection& selection) {
    std::error_code error;
    fs::create_directories(options.output, error);
    if (error) return absl::UnavailableError(absl::StrCat("make directory ", options.output, ": ", error.message()));
    auto sink = std::unique_ptr<TsvSink>(new TsvSink(options, !selection.slots.empty()));
    for (const TableSpec& spec : selection.tables) {
      SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<Text> text, sink->Open(spec.name()));
      sink->tables_.push_back(std::move(text));
    }
    return std::unique_ptr<Sink>(std::move(sink));
  }

  absl::Status Row(size_t at, const CheckpointRow& row) override {
    std::string line = absl::StrCat(row.key);
    if (slots_) absl::StrAppend(&line, "\t", row.slot);
    AppendFloats(row.weights, &line);
    if (options_.state) AppendFloats(row.state, &line);
    line += '\n';
    return tables_[at]->Write(line);
  }
  absl::Status Dense(const TensorSpec& spec, const Tensor& tensor) override {
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Text> text, Open(spec.name()));
    for (size_t i = 0; i < tensor.weights.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(text->Write(absl::StrFormat("%d\t%.9g\n", i, tensor.weights[i])));
    }
    return text->Close();
  }
  absl::Status Finish() override {
    for (const auto& table : tables_) SHOAL_RETURN_IF_ERROR(table->Close());
    return absl::OkStatus();
  }

 private:
  // A text file that closes itself.
  struct Text {
    std::string path;
    std::FILE* file = nullptr;
    ~Text() {
      if (file != nullptr) std::fclose(file);
    }
    absl::Status Failed() const {
      return absl::UnavailableError(absl::StrCat("write ", path, ": ", std::strerror(errno)));
    }
    absl::Status Write(const std::string& text) const {
      return std::fwrite(text.data(), 1, text.size(), file) == text.size() ? absl::OkStatus() : Failed();
    }
    absl::Status Close() {
      std::FILE* const closing = file;
      file = nullptr;
      return std::fclose(closing) == 0 ? absl::OkStatus() : Failed();
    }
  };
  TsvSink(const ExportOptions& options, bool slots) : options_(options), slots_(slots) {}

  // Nine significant digits give every float back.
  static void AppendFloats(absl::Span<const float> values, std::string* line) {
    for (float value : values) absl::StrAppendFormat(line, "\t%.9g", value);
  }
  absl::StatusOr<std::unique_ptr<Text>> Open(std::string name) const {
    std::replace(name.begin(), name.end(), '/', '_');
    auto text = std::make_unique<Text>();
    text->path = absl::StrCat(options_.output, "/", name, ".tsv");
    text->file = std::fopen(text->path.c_str(), "wb");
    if (text->file == nullptr) return text->Failed();
    return text;
  }

  const ExportOptions& options_;
  const bool slots_;
  std::vector<std::unique_ptr<Text>> tables_;
};

}  // namespace

absl::StatusOr<ExportReport> ExportCheckpoint(const ExportOptions& options) {
  ExportReport report;
  SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(options.checkpoint, &report.checkpoint));
  SHOAL_ASSIGN_OR_RETURN(const Selection selection, Select(manifest, options.tables));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Sink> sink, options.format == ExportFormat::kNpz
                                                               ? NpzSink::Create(options, selection)
                                                               : TsvSink::Create(options, selection));
  std::map<std::string, size_t> table_of;
  std::map<std::string, Tensor> tensors;
  for (const TableSpec& table : selection.tables) {
    table_of[table.name()] = report.tables.size();
    report.tables.push_back({table.name(), false, 0});
  }
  for (const TensorSpec& tensor : selection.tensors) tensors[tensor.name()].weights.resize(Floats(tensor));
  absl::Status status;
  SHOAL_RETURN_IF_ERROR(VisitRows(report.checkpoint, [&](const CheckpointRow& row) {
    if (!status.ok()) return;
    if (row.dense) {
      const auto tensor = tensors.find(std::string(row.table));
      if (tensor == tensors.end()) return;
      std::vector<float>& weights = tensor->second.weights;
      if (row.offset > weights.size() || row.weights.size() > weights.size() - row.offset) {
        status =
            absl::DataLossError(absl::StrCat("tensor ", row.table, " block ", row.key, ": lies outside its shape"));
        return;
      }
      std::copy(row.weights.begin(), row.weights.end(), weights.begin() + static_cast<int64_t>(row.offset));
      tensor->second.state[row.key].assign(row.state.begin(), row.state.end());
    } else if (const auto table = table_of.find(std::string(row.table)); table != table_of.end()) {
      ++report.tables[table->second].rows;
      status = sink->Row(table->second, row);
    }
  }));
  SHOAL_RETURN_IF_ERROR(status);
  for (const TensorSpec& spec : selection.tensors) {
    const Tensor& tensor = tensors[spec.name()];
    report.tables.push_back({spec.name(), true, tensor.weights.size()});
    SHOAL_RETURN_IF_ERROR(sink->Dense(spec, tensor));
  }
  SHOAL_RETURN_IF_ERROR(sink->Finish());
  return report;
}

}  // namespace shoal
