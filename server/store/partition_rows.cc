// Reading and stepping a partition's rows.
#include <algorithm>
#include <vector>

#include "server/store/partition.h"

namespace shoal {

// The tables are made with the partition and stay, so that where they are needs no lock.
void Partition::ReadRows(absl::Span<const RowsRead> reads,
                         std::pmr::memory_resource* scratch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::pmr::vector<RowStream::Run> runs(scratch);
  runs.reserve(reads.size());
  bool states = false;
  for (const RowsRead& read : reads) {
    runs.push_back({read.partition, read.partition->tables_[read.table].get(), read.keys, read.hashes});
    states |= read.partition->schema_.expiry.ttl != 0;  // where it says whether the row is still there
  }
  RowStream stream(runs, states);
  for (size_t i = 0; i < reads.size(); ++i) {
    const Partition* const partition = reads[i].partition;
    if (i == 0 || partition != reads[i - 1].partition) stream.Enter();
    partition->tables_[reads[i].table]->Read(reads[i].keys, partition->examples_, &stream, reads[i].out);
    if (i + 1 == reads.size() || partition != reads[i + 1].partition) stream.Leave();
  }
}

void Partition::AddRuns(absl::Span<const RowGradients> rows, bool locked,
                        std::pmr::vector<RowStream::Run>* runs) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const Partition* const partition = locked ? nullptr : this;
  if (rows.empty()) runs->push_back({partition, nullptr, {}, {}});
  for (const RowGradients& some : rows) runs->push_back({partition, tables_[some.table].get(), some.keys, some.hashes});
}

void Partition::Step(absl::Span<const RowGradients> rows, const DenseGradients& dense, uint64_t examples,
                     RowStream* stream, PushTally* tally) {
  if (examples == 0) return;
  PushContext context;
  context.now = examples_;
  context.after = examples_ + examples;
  context.divisor = schema_.mean ? static_cast<float>(examples) : 1.0f;
  context.version = version_ + 1;
  context.factor = schema_.sparse_rule->Factor(examples_);
  for (const RowGradients& some : rows) tables_[some.table]->Apply(some, context, stream, tally);
  if (!dense.none()) {
    context.factor = schema_.dense_rule->Factor(examples_);
    dense_.Apply(dense, context, tally);
  }
  examples_ += examples;
  if (schema_.expiry.ttl != 0) {
    // Twice around the index per TTL: memory of expired rows comes back within half a TTL.
    for (auto& table : tables_) {
      const double share = 2.0 * static_cast<double>(examples) / static_cast<double>(schema_.expiry.ttl);
      const double cells = std::min(1.0, share) * static_cast<double>(table->cells());
      table->Sweep(examples_, static_cast<uint64_t>(cells) + 1, tally);
    }
  }
}

PushVerdict Partition::PushLocked(const PushRange& range, absl::Span<const RowGradients> rows,
                                  const DenseGradients& dense, RowStream* stream, PushTally* tally) {
  PushVerdict verdict = JudgeLocked(range);
  if (verdict.outcome == PushOutcome::kAccepted) {
    Step(rows, dense, range.examples, stream, tally);
    Advance(range);
    ++pushes_;
  } else if (verdict.outcome == PushOutcome::kDuplicate && range.end_of_split && verdict.watermark == range.end) {
    // The records are applied, but by a lane that did not say that they were the last: no later push will.
    Advance(range);
  }
  verdict.version = version_;
  verdict.mirrored =
      mirrored_ && (verdict.outcome == PushOutcome::kAccepted || verdict.outcome == PushOutcome::kDuplicate);
  return verdict;
}

// The stream takes the locks.
void Partition::Push(const PushRange& range, absl::Span<PartitionPush> pushes, PushTally* tally,
                     std::pmr::memory_resource* scratch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::pmr::vector<RowStream::Run> runs(scratch);
  for (const PartitionPush& push : pushes) push.partition->AddRuns(push.rows, false, &runs);
  RowStream stream(runs, true);
  for (PartitionPush& push : pushes) {
    stream.Enter();
    push.verdict = push.partition->PushLocked(range, push.rows, push.dense, &stream, tally);
    stream.Leave();
  }
}

PushVerdict Partition::Push(const PushRange& range, const PartitionGradients& gradients, PushTally* tally) {
  PartitionPush push{this, gradients.rows, gradients.dense};
  Push(range, {&push, 1}, tally);
  return push.verdict;
}

PushVerdict Partition::Push(const PushRange& range, const PartitionGradients& gradients, PushTally* tally,
                            TrackerId tracker, PartitionImage* delta) {
  std::pmr::vector<RowStream::Run> runs;
  AddRuns(gradients.rows, true, &runs);
  MutexLock lock(&mu_);
  RowStream stream(runs, true);
  stream.Enter();
  const uint64_t before = version_;
  const PushVerdict verdict = PushLocked(range, gradients.rows, gradients.dense, &stream, tally);
  if (version_ != before) *delta = TakeImage(tracker, 0);
  return verdict;
}

void Partition::ApplyRound(absl::Span<const PushRange> ranges, const PartitionGradients& gradients, uint64_t examples,
                           PushTally* tally) {
  std::pmr::vector<RowStream::Run> runs;
  AddRuns(gradients.rows, true, &runs);
  MutexLock lock(&mu_);
  RowStream stream(runs, true);
  stream.Enter();
  Step(gradients.rows, gradients.dense, examples, &stream, tally);
  ++version_;  // even if no range advances
  for (const PushRange& range : ranges) Advance(range);
  pushes_ += ranges.size();
}

}  // namespace shoal
