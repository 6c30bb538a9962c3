// The receiving side of copies.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/server_job.h"

namespace shoal {
namespace {

// Backups that are here, by partition: who sent them. source: 0: everybody.
std::map<uint32_t, uint64_t> CopiesHere(const OwnerMap& map, uint64_t source) {
  std::map<uint32_t, uint64_t> copies;
  for (uint32_t p = 0; p < map.at.size(); ++p) {
    const OwnerMap::Place& place = map.at[p];
    if (place.role != PartitionRole::kStandby || !place.complete) continue;
    if (source == 0 || place.from == source) copies[p] = place.from;
  }
  return copies;
}

}  // namespace

absl::Status ServerJob::Receive(const ReplicaRequest& request, ReplicaReply* reply) {
  {
    MutexLock lock(&mu_);
    if (dropped_) return absl::UnavailableError(absl::StrCat("job ", job_, ": dropped"));
    if (request.run() > run_) {
      return absl::UnavailableError(absl::StrCat("run: ", request.run(), ", this server still holds ", run_));
    }
    if (request.run() < newest_run_) {
      return absl::FailedPreconditionError(absl::StrCat("run: ", request.run(), ", must be ", newest_run_));
    }
    if (request.target() != self_) {
      return absl::FailedPreconditionError(
          absl::StrCat("target: process ", request.target(), ", this server is process ", self_));
    }
    // The sender may have lost the partitions: it has to hear of it first.
    if (request.map_version() < map_->version) {
      return absl::UnavailableError(
          absl::StrCat("map_version: ", request.map_version(), ", must be at least ", map_->version));
    }
  }
  for (const ReplicaPiece& piece : request.pieces()) {
    const absl::Status status = TakePiece(request, piece);
    if (status.ok()) continue;
    PieceAnswer* answer = reply->add_refused();
    answer->set_partition(piece.partition());
    answer->set_code(static_cast<int>(status.code()));
    answer->set_message(std::string(status.message()));
  }
  if (!grants_.limited()) return absl::OkStatus();
  // A copy that begins anew has no room until it is here.
  reply->set_limited(true);
  if (CopiesHere(*Map(), request.source()).empty()) return absl::OkStatus();
  reply->set_room(grants_.Grant(request.source(), request.wanted_room()));
  return absl::OkStatus();
}

absl::Status ServerJob::TakePiece(const ReplicaRequest& request, const ReplicaPiece& piece) {
  const uint32_t p = piece.partition();
  if (p >= schema_->partitions) {
    return absl::InvalidArgumentError(absl::StrCat("partition: ", p, ", must be below ", schema_->partitions));
  }
  std::shared_ptr<Arrival> arrival;
  {
    MutexLock lock(&arrivals_mu_);
    std::shared_ptr<Arrival>& known = arrivals_[p];
    if (known == nullptr) known = std::make_shared<Arrival>(&stats_.reserved_bytes);
    arrival = known;
  }
  MutexLock lock(&arrival->mu);
  const bool same = arrival->source == request.source();
  if (same && piece.link() < arrival->link) {
    return absl::FailedPreconditionError(
        absl::StrCat("link: ", piece.link(), ", partition ", p, " is copied by link ", arrival->link, " now"));
  }
  if (piece.forget()) {
    if (same && piece.link() == arrival->link) {
      DropCopy(p, arrival->partition.lock());
      arrival->Clear();
    }
    return absl::OkStatus();
  }
  if (!same || piece.link() != arrival->link) {
    DropCopy(p, arrival->partition.lock());
    arrival->Clear();
    arrival->source = request.source();
    arrival->link = piece.link();
  }
  // A map may have thrown the copy away, or made this server its owner.
  const std::shared_ptr<Partition> copy = StandbyOf(p, *arrival);
  if (copy != nullptr && piece.version() <= arrival->version &&
      (arrival->promotable || !piece.promotable() || piece.version() < arrival->version)) {
    return absl::OkStatus();  // a repeat
  }
  if (!arrival->staging || arrival->staged_version != piece.version() || arrival->staged_total != piece.total_bytes()) {
    if (arrival->staging && piece.version() < arrival->staged_version) return absl::OkStatus();  // late
    if (piece.offset() != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("offset: ", piece.offset(), ", partition ", p, ": the beginning of the image is not here"));
    }
    arrival->Unstage();
    arrival->staging = true;
    arrival->staged_version = piece.version();
    arrival->staged_total = piece.total_bytes();
  }
  if (piece.offset() > arrival->staged.size()) {
    return absl::FailedPreconditionError(absl::StrCat("offset: ", piece.offset(), ", partition ", p, ": only ",
                                                      arrival->staged.size(), " bytes are here"));
  }
  if (piece.bytes().size() > piece.total_bytes() || piece.offset() > piece.total_bytes() - piece.bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat("bytes: ", piece.bytes().size(), " at ", piece.offset(),
                                                   ", must end within total_bytes, ", piece.total_bytes()));
  }
  // A repeat may be cut differently: only what is new is taken.
  const uint64_t known = arrival->staged.size() - piece.offset();
  if (known < piece.bytes().size()) {
    arrival->Stage(absl::string_view(piece.bytes()).substr(known), piece.granted());
  }
  if (arrival->staged.size() < piece.total_bytes()) {
    // What is staged counts as reserved, so that copies that do not fit end before they are complete.
    if (piece.granted() || Fits()) return absl::OkStatus();
    arrival->Unstage();
    return absl::ResourceExhaustedError(
        absl::StrCat("memory.hard_limit: ", schema_->hard_limit_bytes, " bytes, ", stats_.used_bytes.load(), " used"));
  }
  const absl::Status taken = TakeImage(request, piece, arrival.get());
  arrival->Unstage();
  return taken;
}

bool ServerJob::Fits() const {
  if (schema_->hard_limit_bytes == 0) return true;
  return stats_.used_bytes.load() + stats_.reserved_bytes.load() <= static_cast<int64_t>(schema_->hard_limit_bytes);
}

absl::Status ServerJob::TakeImage(const ReplicaRequest& request, const ReplicaPiece& piece, Arrival* arrival) {
  arrival->mu.AssertHeld();
  const uint32_t p = piece.partition();
  const absl::string_view staged = arrival->staged;
  if (piece.held_bytes() > staged.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("held_bytes: ", piece.held_bytes(), ", must be at most total_bytes, ", staged.size()));
  }
  const absl::string_view image = staged.substr(0, staged.size() - piece.held_bytes());
  HeldRounds held;
  if (piece.held_bytes() > 0) {
    if (!held.ParseFromString(std::string(staged.substr(image.size())))) {
      return absl::InvalidArgumentError(
          absl::StrCat("held_bytes: the last ", piece.held_bytes(), " bytes of the image are not HeldRounds"));
    }
    SHOAL_RETURN_IF_ERROR(CheckHeld(*schema_, p, held));
  }
  // The rows of an image take about what its bytes do, which are reserved; several may be applied at a time. What was
  // granted has been reserved, and applied by the primary.
  if (!piece.granted() && !Fits()) {
    return absl::ResourceExhaustedError(absl::StrCat("memory.hard_limit: ", schema_->hard_limit_bytes, " bytes, ",
                                                     stats_.used_bytes.load(), " used, changes of partition ", p,
                                                     " need ", arrival->staged.size()));
  }
  std::shared_ptr<Partition> copy = StandbyOf(p, *arrival);
  if (piece.full()) {
    DropCopy(p, copy);
    copy = std::make_shared<Partition>(*schema_, p, pools_, &stats_);
    copy->Close();
    arrival->partition = copy;
    arrival->promotable = false;
  } else if (copy == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("partition ", p, ": there is no copy here to be changed"));
  }
  uint64_t rounds = 0;
  const Partition::Space before = copy->RowSpace();
  absl::Status status = copy->Apply(image, &rounds);
  if (status.ok()) status = InstallCopy(request, piece, piece.held_bytes() > 0 ? &held : nullptr, copy);
  if (status.ok()) {
    const Partition::Space after = copy->RowSpace();
    grants_.Applied(request.source(), p, piece.granted() ? before : after, after);
    arrival->version = piece.version();
    arrival->promotable |= piece.promotable();
    return status;
  }
  // Half a copy is none.
  DropCopy(p, copy);
  arrival->partition.reset();
  return absl::FailedPreconditionError(status.message());
}

std::shared_ptr<Partition> ServerJob::StandbyOf(uint32_t partition, const Arrival& arrival) const {
  arrival.mu.AssertHeld();
  const std::shared_ptr<const OwnerMap> map = Map();
  const OwnerMap::Place& place = map->at[partition];
  if (place.role != PartitionRole::kStandby || place.partition != arrival.partition.lock()) return nullptr;
  return place.partition;
}

void ServerJob::SweepArrivals() {
  std::vector<std::pair<uint32_t, std::shared_ptr<Arrival>>> arrivals;
  {
    MutexLock lock(&arrivals_mu_);
    arrivals.assign(arrivals_.begin(), arrivals_.end());
  }
  if (arrivals.empty()) return;
  const std::shared_ptr<const OwnerMap> map = Map();
  // Asked for under the lock of the grants: a copy that arrives meanwhile gets its room afterwards, or is seen.
  grants_.Keep([this] { return CopiesHere(*Map(), 0); });
  for (const auto& [p, arrival] : arrivals) {
    // Locked: an image is being applied.
    if (!arrival->mu.TryLock()) continue;
    if (arrival->staging && map->at[p].owner != arrival->source) {
      arrival->Unstage();
    }
    arrival->mu.Unlock();
  }
}

absl::Status ServerJob::InstallCopy(const ReplicaRequest& request, const ReplicaPiece& piece, const HeldRounds* held,
                                    const std::shared_ptr<Partition>& copy) {
  const uint32_t p = piece.partition();
  ReleasedList released;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    const OwnerMap::Place& before = map_->at[p];
    // A map that came since Receive looked and that leaves the partition to the sender changes nothing.
    if (before.mine || (request.map_version() <= map_->version && before.owner != request.source())) {
      status = absl::FailedPreconditionError(
          absl::StrCat("partition ", p, ": process ", before.owner, " owns it by map version ", map_->version));
    } else if (schema_->sync == SyncMode::kBsp && piece.promotable()) {
      const bool alone = std::all_of(map_->at.begin(), map_->at.end(), [&](const OwnerMap::Place& place) {
        return place.role == PartitionRole::kNone || place.role == PartitionRole::kStandby;
      });
      if (held == nullptr) {
        status = absl::InvalidArgumentError("held: missing, a bsp job's partition moves with its round");
      } else if (alone && held_.empty()) {
        rounds_ = Rounds(schema_->lanes, held->rounds_applied());
      } else if (held->rounds_applied() != rounds_.applied()) {
        status = absl::FailedPreconditionError(absl::StrCat("held.rounds_applied: ", held->rounds_applied(),
                                                            ", this server has applied ", rounds_.applied()));
      }
    }
    if (status.ok()) {
      auto next = std::make_shared<OwnerMap>(*map_);
      OwnerMap::Place& place = next->at[p];
      const bool named = place.backup == self_;
      place.partition = copy;
      place.role = PartitionRole::kStandby;
      place.from = request.source();
      place.complete = piece.promotable() || (before.partition == copy && before.complete);
      place.backup_listed = named || (before.partition == copy && before.backup_listed);
      if (held != nullptr) held_[p] = *held;
      SetMap(std::move(next), &released);
    }
  }
  Answer(&released);
  return status;
}

void ServerJob::DropCopy(uint32_t partition, const std::shared_ptr<Partition>& copy) {
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    const OwnerMap::Place& place = map_->at[partition];
    if (copy == nullptr || place.partition != copy || place.role != PartitionRole::kStandby) return;
    auto next = std::make_shared<OwnerMap>(*map_);
    next->at[partition].partition = nullptr;
    next->at[partition].role = PartitionRole::kNone;
    next->at[partition].from = 0;
    next->at[partition].complete = next->at[partition].backup_listed = false;
    held_.erase(partition);
    SetMap(std::move(next), &released);
  }
  Answer(&released);
}

}  // namespace shoal
