// IDX images and labels (MNIST and its successors): big-endian header, then records of one size. Pixels become dense
// values; the label file lies beside the image file.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "worker/data/format.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;
constexpr uint64_t kMaxRecordValues = 16 << 20;

// The head of an idx file of unsigned bytes.
struct IdxHeader {
  uint64_t header_bytes = 0;
  uint64_t records = 0;
  uint64_t record_bytes = 1;  // product of the dimensions behind the first
};

uint32_t BigEndian32(const unsigned char* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

absl::Status HeaderError(const FileContent& content, uint64_t offset, absl::string_view field, absl::string_view value,
                         absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(content.path(), ": byte offset ", offset, ": field ", field,
                                                 ": value ", value, ": expected ", expected));
}

absl::StatusOr<IdxHeader> ReadHeader(const FileContent& content) {
  unsigned char bytes[4];
  if (content.size() < 8) {
    return HeaderError(content, 0, "header", absl::StrCat(content.size(), " bytes"), "at least 8 bytes");
  }
  SHOAL_RETURN_IF_ERROR(content.ReadAt(0, 4, reinterpret_cast<char*>(bytes)));
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] == 0) {
    return HeaderError(content, 0, "magic", absl::StrCat("0x", absl::Hex(BigEndian32(bytes), absl::kZeroPad8)),
                       "0x000008NN: unsigned bytes in NN dimensions");
  }
  const int dimensions = bytes[3];
  IdxHeader header;
  header.header_bytes = 4 + 4 * static_cast<uint64_t>(dimensions);
  if (content.size() < header.header_bytes) {
    return HeaderError(content, 4, "dimensions", absl::StrCat(content.size(), " bytes"),
                       absl::StrCat("a header of ", header.header_bytes, " bytes"));
  }
  for (int i = 0; i < dimensions; ++i) {
    const uint64_t offset = 4 + 4 * static_cast<uint64_t>(i);
    SHOAL_RETURN_IF_ERROR(content.ReadAt(offset, 4, reinterpret_cast<char*>(bytes)));
    const uint64_t size = BigEndian32(bytes);
    if (i == 0) {
      header.records = size;
    } else if (size == 0 || size > kMaxRecordValues / header.record_bytes) {
      return HeaderError(content, offset, absl::StrCat("dimension ", i), absl::StrCat(size),
                         absl::StrCat("at least 1, and at most ", kMaxRecordValues, " values in a record"));
    } else {
      header.record_bytes *= size;
    }
  }
  const uint64_t wanted = header.header_bytes + header.records * header.record_bytes;  // < 2^32 * 2^24 + 1024
  if (content.size() != wanted) {
    return HeaderError(content, 4, "number of records", absl::StrCat(header.records),
                       absl::StrCat("a file of ", wanted, " bytes, this one has ", content.size()));
  }
  return header;
}

// Cuts images out of a byte range. Not thread-safe.
class IdxSource : public RecordSource {
 public:
  IdxSource(std::shared_ptr<const FileContent> content, uint64_t record_bytes, uint64_t begin, uint64_t end)
      : content_(std::move(content)), record_bytes_(record_bytes), next_(begin), end_(std::min(end, content_->size())) {
    buffer_.resize(std::max(record_bytes_, kChunkBytes / record_bytes_ * record_bytes_));
  }

  absl::StatusOr<bool> Next(RawRecord* record) override {
    if (next_ >= end_) return false;
    if (used_ == filled_) {
      filled_ = std::min<uint64_t>(buffer_.size(), content_->size() - next_);
      SHOAL_RETURN_IF_ERROR(content_->ReadAt(next_, filled_, buffer_.data()));
      used_ = 0;
    }
    record->offset = next_;
    record->text = absl::string_view(buffer_.data() + used_, record_bytes_);
    record->overlong = false;
    used_ += record_bytes_;
    next_ += record_bytes_;
    return true;
  }

 private:
  const std::shared_ptr<const FileContent> content_;
  const uint64_t record_bytes_;
  uint64_t next_;
  const uint64_t end_;
  std::vector<char> buffer_;
  uint64_t filled_ = 0, used_ = 0;
};

class IdxParser : public RecordParser {
 public:
  IdxParser(const IdxHeader& images, std::shared_ptr<const FileContent> labels, uint64_t labels_begin,
            uint32_t label_count, float scale)
      : images_(images), labels_(std::move(labels)), labels_begin_(labels_begin), label_count_(label_count) {
    for (int i = 0; i < 256; ++i) values_[i] = static_cast<float>(i) * scale;
  }

  bool Parse(const RawRecord& record, Batch* batch, Problem* problem) override {
    if (!AddLabel(record, batch, problem)) return false;
    const size_t first = batch->dense.size();
    batch->dense.resize(first + record.text.size());
    float* out = batch->dense.data() + first;
    for (const char pixel : record.text) *out++ = values_[static_cast<unsigned char>(pixel)];
    return true;
  }

 private:
  bool AddLabel(const RawRecord& record, Batch* batch, Problem* problem) {
    char label = 0;
    if (labels_ != nullptr) {
      const uint64_t index = (record.offset - images_.header_bytes) / images_.record_bytes;
      const absl::Status status = labels_->ReadAt(labels_begin_ + index, 1, &label);
      if (!status.ok()) return Bad(problem, "label", "", absl::StrCat("a readable label: ", status.message()));
    }
    const uint32_t id = static_cast<unsigned char>(label);
    if (label_count_ != 0 && id >= label_count_) {
      return Bad(problem, "label", absl::StrCat(id), absl::StrCat("a class below ", label_count_));
    }
    batch->labels.push_back(static_cast<float>(id));
    return true;
  }

  const IdxHeader images_;
  const std::shared_ptr<const FileContent> labels_;  // null: there are none
  const uint64_t labels_begin_;
  const uint32_t label_count_;
  float values_[256];
};

class IdxRecordFormat : public RecordFormat {
 public:
  IdxRecordFormat(const IdxFormat& options, Labels labels) : options_(options), labels_(labels) {
    if (options_.images_marker().empty()) options_.set_images_marker("images-idx3");
    if (options_.labels_marker().empty()) options_.set_labels_marker("labels-idx1");
    if (options_.scale() == 0) options_.set_scale(1.f / 255);
  }

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content,
                                     InputFile* file) const override {
    SHOAL_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(*content));
    if (labels_ == Labels::kPresent) {
      SHOAL_ASSIGN_OR_RETURN(const LabelFile labels, OpenLabels(content->path(), header));
      SHOAL_ASSIGN_OR_RETURN(const uint64_t labels_hash, labels.content->Hash());
      file->set_content_hash(HashCoordinates({file->content_hash(), labels_hash}));
    }
    FileLayout layout;
    layout.first_record = header.header_bytes;
    layout.record_bytes = header.record_bytes;
    layout.declared_records = header.records;
    return layout;
  }

  absl::StatusOr<FeatureSchema> Schema(const InputPlan& plan) const override {
    FeatureSchema schema;
    schema.set_label_kind(FeatureSchema::CLASS);
    uint64_t values = 0;
    uint32_t classes = 0;
    for (const InputFile& file : plan.files()) {
      SHOAL_ASSIGN_OR_RETURN(const auto content, FileContent::Open(file.path()));
      SHOAL_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(*content));
      if (values != 0 && header.record_bytes != values) {
        return HeaderError(*content, 4, "values per record", absl::StrCat(header.record_bytes),
                           absl::StrCat(values, " as in ", plan.files(0).path()));
      }
      values = header.record_bytes;
      if (labels_ == Labels::kAbsent) continue;
      SHOAL_ASSIGN_OR_RETURN(const LabelFile labels, OpenLabels(file.path(), header));
      SHOAL_ASSIGN_OR_RETURN(const uint32_t file_classes, CountClasses(labels, header.records));
      classes = std::max(classes, file_classes);
    }
    schema.set_label_count(classes);
    for (uint64_t i = 0; i < values; ++i) schema.add_dense(absl::StrCat("p", i));
    return schema;
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const std::shared_ptr<const FileContent>& content,
                                                           uint64_t begin, uint64_t end) const override {
    SHOAL_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(*content));
    return std::make_unique<IdxSource>(content, header.record_bytes, begin, end);
  }

  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>& content,
                                                           const InputFile&, const FeatureSchema& schema,
                                                           bool) const override {
    SHOAL_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(*content));
    if (header.record_bytes != static_cast<uint64_t>(schema.dense_size())) {
      return HeaderError(*content, 4, "values per record", absl::StrCat(header.record_bytes),
                         absl::StrCat(schema.dense_size(), " as in the training data"));
    }
    LabelFile labels;
    if (labels_ == Labels::kPresent) {
      SHOAL_ASSIGN_OR_RETURN(labels, OpenLabels(content->path(), header));
    }
    return std::make_unique<IdxParser>(header, labels.content, labels.header.header_bytes, schema.label_count(),
                                       options_.scale());
  }

  bool IsText() const override { return false; }

 private:
  struct LabelFile {
    std::shared_ptr<const FileContent> content;
    IdxHeader header;
  };

  absl::StatusOr<LabelFile> OpenLabels(const std::string& images_path, const IdxHeader& images) const {
    if (!absl::StrContains(images_path, options_.images_marker())) {
      return absl::InvalidArgumentError(absl::StrCat(images_path, ": expected ", Quoted(options_.images_marker()),
                                                     " in the name (data.format.idx.images_marker)"));
    }
    LabelFile labels;
    auto content =
        FileContent::Open(absl::StrReplaceAll(images_path, {{options_.images_marker(), options_.labels_marker()}}));
    if (!content.ok()) {
      return absl::Status(content.status().code(),
                          absl::StrCat(images_path, ": its labels: ", content.status().message()));
    }
    labels.content = *std::move(content);
    SHOAL_ASSIGN_OR_RETURN(labels.header, ReadHeader(*labels.content));
    if (labels.header.record_bytes != 1 || labels.header.records != images.records) {
      return HeaderError(*labels.content, 4, "number of labels",
                         absl::StrCat(labels.header.records, " of ", labels.header.record_bytes, " bytes"),
                         absl::StrCat(images.records, " of 1 byte, as many as images in ", images_path));
    }
    return labels;
  }

  static absl::StatusOr<uint32_t> CountClasses(const LabelFile& labels, uint64_t records) {
    std::vector<char> buffer(std::min(records, kChunkBytes));
    uint32_t classes = 0;
    for (uint64_t at = 0; at < records;) {
      const uint64_t count = std::min<uint64_t>(buffer.size(), records - at);
      SHOAL_RETURN_IF_ERROR(labels.content->ReadAt(labels.header.header_bytes + at, count, buffer.data()));
      for (uint64_t i = 0; i < count; ++i) {
        classes = std::max(classes, static_cast<uint32_t>(static_cast<unsigned char>(buffer[i])) + 1);
      }
      at += count;
    }
    return classes;
  }

  IdxFormat options_;
  const Labels labels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeIdxFormat(const IdxFormat& options, Labels labels) {
  return std::make_unique<IdxRecordFormat>(options, labels);
}

}  // namespace shoal
