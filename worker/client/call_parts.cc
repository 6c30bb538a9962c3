#include "worker/client/call_parts.h"

#include <algorithm>
#include <utility>

#include "proto/wire/value_codec.h"

namespace shoal {
namespace {

constexpr uint64_t kKeyBytes = sizeof(uint64_t);

uint64_t RowBytes(absl::Span<const uint32_t> dims, ValueType type) {
  uint64_t floats = 0;
  for (uint32_t dim : dims) floats += dim;
  return floats * ValueBytes(type);
}

// The larger of asking for a key and getting its rows.
uint64_t PullKeyBytes(const PullRequest& request, const PullGroup& group) {
  return std::max(kKeyBytes, RowBytes(group.dims, request.value_type));
}

uint64_t PushKeyBytes(const PushRequest& request, const PushGroup& group) {
  return kKeyBytes + RowBytes(group.dims, request.value_type) + (group.occurrences.empty() ? 0 : sizeof(uint32_t)) +
         (group.slots.empty() ? 0 : sizeof(uint16_t));
}

// `target`, lowered so that parts get about the same size.
uint64_t Even(uint64_t bytes, uint64_t target) {
  const uint64_t parts = std::max<uint64_t>(1, (bytes + target - 1) / target);
  return std::max<uint64_t>(1, (bytes + parts - 1) / parts);
}

void CopyHead(const PullRequest& from, PullRequest* to) {
  to->header = from.header;
  to->read_only = from.read_only;
  to->batch = from.batch;
  to->finished = from.finished;
  to->logical_lane = from.logical_lane;
  to->round = from.round;
  to->has_mark = from.has_mark;
  to->value_type = from.value_type;
}

// Walks the rows of a pull from partition to partition and makes parts of them.
class PullCutter {
 public:
  PullCutter(const PullRequest& request, const PullReply& reply, std::deque<PullPart>* parts)
      : request_(request), reply_(reply), passed_(request.groups.size(), 0), parts_(*parts) {}

  // Partitions [begin, end) as one part.
  void Whole(size_t begin, size_t end) {
    PullPart& part = Begin(begin, end);
    for (size_t g = 0; g < request_.groups.size(); ++g) {
      const absl::Span<const uint32_t> counts = request_.groups[g].counts.subspan(begin, end - begin);
      uint64_t keys = 0;
      for (uint32_t count : counts) keys += count;
      if (keys > 0) Add(&part, g, keys, counts);
      passed_[g] += keys;
    }
  }

  // One partition in several parts, group by group.
  void Rows(size_t partition, uint64_t target) {
    for (size_t g = 0; g < request_.groups.size(); ++g) {
      const uint64_t most = std::max<uint64_t>(1, target / PullKeyBytes(request_, request_.groups[g]));
      for (uint64_t left = request_.groups[g].counts[partition]; left > 0;) {
        const uint64_t some = std::min(most, left);
        PullPart& part = Begin(partition, partition + 1);
        part.counts = {static_cast<uint32_t>(some)};
        Add(&part, g, some, part.counts);
        passed_[g] += some;
        left -= some;
      }
    }
  }

 private:
  PullPart& Begin(size_t begin, size_t end) {
    parts_.emplace_back();
    PullPart& part = parts_.back();
    CopyHead(request_, &part.request);
    part.request.partitions = request_.partitions.subspan(begin, end - begin);
    part.request.dense = false;
    return part;
  }

  void Add(PullPart* part, size_t g, uint64_t keys, absl::Span<const uint32_t> counts) {
    const PullGroup& from = request_.groups[g];
    PullGroup group = from;
    group.keys = from.keys.subspan(passed_[g], keys);
    group.counts = counts;
    part->request.groups.push_back(group);
    part->reply.rows.emplace_back();
    for (size_t t = 0; t < from.dims.size(); ++t) {
      part->reply.rows.back().push_back(reply_.rows[g][t] + passed_[g] * from.dims[t]);
    }
  }

  const PullRequest& request_;
  const PullReply& reply_;
  std::vector<uint64_t> passed_;  // by group: keys
  std::deque<PullPart>& parts_;
};

void CutDense(const PullRequest& request, const PullReply& reply, uint64_t target, std::deque<PullPart>* parts) {
  const uint64_t all = request.dense ? reply.dense_floats : 0;
  const uint64_t value_bytes = ValueBytes(request.value_type);
  const uint64_t most = std::max<uint64_t>(1, Even(all * value_bytes, target) / value_bytes);
  for (uint64_t begin = 0; begin < all; begin += most) {
    parts->emplace_back();
    PullPart& part = parts->back();
    CopyHead(request, &part.request);
    part.request.partitions = request.partitions;
    part.request.dense_begin = request.dense_begin + begin;
    part.request.dense_count = std::min(most, all - begin);
    part.reply.dense = reply.dense + begin;
    part.reply.dense_floats = part.request.dense_count;
  }
}

// Of one partition, by entry.
uint64_t PullBytesOf(const PullRequest& request, size_t partition) {
  uint64_t bytes = 0;
  for (const PullGroup& group : request.groups) bytes += group.counts[partition] * PullKeyBytes(request, group);
  return bytes;
}

uint64_t PushBytesOf(const PushRequest& request, size_t partition) {
  uint64_t bytes = request.dense.empty() ? 0 : request.dense_sizes[partition] * ValueBytes(request.value_type);
  for (const PushGroup& group : request.groups) bytes += group.counts[partition] * PushKeyBytes(request, group);
  return bytes;
}

// Whether keys are counted as they must be. What is not goes as it is, for the codec to say what is wrong.
bool Counted(absl::Span<const uint64_t> keys, absl::Span<const uint32_t> counts, size_t partitions) {
  uint64_t sum = 0;
  for (uint32_t count : counts) sum += count;
  return counts.size() == partitions && sum == keys.size();
}

bool MayCut(const PullRequest& request) {
  return std::all_of(request.groups.begin(), request.groups.end(), [&](const PullGroup& group) {
    return Counted(group.keys, group.counts, request.partitions.size());
  });
}

bool MayCut(const PushRequest& request) {
  const size_t partitions = request.partitions.size();
  const bool counted = std::all_of(request.groups.begin(), request.groups.end(), [&](const PushGroup& group) {
    return Counted(group.keys, group.counts, partitions) && group.gradients.size() == group.dims.size() &&
           (group.occurrences.empty() || group.occurrences.size() == group.keys.size()) &&
           (group.slots.empty() || group.slots.size() == group.keys.size());
  });
  if (request.whole || !counted) return false;
  if (request.dense.empty()) return true;
  uint64_t dense = 0;
  for (uint64_t size : request.dense_sizes) dense += size;
  return request.dense_sizes.size() == partitions && dense == request.dense.size();
}

// Partitions [begin, end) of a push. *passed: keys by group; *dense: floats.
PushPart PartOf(const PushRequest& request, size_t begin, size_t end, std::vector<uint64_t>* passed, uint64_t* dense) {
  PushPart part;
  part.request = request;
  PushRequest& to = part.request;
  to.groups.clear();
  to.partitions = request.partitions.subspan(begin, end - begin);
  to.continues = request.continues || begin > 0;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    PushGroup group = request.groups[g];
    group.counts = group.counts.subspan(begin, end - begin);
    uint64_t keys = 0;
    for (uint32_t count : group.counts) keys += count;
    const uint64_t at = (*passed)[g];
    (*passed)[g] += keys;
    if (keys == 0) continue;
    group.keys = group.keys.subspan(at, keys);
    for (size_t t = 0; t < group.dims.size(); ++t) group.gradients[t] += at * group.dims[t];
    if (!group.occurrences.empty()) group.occurrences = group.occurrences.subspan(at, keys);
    if (!group.slots.empty()) group.slots = group.slots.subspan(at, keys);
    to.groups.push_back(std::move(group));
  }
  if (request.dense.empty()) return part;
  to.dense_sizes = request.dense_sizes.subspan(begin, end - begin);
  uint64_t floats = 0;
  for (uint64_t size : to.dense_sizes) floats += size;
  to.dense = request.dense.subspan(*dense, floats);
  *dense += floats;
  return part;
}

// What the parts say as a whole: the worst of what they say.
template <typename Part>
RequestOutcome OutcomeOf(const std::deque<Part>& parts) {
  RequestOutcome outcome = RequestOutcome::kOk;
  for (const Part& part : parts) outcome = std::max(outcome, part.reply.outcome);
  return outcome;
}

}  // namespace

uint64_t PullBytes(const PullRequest& request, const PullReply& reply) {
  uint64_t bytes = request.dense ? reply.dense_floats * ValueBytes(request.value_type) : 0;
  for (const PullGroup& group : request.groups) bytes += group.keys.size() * PullKeyBytes(request, group);
  return bytes;
}

uint64_t PushBytes(const PushRequest& request) {
  uint64_t bytes = request.dense.size() * ValueBytes(request.value_type);
  for (const PushGroup& group : request.groups) bytes += group.keys.size() * PushKeyBytes(request, group);
  return bytes;
}

std::deque<PullPart> CutPull(const PullRequest& request, const PullReply& reply, uint64_t target_bytes) {
  std::deque<PullPart> parts;
  if (!MayCut(request)) {
    parts.emplace_back();
    parts[0].request = request;
    parts[0].reply = reply;
    return parts;
  }
  const uint64_t dense = request.dense ? reply.dense_floats * ValueBytes(request.value_type) : 0;
  const uint64_t rows = PullBytes(request, reply) - dense;
  const uint64_t target = Even(rows, target_bytes);
  PullCutter cutter(request, reply, &parts);
  size_t begin = 0;
  uint64_t bytes = 0;
  for (size_t p = 0; rows > 0 && p < request.partitions.size(); ++p) {
    const uint64_t more = PullBytesOf(request, p);
    if (more > target_bytes) {
      if (bytes > 0) cutter.Whole(begin, p);
      cutter.Rows(p, Even(more, target_bytes));
    } else {
      bytes += more;
      if (bytes < target) continue;
      cutter.Whole(begin, p + 1);
    }
    begin = p + 1;
    bytes = 0;
  }
  if (bytes > 0) cutter.Whole(begin, request.partitions.size());
  CutDense(request, reply, target_bytes, &parts);
  if (!parts.empty()) return parts;
  // Nothing is wanted, but the gate is to be asked.
  parts.emplace_back();
  parts[0].request = request;
  parts[0].reply = reply;
  return parts;
}

absl::Status JoinPull(const std::deque<PullPart>& parts, const absl::Status& status, PullReply* reply) {
  reply->outcome = OutcomeOf(parts);
  reply->map_version = reply->parked_us = 0;
  reply->slowest_clock = reply->pushes_applied = ~uint64_t{0};
  for (const PullPart& part : parts) {
    reply->map_version = std::max(reply->map_version, part.reply.map_version);
    reply->parked_us = std::max(reply->parked_us, part.reply.parked_us);
    reply->slowest_clock = std::min(reply->slowest_clock, part.reply.slowest_clock);
    reply->pushes_applied = std::min(reply->pushes_applied, part.reply.pushes_applied);
  }
  return reply->outcome == RequestOutcome::kOk ? status : absl::OkStatus();
}

std::deque<PushPart> CutPush(const PushRequest& request, uint64_t target_bytes) {
  std::deque<PushPart> parts;
  std::vector<uint64_t> passed(request.groups.size(), 0);
  uint64_t dense = 0;
  if (!MayCut(request) || request.partitions.empty()) {
    parts.emplace_back();
    parts[0].request = request;
    return parts;
  }
  const uint64_t target = Even(PushBytes(request), target_bytes);
  size_t begin = 0;
  uint64_t bytes = 0;
  for (size_t p = 0; p < request.partitions.size(); ++p) {
    const uint64_t more = PushBytesOf(request, p);
    // A partition that fills a part by itself does not wait for, or with, others.
    if (bytes > 0 && bytes + more > 2 * target) {
      parts.push_back(PartOf(request, begin, p, &passed, &dense));
      begin = p;
      bytes = 0;
    }
    bytes += more;
    if (bytes < target) continue;
    parts.push_back(PartOf(request, begin, p + 1, &passed, &dense));
    begin = p + 1;
    bytes = 0;
  }
  // Also partitions that nothing is pushed to: their watermarks go on.
  if (begin < request.partitions.size()) {
    parts.push_back(PartOf(request, begin, request.partitions.size(), &passed, &dense));
  }
  return parts;
}

absl::Status JoinPush(const std::deque<PushPart>& parts, const absl::Status& status, PushReply* reply) {
  *reply = PushReply();
  reply->outcome = OutcomeOf(parts);
  reply->pushes_applied = parts[0].reply.pushes_applied;
  for (const PushPart& part : parts) {
    reply->map_version = std::max(reply->map_version, part.reply.map_version);
    reply->guard_refused += part.reply.guard_refused;
    reply->not_admitted += part.reply.not_admitted;
    reply->memory_refused += part.reply.memory_refused;
    reply->exceptions.insert(reply->exceptions.end(), part.reply.exceptions.begin(), part.reply.exceptions.end());
  }
  return reply->outcome == RequestOutcome::kOk ? status : absl::OkStatus();
}

void PartRunner::Run(size_t parts, size_t most_at_once, Issue issue, ParameterClient::Done done) {
  std::shared_ptr<PartRunner> runner(new PartRunner(parts, most_at_once, std::move(issue), std::move(done)));
  runner->Pump();
}

void PartRunner::Pump() {
  for (;;) {
    size_t part;
    {
      MutexLock lock(&mu_);
      if (!status_.ok() || next_ == parts_ || under_way_ == most_at_once_) return;
      part = next_++;
      ++under_way_;
    }
    issue_(part, [self = shared_from_this()](const absl::Status& status) { self->End(status); });
  }
}

void PartRunner::End(const absl::Status& status) {
  bool over = false;
  absl::Status all;
  {
    MutexLock lock(&mu_);
    status_.Update(status);
    --under_way_;
    over = !status_.ok() || next_ == parts_;
    // When it is over nothing begins any more: zero is seen once.
    if (over && under_way_ > 0) return;
    all = status_;
  }
  if (over) {
    done_(all);
  } else {
    Pump();
  }
}

}  // namespace shoal
