// Tests of LoadJob with good input: values, defaults, shorthands, overrides, and the way back to YAML.
#include "proto/job/job_file.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace shoal {
namespace {

constexpr char kCensus[] = R"(name: census-wide-deep
data:
  train: [adult.data.gz]            # relative to the job file
  eval:  [adult.test.gz]
  format: {csv: {header: true, delimiter: ",", trim: true, missing: "?"}}
  columns:
    label:  {column: Y, positive: [">50K", ">50K."]}
    dense:  [{column: age, scale: 0.01}, {column: capital-gain, transform: log1p}]
    sparse: [workclass, education, {bucketize: age, boundaries: [18, 25, 35, 50, 65]}, {cross: [education, occupation]}]
  passes: 4
  shuffle: {records: 10000}
model: {preset: wide_deep, embedding_dim: 8, hidden: [64, 32]}
optimizer: {sparse: {rowwise_adagrad: {learning_rate: 0.05}}, dense: {adam: {learning_rate: 0.001}}}
batch: {size: 256, reduce: mean}
sync: {ssp: {staleness: 4}}
partitions: 256
workers: {min: 1}
checkpoint: {dir: ckpt, every: 60s, keep: 3}
seed: 42
)";

constexpr char kSmall[] = R"(name: small
data: {train: a.svm, format: libsvm}
model: {preset: lr}
)";

Job Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::StatusOr<Job> job = LoadJobFromText(text, "job.yaml", "/jobs", overrides);
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *job;
}

bool Equal(const Job& a, const Job& b) { return google::protobuf::util::MessageDifferencer::Equals(a, b); }

TEST_CASE("LoadJob: the census example gives the values it says", "[proto][unit]") {
  const Job job = Load(kCensus);
  CHECK(job.name() == "census-wide-deep");
  REQUIRE(job.data().train_size() == 1);
  CHECK(job.data().train(0).path() == "/jobs/adult.data.gz");
  CHECK(job.data().train(0).rows_size() == 0);
  CHECK(job.data().eval(0).path() == "/jobs/adult.test.gz");
  const CsvFormat& csv = job.data().format().csv();
  CHECK(csv.header());
  CHECK(csv.trim());
  CHECK(csv.delimiter() == ",");
  CHECK(csv.quote() == "\"");
  CHECK(csv.missing() == "?");
  const Columns& columns = job.data().columns();
  CHECK(columns.label().column() == "Y");
  CHECK(columns.label().positive(1) == ">50K.");
  REQUIRE(columns.dense_size() == 2);
  CHECK(columns.dense(0).scale() == 0.01f);
  CHECK(columns.dense(1).scale() == 1.0f);
  CHECK(columns.dense(1).transform() == DenseColumn::LOG1P);
  REQUIRE(columns.sparse_size() == 4);
  CHECK(columns.sparse(0).column() == "workclass");
  CHECK(columns.sparse(0).name() == "workclass");
  CHECK(columns.sparse(2).boundaries(4) == 65.0);
  CHECK(columns.sparse(2).name() == "age_bucket");
  CHECK(columns.sparse(3).name() == "education_x_occupation");
  CHECK(job.data().passes() == 4);
  CHECK(job.data().shuffle().records() == 10000);
  CHECK(job.data().split_bytes() == 0);
  CHECK(job.model().preset() == Model::WIDE_DEEP);
  CHECK(job.model().hidden(1) == 32);
  CHECK(job.optimizer().sparse().rowwise_adagrad().learning_rate() == 0.05f);
  CHECK(job.optimizer().sparse().rowwise_adagrad().epsilon() == 1e-8f);
  CHECK(job.optimizer().dense().adam().beta2() == 0.999f);
  CHECK(job.batch().reduce() == BatchConfig::MEAN);
  CHECK(job.sync().ssp().staleness() == 4);
  CHECK(job.checkpoint().dir() == "/jobs/ckpt");
  CHECK(job.checkpoint().every() == 60000);
  CHECK(job.seed() == 42);
}

TEST_CASE("LoadJob: absent keys get their defaults, absent parts that mean something stay absent", "[proto][unit]") {
  const Job job = Load(kSmall);
  CHECK(job.data().train(0).path() == "/jobs/a.svm");
  CHECK_FALSE(job.data().format().libsvm().one_based());
  CHECK(job.data().passes() == 1);
  CHECK(job.data().shuffle().records() == 10000);
  CHECK(job.model().embedding_dim() == 8);
  CHECK(job.model().embedding_init() == 0.01f);
  CHECK(job.model().outputs() == 1);
  CHECK(job.optimizer().sparse().rowwise_adagrad().learning_rate() == 0.05f);
  CHECK(job.optimizer().dense().adam().learning_rate() == 0.001f);
  CHECK_FALSE(job.optimizer().dense().has_schedule());
  CHECK(job.batch().size() == 256);
  CHECK(job.sync().ssp().staleness() == 4);
  CHECK(job.partitions() == 256);
  CHECK(job.workers().min() == 1);
  CHECK(job.seed() == 1);
  CHECK(job.admission().min_count() == 1);
  CHECK(job.has_ttl());
  CHECK(job.guard().max_abs() == 1e6f);
  CHECK(job.has_memory());
  CHECK(job.has_evaluate());
  CHECK_FALSE(job.has_checkpoint());
  CHECK_FALSE(job.data().has_columns());
}

TEST_CASE("LoadJob: an explicit zero is not an absent key", "[proto][unit]") {
  const Job job = Load(std::string(kSmall) + "seed: 0\nworkers: {min: 0}\nsync: {ssp: 0}\n", {"data.shuffle=0"});
  CHECK(job.seed() == 0);
  CHECK(job.workers().min() == 0);
  CHECK(job.sync().ssp().staleness() == 0);
  CHECK(job.data().shuffle().records() == 0);
  CHECK(Equal(job, *LoadJobFromText(ResolvedYaml(job), "resolved", "/elsewhere")));
}

TEST_CASE("LoadJob: shorthands, aliases, numbers, units and empty values", "[proto][unit]") {
  const Job job = Load(R"(
name: "42"
data:
  train: [{path: x/../a.tsv, rows: [0, 7000]}, /abs/*.tsv, "caf\u00e9.tsv"]
  format: {criteo: }
  split_bytes: 1MB
model: {preset: fm, embedding_init: 1e-3}
optimizer: {sparse: &o {sgd: 0.1, schedule: {warmup_examples: 100}}, dense: *o}
sync: asp
admission: 5
ttl: 1000
checkpoint: {dir: /c, every: 1m30s}
memory: {soft_limit: 4MiB, hard_limit: "1GB"}
)");
  CHECK(job.name() == "42");
  CHECK(job.data().train(0).path() == "/jobs/a.tsv");
  CHECK(job.data().train(0).rows(1) == 7000);
  CHECK(job.data().train(1).path() == "/abs/*.tsv");
  CHECK(job.data().train(2).path() == "/jobs/caf\xc3\xa9.tsv");
  CHECK(job.data().format().criteo().delimiter() == "\t");
  CHECK(job.data().split_bytes() == 1000000);
  CHECK(job.model().embedding_init() == 0.001f);
  CHECK(job.optimizer().dense().sgd().learning_rate() == 0.1f);
  CHECK(job.optimizer().dense().schedule().has_constant());
  CHECK(job.optimizer().dense().schedule().warmup_examples() == 100);
  CHECK(job.sync().has_asp());
  CHECK(job.sync().asp().pull_ahead());
  CHECK(job.admission().min_count() == 5);
  CHECK(job.ttl().examples() == 1000);
  CHECK(job.checkpoint().every() == 90000);
  CHECK(job.memory().soft_limit() == 4194304);
  CHECK(job.memory().hard_limit() == 1000000000);
  CHECK(Load(std::string(kSmall) + "sync: {bsp: 4}\n").sync().bsp().lanes() == 4);
  CHECK(Load(std::string(kSmall)).sync().ssp().pull_ahead());
  CHECK(Load(std::string(kSmall) + "sync: {ssp: 4}\n").sync().ssp().pull_ahead());
  CHECK_FALSE(Load(std::string(kSmall) + "sync: {ssp: {staleness: 4, pull_ahead: false}}\n").sync().ssp().pull_ahead());
  CHECK_FALSE(Load(kSmall, {"sync.asp.pull_ahead=false"}).sync().asp().pull_ahead());
}

TEST_CASE("LoadJob: overrides change, add, append, switch and remove", "[proto][unit]") {
  const Job job =
      Load(kCensus, {"batch.size=512", "data.train=[a.gz, b.gz]", "data.train.1.rows=[5, 9]", "data.train.2=c.gz",
                     "model.hidden.0=7", "optimizer.sparse.sgd=0.5", "sync.bsp.lanes=2",
                     "checkpoint=", "data.columns.dense.0.transform=log1p", "evaluate={exact_auc: true}",
                     "data.format.csv.missing=NA", "data.eval=null", "guard.max_abs=1e3", "memory.hard_limit=0",
                     "batch.reduce=null", "seed=~", "warm_start="});
  CHECK(job.seed() == 1);
  CHECK(job.batch().size() == 512);
  CHECK(job.batch().reduce() == BatchConfig::MEAN);
  REQUIRE(job.data().train_size() == 3);
  CHECK(job.data().train(1).path() == "/jobs/b.gz");
  CHECK(job.data().train(1).rows(0) == 5);
  CHECK(job.data().train(2).path() == "/jobs/c.gz");
  CHECK(job.data().eval_size() == 0);
  CHECK(job.model().hidden(0) == 7);
  CHECK(job.model().hidden(1) == 32);
  CHECK(job.optimizer().sparse().sgd().learning_rate() == 0.5f);
  CHECK(job.sync().bsp().lanes() == 2);
  CHECK_FALSE(job.has_checkpoint());
  CHECK(job.data().columns().dense(0).transform() == DenseColumn::LOG1P);
  CHECK(job.evaluate().exact_auc());
  CHECK(job.data().format().csv().missing() == "NA");
  CHECK(job.guard().max_abs() == 1000.0f);
  // Shorthands in the file are written out on the way.
  const Job small = Load(kSmall, {"data.train.0.rows=[1, 2]", "data.format.libsvm.one_based=true"});
  CHECK(small.data().train(0).path() == "/jobs/a.svm");
  CHECK(small.data().train(0).rows(1) == 2);
  CHECK(small.data().format().libsvm().one_based());
}

TEST_CASE("ResolvedYaml: reads back to an equal job, with units", "[proto][unit]") {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"checkpoint.every=1500ms", "memory.hard_limit=1000", "data.max_bad_records=0", "data.format.csv.quote="},
      {"optimizer.dense={adam: {learning_rate: 3e-4, beta1: 0}, schedule: {step: {boundaries_examples: [1, 2]}}}"},
      {"model={layers: [{name: e, embedding: {dim: 4, init: 0}}, {name: c, concat: }, {name: l, inputs: [c, dense], "
       "linear: {units: 1, bias: false}}]}"},
      {"data.columns.id=\"a \\\" \\\\ \\n # : é\"", "seed=18446744073709551615", "sync=asp", "data.split_bytes=1MiB"}};
  for (const std::vector<std::string>& overrides : variants) {
    const Job job = Load(kCensus, overrides);
    const std::string yaml = ResolvedYaml(job);
    INFO(yaml);
    const absl::StatusOr<Job> again = LoadJobFromText(yaml, "resolved.yaml", "/elsewhere");
    INFO(again.status().message());
    REQUIRE(again.ok());
    CHECK(Equal(job, *again));
    CHECK(ResolvedYaml(*again) == yaml);
    CHECK(JobDigest(*again) == JobDigest(job));
  }
  const std::string yaml = ResolvedYaml(Load(kCensus, {"data.split_bytes=4MiB"}));
  CHECK(yaml.find("every: 60s") != std::string::npos);
  CHECK(yaml.find("split_bytes: 4MiB") != std::string::npos);
  CHECK(yaml.find("exact_auc: false") != std::string::npos);
}

TEST_CASE("JobDigest: frozen for a given job, different for another", "[proto][unit]") {
  const std::string digest = JobDigest(Load(kSmall));
  CHECK(digest.size() == 32);
  CHECK(digest == JobDigest(Load(kSmall)));
  CHECK(digest != JobDigest(Load(kSmall, {"seed=2"})));
}

TEST_CASE("LoadJob: files that cannot be read", "[proto][unit]") {
  CHECK(LoadJob("/no/such/job.yaml").status().code() == absl::StatusCode::kNotFound);
  CHECK(LoadJob("/no/such/job.yaml").status().message() ==
        "cannot read job file /no/such/job.yaml: No such file or directory");
  CHECK(LoadJob("/").status().message() == "/ is a directory, not a job file");
}

}  // namespace
}  // namespace shoal
