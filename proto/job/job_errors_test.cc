// Tests of LoadJob with bad input: each line of the table is a file (or an override) and the exact message.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/job/job_file.h"

namespace shoal {
namespace {

using Catch::Contains;

// The message for `text`; "OK" when it loads.
std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::StatusOr<Job> job = LoadJobFromText(text, "j", "/jobs", overrides);
  if (job.ok()) return "OK";
  CHECK(job.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

struct BadInput {
  std::string text;
  std::string expected;
};

// A good job without the part that a case is about; the case's text follows at line 4.
constexpr char kHead[] = "name: n\ndata: {train: a, format: libsvm}\nmodel: {preset: lr}\n";

void CheckAll(const std::vector<BadInput>& cases, const std::string& head = "") {
  for (const BadInput& bad : cases) {
    INFO(bad.text);
    CHECK(ErrorOf(head + bad.text) == bad.expected);
  }
}

TEST_CASE("LoadJob errors: a key where it means nothing", "[proto][unit]") {
  CheckAll(
      {{"sync: {bsp: {lanes: 2, pull_ahead: false}}\n", "j:4:24: sync.bsp.pull_ahead: unknown key; known here: lanes"},
       {"optimizer: {sparse: {sgd: 1, schedule: {constant: {x: 1}}}}\n",
        "j:4:52: optimizer.sparse.schedule.constant.x: unknown key; nothing can be set here"}},
      kHead);
}

TEST_CASE("LoadJob errors: keys", "[proto][unit]") {
  CheckAll({{"optimizer:\n  sparse:\n    adam: {learning_rat: 1}\n",
             "j:6:11: optimizer.sparse.adam.learning_rate: required but missing\n"
             "j:6:12: optimizer.sparse.adam.learning_rat: unknown key; did you mean learning_rate?"},
            {"batch: {zzz: 1}\n", "j:4:9: batch.zzz: unknown key; known here: size, reduce"},
            {"sync: {asp: {x: 1}}\n", "j:4:14: sync.asp.x: unknown key; known here: pull_ahead"},
            {"seed: 1\nseed: 2\n", "j:5:1: seed: duplicate key; first set at line 4"},
            {"batch:\n  size: 1\n  size: 1\n", "j:6:3: batch.size: duplicate key; first set at line 5"},
            {"{a: 1}: 2\n", "j:4:1: a key must be a name"},
            {"replicas: 3\n", "j:4:11: replicas: 3 is too large: must be <= 2"},
            {"recovery: rolback\n",
             "j:4:11: recovery: \"rolback\" is not one of default, catch_up, rollback; did you mean rollback?"},
            {"delivery: x\nearly_stopping: x\npriority: 1\nmemory_quota: 1MiB\n",
             "j:4:1: delivery: not yet supported; remove it\nj:5:1: early_stopping: not yet supported; remove it\n"
             "j:6:1: priority: not yet supported; remove it\nj:7:1: memory_quota: not yet supported; remove it"},
            {"hot_rows: 1MiB\nsync: {bsp: 4}\n",
             "j:4:11: hot_rows: rows are kept between batches in asp and ssp only: a bsp round reads what the round "
             "before wrote"},
            {"hot_rows: 1TiB\n", "j:4:11: hot_rows.bytes: 1TiB is too large: must be <= 16GiB"},
            {"checkpoint: {dir: c, every: 18446744073709551615ms}\n",
             "j:4:29: checkpoint.every: 18446744073709551615ms is too large: must be <= 31536000s"},
            {"hot_rows: {staleness: 8}\n", "j:4:23: hot_rows.staleness: no rows are kept without hot_rows.bytes"},
            {"warm_start: {checkpoint: c, tables: [a, b, a]}\n", "j:4:44: warm_start.tables.2: \"a\" is named twice"},
            {"precision: f16\n", "j:4:12: precision: \"f16\" is not one of f32, bf16; did you mean bf16?"},
            {"wire: {push: bf17}\n", "j:4:14: wire.push: \"bf17\" is not one of f32, bf16, f16; did you mean bf16?"},
            {"wire: bf16\n", "j:4:7: wire: a mapping ({key: value}) is expected, not a single value"},
            {"workers: {max: 3}\n", "j:4:11: workers.max: not yet supported; remove it"},
            {"evaluate: {every: 1s}\n", "j:4:12: evaluate.every: not yet supported; remove it"},
            {"sync:\n  bsp: 4\n  ssp: 4\n",
             "j:6:3: sync: only one of bsp, ssp, asp may be set; found bsp at line 5 and ssp at line 6"},
            {"sync: {}\n", "j:4:7: sync: one of bsp, ssp, asp must be set"},
            {"sync: bps\n", "j:4:7: sync: unknown choice \"bps\"; did you mean bsp?"},
            {"sync: bsp\n", "j:4:7: sync.bsp.lanes: required but missing"},
            {"checkpoint: {every: 1s}\n", "j:4:13: checkpoint.dir: required but missing"},
            {"checkpoint: {dir: \"\"}\n", "j:4:19: checkpoint.dir: must not be empty"}},
           kHead);
}

TEST_CASE("LoadJob errors: values", "[proto][unit]") {
  CheckAll(
      {{"partitions: 0\n", "j:4:13: partitions: 0 is too small: must be >= 1"},
       {"partitions: -1\n", "j:4:13: partitions: -1 is too small: must be >= 1"},
       {"seed: -1\n", "j:4:7: seed: -1 is too small: must be >= 0"},
       {"partitions: 65537\n", "j:4:13: partitions: 65537 is too large: must be <= 65536"},
       {"partitions: 4294967296\n", "j:4:13: partitions: 4294967296 does not fit: must be <= 65536"},
       {"seed: 18446744073709551616\n",
        "j:4:7: seed: 18446744073709551616 does not fit: must be <= 18446744073709551615"},
       {"partitions: 1.5\n", "j:4:13: partitions: \"1.5\" is not a whole number"},
       {"partitions: '8'\n", "j:4:13: partitions: \"8\" is not a whole number"},
       {"partitions: 0x8\n", "j:4:13: partitions: \"0x8\" is not a whole number"},
       {"partitions: [8]\n", "j:4:13: partitions: a single value is expected, not a list"},
       {"partitions: {a: 8}\n", "j:4:13: partitions: a single value is expected, not a mapping"},
       {"partitions:\n", "j:4:1: partitions: has no value; remove the key or give it one"},
       {"partitions: ~\n", "j:4:1: partitions: has no value; remove the key or give it one"},
       {"memory: {hard_limit: }\n", "j:4:10: memory.hard_limit: has no value; remove the key or give it one"},
       {"memory: {hard_limit: null}\n", "j:4:10: memory.hard_limit: has no value; remove the key or give it one"},
       {"memory: {hard_limit: ''}\n",
        "j:4:22: memory.hard_limit: \"\" is not a number of bytes; write it like 65536, 64KiB, 4MiB or 1GB (units B, "
        "KB to TB, KiB to TiB)"},
       {"checkpoint: {dir: c, every: ''}\n",
        "j:4:29: checkpoint.every: \"\" is not a duration; write it like 60s, 1m30s or 500ms (units d, h, m, s, ms)"},
       {"batch: 5\n", "j:4:8: batch: a mapping ({key: value}) is expected, not a single value"},
       {"batch: [5]\n", "j:4:8: batch: a mapping ({key: value}) is expected, not a list"},
       {"batch: {reduce: max}\n", "j:4:17: batch.reduce: \"max\" is not one of mean, sum"},
       {"batch: {reduce: MEAN}\n", "j:4:17: batch.reduce: \"MEAN\" is not one of mean, sum"},
       {"guard: {off: yes}\n", "j:4:14: guard.off: \"yes\" is not true or false"},
       {"guard: {off: 'true'}\n", "j:4:14: guard.off: \"true\" is not true or false"},
       {"guard: {max_abs: 0}\n", "j:4:18: guard.max_abs: 0 is too small: must be > 0"},
       {"guard: {max_abs: .inf}\n", "j:4:18: guard.max_abs: \".inf\" is not a number"},
       {"guard: {max_abs: inf}\n", "j:4:18: guard.max_abs: \"inf\" is not a finite number"},
       {"guard: {max_abs: nan}\n", "j:4:18: guard.max_abs: \"nan\" is not a finite number"},
       {"guard: {max_abs: 1e999}\n", "j:4:18: guard.max_abs: \"1e999\" is not a finite number"},
       {"guard: {max_abs: 1e39}\n", "j:4:18: guard.max_abs: 1e39 does not fit a 32-bit floating point number"},
       {"guard: {max_abs: 1e-60}\n", "j:4:18: guard.max_abs: 1e-60 is too small for a 32-bit floating point number"},
       {"checkpoint: {dir: c, every: 60}\n",
        "j:4:29: checkpoint.every: \"60\" is not a duration; write it like 60s, 1m30s or 500ms (units d, h, m, s, ms)"},
       {"checkpoint: {dir: c, keep: 0}\n", "j:4:28: checkpoint.keep: 0 is too small: must be >= 1"},
       {"memory: {soft_limit: 4mb}\n",
        "j:4:22: memory.soft_limit: \"4mb\" is not a number of bytes; write it like 65536, 64KiB, 4MiB or 1GB (units "
        "B, "
        "KB to TB, KiB to TiB)"},
       {"memory: {hard_limit: 20000000TiB}\n",
        "j:4:22: memory.hard_limit: \"20000000TiB\" is too large: it must be below 2^64"},
       {"optimizer: {dense: {adam: {learning_rate: 1, beta1: 1}}}\n",
        "j:4:53: optimizer.dense.adam.beta1: 1 is too large: must be <= 0.999999"},
       {"optimizer: {dense: {l2: 1}}\n",
        "j:4:20: optimizer.dense: one of sgd, momentum, adagrad, rowwise_adagrad, adam, amsgrad, ftrl must be set"}},
      kHead);
}

TEST_CASE("LoadJob errors: the file as a whole", "[proto][unit]") {
  CheckAll(
      {{"", "j:1:1: name: required but missing\nj:1:1: data: required but missing\nj:1:1: model: required but missing"},
       {"# nothing\n",
        "j:1:1: name: required but missing\nj:1:1: data: required but missing\nj:1:1: model: required but missing"},
       {"- a\n", "j:1:1: a job file is a mapping of keys to values, not a list"},
       {"hello\n", "j:1:1: a job file is a mapping of keys to values, not a single value"},
       {"a: [1\n", "j:2:1: not valid YAML: end of sequence flow not found"},
       {"a: *x\n", "j:1:4: not valid YAML: the referenced anchor is not defined"},
       {"a: 1\n---\nb: 1\n", "j:1:1: more than one YAML document; a job file holds one"},
       {"a: !!str 1\n", "j:1:4: tags are not supported in job files"},
       {"a: &x [*x]\n", "j:1:8: alias inside the value that it stands for"},
       {"a: " + std::string(100, '[') + std::string(100, ']'), "j:1:67: nested deeper than 64 levels"}});
}

TEST_CASE("LoadJob errors: hostile sizes end in a message, quickly", "[proto][unit]") {
  CHECK(ErrorOf(std::string((4 << 20) + 1, '#')) == "j:1:1: larger than 4194304 bytes");
  CHECK(ErrorOf("a: " + std::string(100000, '[')).find("nested deeper than 64 levels") != std::string::npos);
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string alias = absl::StrCat("*a", i - 1);
    absl::StrAppend(&laughs, "a", i, ": &a", i, " [", alias);
    for (int j = 0; j < 9; ++j) absl::StrAppend(&laughs, ", ", alias);
    laughs += "]\n";
  }
  CHECK(ErrorOf(laughs).find("more than 262144 values") != std::string::npos);
  std::string anchors = "a: ";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&anchors, "&a", i, " [");
  for (int i = 0; i < 100000; ++i) anchors += "x,";
  CHECK(ErrorOf(anchors + std::string(60, ']')).find("more than 262144 values") != std::string::npos);
  std::string many;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&many, "zzzzzzzzzzz", i, ": 1\n");
  const std::string errors = ErrorOf(many);
  CHECK(errors.find("j: more than 100 errors") != std::string::npos);
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 100);
}

TEST_CASE("LoadJob errors: all errors of a file at once, in its order", "[proto][unit]") {
  CHECK(ErrorOf("name: a/b\n"
                "data:\n"
                "  format: crieto\n"
                "  passes: 0\n"
                "  train: [{path: x, rows: [5]}, {rows: [1, 2]}, ]\n"
                "model: {presets: lr}\n"
                "zeed: 3\n") ==
        "j:1:7: name: \"a/b\" may hold letters, digits, '-', '_' and '.' only\n"
        "j:3:11: data.format: unknown choice \"crieto\"; did you mean criteo?\n"
        "j:4:11: data.passes: 0 is too small: must be >= 1\n"
        "j:5:27: data.train.0.rows: takes two numbers, [first, last), not 1\n"
        "j:5:33: data.train.1.path: required but missing\n"
        "j:6:9: model.presets: unknown key; did you mean preset?\n"
        "j:7:1: zeed: unknown key; did you mean seed?");
}

TEST_CASE("LoadJob errors: overrides are named", "[proto][unit]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"batch", "--set batch: write it like batch.size=512"},
      {"=1", "--set =1: before the = stands a field, with dots between the names"},
      {"batch..size=1", "--set batch..size=1: before the = stands a field, with dots between the names"},
      {"batch.sise=1", "--set batch.sise=1: batch.sise: unknown key; did you mean size?"},
      {"btch.size=1", "--set btch.size=1: btch: unknown key; did you mean batch?"},
      {"batch.size=0", "--set batch.size=0: batch.size: 0 is too small: must be >= 1"},
      {"batch=[1", "--set batch=[1: not valid YAML: end of sequence flow not found"},
      {"data.train.5=x",
       "--set data.train.5=x: data.train: has 1 elements; \"5\" is not the index of one of them or of the next"},
      {"data.train.x=x",
       "--set data.train.x=x: data.train: has 1 elements; \"x\" is not the index of one of them or of the next"},
      {"memory.hard_limit=",
       "--set memory.hard_limit=: memory.hard_limit: has no value; give it one, or null for its default"},
      {"data.split_bytes= ",
       "--set data.split_bytes= : data.split_bytes: has no value; give it one, or null for its default"},
      {"batch.size=", "--set batch.size=: batch.size: has no value; give it one, or null for its default"},
      {"guard.off=", "--set guard.off=: guard.off: has no value; give it one, or null for its default"},
      {"batch.reduce=", "--set batch.reduce=: batch.reduce: has no value; give it one, or null for its default"},
      {"checkpoint.dir=", "--set checkpoint.dir=: checkpoint.dir: required but missing"},
      {"name.x=1", "--set name.x=1: name: has no key x because it is not a mapping"},
      {"delivery=x", "--set delivery=x: delivery: not yet supported; remove it"},
      {"memory={soft_limit: 2, hard_limit: 1}",
       "--set memory={soft_limit: 2, hard_limit: 1}: memory.soft_limit: must not exceed hard_limit"},
      {"name=", "j:1:1: name: required but missing"}};
  for (const auto& [set, expected] : cases) CHECK(ErrorOf(kHead, {set}) == expected);
  CHECK(ErrorOf(kHead, {"seed=1", "partitions=x", "batch.size=y"}) ==
        "--set partitions=x: partitions: \"x\" is not a whole number\n"
        "--set batch.size=y: batch.size: \"y\" is not a whole number");
}

TEST_CASE("LoadJob errors: replicas and recovery must fit the sync mode", "[proto][unit]") {
  CHECK_THAT(ErrorOf(kHead, {"sync.bsp.lanes=2", "recovery=catch_up"}),
             Contains("recovery: catch_up is for asp and ssp") && Contains("use rollback"));
  CHECK_THAT(ErrorOf(kHead, {"recovery=rollback"}), Contains("recovery: rollback is for bsp"));
  CHECK_THAT(ErrorOf(kHead, {"sync.bsp.lanes=2", "replicas=2"}), Contains("replicas: 2 copies are for asp and ssp"));
  for (const char* recovery : {"recovery=default", "recovery=catch_up"}) {
    CHECK(ErrorOf(kHead, {"replicas=2", recovery}) == "OK");
  }
  CHECK(ErrorOf(kHead, {"sync.bsp.lanes=2", "recovery=rollback", "replicas=1"}) == "OK");
}

TEST_CASE("LoadJob errors: data", "[proto][unit]") {
  const std::string head = "name: n\nmodel: {preset: lr}\ndata:\n";
  CheckAll(
      {{"  format: libsvm\n", "j:4:3: data.train: at least one training input is needed"},
       {"  format: {synthetic: 9}\n  train: a\n",
        "j:5:10: data.train: format synthetic makes its own examples; remove the paths"},
       {"  format: libsvm\n  train: {path: a, rows: [2, 2]}\n",
        "j:5:26: data.train.0.rows: [2, 2) holds no record; the first must be smaller"},
       {"  format: {libsvm: {}, xmc: {}}\n  train: a\n",
        "j:4:24: data.format: only one of criteo, csv, libsvm, xmc, idx, synthetic may be set; found libsvm at line "
        "4 and xmc at line 4"},
       {"  train: a\n", "j:4:3: data.format: required but missing"},
       {"  format: csv\n  train: a\n", "j:4:3: data: format csv needs columns"},
       {"  format: libsvm\n  train: a\n  columns: {label: y}\n",
        "j:6:12: data.columns: belongs to format csv; the other formats bring their own columns"},
       {"  format: csv\n  train: a\n  columns: {}\n",
        "j:6:12: data.columns: label is required\n"
        "j:6:12: data.columns: at least one dense or sparse feature is needed"},
       {"  format: {csv: {delimiter: ab, quote: ab}}\n  train: a\n  columns: {label: y, sparse: c}\n",
        "j:4:29: data.format.csv.delimiter: must be exactly one (ASCII) character\n"
        "j:4:40: data.format.csv.quote: must be exactly one (ASCII) character\n"
        "j:4:40: data.format.csv.quote: must differ from the delimiter"},
       {"  format: {criteo: {delimiter: \"\\n\"}}\n  train: a\n",
        "j:4:32: data.format.criteo.delimiter: cannot be a line end or NUL"},
       {"  format: {criteo: {integers: both, header: maybe}}\n  train: a\n",
        "j:4:45: data.format.criteo.header: \"maybe\" is not true or false"},
       {"  format: libsvm\n  train: a\n  split_bytes: 1\n",
        "j:6:16: data.split_bytes: 1 is too small: must be >= 1KiB"}},
      head);
  const std::string csv = "name: n\nmodel: {preset: lr}\ndata:\n  format: csv\n  train: a\n  columns:\n    label: y\n";
  CheckAll({{"    sparse: [{}]\n", "j:8:14: data.columns.sparse.0: one of column, bucketize, cross must be set"},
            {"    sparse: [{column: a, cross: [b, c]}]\n",
             "j:8:14: data.columns.sparse.0: only one of column, bucketize, cross may be set"},
            {"    sparse: [{bucketize: a}]\n", "j:8:14: data.columns.sparse.0: bucketize needs boundaries"},
            {"    sparse: [{bucketize: a, boundaries: [1, 3, 2, 1]}]\n",
             "j:8:48: data.columns.sparse.0.boundaries.2: boundaries must ascend: 2 does not exceed 3"},
            {"    sparse: [{column: a, boundaries: [1]}]\n",
             "j:8:38: data.columns.sparse.0.boundaries: belongs to bucketize"},
            {"    sparse: [{cross: a}]\n", "j:8:22: data.columns.sparse.0.cross: needs at least two names"},
            {"    sparse: [{column: a, separator: ab}]\n",
             "j:8:37: data.columns.sparse.0.separator: must be exactly one (ASCII) character"},
            {"    sparse: [a, {bucketize: b, boundaries: 1, name: a}]\n",
             "j:8:17: data.columns.sparse.1: a second slot called a; give it a name of its own"}},
           csv);
}

TEST_CASE("LoadJob errors: model", "[proto][unit]") {
  const std::string head = "name: n\ndata: {train: a, format: libsvm}\n";
  CheckAll(
      {{"model: {}\n", "j:3:8: model: one of preset, layers must be set"},
       {"model: {preset: none}\n",
        "j:3:17: model.preset: \"none\" is not one of lr, fm, wide_deep, deepfm, dcn, dlrm, mlp, counting"},
       {"model: {preset: deepfn}\n",
        "j:3:17: model.preset: \"deepfn\" is not one of lr, fm, wide_deep, deepfm, dcn, dlrm, mlp, counting; did "
        "you mean "
        "deepfm?"},
       {"model: {preset: lr, layers: [{name: a, embedding: {dim: 1}}]}\n",
        "j:3:8: model: only one of preset, layers may be set"},
       {"model: {preset: mlp, hidden: [8, 0]}\n", "j:3:34: model.hidden.1: 0 is not a width from 1 to 1048576"},
       {"model: {preset: lr, outputs: 3}\n", "j:3:30: model.outputs: binary_cross_entropy has one output, not 3"},
       {"model: {preset: lr, loss: multi_label_bce}\n", "j:3:27: model.loss: multi_label_bce needs format xmc"},
       {"model: {preset: lr, loss: softmax_cross_entropy}\n",
        "j:3:8: model.outputs: softmax_cross_entropy needs outputs > 1: one per class"},
       {"model: {hidden: [1], layers: [{name: a, linear: {units: 1}}]}\n",
        "j:3:17: model.hidden: belongs to preset; layers say their own widths\n"
        "j:3:31: model.layers.0: the first layer must be an embedding, a factorization or name its inputs ([dense])"},
       {"model:\n  layers:\n  - {name: a, embedding: {dim: 1}, inputs: [dense]}\n  - {name: a, fm: 1}\n"
        "  - {name: dense, concat: {}}\n  - {name: a b, sum: {}, inputs: [z]}\n  - {name: c}\n",
        "j:5:44: model.layers.0.inputs: an embedding takes no inputs; choose slots instead\n"
        "j:6:12: model.layers.1.name: a second layer called a\n"
        "j:7:12: model.layers.2.name: \"dense\" stands for the dense features; take another name\n"
        "j:8:12: model.layers.3.name: may hold letters, digits, '-', '_' and '.' only\n"
        "j:8:35: model.layers.3.inputs.0: no earlier layer is called \"z\"\n"
        "j:9:5: model.layers.4: one of embedding, linear, activation, fm, dot_interaction, cross, concat, sum, "
        "dropout, "
        "layer_norm, factorization must be set"}},
      head);
  CHECK(ErrorOf("name: n\ndata: {train: a, format: idx}\nmodel: {preset: mlp}\n") ==
        "j:3:8: model.outputs: softmax_cross_entropy needs outputs > 1: one per class");
  CHECK(ErrorOf("name: n\ndata: {train: a, format: xmc}\nmodel: {preset: lr, loss: squared_error}\n") ==
        "j:3:27: model.loss: squared_error does not fit format xmc; use multi_label_bce");
  CHECK(ErrorOf("name: n\ndata: {train: a, format: libsvm}\nmodel: {layers: [{name: a, inputs: dense, linear: {units: "
                "1}}]}\n") == "OK");
}

TEST_CASE("LoadJob errors: training", "[proto][unit]") {
  CheckAll(
      {{"optimizer: {dense: {sgd: 1, schedule: {step: {boundaries_examples: [5, 5]}}}}\n",
        "j:4:72: optimizer.dense.schedule.step.boundaries_examples.1: boundaries must ascend: 5 does not exceed 5"},
       {"optimizer: {dense: {sgd: 1, schedule: {step: {}}}}\n",
        "j:4:46: optimizer.dense.schedule.step.boundaries_examples: at least one boundary is needed"},
       {"optimizer: {sparse: {sgd: -1}}\n",
        "j:4:21: optimizer.sparse: learning_rate must be >= 0, not -1 (only preset counting uses -1)"},
       {"optimizer: {sparse: {ftrl: 0}}\n",
        "j:4:28: optimizer.sparse.ftrl.learning_rate: must be > 0: ftrl divides by it"}},
      kHead);
  CHECK(ErrorOf("name: " + std::string(129, 'a') + "\ndata: {train: a, format: libsvm}\nmodel: {preset: lr}\n") ==
        "j:1:7: name: has 129 characters; at most 128 are allowed");
  CHECK(ErrorOf(kHead, {"name=..", "data.train=\"\""}) ==
        "--set name=..: name: must begin with a letter or a digit\n"
        "--set data.train=\"\": data.train.0.path: must not be empty");
  CHECK(ErrorOf(kHead, {"name=\xff"}).find("is not valid UTF-8") != std::string::npos);
  CHECK(
      ErrorOf(kHead, {"model.preset=counting", "optimizer.sparse={sgd: -1, l2: 1}", "admission=2", "ttl=1"}) ==
      "j:1:1: batch.reduce: preset counting needs sum\n"
      "j:1:1: guard.off: preset counting needs true\n"
      "--set optimizer.sparse={sgd: -1, l2: 1}: optimizer.sparse: preset counting takes no l1, l2, decay, clip_value, "
      "clip_norm or schedule\n"
      "--set optimizer.sparse={sgd: -1, l2: 1}: optimizer.dense: preset counting needs {sgd: {learning_rate: -1}}\n"
      "--set admission=2: admission.min_count: preset counting needs 1\n"
      "--set ttl=1: ttl.examples: preset counting needs 0");
}

}  // namespace
}  // namespace shoal
