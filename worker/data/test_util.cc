#include "worker/data/test_util.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "google/protobuf/text_format.h"

namespace shoal {

TempDir::TempDir() {
  const char* directory = std::getenv("TEST_TMPDIR");
  path_ = absl::StrCat(directory != nullptr ? directory : "/tmp", "/shoal_data_test_XXXXXX");
  SHOAL_CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(const std::string& name, absl::string_view bytes) {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::string Gzip(absl::string_view bytes) {
  z_stream stream = {};
  SHOAL_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  SHOAL_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(absl::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the command line tool does
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  SHOAL_CHECK(!ZSTD_isError(size));
  out.resize(size);
  return out;
}

Data MakeData(const std::string& text, const std::string& path) {
  Data data;
  SHOAL_CHECK(google::protobuf::TextFormat::ParseFromString(text, &data));
  if (!path.empty()) {
    data.add_train()->set_path(path);
    data.add_eval()->set_path(path);
  }
  return data;
}

std::string SharedData(const std::string& name) {
  const char* directory = std::getenv("SHOAL_TEST_DATA");
  const std::filesystem::path path =
      std::filesystem::absolute(std::filesystem::path(directory != nullptr ? directory : "../shared/data") / name);
  if (std::filesystem::exists(path)) return path.string();
  std::printf("SKIPPED: %s is not there (SHOAL_TEST_DATA)\n", path.c_str());
  return "";
}

bool Row::SameContent(const Row& other) const {
  return label == other.label && labels == other.labels && dense == other.dense && keys == other.keys &&
         weights == other.weights && id == other.id;
}

void AppendRows(const Batch& batch, std::vector<Row>* rows) {
  SHOAL_CHECK(batch.records.size() == batch.rows);
  SHOAL_CHECK(batch.dense.size() == size_t{batch.rows} * batch.dense_dim);
  SHOAL_CHECK(batch.rows + batch.bad.size() == batch.end - batch.begin);
  SHOAL_CHECK(batch.ids.empty() || batch.ids.size() == batch.rows);
  SHOAL_CHECK(batch.label_offsets.size() == batch.rows + 1 || batch.labels.size() == batch.rows);
  for (const SlotColumn& slot : batch.slots) {
    SHOAL_CHECK(slot.offsets.size() == batch.rows + 1 && slot.offsets.back() == slot.keys.size());
    SHOAL_CHECK(slot.weights.empty() || slot.weights.size() == slot.keys.size());
  }
  for (uint32_t r = 0; r < batch.rows; ++r) {
    Row row;
    row.split = batch.split;
    row.record = batch.records[r];
    if (!batch.labels.empty()) row.label = batch.labels[r];
    if (batch.label_offsets.size() == batch.rows + 1) {
      row.labels.assign(batch.label_ids.begin() + batch.label_offsets[r],
                        batch.label_ids.begin() + batch.label_offsets[r + 1]);
    }
    row.dense.assign(batch.dense.begin() + r * batch.dense_dim, batch.dense.begin() + (r + 1) * batch.dense_dim);
    for (const SlotColumn& slot : batch.slots) {
      row.keys.emplace_back(slot.keys.begin() + slot.offsets[r], slot.keys.begin() + slot.offsets[r + 1]);
      row.weights.emplace_back(row.keys.back().size(), 1.f);
      if (slot.weights.empty()) continue;
      row.weights.back().assign(slot.weights.begin() + slot.offsets[r], slot.weights.begin() + slot.offsets[r + 1]);
    }
    if (!batch.ids.empty()) row.id = batch.ids[r];
    rows->push_back(std::move(row));
  }
}

void ReadPlanned(const Data& data, const ReadOptions& options, AllRows* all) {
  DataSetOptions set_options;
  set_options.seed = options.seed;
  set_options.shuffle = options.shuffle;
  set_options.want_ids = options.want_ids;
  set_options.labels = options.labels;
  auto set = DataSet::Open(data, all->plan, all->schema, set_options);
  all->status = set.status();
  for (int position = 0; all->status.ok() && position < all->plan.splits_size(); ++position) {
    auto reader = (*set)->OpenSplit(options.pass, position, 0);
    all->status = reader.status();
    Batch batch;
    for (uint64_t next = 0; all->status.ok() && !batch.end_of_split; next = batch.end) {
      all->status = (*reader)->Next(options.batch, &batch);
      if (!all->status.ok()) return;
      SHOAL_CHECK(batch.begin == next && batch.end <= next + options.batch);
      AppendRows(batch, &all->rows);
      all->bad.insert(all->bad.end(), batch.bad.begin(), batch.bad.end());
      all->records += batch.end - batch.begin;
    }
  }
}

AllRows ReadAll(const Data& data, const ReadOptions& options) {
  AllRows all;
  auto plan = PlanInputs(data, options.kind, 0, options.labels);
  all.status = plan.status();
  if (!plan.ok()) return all;
  all.plan = *plan;
  auto schema = MakeSchema(data, all.plan, options.labels);
  all.status = schema.status();
  if (!schema.ok()) return all;
  all.schema = *schema;
  ReadPlanned(data, options, &all);
  return all;
}

}  // namespace shoal
