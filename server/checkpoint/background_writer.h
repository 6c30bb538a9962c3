// Writes a part while its partitions are still being copied.
#ifndef SHOAL_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_
#define SHOAL_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/checkpoint/part_file.h"

namespace shoal {

// A thread of low priority that hashes and writes the sections it is given, so that a partition is locked only as long
// as it takes to copy it. Used by one thread. A part that is not finished is removed with the writer.
class BackgroundWriter {
 public:
  // `most_bytes` of sections may wait to be written. Makes the directory; errors name the path.
  static absl::StatusOr<std::unique_ptr<BackgroundWriter>> Create(const std::string& dir, const std::string& file,
                                                                  const PartHeader& header, uint64_t most_bytes);
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // An empty buffer, with room from earlier sections if there is one.
  std::string TakeBuffer();
  // As PartWriter::Add. Waits while too much is waiting, at most `timeout`; returns what went wrong so far.
  absl::Status Add(const PartEntry& entry, std::string section, absl::Duration timeout);
  // Waits until all is on disk.
  absl::Status Finish();
  // REQUIRES: Finish returned OK.
  uint64_t bytes() const { return writer_->bytes(); }
  uint64_t checksum() const { return writer_->checksum(); }

 private:
  struct Item {
    PartEntry entry;
    std::string section;
  };

  BackgroundWriter(std::string dir, std::string file, std::unique_ptr<PartWriter> writer, uint64_t most_bytes);
  void Run();
  void Stop();

  const std::string dir_, file_;
  const std::unique_ptr<PartWriter> writer_;  // the thread's, until it has ended
  const uint64_t most_bytes_;
  bool finished_ = false;
  Mutex mu_;
  CondVar changed_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> spare_ ABSL_GUARDED_BY(mu_);
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // those being written, too
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_
