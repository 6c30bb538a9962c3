// The hand-written beginning of docs/job-file.md.
#ifndef SHOAL_PROTO_JOB_JOB_DOC_INTRO_H_
#define SHOAL_PROTO_JOB_JOB_DOC_INTRO_H_

namespace shoal {

constexpr char kJobFileIntro[] = R"md(# The job file

<!-- Generated from the comments of proto/job.proto. Change them (or proto/job/job_doc_intro.h for the text above the
tables), then: bazel run //proto/job:job_doc > docs/job-file.md -->

A job file says everything about one training run. The same file is trained on one machine (`shoal train job.yaml`) and
on a cluster (`shoal submit job.yaml`); `shoal validate job.yaml` only checks it.

```yaml
name: census-wide-deep
data:
  train: [adult.data.gz]            # relative to the job file; globs; lists; {path: f.tsv, rows: [0, 7000]}
  eval: [adult.test.gz]
  format: {csv: {header: true, delimiter: ",", trim: true, missing: "?"}}
  columns:
    label: {column: Y, positive: [">50K", ">50K."]}
    dense: [{column: age, scale: 0.01}, {column: capital-gain, transform: log1p}]
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
```

## Rules

- A job file is one YAML document of at most 4 MiB. Keys are the field names below. An unknown key, a duplicate key, a
  value of the wrong type or out of bounds is an error with file, line and column; all errors are reported at once:
  `job.yaml:12:5: optimizer.sparse.adam.learning_rat: unknown key; did you mean learning_rate?`
- **Paths** are relative to the directory of the job file, also those given by `--set`.
- **Whole numbers** are decimal (`65536`). **Numbers** may have a fraction and an exponent (`0.5`, `1e-3`); NaN and
  infinity are refused. **true or false** are written just so. Quoted numbers are text.
- **Durations** have units: `60s`, `1m30s`, `500ms` (d, h, m, s, ms, in this order).
- **Bytes** are a whole number, alone or with a unit: `65536`, `64KiB`, `4MiB` (powers of 1024), `1GB` (powers of 1000).
- **Choices** (enums) are written in lower case.
- **Shorthand**: where a list is expected, a single value is a list of one. Where a message is expected, a plain value
  sets the field that its section names (`workclass` for `{column: workclass}`, `sync: {bsp: 4}` for
  `{bsp: {lanes: 4}}`); where one of several kinds is expected, a name alone takes that kind with its defaults
  (`format: criteo`, `sync: asp`).
- Anchors and aliases (`&x`, `*x`) work. Merge keys (`<<`) and tags do not.
- An absent field has its default; an explicit `0` or `false` is kept. A run writes the complete job, with every default,
  to `job.resolved.yaml`.

## Overrides

Every verb that takes a job file takes `--set path=value`, as often as needed; later ones win. The value is YAML.

| override | effect |
|---|---|
| `--set batch.size=512` | sets one field |
| `--set model.hidden=[64,32]` | sets a list |
| `--set data.train.0.path=/data/day1.gz` | sets a field of the first element of a list |
| `--set data.train.1=/data/day2.gz` | replaces an element; the index after the last one appends |
| `--set optimizer.sparse.sgd=0.1` | takes another kind; the one in the file is dropped |
| `--set checkpoint=` | removes a field that holds text or others; `=null` removes any: an empty number may be an unset variable |
)md";

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_DOC_INTRO_H_
