#include "scheduler/jobs/job_metrics.h"

#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace shoal
