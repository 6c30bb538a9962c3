#include "worker/data/split_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

constexpr uint64_t kBlockStream = 0x424c4f43;    // "BLOC": names the random stream of a block's order
constexpr uint64_t kFileOrderRecords = 1024;     // records held at once when none are shuffled
constexpr uint64_t kFileOrderBytes = 256 << 10;  // and their bytes

// A block is larger than the near caches and its order random: records are fetched while those before are parsed.
constexpr uint64_t kPrefetchRecords = 3;
constexpr size_t kPrefetchBytes = 512;

}  // namespace

std::vector<uint32_t> BlockOrder(const SplitReaderOptions& options, uint64_t block_begin, uint64_t count) {
  return Permutation<uint32_t>(
      count, {options.seed, kBlockStream, options.pass, options.position, block_begin / options.block_records});
}

void StartBatch(const FeatureSchema& schema, const SplitReaderOptions& options, uint64_t begin, Batch* batch) {
  batch->slots.resize(schema.slots_size());
  batch->Clear();
  batch->pass = options.pass;
  batch->split = options.position;
  batch->begin = begin;
  batch->dense_dim = static_cast<uint32_t>(schema.dense_size());
}

void DropUnitWeights(Batch* batch) {
  for (SlotColumn& slot : batch->slots) {
    const auto one = [](float weight) { return weight == 1.f; };
    if (std::all_of(slot.weights.begin(), slot.weights.end(), one)) slot.weights.clear();
  }
}

BlockSplitReader::BlockSplitReader(ReaderContext context, const SplitReaderOptions& options,
                                   std::unique_ptr<RecordSource> source, std::unique_ptr<RecordParser> parser)
    : context_(std::move(context)), options_(options), source_(std::move(source)), parser_(std::move(parser)) {}

absl::Status BlockSplitReader::LoadBlock() {
  block_begin_ = block_end();
  entries_.clear();
  text_.clear();
  order_.clear();
  const bool shuffled = options_.block_records != 0;
  const uint64_t limit = shuffled ? options_.block_records : kFileOrderRecords;
  RawRecord record;
  while (entries_.size() < limit && (shuffled || text_.size() < kFileOrderBytes)) {
    SHOAL_ASSIGN_OR_RETURN(const bool found, source_->Next(&record));
    if (!found) break;
    Entry entry;
    entry.offset = record.offset;
    entry.begin = text_.size();
    entry.size = record.text.size();
    entry.overlong = record.overlong;
    text_.append(record.text.data(), record.text.size());
    entries_.push_back(entry);
  }
  if (shuffled && !entries_.empty()) {
    order_ = BlockOrder(options_, block_begin_, entries_.size());
  }
  return absl::OkStatus();
}

void BlockSplitReader::Prefetch(uint64_t i) const {
  if (i >= order_.size()) return;  // file order needs no help
  const Entry& entry = entries_[order_[i]];
  const char* const text = text_.data() + entry.begin;
  for (size_t at = 0; at < std::min(entry.size, kPrefetchBytes); at += 64) __builtin_prefetch(text + at);
}

absl::Status BlockSplitReader::SkipTo(uint64_t record) {
  if (options_.block_records != 0) {
    // Whole blocks before the one wanted are cut into records but neither kept nor parsed.
    const uint64_t skip = record / options_.block_records * options_.block_records;
    RawRecord skipped;
    for (; block_begin_ < skip; ++block_begin_) {
      SHOAL_ASSIGN_OR_RETURN(const bool found, source_->Next(&skipped));
      if (!found) break;
    }
  }
  SHOAL_RETURN_IF_ERROR(LoadBlock());
  while (record >= block_end() && !entries_.empty()) SHOAL_RETURN_IF_ERROR(LoadBlock());
  if (record > block_end()) {
    return absl::InvalidArgumentError(absl::StrCat("first record ", record, ": split ", options_.position, " of pass ",
                                                   options_.pass, " (", context_.path, ") has ", block_end(),
                                                   " records"));
  }
  next_ = record;
  return absl::OkStatus();
}

void BlockSplitReader::CommitRow(uint64_t index, uint64_t number, Batch* batch) {
  for (SlotColumn& slot : batch->slots) slot.offsets.push_back(static_cast<uint32_t>(slot.keys.size()));
  if (context_.schema.label_kind() == FeatureSchema::MULTI_LABEL) {
    batch->label_offsets.push_back(static_cast<uint32_t>(batch->label_ids.size()));
  }
  batch->records.push_back(number);
  ++batch->rows;
  if (options_.want_ids && batch->ids.size() < batch->rows) {
    batch->ids.push_back(absl::StrCat(options_.first_row + block_begin_ + index));
  }
}

void BlockSplitReader::RollBackRow(Batch* batch) {
  for (SlotColumn& slot : batch->slots) {
    slot.keys.resize(slot.offsets.back());
    if (slot.weights.size() > slot.keys.size()) slot.weights.resize(slot.keys.size());
  }
  batch->dense.resize(static_cast<size_t>(batch->rows) * batch->dense_dim);
  if (context_.schema.label_kind() == FeatureSchema::MULTI_LABEL) {
    batch->label_ids.resize(batch->label_offsets.back());
  } else {
    batch->labels.resize(batch->rows);
  }
  batch->ids.resize(std::min<size_t>(batch->ids.size(), batch->rows));
}

absl::Status BlockSplitReader::AddBad(const Entry& entry, Batch* batch) {
  BadRecord bad;
  bad.file = context_.path;
  bad.offset = entry.offset;
  bad.message = context_.path;
  if (context_.format->IsText()) {
    SHOAL_ASSIGN_OR_RETURN(const uint64_t line, context_.content->LineOf(entry.offset));
    absl::StrAppend(&bad.message, ": line ", line);
  }
  absl::StrAppend(&bad.message, context_.format->IsText() ? ", " : ": ", "byte offset ", entry.offset, ": field ",
                  problem_.field, ": value ", Quoted(problem_.value), ": expected ", problem_.expected);
  batch->bad.push_back(std::move(bad));
  return absl::OkStatus();
}

bool BlockSplitReader::CheckLabel(const Batch& batch) {
  if (!options_.binary_labels || batch.labels.empty()) return true;
  const float label = batch.labels.back();
  if (label >= 0 && label <= 1) return true;
  return Bad(&problem_, "label", absl::StrCat(label), "0 to 1, since the loss is binary_cross_entropy");
}

absl::Status BlockSplitReader::AddRecord(uint64_t index, uint64_t number, Batch* batch) {
  const Entry& entry = entries_[index];
  RawRecord record;
  record.offset = entry.offset;
  record.text = absl::string_view(text_.data() + entry.begin, entry.size);
  if (!entry.overlong && parser_->Parse(record, batch, &problem_) && CheckLabel(*batch)) {
    CommitRow(index, number, batch);
    return absl::OkStatus();
  }
  if (entry.overlong) {
    Bad(&problem_, "record", record.text,
        absl::StrCat("at most ", kMaxRecordBytes, " bytes in a record (is a quote never closed?)"));
  }
  RollBackRow(batch);
  return AddBad(entry, batch);
}

absl::Status BlockSplitReader::Next(uint64_t max_records, Batch* batch) {
  StartBatch(context_.schema, options_, next_, batch);
  const uint64_t stop = max_records < UINT64_MAX - next_ ? next_ + max_records : UINT64_MAX;
  while (next_ < stop && !entries_.empty()) {
    for (; next_ < std::min(stop, block_end()); ++next_) {
      const uint64_t i = next_ - block_begin_;
      Prefetch(i + kPrefetchRecords);
      SHOAL_RETURN_IF_ERROR(AddRecord(order_.empty() ? i : order_[i], next_, batch));
    }
    if (next_ == block_end()) SHOAL_RETURN_IF_ERROR(LoadBlock());
  }
  batch->end = next_;
  batch->end_of_split = entries_.empty();
  DropUnitWeights(batch);
  return absl::OkStatus();
}

}  // namespace shoal
