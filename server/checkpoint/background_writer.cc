#include "server/checkpoint/background_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// Gives way to lanes and data plane, yet gets a quarter of a core that it shares with one busy thread: enough for some
// hundred megabytes a second.
constexpr int kNicer = 5;
constexpr int kNicest = 19;
constexpr size_t kSpareBuffers = 4;
// The thread is woken for each section; this bounds the wait all the same.
constexpr absl::Duration kLook = absl::Seconds(1);

void LowerPriority() {
  // Linux counts nice values by thread. Without permission (which lowering needs not) all works, only less calmly.
  const id_t thread = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, thread, std::min(kNicest, getpriority(PRIO_PROCESS, thread) + kNicer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackgroundWriter>> BackgroundWriter::Create(const std::string& dir,
                                                                           const std::string& file,
                                                                           const PartHeader& header,
                                                                           uint64_t most_bytes) {
  absl::StatusOr<std::unique_ptr<PartWriter>> writer = PartWriter::Create(dir, file, header);
  if (!writer.ok()) {
    DiscardPart(dir, file);
    return writer.status();
  }
  return std::unique_ptr<BackgroundWriter>(new BackgroundWriter(dir, file, *std::move(writer), most_bytes));
}

BackgroundWriter::BackgroundWriter(std::string dir, std::string file, std::unique_ptr<PartWriter> writer,
                                   uint64_t most_bytes)
    : dir_(std::move(dir)),
      file_(std::move(file)),
      writer_(std::move(writer)),
      most_bytes_(most_bytes),
      thread_([this] { Run(); }) {}

BackgroundWriter::~BackgroundWriter() {
  Stop();
  // What a full disk left of it would only keep the disk full.
  if (!finished_) DiscardPart(dir_, file_);
}

void BackgroundWriter::Stop() {
  {
    MutexLock lock(&mu_);
    closed_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundWriter::Run() {
  LowerPriority();
  for (;;) {
    Item item;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !closed_) changed_.WaitFor(&mu_, kLook);
      if (queue_.empty()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
      if (!status_.ok()) {
        queued_bytes_ -= item.section.size();
        changed_.SignalAll();
        continue;
      }
    }
    const absl::Status status = writer_->Add(item.entry, item.section);
    MutexLock lock(&mu_);
    queued_bytes_ -= item.section.size();
    if (!status.ok() && status_.ok()) status_ = status;
    if (spare_.size() < kSpareBuffers) spare_.push_back(std::move(item.section));
    changed_.SignalAll();
  }
}

std::string BackgroundWriter::TakeBuffer() {
  MutexLock lock(&mu_);
  if (spare_.empty()) return {};
  std::string buffer = std::move(spare_.back());
  spare_.pop_back();
  buffer.clear();
  return buffer;
}

absl::Status BackgroundWriter::Add(const PartEntry& entry, std::string section, absl::Duration timeout) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + timeout;
  MutexLock lock(&mu_);
  // One section may be larger than the bound: it goes alone.
  while (status_.ok() && queued_bytes_ > 0 && queued_bytes_ + section.size() > most_bytes_) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(dir_, "/", file_, ": the disk took none of the ", queued_bytes_,
                                                      " bytes that wait for it within ",
                                                      absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(&mu_, left);
  }
  if (!status_.ok()) return status_;
  queued_bytes_ += section.size();
  queue_.push_back({entry, std::move(section)});
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::Status BackgroundWriter::Finish() {
  Stop();
  {
    MutexLock lock(&mu_);
    if (!status_.ok()) return status_;
  }
  SHOAL_RETURN_IF_ERROR(writer_->Finish());
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace shoal
