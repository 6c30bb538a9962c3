#include "scheduler/jobs/refused_batches.h"

#include <catch2/catch.hpp>

#include "base/random.h"

namespace shoal {
namespace {

JobPlan Plan() {
  JobPlan plan;
  for (const char* path : {"/data/a.csv", "/data/b.csv"}) plan.mutable_train()->add_files()->set_path(path);
  for (uint64_t s = 0; s < 6; ++s) {
    Split* const split = plan.mutable_train()->add_splits();
    split->set_file(s < 3 ? 0 : 1);
    split->set_begin(1000 * s);
    split->set_end(1000 * s + 1000);
  }
  plan.mutable_schema()->add_slots("C1");
  plan.mutable_schema()->add_slots("C2");
  plan.mutable_model()->add_tables()->set_name("wide");
  plan.mutable_model()->add_tensors()->set_name("bias");
  return plan;
}

// Batch `number` of a server: records [100 * number, + 100) of split 2, of which it refused `rows` of slot C2.
void Report(ServerJobReport* report, uint64_t number, uint64_t rows) {
  RefusedBatch* const batch = report->add_refused();
  batch->set_number(number);
  batch->set_lane(5);
  batch->set_pass(1);
  batch->set_split(2);
  batch->set_begin(100 * number);
  batch->set_end(100 * number + 100);
  RefusedRows* const refused = batch->add_rows();
  refused->set_slot_index(1);
  refused->set_rows(rows);
  report->set_refused_batches(number);
}

TEST_CASE("RefusedBatches: servers' reports of a batch become one, with names and the place in the file",
          "[scheduler][unit]") {
  const JobPlan plan = Plan();
  RefusedBatches batches(plan, 7);
  batches.NameLane(5, "w0");
  ServerJobReport one, two;
  Report(&one, 1, 3);
  Report(&two, 1, 4);
  RefusedRows* const block = two.mutable_refused(0)->add_rows();
  block->set_dense(true);
  block->set_rows(1);
  const uint32_t source = SplitOrder(7, 1, 6)[2];
  const std::vector<std::string> lines = batches.Take(100, one);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "guard refused w0's batch of pass 1 split 2 records [100, 200) of " +
                        std::string(source < 3 ? "/data/a.csv" : "/data/b.csv") + " bytes [" +
                        std::to_string(1000 * source) + ", " + std::to_string(1000 * source + 1000) +
                        "): wide/C2 3 rows");
  CHECK(batches.Take(101, two).empty());
  CHECK(batches.Take(100, one).empty());  // the same report again
  JobStatus status;
  batches.Fill(&status);
  CHECK(status.refused_batches() == 1);
  REQUIRE(status.refused_size() == 1);
  REQUIRE(status.refused(0).rows_size() == 2);
  CHECK(status.refused(0).rows(0).rows() == 7);
  CHECK(status.refused(0).rows(0).slot() == "C2");
  CHECK(status.refused(0).rows(1).table() == "bias");
  CHECK(status.refused(0).worker() == "w0");
  CHECK(status.refused(0).file_begin() == 1000 * source);
}

TEST_CASE("RefusedBatches: the newest are kept, the log gets fewer and fewer lines", "[scheduler][unit]") {
  const JobPlan plan = Plan();
  RefusedBatches batches(plan, 7);
  size_t lines = 0;
  for (uint64_t number = 1; number <= 100; ++number) {
    ServerJobReport report;
    Report(&report, number, 1);
    lines += batches.Take(100, report).size();
  }
  CHECK(lines == 8 + 3);  // 1 to 8, then 16, 32 and 64
  // A restarted server counts from 1 again.
  ServerJobReport restarted;
  Report(&restarted, 1, 1);
  restarted.mutable_refused(0)->set_split(77);  // outside the plan: no file, no crash
  batches.Take(101, restarted);
  JobStatus status;
  batches.Fill(&status);
  CHECK(status.refused_batches() == 100);
  REQUIRE(status.refused_size() == 32);
  CHECK(status.refused(0).begin() == 7000);
  CHECK((status.refused(31).split() == 77 && status.refused(31).file().empty()));
}

}  // namespace
}  // namespace shoal
