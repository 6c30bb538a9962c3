#include "server/replication/replica_stream.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr absl::Duration kMessageTimeout = absl::Seconds(10);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);

}  // namespace

void ReplicaStream::Attach(std::shared_ptr<Partition> partition, TrackerId tracker, uint64_t link, uint64_t version,
                           const ReplicaRoom& room) {
  MutexLock lock(&mu_);
  // Later ones come with the answers to this stream's own messages, which know of what it has sent.
  if (!room_.known()) room_.Told(room.limited, room.bytes);
  Followed& followed = followed_[partition->id()];
  followed.partition = std::move(partition);
  followed.tracker = tracker;
  followed.link = link;
  followed.acked = followed.wanted = version;
}

void ReplicaStream::Detach(uint32_t partition, const absl::Status& status) {
  std::vector<Told> told;
  {
    MutexLock lock(&mu_);
    const auto it = followed_.find(partition);
    if (it == followed_.end()) return;
    it->second.partition->Untrack(it->second.tracker);
    Fail(&it->second, status, &told);
    ReturnRoom(&it->second, std::numeric_limits<uint64_t>::max());
    followed_.erase(it);
    // The backup may take it back, and answers that are under way know nothing of what comes next.
    if (followed_.empty()) {
      room_.Forget();
      wanted_room_ = 0;
      ++era_;
    }
  }
  for (Told& one : told) one.done(one.status);
}

void ReplicaStream::Await(const std::vector<ReplicaMark>& marks, Done done) {
  auto waiter = std::make_shared<Waiter>();
  absl::Status status;
  {
    MutexLock lock(&mu_);
    waiter->deadline = clock_.Now() + patience_;
    for (const ReplicaMark& mark : marks) {
      const auto it = followed_.find(mark.partition);
      if (it == followed_.end()) {
        status = absl::UnavailableError(absl::StrCat("partition ", mark.partition, ": its backup has just changed"));
        break;
      }
      Followed& followed = it->second;
      if (followed.acked >= mark.version) continue;
      ++waiter->missing;
      followed.wanted = std::max(followed.wanted, mark.version);
      followed.waiting.push_back({mark.version, waiter});
    }
    if (status.ok() && waiter->missing > 0) waiter->done = std::move(done);
  }
  // A waiter without a callback counts as told.
  if (done) return done(status);
  Pump();
}

bool ReplicaStream::limited() const {
  MutexLock lock(&mu_);
  return room_.limited();
}

bool ReplicaStream::TryTakeRoom(uint64_t bytes) {
  MutexLock lock(&mu_);
  return room_.Take(bytes);
}

absl::Status ReplicaStream::TakeRoom(uint64_t bytes) {
  uint64_t left = 0;
  {
    MutexLock lock(&mu_);
    if (room_.Take(bytes)) return absl::OkStatus();
    if (silence_.has_value()) {
      return absl::UnavailableError(
          absl::StrCat("the backup, process ", sender_.target, ", does not answer: ", silence_->error));
    }
    left = room_.left();
    // What others have taken is part of what the backup keeps.
    wanted_room_ = std::max(wanted_room_, room_.taken() + bytes);
  }
  Pump();
  return absl::ResourceExhaustedError(absl::StrCat("memory.hard_limit: the backup, process ", sender_.target, ", has ",
                                                   left, " bytes for this server, new rows of this push need ", bytes));
}

void ReplicaStream::PinRoom(uint64_t bytes, const std::vector<ReplicaMark>& marks) {
  MutexLock lock(&mu_);
  auto charge = std::make_shared<RoomBook::Charge>();
  charge->bytes = bytes;
  for (const ReplicaMark& mark : marks) {
    const auto it = followed_.find(mark.partition);
    if (it == followed_.end() || it->second.acked >= mark.version) continue;
    ++charge->missing;
    it->second.charges.emplace_back(mark.version, charge);
  }
  if (charge->missing == 0) room_.Return(bytes);
}

void ReplicaStream::ReturnRoom(Followed* followed, uint64_t version) {
  auto kept = followed->charges.begin();
  for (auto& [needed, charge] : followed->charges) {
    if (needed > version) {
      *kept++ = {needed, charge};
    } else if (--charge->missing == 0) {
      room_.Return(charge->bytes);
    }
  }
  followed->charges.erase(kept, followed->charges.end());
}

void ReplicaStream::TakeImage(Followed* followed) {
  followed->full = followed->restart;
  if (followed->restart) {
    followed->partition->Untrack(followed->tracker);
    followed->link = next_link_();
    followed->image = followed->partition->TakeFull(0, &followed->tracker);
    followed->restart = false;
  } else {
    followed->image = followed->partition->TakeDelta(followed->tracker, 0);
  }
  followed->has_image = true;
  followed->sent = 0;
}

bool ReplicaStream::Build(ReplicaRequest* request, std::vector<Part>* parts) {
  if (followed_.empty()) return false;
  uint64_t bytes_left = kReplicaMessageBytes;
  for (auto& [id, followed] : followed_) {
    if (bytes_left == 0) break;
    if (!followed.has_image && (followed.restart || followed.wanted > followed.acked)) TakeImage(&followed);
    if (!followed.has_image) continue;
    const absl::string_view bytes = absl::string_view(followed.image.bytes).substr(followed.sent, bytes_left);
    bytes_left -= bytes.size();
    ReplicaPiece* piece = request->add_pieces();
    piece->set_partition(id);
    piece->set_link(followed.link);
    piece->set_full(followed.full);
    piece->set_version(followed.image.version);
    piece->set_total_bytes(followed.image.bytes.size());
    piece->set_offset(followed.sent);
    piece->set_bytes(bytes.data(), bytes.size());
    piece->set_promotable(true);
    piece->set_granted(!followed.full);
    parts->push_back({id, followed.link, followed.image.version, followed.sent + bytes.size()});
  }
  request->set_wanted_room(wanted_room_);
  return !parts->empty() || wanted_room_ > 0;
}

void ReplicaStream::Pump() {
  for (;;) {
    ReplicaRequest request = sender_.NewRequest();
    std::vector<Part> parts;
    uint64_t era = 0;
    {
      MutexLock lock(&mu_);
      era = era_;
      if (in_flight_ || clock_.Now() < retry_at_ || !Build(&request, &parts)) return;
      in_flight_ = true;
    }
    // The answer may come inside of the call: then this loop goes on, else the thread that brings it does.
    auto turn = std::make_shared<std::atomic<bool>>(false);
    sender_.client->Replicate(request, kMessageTimeout,
                              [self = shared_from_this(), turn, parts, era,
                               wanted = request.wanted_room()](absl::StatusOr<ReplicaReply> reply) {
                                self->Handle(reply, parts, wanted, era);
                                if (turn->exchange(true)) self->Pump();
                              });
    if (!turn->exchange(true)) return;
  }
}

void ReplicaStream::Reached(Followed* followed, std::vector<Told>* told) {
  ReturnRoom(followed, followed->acked);
  auto kept = followed->waiting.begin();
  for (Wanted& wanted : followed->waiting) {
    if (wanted.version > followed->acked) {
      *kept++ = std::move(wanted);
    } else if (--wanted.waiter->missing == 0 && wanted.waiter->done) {
      told->push_back({std::exchange(wanted.waiter->done, nullptr), absl::OkStatus()});
    }
  }
  followed->waiting.erase(kept, followed->waiting.end());
}

void ReplicaStream::Fail(Followed* followed, const absl::Status& status, std::vector<Told>* told) {
  for (Wanted& wanted : followed->waiting) {
    // A good status is about this partition only.
    if (status.ok() && --wanted.waiter->missing > 0) continue;
    if (wanted.waiter->done) told->push_back({std::exchange(wanted.waiter->done, nullptr), status});
  }
  followed->waiting.clear();
}

void ReplicaStream::Refused(Followed* followed, const PieceAnswer& answer, std::vector<Told>* told) {
  const absl::Status status(static_cast<absl::StatusCode>(answer.code()), answer.message());
  last_error_ = absl::StrCat("partition ", answer.partition(), ": ", answer.message());
  retry_at_ = clock_.Now() + kRetryAfter;
  followed->sent = 0;
  if (absl::IsResourceExhausted(status)) {
    Fail(followed, status, told);
  } else if (!absl::IsUnavailable(status)) {
    // The copy is gone, or not what it should be.
    followed->has_image = false;
    followed->image = PartitionImage();
    followed->restart = true;
    followed->acked = 0;
  }
}

void ReplicaStream::Handle(const absl::StatusOr<ReplicaReply>& reply, const std::vector<Part>& parts,
                           uint64_t wanted_room, uint64_t era) {
  std::vector<Told> told;
  {
    MutexLock lock(&mu_);
    in_flight_ = false;
    if (reply.ok()) {
      silence_.reset();
      if (wanted_room_ == wanted_room) wanted_room_ = 0;
    }
    if (!reply.ok()) {
      if (!silence_.has_value()) silence_ = Silence{clock_.Now(), {}};
      silence_->error = std::string(reply.status().message());
      last_error_ = std::string(reply.status().message());
      retry_at_ = clock_.Now() + kRetryAfter;
    }
    for (size_t i = 0; reply.ok() && i < parts.size(); ++i) {
      const auto it = followed_.find(parts[i].partition);
      if (it == followed_.end() || it->second.link != parts[i].link || !it->second.has_image) continue;
      Followed& followed = it->second;
      const auto refused = std::find_if(reply->refused().begin(), reply->refused().end(),
                                        [&](const PieceAnswer& a) { return a.partition() == parts[i].partition; });
      if (refused != reply->refused().end()) {
        Refused(&followed, *refused, &told);
        continue;
      }
      followed.sent = parts[i].end;
      if (followed.sent < followed.image.bytes.size()) continue;
      followed.acked = followed.image.version;
      followed.has_image = false;
      followed.image = PartitionImage();
      Reached(&followed, &told);
    }
    if (reply.ok() && era == era_) room_.Told(reply->limited(), reply->room());
  }
  for (Told& one : told) one.done(one.status);
}

absl::optional<ReplicaStream::Silence> ReplicaStream::silence() const {
  MutexLock lock(&mu_);
  // What nobody sends any more nobody misses.
  return followed_.empty() ? absl::nullopt : silence_;
}

void ReplicaStream::Tick() {
  std::vector<Told> told;
  {
    MutexLock lock(&mu_);
    const absl::Duration now = clock_.Now();
    for (auto& [partition, followed] : followed_) {
      auto kept = followed.waiting.begin();
      for (Wanted& wanted : followed.waiting) {
        if (wanted.waiter->deadline > now) {
          *kept++ = std::move(wanted);
        } else if (wanted.waiter->done) {
          told.push_back(
              {std::exchange(wanted.waiter->done, nullptr),
               absl::UnavailableError(absl::StrCat("partition ", partition, ": its backup, process ", sender_.target,
                                                   ", has not confirmed the push: ", last_error_))});
        }
      }
      followed.waiting.erase(kept, followed.waiting.end());
    }
  }
  for (Told& one : told) one.done(one.status);
  Pump();
}

}  // namespace shoal
