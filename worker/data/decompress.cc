// Streaming gzip and zstd decompression from file to file, with buffers of fixed size.
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/content.h"

namespace shoal {
namespace {

constexpr size_t kBufferBytes = 256 << 10;  // fits L2; larger ones were not faster

// Reads a file from its start in chunks. Not thread-safe.
class ChunkReader {
 public:
  ChunkReader(const std::string& path, int fd) : path_(path), fd_(fd), buffer_(kBufferBytes) {}

  // Replaces data() by the next bytes; size() == 0 at the end of the file.
  absl::Status Next() {
    offset_ += size_;
    for (;;) {
      const ssize_t got = pread(fd_, buffer_.data(), buffer_.size(), static_cast<off_t>(offset_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return absl::UnavailableError(absl::StrCat(path_, ": cannot read: ", std::strerror(errno)));
      size_ = static_cast<size_t>(got);
      return absl::OkStatus();
    }
  }
  unsigned char* data() { return buffer_.data(); }
  size_t size() const { return size_; }
  uint64_t offset() const { return offset_; }  // of data() in the file
  const std::string& path() const { return path_; }

 private:
  const std::string& path_;
  const int fd_;
  std::vector<unsigned char> buffer_;
  size_t size_ = 0;
  uint64_t offset_ = 0;
};

absl::Status WriteAll(const std::string& path, int fd, const unsigned char* data, size_t size) {
  while (size > 0) {
    const ssize_t put = write(fd, data, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const std::string message = absl::StrCat(
          path,
          ": cannot write its decompressed bytes to a scratch file in TMPDIR (else /tmp): ", std::strerror(errno));
      return errno == ENOSPC ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
    }
    data += put;
    size -= put;
  }
  return absl::OkStatus();
}

absl::Status Damaged(const ChunkReader& in, uint64_t at, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(in.path(), ": compressed data is damaged near byte ", at, ": ", why));
}

absl::Status Truncated(const ChunkReader& in, absl::string_view kind) {
  return absl::DataLossError(absl::StrCat(in.path(), ": ", kind, " data is cut off: the file ends at byte ",
                                          in.offset(), " in the middle of a compressed stream"));
}

// What follows a gzip member: another member (true), or the end, maybe padded with zeros as tapes do (false).
absl::StatusOr<bool> AnotherMember(ChunkReader* in, z_stream* stream) {
  for (bool padding = false;;) {
    while (stream->avail_in > 0 && *stream->next_in == 0) {
      padding = true;
      ++stream->next_in;
      --stream->avail_in;
    }
    if (stream->avail_in > 0) {
      if (!padding && *stream->next_in == 0x1f) return true;
      return Damaged(*in, in->offset() + in->size() - stream->avail_in, "bytes after the last gzip member");
    }
    SHOAL_RETURN_IF_ERROR(in->Next());
    if (in->size() == 0) return false;
    stream->next_in = in->data();
    stream->avail_in = static_cast<uInt>(in->size());
  }
}

absl::Status Gunzip(ChunkReader* in, int out_fd) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return absl::ResourceExhaustedError("zlib: out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ender(&stream, inflateEnd);
  std::vector<unsigned char> out(kBufferBytes);
  stream.next_in = in->data();
  stream.avail_in = static_cast<uInt>(in->size());
  for (;;) {
    if (stream.avail_in == 0) {
      SHOAL_RETURN_IF_ERROR(in->Next());
      if (in->size() == 0) return Truncated(*in, "gzip");
      stream.next_in = in->data();
      stream.avail_in = static_cast<uInt>(in->size());
    }
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return Damaged(*in, in->offset() + in->size() - stream.avail_in,
                     stream.msg != nullptr ? stream.msg : "not a gzip stream");
    }
    SHOAL_RETURN_IF_ERROR(WriteAll(in->path(), out_fd, out.data(), out.size() - stream.avail_out));
    if (code == Z_STREAM_END) {
      SHOAL_ASSIGN_OR_RETURN(const bool more, AnotherMember(in, &stream));
      if (!more) return absl::OkStatus();
      inflateReset(&stream);
    }
  }
}

absl::Status Unzstd(ChunkReader* in, int out_fd) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  if (stream == nullptr) return absl::ResourceExhaustedError("zstd: out of memory");
  std::vector<unsigned char> out(kBufferBytes);
  size_t state = 1;  // 0 at the end of a frame
  while (in->size() > 0) {
    ZSTD_inBuffer input = {in->data(), in->size(), 0};
    bool flushing = true;
    while (input.pos < input.size || flushing) {
      ZSTD_outBuffer output = {out.data(), out.size(), 0};
      // At the end of a frame a call without input would begin the next frame, which may not be there.
      if (state == 0 && input.pos == input.size) break;
      state = ZSTD_decompressStream(stream.get(), &output, &input);
      if (ZSTD_isError(state)) return Damaged(*in, in->offset() + input.pos, ZSTD_getErrorName(state));
      SHOAL_RETURN_IF_ERROR(WriteAll(in->path(), out_fd, out.data(), output.pos));
      flushing = output.pos == output.size;
    }
    SHOAL_RETURN_IF_ERROR(in->Next());
  }
  return state == 0 ? absl::OkStatus() : Truncated(*in, "zstd");
}

}  // namespace

absl::StatusOr<bool> Decompress(const std::string& path, int in_fd, int out_fd) {
  ChunkReader in(path, in_fd);
  SHOAL_RETURN_IF_ERROR(in.Next());
  const unsigned char* magic = in.data();
  absl::Status status;
  if (in.size() >= 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
    status = Gunzip(&in, out_fd);
  } else if (in.size() >= 4 &&
             ((magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd) ||
              ((magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18))) {
    status = Unzstd(&in, out_fd);
  } else {
    return false;
  }
  if (!status.ok()) return status;
  return true;
}

}  // namespace shoal
