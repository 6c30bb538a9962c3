#include "worker/data/data_set.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "worker/data/decoded_split.h"
#include "worker/data/format.h"
#include "worker/data/split_reader.h"

namespace shoal {
namespace {

constexpr uint64_t kDefaultShuffleRecords = 10000;  // as job.proto says
constexpr uint64_t kNoPass = ~uint64_t{0};

// Opens files when their first split is asked for. Thread-safe.
class PlannedDataSet : public DataSet {
 public:
  PlannedDataSet(std::shared_ptr<const RecordFormat> format, const InputPlan& plan, const FeatureSchema& schema,
                 const DataSetOptions& options, uint64_t block_records, uint64_t cache_bytes)
      : format_(std::move(format)),
        plan_(plan),
        schema_(schema),
        options_(options),
        block_records_(options.shuffle ? block_records : 0),
        cache_bytes_(cache_bytes),
        files_(plan.files_size()),
        decoded_(cache_bytes == 0 ? 0 : plan.splits_size()) {}

  // Row numbers are needed when ids are wanted and the format has none: one scan that counts.
  absl::Status CountRows() {
    uint64_t rows = 0;
    for (const Split& split : plan_.splits()) {
      first_rows_.push_back(rows);
      SHOAL_ASSIGN_OR_RETURN(const ReaderContext context, Context(split.file()));
      SHOAL_ASSIGN_OR_RETURN(const auto source, format_->OpenSource(context.content, split.begin(), split.end()));
      RawRecord record;
      for (bool found = true; found; rows += found) {
        SHOAL_ASSIGN_OR_RETURN(found, source->Next(&record));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<SplitReader>> OpenSplit(uint64_t pass, uint64_t position,
                                                         uint64_t first_record) override {
    const uint64_t splits = plan_.splits_size();
    if (position >= splits) {
      return absl::InvalidArgumentError(absl::StrCat("split position ", position, ": expected below ", splits));
    }
    const uint64_t index = options_.shuffle ? IndexOf(pass, position) : position;
    SplitReaderOptions reader_options;
    reader_options.seed = options_.seed;
    reader_options.pass = pass;
    reader_options.position = position;
    reader_options.block_records = block_records_;
    reader_options.binary_labels = options_.binary_labels;
    reader_options.want_ids = options_.want_ids;
    if (!first_rows_.empty()) reader_options.first_row = first_rows_[index];
    SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<const DecodedSplit> decoded, Decoded(index, reader_options));
    if (decoded != nullptr && first_record <= decoded->records()) {
      return std::unique_ptr<SplitReader>(
          std::make_unique<DecodedSplitReader>(decoded, schema_, reader_options, first_record));
    }
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<BlockSplitReader> reader, OpenFile(index, reader_options));
    SHOAL_RETURN_IF_ERROR(reader->SkipTo(first_record));
    return std::unique_ptr<SplitReader>(std::move(reader));
  }

 private:
  // A reader of split `index` of the plan; the caller skips to its first record.
  absl::StatusOr<std::unique_ptr<BlockSplitReader>> OpenFile(uint64_t index, const SplitReaderOptions& reader_options) {
    const Split& split = plan_.splits(static_cast<int>(index));
    SHOAL_ASSIGN_OR_RETURN(ReaderContext context, Context(split.file()));
    SHOAL_ASSIGN_OR_RETURN(auto source, format_->OpenSource(context.content, split.begin(), split.end()));
    SHOAL_ASSIGN_OR_RETURN(auto parser,
                           format_->MakeParser(context.content, plan_.files(split.file()), schema_, options_.want_ids));
    return std::make_unique<BlockSplitReader>(std::move(context), reader_options, std::move(source), std::move(parser));
  }

  // The split from the cache, read into it if it is not there; nullptr when there is no cache or no room in it.
  absl::StatusOr<std::shared_ptr<const DecodedSplit>> Decoded(uint64_t index, SplitReaderOptions reader_options) {
    if (decoded_.empty()) return nullptr;
    uint64_t left = 0;
    {
      MutexLock lock(&cache_mu_);
      if (decoded_[index] != nullptr || cache_full_) return decoded_[index];
      left = cache_bytes_ - cache_used_;
    }
    reader_options.block_records = 0;
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<BlockSplitReader> reader, OpenFile(index, reader_options));
    SHOAL_RETURN_IF_ERROR(reader->SkipTo(0));
    SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<const DecodedSplit> decoded,
                           DecodedSplit::Read(reader.get(), schema_.label_kind() == FeatureSchema::MULTI_LABEL, left));
    MutexLock lock(&cache_mu_);
    if (decoded_[index] != nullptr) return decoded_[index];  // another lane was faster
    if (decoded == nullptr || cache_used_ + decoded->bytes() > cache_bytes_) {
      cache_full_ = true;  // smaller ones could still fit, but each try costs a second parse
      return nullptr;
    }
    cache_used_ += decoded->bytes();
    decoded_[index] = decoded;
    return decoded;
  }

  struct File {
    Mutex mu;  // held while the file is opened and decompressed: others who need it wait for it
    std::shared_ptr<const FileContent> content ABSL_GUARDED_BY(mu);
  };

  // The order of one pass is remembered: lanes ask for its positions one after the other.
  uint64_t IndexOf(uint64_t pass, uint64_t position) {
    MutexLock lock(&order_mu_);
    if (order_pass_ != pass) {
      order_ = SplitOrder(options_.seed, pass, plan_.splits_size());
      order_pass_ = pass;
    }
    return order_[position];
  }

  absl::StatusOr<ReaderContext> Context(uint32_t index) {
    const InputFile& planned = plan_.files(index);
    ReaderContext context;
    context.format = format_;
    context.path = planned.path();
    context.schema = schema_;
    if (synthetic()) return context;
    File& file = files_[index];
    MutexLock lock(&file.mu);
    if (file.content == nullptr) {
      SHOAL_ASSIGN_OR_RETURN(auto content, FileContent::Open(planned.path()));
      if (content->file_bytes() != planned.file_bytes() || content->size() != planned.content_bytes()) {
        return absl::FailedPreconditionError(absl::StrCat(planned.path(), ": has ", content->file_bytes(), " bytes (",
                                                          content->size(), " decompressed), but had ",
                                                          planned.file_bytes(), " (", planned.content_bytes(),
                                                          ") when the job was planned: input files must not change"));
      }
      file.content = std::move(content);
    }
    context.content = file.content;
    return context;
  }
  bool synthetic() const { return plan_.files_size() == 1 && plan_.files(0).path() == "synthetic"; }

  const std::shared_ptr<const RecordFormat> format_;
  const InputPlan plan_;
  const FeatureSchema schema_;
  const DataSetOptions options_;
  const uint64_t block_records_;
  const uint64_t cache_bytes_;        // 0: no cache
  std::vector<uint64_t> first_rows_;  // per split in plan order; empty: not needed. Written before the set is shared
  std::vector<File> files_;

  Mutex cache_mu_;
  // By split of the plan; without elements when there is no cache.
  std::vector<std::shared_ptr<const DecodedSplit>> decoded_;  // elements are guarded by cache_mu_
  uint64_t cache_used_ ABSL_GUARDED_BY(cache_mu_) = 0;
  bool cache_full_ ABSL_GUARDED_BY(cache_mu_) = false;

  Mutex order_mu_;
  uint64_t order_pass_ ABSL_GUARDED_BY(order_mu_) = kNoPass;
  std::vector<uint32_t> order_ ABSL_GUARDED_BY(order_mu_);
};

absl::Status CheckPlan(const InputPlan& plan) {
  for (const Split& split : plan.splits()) {
    if (split.file() >= static_cast<uint32_t>(plan.files_size()) || split.begin() > split.end()) {
      return absl::InvalidArgumentError(absl::StrCat("split [", split.begin(), ", ", split.end(), ") of file ",
                                                     split.file(), ": the plan has ", plan.files_size(), " files"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> DataSet::Open(const Data& data, const InputPlan& plan,
                                                       const FeatureSchema& schema, const DataSetOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckPlan(plan));
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFormat> format, MakeFormat(data, options.labels));
  const bool has_ids = format->HasIds();
  const uint64_t block = data.has_shuffle() ? data.shuffle().records() : kDefaultShuffleRecords;
  constexpr uint64_t kDefaultCacheBytes = uint64_t{1} << 30;  // as job.proto says
  uint64_t cache_bytes = 0;
  if (data.cache() == Data::MEMORY && data.passes() > 1 && options.shuffle && !options.want_ids) {
    cache_bytes = data.cache_bytes() == 0 ? kDefaultCacheBytes : data.cache_bytes();
  }
  auto data_set = std::make_unique<PlannedDataSet>(std::move(format), plan, schema, options, block, cache_bytes);
  if (options.want_ids && !has_ids) SHOAL_RETURN_IF_ERROR(data_set->CountRows());
  return std::unique_ptr<DataSet>(std::move(data_set));
}

}  // namespace shoal
