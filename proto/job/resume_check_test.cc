#include "proto/job/resume_check.h"

#include <catch2/catch.hpp>

#include "proto/job/job_file.h"

namespace shoal {
namespace {

constexpr char kJob[] = R"(name: a
data: {train: [x.tsv, y.tsv], eval: z.tsv, format: criteo}
model: {preset: lr}
optimizer: {sparse: {adagrad: {learning_rate: 0.1}}}
batch: {size: 100}
sync: asp
checkpoint: {dir: /c}
)";

Job Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::StatusOr<Job> job = LoadJobFromText(text, "j", "/jobs", overrides);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  return *job;
}

JobPlan Plan() {
  JobPlan plan;
  for (const char* path : {"/jobs/x.tsv", "/jobs/y.tsv"}) {
    InputFile* file = plan.mutable_train()->add_files();
    file->set_path(path);
    file->set_content_bytes(1000);
    file->set_content_hash(7);
  }
  for (uint32_t s = 0; s < 4; ++s) {
    Split* split = plan.mutable_train()->add_splits();
    split->set_file(s / 2);
    split->set_begin(s % 2 * 500);
    split->set_end(s % 2 * 500 + 500);
  }
  return plan;
}

Manifest Of(const Job& job) {
  Manifest manifest;
  *manifest.mutable_job() = job;
  *manifest.mutable_plan() = Plan();
  manifest.set_sequence(3);
  return manifest;
}

TEST_CASE("CheckResumes: what training does not depend on may change", "[unit]") {
  const Manifest manifest = Of(Load(kJob));
  const JobPlan plan = Plan();
  CHECK(CheckResumes(manifest, Load(kJob), &plan).ok());
  const Job changed = Load(kJob, {"name=b", "checkpoint={dir: /d, every: 5s, keep: 9}", "data.eval=[w.tsv]",
                                  "workers={min: 2}", "memory.hard_limit=1GB"});
  CHECK(CheckResumes(manifest, changed, &plan).ToString() == "OK");
}

TEST_CASE("CheckResumes: names every field that differs, with both values", "[unit]") {
  const Manifest manifest = Of(Load(kJob));
  const Job job = Load(kJob, {"seed=9", "optimizer.sparse.adagrad.learning_rate=0.5", "batch.size=200", "ttl=1000"});
  const std::vector<std::string> differences = JobDifferences(manifest, job);
  CHECK(differences == std::vector<std::string>{"batch.size: 200, was 100",
                                                "optimizer.sparse.adagrad.learning_rate: 0.5, was 0.1",
                                                "seed: 9, was 1", "ttl.examples: 1000, was 0"});
  const absl::Status status = CheckResumes(manifest, job, nullptr);
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message().find("(sequence 3 of job a) is of another training:\n  batch.size: 200, was 100\n") !=
        absl::string_view::npos);
  CHECK(JobDifferences(manifest, Load(kJob, {"sync={ssp: {staleness: 2}}"})) ==
        std::vector<std::string>{"sync.asp.pull_ahead: absent, was true", "sync.ssp.pull_ahead: true, was absent",
                                 "sync.ssp.staleness: 2, was absent"});
  CHECK(JobDifferences(manifest, Load(kJob, {"sync.asp.pull_ahead=false"})).empty());
}

TEST_CASE("CheckResumes: names the input that is gone, new, longer, other or elsewhere", "[unit]") {
  const Manifest manifest = Of(Load(kJob));
  const auto differences = [&](auto change) {
    JobPlan plan = Plan();
    change(plan.mutable_train());
    return InputDifferences(manifest, plan);
  };
  using Found = std::vector<std::string>;
  CHECK(differences([](InputPlan*) {}).empty());
  CHECK(differences([](InputPlan* p) { p->mutable_files(1)->set_content_bytes(1001); }) ==
        Found{"data.train: /jobs/y.tsv holds 1001 bytes, held 1000"});
  CHECK(differences([](InputPlan* p) { p->mutable_files(0)->set_content_hash(8); }) ==
        Found{"data.train: /jobs/x.tsv has other content: hash 0000000000000008, was 0000000000000007"});
  CHECK(differences([](InputPlan* p) { p->mutable_files(0)->set_path("/jobs/v.tsv"); }) ==
        Found{"data.train: /jobs/x.tsv is not among the inputs any more",
              "data.train: /jobs/v.tsv is new among the inputs"});
  CHECK(differences([](InputPlan* p) { p->mutable_files()->SwapElements(0, 1); }) ==
        Found{"data.train: file 0 is /jobs/y.tsv, was /jobs/x.tsv: the order of the inputs has changed"});
  CHECK(differences([](InputPlan* p) { p->mutable_splits()->RemoveLast(); }) == Found{"data.train: 3 splits, were 4"});
  CHECK(differences([](InputPlan* p) { p->mutable_splits(1)->set_end(999); }) ==
        Found{"data.train: split 1 is [500, 999) of file 0, was [500, 1000) of file 0"});
  CHECK(differences([](InputPlan* p) {
          for (int f = 0; f < 30; ++f) p->add_files()->set_path("/jobs/n" + std::to_string(f));
        }).back() == "... and 20 more");
}

}  // namespace
}  // namespace shoal
