#include "scheduler/jobs/job_metrics.h"

#include <catch2/catch.hpp>

#include "scheduler/jobs/event_log.h"

namespace shoal {
namespace {

SlotReport* AddSlot(ServerJobReport* report, uint32_t slot, uint64_t rows) {
  SlotReport* const out = report->add_slots();
  out->set_slot_index(slot);
  out->set_rows(rows);
  out->set_keys(2 * rows);
  out->set_bytes(100 * rows);
  out->set_guard_refused(1);
  out->set_not_admitted(2);
  out->set_memory_refused(3);
  out->set_expired(4);
  return out;
}

TEST_CASE("JobMetrics: slots are summed over servers and named, lanes are the most at one time", "[scheduler][unit]") {
  JobPlan plan;
  plan.mutable_schema()->add_slots("C1");
  plan.mutable_schema()->add_slots("C2");
  plan.mutable_model()->add_tables()->set_name("wide");
  JobMetrics metrics(plan, 1);
  ServerJobReport one, two;
  AddSlot(&one, 0, 10);
  AddSlot(&one, 1, 20);
  AddSlot(&two, 1, 5);
  metrics.SetServerReport("s0", one);
  metrics.SetServerReport("s1", one);
  metrics.SetServerReport("s1", two);  // the newest report of a server counts
  metrics.NameLane(1, "w0", 1);
  metrics.NameLane(2, "w0", 2);
  metrics.NameLane(3, "w0", 1);
  WorkerJobReport work;
  work.set_examples(7);
  metrics.AddWorkerReport("w0", work);
  JobStatus status;
  metrics.Fill(false, false, &status);
  REQUIRE(status.slots_size() == 2);
  CHECK((status.slots(0).table() == "wide" && status.slots(0).slot() == "C1" && status.slots(0).rows() == 10));
  const SlotReport& sum = status.slots(1);
  CHECK((sum.slot() == "C2" && sum.rows() == 25 && sum.keys() == 50 && sum.bytes() == 2500));
  CHECK((sum.guard_refused() == 2 && sum.not_admitted() == 4 && sum.memory_refused() == 6 && sum.expired() == 8));
  REQUIRE(status.servers_size() == 2);
  CHECK(status.servers(0).report().slots().empty());
  REQUIRE(status.workers_size() == 1);
  CHECK((status.workers(0).lanes() == 2 && status.workers(0).examples() == 7));
}

TEST_CASE("JobMetrics: the rows of a server that is gone are elsewhere, what it refused stays", "[scheduler][unit]") {
  JobPlan plan;
  plan.mutable_schema()->add_slots("C1");
  plan.mutable_model()->add_tables()->set_name("wide");
  JobMetrics metrics(plan, 1);
  ServerJobReport left, stays;
  AddSlot(&left, 0, 10);
  left.set_rows(10);
  left.set_bytes(1000);
  left.set_pushes(5);
  AddSlot(&stays, 0, 25);
  metrics.SetServerReport("s0", left);
  metrics.SetServerReport("s1", stays);
  metrics.ServerGone("s0");
  metrics.ServerGone("s2");  // has said nothing
  JobStatus status;
  metrics.Fill(false, false, &status);
  REQUIRE(status.slots_size() == 1);
  const SlotReport& sum = status.slots(0);
  CHECK((sum.rows() == 25 && sum.bytes() == 2500 && sum.guard_refused() == 2 && sum.expired() == 8));
  REQUIRE(status.servers_size() == 2);
  const ServerJobReport& report = status.servers(0).report();
  CHECK((report.rows() == 0 && report.bytes() == 0 && report.pushes() == 5));
}

MetricSegment Segment(uint64_t split, uint64_t begin, uint64_t end) {
  MetricSegment segment;
  segment.set_split(split);
  segment.set_begin(begin);
  segment.set_end(end);
  segment.mutable_sums()->set_examples(end - begin);
  return segment;
}

uint64_t TrainExamples(const JobMetrics& metrics) {
  JobStatus status;
  metrics.Fill(true, false, &status);
  return status.train().examples();
}

JobPlan PlanOf(int splits) {
  JobPlan plan;
  for (int s = 0; s < splits; ++s) plan.mutable_train()->add_splits();
  return plan;
}

PartitionDone Done(uint64_t prefix, uint64_t examples, uint64_t open_split = 0, uint64_t watermark = 0) {
  PartitionDone done;
  done.set_prefix(prefix);
  done.set_examples(examples);
  if (watermark == 0) return done;
  OpenSplitState* const open = done.add_open();
  open->set_split(open_split);
  open->set_watermark(watermark);
  return done;
}

TEST_CASE("EventLog: what is stored is the end of it, bounded; the life before comes first", "[scheduler][unit]") {
  EventLog log;
  for (int i = 0; i < 300; ++i) log.Add("line " + std::to_string(i));
  CHECK(log.added() == 300);
  const JobLogs stored = log.ToStore();
  REQUIRE(stored.lines_size() == EventLog::kStoredLines);
  CHECK(stored.lines(stored.lines_size() - 1).find("line 299") != std::string::npos);
  EventLog next;
  next.Add("new");
  next.Load(stored);
  CHECK(next.ToProto().lines(0) == stored.lines(0));
  CHECK(next.ToProto().lines(stored.lines_size()).find("new") != std::string::npos);
  for (int i = 0; i < 100; ++i) log.Add(std::string(10000, 'x'));
  CHECK(log.ToStore().ByteSizeLong() < EventLog::kStoredBytes + 1000);
}

TEST_CASE("JobMetrics: segments count once, in any order", "[scheduler][unit]") {
  const JobPlan plan = PlanOf(4);
  JobMetrics metrics(plan, 1);
  const auto add = [&](uint64_t split, uint64_t begin, uint64_t end) {
    REQUIRE(metrics.AddSegment(Segment(split, begin, end), false).ok());
    return metrics.examples();
  };
  // The lane that went on with the split was heard of first.
  CHECK(add(0, 20, 40) == 20);
  CHECK(add(0, 0, 20) == 40);
  CHECK(add(0, 0, 20) == 40);
  CHECK(add(0, 30, 50) == 40);  // some of it is counted
  CHECK(add(0, 40, 40) == 40);
  metrics.ExpectRecords(0, 0, 60);
  CHECK_FALSE(metrics.Complete());
  CHECK(add(0, 40, 60) == 60);
  CHECK(metrics.Complete());
  CHECK(add(0, 60, 70) == 60);  // it is counted to its end
  CHECK(metrics.Lease(0, 0, true) == ~uint64_t{0});
  metrics.ExpectRecords(0, 1, 10);
  CHECK(add(1, 5, 10) == 65);
  CHECK_FALSE(metrics.Complete());
  CHECK(metrics.Lease(0, 1, true) == 10);
  CHECK(add(1, 0, 5) == 70);
  CHECK(metrics.Complete());
  metrics.ExpectRecords(0, 2, 0);
  CHECK(metrics.Complete());
  CHECK(TrainExamples(metrics) == 70);
}

TEST_CASE("JobMetrics: a run that goes back neither loses nor doubles segments", "[scheduler][unit]") {
  const JobPlan plan = PlanOf(4);
  JobMetrics metrics(plan, 1);
  metrics.Lease(0, 0, true);
  metrics.Lease(0, 1, true);
  REQUIRE(metrics.AddSegment(Segment(0, 0, 30), false).ok());
  metrics.BeginRun();
  // Split 0 is leased from record 10 on, split 1 is done in the checkpoint: its segment is on its way.
  CHECK(metrics.Lease(0, 0, false) == 30);
  REQUIRE(metrics.AddSegment(Segment(1, 0, 40), true).ok());
  CHECK(metrics.examples() == 70);
  REQUIRE(metrics.AddSegment(Segment(0, 30, 40), true).ok());  // the new lease counts it
  CHECK(metrics.examples() == 70);
  for (uint64_t begin : {10, 20}) REQUIRE(metrics.AddSegment(Segment(0, begin, begin + 10), false).ok());
  REQUIRE(metrics.AddSegment(Segment(0, 30, 60), false).ok());
  CHECK(metrics.examples() == 100);
  CHECK(TrainExamples(metrics) == 100);
}

TEST_CASE("JobMetrics: what was counted survives; partitions know what was applied meanwhile", "[scheduler][unit]") {
  const JobPlan plan = PlanOf(4);
  JobMetrics before(plan, 1);
  REQUIRE(before.AddSegment(Segment(0, 0, 50), false).ok());
  before.ExpectRecords(0, 0, 50);
  REQUIRE(before.AddSegment(Segment(1, 0, 20), false).ok());
  WorkerJobReport work;
  work.set_batches(3);
  before.AddWorkerReport("w0", work);
  ServerJobReport refusing;
  refusing.set_refused_batches(1);
  refusing.add_refused()->set_number(1);
  CHECK(before.TakeRefused(7, refusing).size() == 1);
  StoredProgress stored;
  before.Save(&stored);
  JobMetrics after(plan, 1);
  REQUIRE(after.Load(stored).ok());
  JobStatus was, is;
  before.Fill(true, false, &was);
  after.Fill(true, false, &is);
  CHECK(is.SerializeAsString() == was.SerializeAsString());
  CHECK(after.TakeRefused(7, refusing).empty());
  CHECK(after.Complete());
  // Since then, split 1 went on to 40 everywhere and to 50 in one partition; split 2 was done.
  const std::vector<PartitionDone> reported = {Done(1, 130, 1, 40), Done(1, 140, 1, 50)};
  DoneSet done(1);
  done.Add(2);
  after.Settle(reported, done);
  CHECK(after.examples() == 130);
  // Their segments come late; the batch that not all have is computed again.
  REQUIRE(after.AddSegment(Segment(1, 20, 40), false).ok());
  REQUIRE(after.AddSegment(Segment(2, 0, 40), false).ok());
  CHECK(after.examples() == 130);
  REQUIRE(after.AddSegment(Segment(1, 40, 60), false).ok());
  CHECK(after.examples() == 150);
  CHECK(TrainExamples(after) == 150);
}

TEST_CASE("JobMetrics: a job that goes on from a checkpoint goes on counting", "[scheduler][unit]") {
  const JobPlan plan = PlanOf(4);
  JobMetrics metrics(plan, 1);
  metrics.GoOnFrom(std::vector<PartitionDone>{Done(1, 70, 1, 20), Done(1, 80, 1, 30)}, DoneSet(1));
  CHECK((metrics.examples() == 70 && metrics.examples_before() == 70));
  CHECK(metrics.Lease(0, 1, true) == 20);
  REQUIRE(metrics.AddSegment(Segment(1, 20, 50), false).ok());
  metrics.ExpectRecords(0, 1, 50);
  CHECK(metrics.Complete());
  CHECK(metrics.examples() == 100);
  CHECK(TrainExamples(metrics) == 30);
}

}  // namespace
}  // namespace shoal
