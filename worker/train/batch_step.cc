#include "worker/train/batch_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "proto/wire/value_codec.h"

namespace shoal {
namespace {

ValueType TypeOf(Wire::Format format) {
  switch (format) {
    case Wire::BF16:
      return ValueType::kBf16;
    case Wire::F16:
      return ValueType::kF16;
    default:
      return ValueType::kF32;
  }
}

// A parked pull is asked again after this long, so that a lane notices within it that it is to stop.
constexpr absl::Duration kPullTimeout = absl::Seconds(2);

}  // namespace

BatchStep::BatchStep(JobContext* context, const RetryPolicy& policy, Wakeup* wakeup, HotRowTable* hot_rows)
    : context_(context),
      policy_(policy),
      partitions_(context->config().partitions()),
      count_occurrences_(context->config().admission().min_count() > 1),
      pull_type_(TypeOf(context->config().wire().pull())),
      push_type_(TypeOf(context->config().wire().push())),
      hot_(hot_rows),
      pulls_(wakeup) {
  const ModelGraph& model = context_->model();
  const size_t groups = model.groups().size();
  for (const std::vector<uint32_t>& slots : model.groups()) routers_.emplace_back(slots, partitions_);
  groups_.resize(groups);
  wanted_.resize(groups);
  wanted_at_.resize(groups);
  occurrences_.resize(groups);
  tables_of_group_.resize(groups);
  const size_t tables = model.group_of_table().size();
  dims_of_group_.resize(groups);
  for (uint32_t t = 0; t < tables; ++t) {
    tables_of_group_[model.group_of_table()[t]].push_back(t);
    dims_of_group_[model.group_of_table()[t]].push_back(model.spec().tables(static_cast<int>(t)).dim());
  }
  rows_.resize(tables);
  row_gradients_.resize(tables);
  args_.rows.resize(tables);
  args_.row_gradients.resize(tables);
  args_.seed = context_->config().seed();
  const int tensors = model.spec().tensors_size();
  args_.tensors.resize(static_cast<size_t>(tensors));
  for (int t = 0; t < tensors; ++t) {
    // Not set to anything: where the server's are shared nobody touches this memory.
    tensors_.emplace_back(new float[context_->layout().TensorSize(static_cast<uint32_t>(t))]);
    tensor_pointers_.push_back(tensors_.back().get());
    tensor_gradients_.emplace_back(context_->layout().TensorSize(static_cast<uint32_t>(t)));
    args_.tensor_gradients.push_back(tensor_gradients_.back().data());
  }
}

template <typename Visit>
void BatchStep::ForEachRange(size_t server, const KeyGroup& keys, Visit visit) const {
  const std::vector<uint32_t>& begin = keys.partition_begin;
  for (uint32_t partition : routes_->servers[server].partitions) {
    if (begin[partition] < begin[partition + 1]) visit(begin[partition], begin[partition + 1]);
  }
}

template <typename Visit>
void BatchStep::ForEachBlock(size_t server, Visit visit) {
  float* values = servers_[server]->dense.data();
  for (uint32_t partition : routes_->servers[server].partitions) {
    for (const DenseBlock& block : context_->layout().BlocksOf(partition)) {
      visit(block, values);
      values += block.size;
    }
  }
}

void BatchStep::SizeBuffers() {
  const ModelGraph& model = context_->model();
  for (size_t t = 0; t < rows_.size(); ++t) {
    const size_t floats =
        groups_[model.group_of_table()[t]].keys.size() * model.spec().tables(static_cast<int>(t)).dim();
    if (rows_[t].size() < floats) {
      rows_[t].resize(floats);
      row_gradients_[t].resize(floats);
    }
    args_.rows[t] = rows_[t].data();
    args_.row_gradients[t] = row_gradients_[t].data();
  }
}

absl::Span<const uint64_t> BatchStep::ShareOf(size_t server, const KeyGroup& keys, std::vector<uint64_t>* own,
                                              std::vector<uint32_t>* counts) const {
  counts->clear();
  for (uint32_t partition : routes_->servers[server].partitions) {
    counts->push_back(keys.partition_begin[partition + 1] - keys.partition_begin[partition]);
  }
  if (single()) return keys.keys;
  own->clear();
  ForEachRange(server, keys, [&](uint32_t begin, uint32_t end) {
    own->insert(own->end(), keys.keys.begin() + begin, keys.keys.begin() + end);
  });
  return *own;
}

void BatchStep::BuildGroup(size_t server, uint32_t group) {
  ServerCall& call = *servers_[server];
  PullGroup& pull = call.pull.groups[group];
  if (use_hot_) {
    pull.keys = ShareOf(server, wanted_[group], &call.pull_keys[group], &call.pull_counts[group]);
    pull.counts = call.pull_counts[group];
  } else {
    pull.keys = ShareOf(server, groups_[group], &call.keys[group], &call.counts[group]);
    pull.counts = call.counts[group];
  }
  pull.tables = tables_of_group_[group];
  pull.dims = dims_of_group_[group];
}

void BatchStep::SetPullDestinations(size_t server) {
  ServerCall& call = *servers_[server];
  const ModelGraph& model = context_->model();
  call.pull_reply.rows.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    call.pull_reply.rows[g].clear();
    for (uint32_t table : tables_of_group_[g]) {
      if (direct()) {
        call.pull_reply.rows[g].push_back(rows_[table].data());
        continue;
      }
      std::vector<float>& scratch = call.rows[table];
      const size_t floats = call.pull.groups[g].keys.size() * model.spec().tables(static_cast<int>(table)).dim();
      if (scratch.size() < floats) scratch.resize(floats);
      call.pull_reply.rows[g].push_back(scratch.data());
    }
  }
  call.one_memory = routes_->servers[server].client->one_memory();
  // What is rounded here must be our own.
  call.pull.share = call.one_memory && single() && pulled_type_ == ValueType::kF32;
  call.pull_reply.shared = nullptr;
  call.pull_reply.tensors = {};
  if (call.one_memory) {
    call.pull_reply.tensors = tensor_pointers_;
    return;
  }
  uint64_t dense = 0;
  call.dense_sizes.clear();
  for (uint32_t partition : routes_->servers[server].partitions) {
    call.dense_sizes.push_back(context_->layout().FloatsOf(partition));
    dense += call.dense_sizes.back();
  }
  call.dense.resize(dense);
  call.pull_reply.dense = call.dense.data();
  call.pull_reply.dense_floats = dense;
}

void BatchStep::StartPull(std::shared_ptr<const RouteMap> routes, const PullRequest& prototype) {
  routes_ = std::move(routes);
  args_.batch = &batch_;
  for (size_t g = 0; g < groups_.size(); ++g) routers_[g].Route(batch_, &groups_[g]);
  args_.groups = groups_;
  SizeBuffers();
  use_hot_ = hot_ != nullptr && !prototype.read_only;
  pulled_type_ = prototype.read_only ? ValueType::kF32 : pull_type_;
  if (use_hot_) {
    hot_->UseMap(prototype.header.run, routes_->version);
    TakeHotRows(prototype.batch);
  }
  const size_t servers = routes_->servers.size();
  while (servers_.size() < servers) servers_.push_back(std::make_unique<ServerCall>());
  pulls_.Reset(servers);
  for (size_t s = 0; s < servers; ++s) {
    ServerCall& call = *servers_[s];
    call.keys.resize(groups_.size());
    call.slots.resize(groups_.size());
    call.counts.resize(groups_.size());
    call.pull_keys.resize(groups_.size());
    call.pull_counts.resize(groups_.size());
    call.occurrences.resize(groups_.size());
    call.rows.resize(rows_.size());
    call.gradients.resize(rows_.size());
    std::vector<PullGroup> pull_groups = std::move(call.pull.groups);
    call.pull = prototype;
    call.pull.groups = std::move(pull_groups);
    call.pull.groups.resize(groups_.size());
    call.pull.header.job = context_->job();
    call.pull.header.map_version = routes_->version;
    call.pull.value_type = pulled_type_;
    call.pull.partitions = routes_->servers[s].partitions;
    call.pull.dense = true;
    call.parked_us = 0;
    for (uint32_t g = 0; g < groups_.size(); ++g) BuildGroup(s, g);
    SetPullDestinations(s);
  }
  for (size_t s = 0; s < servers; ++s) IssuePull(s);
}

void BatchStep::IssuePull(size_t server) {
  ServerCall& call = *servers_[server];
  if (absl::IsAborted(pulls_.status(server))) call.parked_us += absl::ToInt64Microseconds(kPullTimeout);
  routes_->servers[server].client->Pull(&call.pull, kPullTimeout, &call.pull_reply, pulls_.Begin(server));
}

void BatchStep::IssuePush(size_t server) {
  ServerCall& call = *servers_[server];
  call.push_reply = {};
  routes_->servers[server].client->Push(&call.push, policy_.request_timeout, &call.push_reply, pushes_.Begin(server));
}

bool BatchStep::PollPull(absl::StatusOr<RequestOutcome>* result) {
  if (!pulls_.Idle()) return false;
  const absl::StatusOr<CallsEnd> end = RepeatPulls(CallKind::kPolledPull);
  if (end.ok() && *end == CallsEnd::kParked) {
    for (size_t s = 0; s < routes_->servers.size(); ++s) {
      if (absl::IsAborted(pulls_.status(s))) IssuePull(s);
    }
    return false;
  }
  *result = JudgePull(end);
  return true;
}

absl::StatusOr<RequestOutcome> BatchStep::AwaitPull() {
  pulls_.WaitAll();
  return JudgePull(RepeatPulls(CallKind::kPull));
}

bool BatchStep::PullRefused() {
  for (size_t s = 0; s < routes_->servers.size(); ++s) {
    if (pulls_.status(s).ok() && servers_[s]->pull_reply.outcome != RequestOutcome::kOk) return true;
  }
  return false;
}

absl::StatusOr<CallsEnd> BatchStep::RepeatPulls(CallKind kind) {
  // Not parked again at the others: they may wait for what the refused call would have told, and so may those of other
  // lanes, crosswise.
  if (PullRefused()) return CallsEnd::kAnswered;
  return RepeatCalls(
      &pulls_, routes_->servers.size(), policy_, routes_->version, kind, [this](size_t s) { IssuePull(s); }, &retries_,
      routes_.get());
}

absl::StatusOr<RequestOutcome> BatchStep::JudgePull(const absl::StatusOr<CallsEnd>& end) {
  pull_counts_ = {};
  pull_counts_.retries = std::exchange(retries_, 0);
  SHOAL_RETURN_IF_ERROR(end.status());
  if (*end == CallsEnd::kSuperseded) return RequestOutcome::kStaleMap;
  RequestOutcome outcome = RequestOutcome::kOk;
  slowest_clock_ = ~uint64_t{0};
  parked_us_ = 0;
  for (size_t s = 0; s < routes_->servers.size(); ++s) {
    if (!pulls_.status(s).ok()) continue;
    const PullReply& reply = servers_[s]->pull_reply;
    if (reply.outcome == RequestOutcome::kFenced) {
      outcome = RequestOutcome::kFenced;
      ++pull_counts_.fenced;
    } else if (reply.outcome == RequestOutcome::kStaleMap) {
      ++pull_counts_.stale_map;
      if (outcome == RequestOutcome::kOk) outcome = RequestOutcome::kStaleMap;
    }
    slowest_clock_ = std::min(slowest_clock_, reply.slowest_clock);
    parked_us_ = std::max(parked_us_, servers_[s]->parked_us + reply.parked_us);
  }
  if (outcome == RequestOutcome::kOk) {
    ScatterPulled();
    RoundPulled();
  }
  return outcome;
}

void BatchStep::ScatterPulled() {
  const ModelGraph& model = context_->model();
  const TensorValues* const shared = single() ? servers_[0]->pull_reply.shared.get() : nullptr;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    args_.tensors[t] = shared != nullptr ? (*shared)[t].data() : tensors_[t].get();
  }
  for (size_t s = 0; s < routes_->servers.size(); ++s) {
    ServerCall& call = *servers_[s];
    if (!call.one_memory) {
      ForEachBlock(s, [this](const DenseBlock& block, const float* values) {
        std::memcpy(tensors_[block.tensor].get() + block.offset, values, block.size * sizeof(float));
      });
    }
    if (use_hot_) KeepHotRows(s);
    if (single() || use_hot_) continue;
    for (uint32_t t = 0; t < rows_.size(); ++t) {
      const size_t dim = model.spec().tables(static_cast<int>(t)).dim();
      const float* from = call.rows[t].data();
      ForEachRange(s, groups_[model.group_of_table()[t]], [&](uint32_t begin, uint32_t end) {
        std::memcpy(rows_[t].data() + begin * dim, from, (end - begin) * dim * sizeof(float));
        from += (end - begin) * dim;
      });
    }
  }
}

void BatchStep::RoundPulled() {
  if (pulled_type_ == ValueType::kF32) return;
  const ModelGraph& model = context_->model();
  for (uint32_t t = 0; t < rows_.size(); ++t) {
    const size_t dim = model.spec().tables(static_cast<int>(t)).dim();
    RoundValues(pulled_type_, rows_[t].data(), groups_[model.group_of_table()[t]].keys.size() * dim);
  }
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    RoundValues(pulled_type_, tensors_[t].get(), context_->layout().TensorSize(t));
  }
}

void BatchStep::RoundGradients() {
  if (push_type_ == ValueType::kF32) return;
  const ModelGraph& model = context_->model();
  for (uint32_t t = 0; t < row_gradients_.size(); ++t) {
    const size_t dim = model.spec().tables(static_cast<int>(t)).dim();
    RoundValues(push_type_, row_gradients_[t].data(), groups_[model.group_of_table()[t]].keys.size() * dim);
  }
  for (std::vector<float>& tensor : tensor_gradients_) RoundValues(push_type_, tensor.data(), tensor.size());
}

void BatchStep::TakeHotRows(uint64_t batch) {
  hot_served_ = hot_pulled_ = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const KeyGroup& all = groups_[g];
    KeyGroup& wanted = wanted_[g];
    wanted.keys.clear();
    wanted_at_[g].clear();
    wanted.partition_begin.assign(1, 0);
    for (uint32_t p = 0; p < partitions_; ++p) {
      for (uint32_t i = all.partition_begin[p]; i < all.partition_begin[p + 1]; ++i) {
        const float* values = hot_->Find(g, all.keys[i], batch);
        if (values == nullptr) {
          wanted.keys.push_back(all.keys[i]);
          wanted_at_[g].push_back(i);
          continue;
        }
        for (size_t t = 0; t < tables_of_group_[g].size(); ++t) {
          const size_t dim = dims_of_group_[g][t];
          std::memcpy(rows_[tables_of_group_[g][t]].data() + i * dim, values, dim * sizeof(float));
          values += dim;
        }
      }
      wanted.partition_begin.push_back(static_cast<uint32_t>(wanted.keys.size()));
    }
    hot_pulled_ += wanted.keys.size();
    hot_served_ += all.keys.size() - wanted.keys.size();
  }
}

void BatchStep::KeepHotRows(size_t server) {
  const ServerCall& call = *servers_[server];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    size_t pulled = 0;  // in the order in which the server was asked
    ForEachRange(server, wanted_[g], [&](uint32_t begin, uint32_t end) {
      for (uint32_t w = begin; w < end; ++w, ++pulled) {
        float* kept = hot_->Put(g, wanted_[g].keys[w], call.pull_reply.slowest_clock);
        for (size_t t = 0; t < tables_of_group_[g].size(); ++t) {
          const uint32_t table = tables_of_group_[g][t];
          const size_t dim = dims_of_group_[g][t];
          const float* const from = call.rows[table].data() + pulled * dim;
          std::memcpy(rows_[table].data() + wanted_at_[g][w] * dim, from, dim * sizeof(float));
          if (kept == nullptr) continue;
          std::memcpy(kept, from, dim * sizeof(float));
          kept += dim;
        }
      }
    });
  }
}

absl::StatusOr<StepResult> BatchStep::Compute(bool training, ModelWorkspace* workspace) {
  return training ? context_->model().Train(args_, workspace) : context_->model().Evaluate(args_, workspace);
}

void BatchStep::CountOccurrences() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    occurrences_[g].assign(groups_[g].keys.size(), 0);
    for (const std::vector<uint32_t>& inverse : groups_[g].inverse) {
      for (uint32_t position : inverse) ++occurrences_[g][position];
    }
  }
}

void BatchStep::SetSlots(size_t server, uint32_t group, PushGroup* push) {
  const std::vector<uint32_t>& slots = context_->model().groups()[group];
  push->slots = {};
  push->slot = slots.empty() ? uint16_t{0} : static_cast<uint16_t>(slots[0]);
  if (slots.size() < 2) return;
  if (single()) {
    push->slots = groups_[group].slots;
    return;
  }
  std::vector<uint16_t>& mine = servers_[server]->slots[group];
  mine.clear();
  ForEachRange(server, groups_[group], [&](uint32_t begin, uint32_t end) {
    mine.insert(mine.end(), groups_[group].slots.begin() + begin, groups_[group].slots.begin() + end);
  });
  push->slots = mine;
}

void BatchStep::BuildPush(size_t server, const PushRequest& prototype) {
  ServerCall& call = *servers_[server];
  const ModelGraph& model = context_->model();
  std::vector<PushGroup> push_groups = std::move(call.push.groups);
  call.push = prototype;
  call.push.groups = std::move(push_groups);
  call.push.groups.resize(groups_.size());
  call.push.header.job = call.pull.header.job;
  call.push.header.run = call.pull.header.run;
  call.push.header.map_version = routes_->version;
  call.push.partitions = routes_->servers[server].partitions;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    PushGroup& push = call.push.groups[g];
    push.keys = call.pull.groups[g].keys;
    push.counts = call.pull.groups[g].counts;
    if (use_hot_) {
      push.keys = ShareOf(server, groups_[g], &call.keys[g], &call.counts[g]);
      push.counts = call.counts[g];
    }
    push.tables = tables_of_group_[g];
    push.dims = dims_of_group_[g];
    SetSlots(server, g, &push);
    push.gradients.clear();
    for (uint32_t t : tables_of_group_[g]) {
      if (single()) {
        push.gradients.push_back(row_gradients_[t].data());
        continue;
      }
      const size_t dim = model.spec().tables(static_cast<int>(t)).dim();
      std::vector<float>& mine = call.gradients[t];
      mine.clear();
      ForEachRange(server, groups_[g], [&](uint32_t begin, uint32_t end) {
        mine.insert(mine.end(), row_gradients_[t].begin() + begin * dim, row_gradients_[t].begin() + end * dim);
      });
      push.gradients.push_back(mine.data());
    }
    push.occurrences = {};
    if (!count_occurrences_) continue;
    std::vector<uint32_t>& mine = call.occurrences[g];
    mine.clear();
    ForEachRange(server, groups_[g], [&](uint32_t begin, uint32_t end) {
      mine.insert(mine.end(), occurrences_[g].begin() + begin, occurrences_[g].begin() + end);
    });
    push.occurrences = mine;
  }
  if (call.one_memory) {
    call.push.tensors = {args_.tensor_gradients.data(), args_.tensor_gradients.size()};
  } else {
    ForEachBlock(server, [this](const DenseBlock& block, float* values) {
      std::memcpy(values, tensor_gradients_[block.tensor].data() + block.offset, block.size * sizeof(float));
    });
    call.push.dense = call.dense;
    call.push.dense_sizes = call.dense_sizes;
  }
  call.push.whole = context_->config().sync().has_bsp();
  call.push.value_type = push_type_;
}

void BatchStep::StartPush(const PushRequest& prototype) {
  if (count_occurrences_) CountOccurrences();
  RoundGradients();
  const size_t servers = routes_->servers.size();
  pushes_.Reset(servers);
  for (size_t s = 0; s < servers; ++s) servers_[s]->pull_reply.shared = nullptr;
  for (size_t s = 0; s < servers; ++s) BuildPush(s, prototype);
  for (size_t s = 0; s < servers; ++s) IssuePush(s);
}

PushEnd BatchStep::Judge(const PushReply& reply, AnswerCounts* counts) const {
  PushEnd verdict = PushEnd::kDone;
  if (reply.outcome == RequestOutcome::kFenced) {
    ++counts->fenced;
    return PushEnd::kFenced;
  }
  if (reply.outcome == RequestOutcome::kStaleMap) {
    ++counts->stale_map;
    return PushEnd::kReopen;
  }
  bool duplicate = false, fenced = false, stale = false, misaligned = false, out_of_order = false;
  for (const PartitionAnswer& answer : reply.exceptions) {
    switch (answer.outcome) {
      case PushOutcome::kAccepted:
        break;
      case PushOutcome::kDuplicate:
        duplicate = true;
        break;
      case PushOutcome::kFenced:
        fenced = true;
        break;
      case PushOutcome::kStaleMap:
        stale = true;
        break;
      case PushOutcome::kMisaligned:
        misaligned = true;
        break;
      case PushOutcome::kOutOfOrder:
        out_of_order = true;
        break;
    }
  }
  // Counted once per push, however many partitions said it.
  counts->duplicate += duplicate;
  counts->fenced += fenced;
  counts->stale_map += stale;
  counts->misaligned += misaligned;
  counts->out_of_order += out_of_order;
  if (stale || misaligned || out_of_order) verdict = PushEnd::kReopen;
  return fenced ? PushEnd::kFenced : verdict;
}

absl::StatusOr<PushEnd> BatchStep::AwaitPush(AnswerCounts* counts) {
  const absl::StatusOr<CallsEnd> end = RepeatCalls(
      &pushes_, routes_->servers.size(), policy_, routes_->version, CallKind::kOther,
      [this](size_t s) { IssuePush(s); }, &retries_, routes_.get());
  counts->retries += std::exchange(retries_, 0);
  SHOAL_RETURN_IF_ERROR(end.status());
  if (*end == CallsEnd::kSuperseded) return PushEnd::kReopen;
  PushEnd verdict = PushEnd::kDone;
  pushes_between_ = 0;
  for (size_t s = 0; s < routes_->servers.size(); ++s) {
    const ServerCall& call = *servers_[s];
    verdict = std::max(verdict, Judge(call.push_reply, counts));
    if (call.push_reply.pushes_applied > call.pull_reply.pushes_applied) {
      pushes_between_ = std::max(pushes_between_, call.push_reply.pushes_applied - call.pull_reply.pushes_applied);
    }
  }
  if (verdict == PushEnd::kDone && policy_.memory != nullptr) policy_.memory->End();
  return verdict;
}

}  // namespace shoal
