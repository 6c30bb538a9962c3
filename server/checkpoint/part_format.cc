#include "server/checkpoint/part_format.h"

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "server/checkpoint/byte_reader.h"

namespace shoal {
namespace {

constexpr absl::string_view kPartMagic = "SHOALPRT";
constexpr absl::string_view kEndMagic = "SHOALEND";
constexpr uint64_t kEntryBytes = 56;
constexpr absl::string_view kImageMagic = "SHOALIMG";

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(what); }

void AppendName(std::string* out, const std::string& name) {
  AppendValue(out, static_cast<uint32_t>(name.size()));
  out->append(name);
}

bool ReadName(ByteReader* in, std::string* name) {
  uint32_t size;
  absl::string_view bytes;
  if (!in->Read(&size) || !in->Take(size, &bytes)) return false;
  name->assign(bytes.data(), bytes.size());
  return true;
}

absl::Status ParseHeaderBody(absl::string_view body, PartHeader* header) {
  ByteReader in(body);
  uint32_t tables, tensors, slots;
  if (!in.Read(&header->job) || !in.Read(&header->run) || !in.Read(&header->partitions) || !in.Read(&tables) ||
      !in.Has(tables, 12)) {
    return Damaged("header: cut short");
  }
  for (uint32_t t = 0; t < tables; ++t) {
    PartHeader::Table table;
    if (!ReadName(&in, &table.name) || !in.Read(&table.dim) || !in.Read(&table.state)) {
      return Damaged(absl::StrCat("header: table ", t, " cut short"));
    }
    if (table.dim == 0) return Damaged(absl::StrCat("header: table ", table.name, ": dim 0"));
    header->tables.push_back(std::move(table));
  }
  if (!in.Read(&tensors) || !in.Has(tensors, 4)) return Damaged("header: cut short");
  for (uint32_t t = 0; t < tensors; ++t) {
    std::string name;
    if (!ReadName(&in, &name)) return Damaged(absl::StrCat("header: tensor ", t, " cut short"));
    header->tensors.push_back(std::move(name));
  }
  if (!in.Read(&slots) || !in.Has(slots, 4)) return Damaged("header: cut short");
  for (uint32_t s = 0; s < slots; ++s) {
    std::string name;
    if (!ReadName(&in, &name)) return Damaged(absl::StrCat("header: slot ", s, " cut short"));
    header->slots.push_back(std::move(name));
  }
  if (in.left() != 0) return Damaged(absl::StrCat("header: ", in.left(), " bytes too many"));
  return absl::OkStatus();
}

}  // namespace

std::string EncodePartHeader(const PartHeader& header) {
  std::string body;
  AppendValue(&body, header.job);
  AppendValue(&body, header.run);
  AppendValue(&body, header.partitions);
  AppendValue(&body, static_cast<uint32_t>(header.tables.size()));
  for (const PartHeader::Table& table : header.tables) {
    AppendName(&body, table.name);
    AppendValue(&body, table.dim);
    AppendValue(&body, table.state);
  }
  AppendValue(&body, static_cast<uint32_t>(header.tensors.size()));
  for (const std::string& tensor : header.tensors) AppendName(&body, tensor);
  AppendValue(&body, static_cast<uint32_t>(header.slots.size()));
  for (const std::string& slot : header.slots) AppendName(&body, slot);
  std::string out(kPartMagic);
  AppendValue(&out, kCheckpointFormatVersion);
  AppendValue(&out, static_cast<uint32_t>(body.size()));
  out += body;
  AppendValue(&out, HashBytes(out));
  return out;
}

absl::StatusOr<PartHeader> ParsePartHeader(absl::string_view bytes, uint64_t* consumed) {
  ByteReader in(bytes);
  absl::string_view magic, body;
  uint32_t version, size;
  uint64_t checksum;
  if (!in.Take(kPartMagic.size(), &magic) || magic != kPartMagic) return Damaged("header: not a checkpoint part");
  if (!in.Read(&version)) return Damaged("header: cut short");
  if (version != kCheckpointFormatVersion) {
    return Damaged(absl::StrCat("header: format version ", version, ", this program reads ", kCheckpointFormatVersion));
  }
  if (!in.Read(&size) || !in.Take(size, &body) || !in.Read(&checksum)) return Damaged("header: cut short");
  *consumed = bytes.size() - in.left();
  if (HashBytes(bytes.substr(0, *consumed - sizeof(checksum))) != checksum) return Damaged("header: checksum differs");
  PartHeader header;
  const absl::Status parsed = ParseHeaderBody(body, &header);
  if (!parsed.ok()) return parsed;
  return header;
}

std::string EncodePartIndex(absl::Span<const PartEntry> entries, uint64_t index_offset) {
  std::string out;
  AppendValue(&out, static_cast<uint64_t>(entries.size()));
  for (const PartEntry& entry : entries) {
    AppendValue(&out, entry.partition);
    AppendValue(&out, static_cast<uint32_t>(entry.delta ? 1 : 0));
    AppendValue(&out, entry.offset);
    AppendValue(&out, entry.bytes);
    AppendValue(&out, entry.checksum);
    AppendValue(&out, entry.rows);
    AppendValue(&out, entry.counted);
    AppendValue(&out, entry.erased);
  }
  const uint64_t bytes = out.size(), checksum = HashBytes(out);
  AppendValue(&out, index_offset);
  AppendValue(&out, bytes);
  AppendValue(&out, checksum);
  out.append(kEndMagic.data(), kEndMagic.size());
  return out;
}

absl::StatusOr<PartFooter> ParsePartFooter(absl::string_view footer, uint64_t file_bytes) {
  ByteReader in(footer);
  PartFooter out;
  absl::string_view magic;
  if (!in.Read(&out.index_offset) || !in.Read(&out.index_bytes) || !in.Read(&out.index_checksum) ||
      !in.Take(kEndMagic.size(), &magic) || magic != kEndMagic) {
    return Damaged("footer: missing (the file is cut short or not a checkpoint part)");
  }
  if (out.index_offset > file_bytes || file_bytes - out.index_offset < kPartFooterBytes ||
      out.index_bytes != file_bytes - out.index_offset - kPartFooterBytes) {
    return Damaged(absl::StrCat("footer: index at ", out.index_offset, " of ", out.index_bytes,
                                " bytes does not end at the footer of a file of ", file_bytes, " bytes"));
  }
  return out;
}

absl::StatusOr<std::vector<PartEntry>> ParsePartIndex(absl::string_view index, const PartFooter& footer,
                                                      uint32_t partitions) {
  if (HashBytes(index) != footer.index_checksum) return Damaged("index: checksum differs");
  ByteReader in(index);
  uint64_t count;
  if (!in.Read(&count) || !in.Has(count, kEntryBytes) || in.left() != count * kEntryBytes) {
    return Damaged("index: its size does not fit its count");
  }
  std::vector<PartEntry> entries(count);
  for (uint64_t i = 0; i < count; ++i) {
    PartEntry& entry = entries[i];
    uint32_t kind = 0;
    (void)(in.Read(&entry.partition) && in.Read(&kind) && in.Read(&entry.offset) && in.Read(&entry.bytes) &&
           in.Read(&entry.checksum) && in.Read(&entry.rows) && in.Read(&entry.counted) && in.Read(&entry.erased));
    const uint32_t partition = entry.partition;
    if (partition >= partitions || (i > 0 && partition <= entries[i - 1].partition)) {
      return Damaged(absl::StrCat("index: partition ", partition, " is out of order or not below ", partitions));
    }
    if (kind > 1) return Damaged(absl::StrCat("index: section of partition ", partition, " is of kind ", kind));
    entry.delta = kind == 1;
    if (entry.offset > footer.index_offset || entry.bytes > footer.index_offset - entry.offset) {
      return Damaged(absl::StrCat("index: section of partition ", partition, " lies outside the file"));
    }
  }
  return entries;
}

void SealImage(PartEntry entry, uint64_t shape, std::string* image) {
  const absl::string_view section = absl::string_view(*image).substr(kImageHeadBytes);
  std::string head(kImageMagic);
  AppendValue(&head, shape);
  AppendValue(&head, entry.partition);
  AppendValue(&head, static_cast<uint32_t>(entry.delta ? 1 : 0));
  AppendValue(&head, static_cast<uint64_t>(section.size()));
  AppendValue(&head, HashBytes(section));
  AppendValue(&head, entry.rows);
  AppendValue(&head, entry.counted);
  AppendValue(&head, entry.erased);
  AppendValue(&head, HashBytes(head));
  image->replace(0, kImageHeadBytes, head);
}

absl::StatusOr<PartEntry> ParseImage(absl::string_view image, uint64_t shape, absl::string_view* section) {
  ByteReader in(image);
  PartEntry entry;
  absl::string_view magic;
  uint64_t its_shape, head_checksum;
  uint32_t kind;
  if (!in.Take(kImageMagic.size(), &magic) || magic != kImageMagic) return Damaged("image: not one of a partition");
  if (!in.Read(&its_shape) || !in.Read(&entry.partition) || !in.Read(&kind) || !in.Read(&entry.bytes) ||
      !in.Read(&entry.checksum) || !in.Read(&entry.rows) || !in.Read(&entry.counted) || !in.Read(&entry.erased) ||
      !in.Read(&head_checksum)) {
    return Damaged("image: head cut short");
  }
  if (HashBytes(image.substr(0, kImageHeadBytes - sizeof(head_checksum))) != head_checksum) {
    return Damaged("image: checksum of its head differs");
  }
  if (its_shape != shape) {
    return absl::InvalidArgumentError("image: its tables, tensors or slots are not those of this job");
  }
  if (kind > 1) return Damaged(absl::StrCat("image: kind ", kind, ", must be 0 (full) or 1 (delta)"));
  if (entry.bytes != in.left()) {
    return Damaged(absl::StrCat("image: holds ", in.left(), " bytes of section, its head says ", entry.bytes));
  }
  entry.delta = kind == 1;
  *section = image.substr(kImageHeadBytes);
  return entry;
}

}  // namespace shoal
