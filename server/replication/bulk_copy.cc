#include "server/replication/bulk_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr absl::Duration kMessageTimeout = absl::Seconds(10);
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(5);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);

// Where an answer is left for a caller that may have stopped waiting.
struct Answer {
  Mutex mu;
  CondVar arrived;
  bool has_value ABSL_GUARDED_BY(mu) = false;
  absl::StatusOr<ReplicaReply> value ABSL_GUARDED_BY(mu) = absl::DeadlineExceededError("no answer");
};

absl::StatusOr<ReplicaReply> Call(ReplicaClient* client, const ReplicaRequest& request, absl::Duration timeout) {
  auto answer = std::make_shared<Answer>();
  client->Replicate(request, timeout, [answer](absl::StatusOr<ReplicaReply> reply) {
    MutexLock lock(&answer->mu);
    answer->value = std::move(reply);
    answer->has_value = true;
    answer->arrived.SignalAll();
  });
  const absl::Duration end = Clock::Steady().Now() + timeout + absl::Seconds(1);
  MutexLock lock(&answer->mu);
  while (!answer->has_value) {
    const absl::Duration left = end - Clock::Steady().Now();
    if (left <= absl::ZeroDuration()) break;
    answer->arrived.WaitFor(&answer->mu, left);
  }
  return answer->value;
}

void Nap(absl::Duration duration) {
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  never.WaitFor(&mu, duration);
}

bool WorthRepeating(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

ReplicaRequest ReplicaSender::NewRequest() const {
  ReplicaRequest request;
  request.set_job(job);
  request.set_run(run);
  request.set_source(source);
  request.set_target(target);
  request.set_map_version(map_version());
  return request;
}

absl::Status BulkCopy::Deliver(ReplicaRequest* request) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + options_.patience;
  for (absl::Duration backoff = kFirstBackoff;; backoff = std::min(backoff * 2, kLongestBackoff)) {
    SHOAL_RETURN_IF_ERROR(options_.keep_going());
    request->set_map_version(sender_.map_version());
    const absl::StatusOr<ReplicaReply> reply =
        Call(sender_.client.get(), *request, std::min(kMessageTimeout, std::max(options_.patience, kFirstBackoff)));
    absl::Status status = reply.status();
    if (reply.ok() && reply->refused_size() > 0) {
      status = absl::Status(static_cast<absl::StatusCode>(reply->refused(0).code()), reply->refused(0).message());
    }
    if (status.ok()) {
      room_ = {reply->limited(), reply->room()};
      return status;
    }
    if (absl::IsNotFound(status) && !request->has_config()) {
      *request->mutable_config() = options_.config();
      continue;
    }
    if (!WorthRepeating(status) || clock.Now() + backoff > end) return status;
    Nap(backoff);
  }
}

absl::Status BulkCopy::Send(absl::string_view image, uint64_t version, bool full, bool promotable,
                            const HeldRounds* held) {
  std::string joined;
  uint64_t held_bytes = 0;
  if (held != nullptr) {
    joined.assign(image.data(), image.size());
    if (!held->AppendToString(&joined)) return absl::InternalError("held: cannot be written");
    held_bytes = joined.size() - image.size();
    image = joined;
  }
  uint64_t offset = 0;
  do {
    ReplicaRequest request = sender_.NewRequest();
    ReplicaPiece* piece = request.add_pieces();
    piece->set_partition(partition_);
    piece->set_link(link_);
    piece->set_full(full);
    piece->set_version(version);
    piece->set_total_bytes(image.size());
    piece->set_offset(offset);
    const absl::string_view bytes = image.substr(offset, kReplicaMessageBytes);
    piece->set_bytes(bytes.data(), bytes.size());
    piece->set_promotable(promotable);
    piece->set_held_bytes(held_bytes);
    SHOAL_RETURN_IF_ERROR(Deliver(&request));
    offset += bytes.size();
    sent_bytes_ += bytes.size();
  } while (offset < image.size());
  return absl::OkStatus();
}

void BulkCopy::Forget() {
  ReplicaRequest request = sender_.NewRequest();
  ReplicaPiece* piece = request.add_pieces();
  piece->set_partition(partition_);
  piece->set_link(link_);
  piece->set_forget(true);
  (void)Call(sender_.client.get(), request, std::min(options_.patience, absl::Seconds(1)));
}

}  // namespace shoal
