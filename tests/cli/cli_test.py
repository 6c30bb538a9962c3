"""Runs the real binary as users do: exit codes, help, errors, the way from generated data to predictions, daemons.

  cli_test.py PATH_OF_SHOAL
"""

import array
import ast
import json
import math
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SHOAL = os.path.abspath(sys.argv.pop(1))
CENSUS = os.path.abspath("examples/census/job.yaml")

VERBS = [
    "train", "validate", "evaluate", "predict", "checkpoint", "verify-parity", "datagen", "local", "scheduler",
    "server", "worker", "submit", "list", "status", "watch", "logs", "cancel", "drain", "bench", "doctor",
    "version",
]

JOB = """\
name: tiny
data:
  train: [train.tsv]
  eval: [eval.tsv]
  format: criteo
  passes: 2
model: {preset: lr}
batch: {size: 64}
sync: {ssp: {staleness: 4}}
partitions: 16
seed: 7
"""


def run(*arguments, timeout=120, env=None, cwd=None):
    """Runs the binary; stdin is empty, the environment has no scheduler unless `env` says so."""
    environment = {key: value for key, value in os.environ.items() if key != "SHOAL_SCHEDULER"}
    environment.update(env or {})
    return subprocess.run([SHOAL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout, env=environment, cwd=cwd, check=False)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_npz(path):
    """Arrays of an .npz by name, as (shape, flat values), with what Python itself brings."""
    out = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None  # all checksums
        for name in archive.namelist():
            data = archive.read(name)
            assert data[:8] == b"\x93NUMPY\x01\x00", name
            length = struct.unpack("<H", data[8:10])[0]
            assert (10 + length) % 64 == 0, name
            header = ast.literal_eval(data[10:10 + length].decode("latin-1").strip())
            assert not header["fortran_order"]
            code = {"<f4": "f", "<u8": "Q", "<i4": "i"}[header["descr"]]
            values = array.array(code, data[10 + length:])
            shape = header["shape"]
            assert len(values) == math.prod(shape), name
            out[name[:-len(".npy")]] = (shape, values)
    return out


class Daemon:
    """A daemon and the line that it prints when it is ready."""

    def __init__(self, *arguments, timeout=30):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([SHOAL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        self.line = self.process.stdout.readline().rstrip("\n") if ready else ""
        if not self.line:
            self.process.kill()
            self.process.wait()
            self.log.seek(0)
            raise AssertionError("%s is not ready: %s" % (arguments, self.log.read()))

    @property
    def address(self):
        return self.line.rsplit(" ", 1)[1]

    def stop(self, number=signal.SIGTERM, timeout=30):
        """Sends the signal; returns exit status and the rest of stdout."""
        self.process.send_signal(number)
        return self.wait(timeout)

    def wait(self, timeout=30):
        rest, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, rest

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class CliTest(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def start(self, *arguments):
        daemon = Daemon(*arguments)
        self.addCleanup(daemon.close)
        return daemon

    def check(self, status, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, status, "%s\n%s\n%s" % (arguments, result.stdout, result.stderr))
        return result

    def make_job(self, rows=4000, eval_rows=1000, text=JOB):
        """Generated training and evaluation rows of one teacher, and a job that uses them."""
        self.check(0, "datagen", "--rows", str(rows), "--seed", "3", "--output", self.path("train.tsv"))
        self.check(0, "datagen", "--rows", str(eval_rows), "--first-row", str(rows), "--seed", "3", "--output",
                   self.path("eval.tsv"))
        return self.write("job.yaml", text)

    def has_trained(self):
        for folder, _, files in os.walk(self.path("runs")):
            if "metrics.jsonl" in files:
                text = read(os.path.join(folder, "metrics.jsonl"))
                return any(json.loads(line)["examples"] > 0 for line in text.splitlines())
        return False


class UsageTest(CliTest):

    def test_help_of_every_verb_has_an_example(self):
        for verb in VERBS:
            result = self.check(0, verb, "--help")
            self.assertIn("Example:\n  shoal " + verb, result.stdout)
        self.assertIn("verify-parity", self.check(0, "--help").stdout)

    def test_bad_usage_exits_with_2(self):
        for arguments in ([], ["frobnicate"], ["train"], ["train", CENSUS, "--frobnicate"], ["train", "--threads", "0"],
                          ["status", "--json"], ["worker", "--scheduler", "127.0.0.1:1", "--grace-period", "10"],
                          ["datagen", "--format", "parquet", "--rows", "1"], ["checkpoint"],
                          ["--log-level", "loud", "version"]):
            self.check(2, *arguments)
        for arguments, said in (([], "shoal: a verb is missing. The verbs are train, "),
                                (["trian"], 'unknown verb "trian"; did you mean train? The verbs are train, '),
                                (["checkpoint"], "checkpoint: a verb is missing. The verbs are ls, verify, "),
                                (["checkpoint", "verifi", "."], "did you mean verify? The verbs are ls, "),
                                (["bench", "--size", "x"], "--size: x: expected smoke, quick or full")):
            self.assertIn(said, self.check(2, *arguments).stderr)
        self.assertIn('"frobnicate"', self.check(2, "frobnicate").stderr)
        self.assertIn('"frobnicate"', self.check(2, "checkpoint", "frobnicate").stderr)
        self.assertIn("libsvm", self.check(2, "datagen", "--format", "parquet", "--rows", "1").stderr)

    def test_empty_values_are_bad_usage(self):
        """A script's unset variable trained anew, into nowhere, on a scheduler without a state file."""
        out = self.path("out")
        for arguments in (["train", CENSUS, "--resume", ""], ["train", CENSUS, "--resume="],
                          ["train", "--resume=", CENSUS], ["train", CENSUS, "--output", ""],
                          ["train", CENSUS, "--output="], ["train", ""], ["train", CENSUS, "--set", ""],
                          ["submit", CENSUS, "--resume", "", "--scheduler", "127.0.0.1:1"],
                          ["local", "--job", ""], ["local", "--job=", "--servers", "1"], ["local", "--state", ""],
                          ["scheduler", "--state", ""], ["scheduler", "--listen", ""],
                          ["worker", "--name", "", "--scheduler", "127.0.0.1:1"],
                          ["server", "--advertise=", "--scheduler", "127.0.0.1:1"],
                          ["status", "", "--scheduler", "127.0.0.1:1"], ["status", "--scheduler", ""],
                          ["evaluate", "--checkpoint", ""], ["predict", "--checkpoint", "c", "--output", ""],
                          ["predict", "--checkpoint", "c", "--data", "", "--output", out],
                          ["checkpoint", "ls", ""], ["checkpoint", "export", "c", "--output", out, "--tables", ""],
                          ["datagen", "--rows", "3", "--output", ""]):
            result = self.check(2, *arguments)
            self.assertIn("empty", result.stderr, arguments)
            named = arguments[arguments.index("") - 1] if "" in arguments else ""
            self.assertIn(named if named.startswith("--") else "", result.stderr)
        self.assertFalse(os.path.exists(out))
        job = self.make_job(100, 50)
        for runs in (["--runs", ""], ["--runs="]):
            self.check(0, "train", job, *runs, cwd=self.folder)
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_numbers_that_do_not_fit_are_bad_usage(self):
        output = ["--output", self.path("out.tsv")]
        for numbers in (["--rows", "-1"], ["--rows", "0"], ["--rows", "1e23"], ["--rows", "100000000000000000000000"],
                        ["--rows", "3", "--ids-per-category", "1"], ["--rows", "3", "--ids-per-category", "-1"],
                        ["--rows", "3", "--seed", "-1"], ["--rows", "3", "--first-row", "18446744073709551614"]):
            self.check(2, "datagen", *numbers, *output)
        self.assertFalse(os.path.exists(self.path("out.tsv")))
        self.check(0, "datagen", "--rows", "3", "--seed", "18446744073709551615", *output)
        for threads in ("-1", "0", "4097", "-18446744073709551615"):
            self.check(2, "train", CENSUS, "--threads", threads)

    def test_version(self):
        version = json.loads(self.check(0, "version", "--json").stdout)
        self.assertRegex(version["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(version["protocol"], 3)

    def test_validate(self):
        self.check(0, "validate", CENSUS)
        self.assertEqual(json.loads(self.check(0, "validate", CENSUS, "--json").stdout)["job"], "census-wide-deep")
        resolved = self.check(0, "validate", CENSUS, "--resolved", "--set", "batch.size=77", "--set",
                              "model.hidden=[32,16]").stdout
        self.assertIn("size: 77", resolved)
        job = self.write("bad.yaml", JOB.replace("batch: {size: 64}", "batch: {sise: 64}").replace("lr", "lrr"))
        result = self.check(1, "validate", job)
        self.assertIn("bad.yaml:7:", result.stderr)  # both errors at once, with their lines
        self.assertIn("bad.yaml:8:", result.stderr)
        self.assertIn("size", result.stderr)
        self.check(1, "validate", self.path("absent.yaml"))

    def test_validate_checks_what_this_machine_can(self):
        """A model that the plan refused on the cluster was valid."""
        huge = ["--set", "model={preset: mlp, hidden: [500000, 500000, 500000]}"]
        job = self.write("job.yaml", JOB)  # its inputs are not here: the model alone
        for inputs in (False, True):
            if inputs:
                job = self.make_job(200, 50)
            result = self.check(1, "validate", job, *huge)
            self.assertIn("they and their gradients take", result.stderr)
            said = json.loads(self.check(0, "validate", job, "--json").stdout)
            self.assertEqual(said["warnings"], [])
            self.assertEqual(len(said["missing"]), 0 if inputs else 2)
            self.assertIn("what only a cluster knows", said["not_checked"][-1])
            self.assertEqual(len(said["not_checked"]), 1 if inputs else 2)
        os.remove(self.path("eval.tsv"))
        result = self.check(0, "validate", job)  # the workers may have it: no error, but nobody can overlook it
        missing = "data.eval.0: no file matches " + self.path("eval.tsv")
        self.assertIn("valid (job tiny), but inputs are missing here\n", result.stdout)
        self.assertIn("shoal: missing here: %s\nshoal: `train` would fail on this machine" % missing, result.stderr)
        os.remove(self.path("train.tsv"))
        result = self.check(0, "validate", job, "--json")
        self.assertEqual(json.loads(result.stdout)["missing"],
                         ["data.train.0: no file matches " + self.path("train.tsv"), missing])
        self.assertIn(missing, result.stderr)
        self.assertIn(missing, self.check(0, "validate", job, "--resolved").stderr)
        csv = self.write("csv.yaml", JOB.replace("criteo", "csv\n  columns: {label: y, sparse: [s]}"))
        self.assertIn("not checked: the model, whose size depends on the inputs",
                      self.check(0, "validate", csv).stdout)
        self.write("train.tsv", "y,s\n1,a\n")
        self.write("eval.tsv", "y,s\n1,a\n")
        self.assertIn("optimizer", self.check(0, "validate", csv, "--resolved").stdout)
        self.assertIn('no column "zz"',
                      self.check(1, "validate", csv, "--set", "data.columns.label=zz").stderr)
        self.assertIn("not checked: warm_start.checkpoint: /nonexist: is not on this machine",
                      self.check(0, "validate", csv, "--set", "warm_start=/nonexist").stdout)

    def test_a_counting_job_that_may_not_be_exact_warns(self):
        job = os.path.abspath("examples/counting/job.yaml")
        rows = ["--set", "data.passes=2", "--set", "data.format.synthetic.rows=559241"]
        self.assertIn("exact for up to 1118481 records, this job has 559241 in 2 passes",
                      self.check(0, "validate", job, *rows).stdout)
        self.assertNotIn("warning", self.check(0, "validate", job, *rows, "--set",
                                               "data.format.synthetic.rows=559240").stdout)

    def test_addresses_that_others_can_reach_need_insecure(self):
        for arguments in (["scheduler"], ["server", "--scheduler", "127.0.0.1:1"], ["local"]):
            result = self.check(2, *arguments, "--listen", "0.0.0.0:0", timeout=20)
            self.assertIn("--insecure", result.stderr)

    def test_unreachable_scheduler_is_a_bounded_error(self):
        job = self.make_job(100, 100)
        for arguments in (["status"], ["list"], ["submit", job], ["watch", "1"], ["logs", "1"], ["cancel", "1"],
                          ["drain", "w0"], ["server"], ["worker"], ["doctor"]):
            start = time.monotonic()
            result = self.check(1, *arguments, "--scheduler", "127.0.0.1:1", "--connect-timeout", "1s", timeout=30)
            self.assertLess(time.monotonic() - start, 15, arguments)
            self.assertIn("127.0.0.1:1", result.stderr + result.stdout)
        self.check(1, "status", "--connect-timeout", "1s", env={"SHOAL_SCHEDULER": "127.0.0.1:1"})

    def test_doctor(self):
        checks = json.loads(self.check(0, "doctor", "--json").stdout)["checks"]
        self.assertIn("instruction set", [check["subject"] for check in checks])
        self.assertRegex(self.check(0, "doctor").stdout, r"(?m)^(ok|warn) +memory ")


class OneProcessTest(CliTest):

    def test_datagen_is_a_function_of_its_seed(self):
        for output, seed in (("a", "5"), ("b", "5"), ("c", "6")):
            self.check(0, "datagen", "--format", "libsvm", "--rows", "200", "--seed", seed, "--output",
                       self.path(output))
        texts = [read(self.path(name)) for name in "abc"]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertEqual(texts[0].count("\n"), 200)
        result = self.check(0, "datagen", "--rows", "10", "--json")
        self.assertEqual(result.stdout.count("\n"), 10)
        self.assertEqual(json.loads(result.stderr)["rows"], 10)

    def test_from_data_to_predictions(self):
        job, model = self.make_job(), self.path("model")
        result = self.check(0, "train", job, "--json", "--output", model, "--runs", self.path("runs"))
        report = json.loads(result.stdout)
        self.assertEqual(report["state"], "SUCCEEDED")
        self.assertEqual((report["job"], report["passes"], report["examples"]), ("tiny", 2, 8000))
        self.assertEqual(report["eval"]["examples"], 1000)
        self.assertGreater(report["eval"]["auc"], 0.55)
        self.assertIn("histogram", report["staleness"])
        self.assertEqual(report["workers"][0]["share"], 1)
        run_folder = os.path.join(self.path("runs"), os.listdir(self.path("runs"))[0])
        self.assertIn("tiny", read(os.path.join(run_folder, "job.resolved.yaml")))
        lines = read(os.path.join(run_folder, "metrics.jsonl")).splitlines()
        self.assertEqual(json.loads(lines[-1])["state"], "SUCCEEDED")

        evaluation = json.loads(self.check(0, "evaluate", "--checkpoint", model, "--json").stdout)["eval"]
        for metric in ("logloss", "auc", "accuracy"):
            self.assertAlmostEqual(evaluation[metric], report["eval"][metric], places=6)

        self.check(0, "predict", "--checkpoint", model, "--output", self.path("out.tsv"))
        rows = [line.split("\t") for line in read(self.path("out.tsv")).splitlines()]
        self.assertEqual([row[0] for row in rows], [str(i) for i in range(1000)])
        self.assertTrue(all(0 < float(row[1]) < 1 for row in rows))
        short = self.check(0, "predict", "--checkpoint", model, "--data", self.path("eval.tsv"), "--output", "-")
        self.assertEqual(short.stdout, read(self.path("out.tsv")))

        self.check_checkpoint(model)

    def check_checkpoint(self, model):
        checkpoints = json.loads(self.check(0, "checkpoint", "ls", model, "--json").stdout)["checkpoints"]
        self.assertEqual(len(checkpoints), 1)
        self.assertTrue(checkpoints[0]["final"])
        self.assertIn("valid", self.check(0, "checkpoint", "verify", model).stdout)
        inspected = json.loads(self.check(0, "checkpoint", "inspect", model, "--json").stdout)
        self.assertEqual(inspected["job"], "tiny")
        self.assertEqual(inspected["examples"], 8000)
        self.assertRegex(self.check(0, "checkpoint", "inspect", model, "--rows", "2").stdout, r"(?m)^\S+ key \d+ of \S+: ")
        part = os.path.join(checkpoints[0]["path"], inspected["parts"][0]["file"])
        with open(part, "r+b") as file:
            file.seek(os.path.getsize(part) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x10]))
        result = self.check(1, "checkpoint", "verify", model)
        self.assertIn(os.path.basename(part), result.stderr)

    def test_checkpoint_tools(self):
        """A job with many periodic deltas; its chain is listed, compared, merged and exported; another job starts warm."""
        job, ckpt = self.make_job(), self.path("ckpt")
        periodic = ["--set", "checkpoint={dir: %s, every: 50ms, keep: 1000, full_every: 5}" % ckpt,
                    "--set", "data.passes=60"]
        self.check(0, "train", job, "--runs", "", *periodic)
        listed = json.loads(self.check(0, "checkpoint", "ls", ckpt, "--json").stdout)["checkpoints"]
        self.assertGreater(len(listed), 2)
        self.assertTrue(listed[-1]["final"])
        self.assertEqual([c["parent"] for c in listed if c["final"]], [""])
        deltas = [c for c in listed if c["parent"]]
        self.assertTrue(deltas)
        for checkpoint in deltas[:3]:
            self.check(0, "checkpoint", "verify", checkpoint["path"])
        last = deltas[-1]["path"]
        self.assertIn("parent      " + deltas[-1]["parent"], self.check(0, "checkpoint", "inspect", last).stdout)
        merged = self.path("merged/full")
        report = json.loads(self.check(0, "checkpoint", "merge", last, "--output", merged, "--json").stdout)
        self.assertGreater(report["links"], 1)
        self.check(0, "checkpoint", "verify", merged)
        self.assertIn("already", self.check(1, "checkpoint", "merge", last, "--output", merged).stderr)
        same = json.loads(self.check(0, "checkpoint", "diff", last, merged, "--json").stdout)
        self.assertTrue(same["same"])
        self.check_diff(listed[0]["path"], listed[-1]["path"])
        self.check_export(listed[-1]["path"])
        warm = ["--set", "warm_start={checkpoint: %s, optimizer_state: true}" % ckpt, "--set", "partitions=12",
                "--set", "data.passes=1", "--output", self.path("warm")]
        self.check(0, "train", job, "--runs", "", *warm)
        self.assertIn("--overwrite", self.check(1, "train", job, "--runs", "", *warm).stderr)
        rows = json.loads(self.check(0, "checkpoint", "inspect", self.path("warm"), "--json").stdout)["rows"]
        self.assertGreaterEqual(sum(rows.values()), report["rows"])
        result = self.check(1, "train", job, "--runs", "", *warm, "--overwrite", "--set", "warm_start.tables=[nothing]")
        self.assertIn('warm_start.tables: the model has no table or tensor called "nothing"', result.stderr)

    def check_diff(self, before, after):
        diff = json.loads(self.check(0, "checkpoint", "diff", before, after, "--json").stdout)
        self.assertFalse(diff["same"])
        for table in diff["tables"].values():
            self.assertEqual(table["rows_before"] + table["added"] - table["removed"], table["rows_after"])
        text = self.check(0, "checkpoint", "diff", before, after).stdout
        self.assertIn("ADDED", text)
        self.assertTrue(text.endswith("different\n"))

    def check_export(self, checkpoint):
        """The archive is read as the format says, and by NumPy where there is one; the text holds the same floats."""
        archive, folder = self.path("model.npz"), self.path("tsv")
        report = json.loads(
            self.check(0, "checkpoint", "export", checkpoint, "--output", archive, "--state", "--json").stdout)
        self.check(0, "checkpoint", "export", checkpoint, "--output", folder)
        arrays = read_npz(archive)
        for name, table in report["tables"].items():
            text = [line.split("\t") for line in read(os.path.join(folder, name.replace("/", "_") + ".tsv")).splitlines()]
            if "floats" in table:
                shape, values = arrays[name]
                self.assertEqual(len(values), table["floats"])
                self.assertEqual([row[1] for row in text], ["%.9g" % value for value in values])
                continue
            (count,), keys = arrays[name + ".keys"]
            (rows, dim), weights = arrays[name + ".weights"]
            self.assertEqual((count, rows), (table["rows"], table["rows"]))
            self.assertEqual(arrays[name + ".state"][0][0], rows)
            self.assertEqual([int(row[0]) for row in text], list(keys))
            first = len(text[0]) - dim  # slot names come between
            self.assertEqual([row[first:] for row in text],
                             [["%.9g" % value for value in weights[r * dim:(r + 1) * dim]] for r in range(rows)])
        try:
            import numpy
        except ImportError:
            return
        loaded = numpy.load(archive)
        self.assertEqual(sorted(loaded.files), sorted(arrays))
        for name in loaded.files:
            self.assertEqual(loaded[name].shape, arrays[name][0])
            self.assertEqual(loaded[name].ravel().tolist(), list(arrays[name][1]))

    def test_predict_passes_an_id_column_through(self):
        rows = "".join("row-%d,%d,%s\n" % (i, i % 2, "ab"[i % 2]) for i in range(100))
        self.write("data.csv", "id,label,kind\n" + rows)
        job = self.write("job.yaml", """\
name: ids
data:
  train: [data.csv]
  eval: [data.csv]
  format: csv
  columns: {id: id, label: label, sparse: [kind]}
  passes: 20
model: {preset: lr}
batch: {size: 10}
""")
        self.check(0, "train", job, "--output", self.path("model"), "--runs", "")
        self.check(0, "predict", "--checkpoint", self.path("model"), "--output", self.path("out.tsv"))
        lines = read(self.path("out.tsv")).splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["row-%d" % i for i in range(100)])
        self.assertGreater(float(lines[1].split("\t")[1]), float(lines[0].split("\t")[1]))

    def test_predict_without_labels(self):
        for name, extra in (("data.csv", "label,kind,size\n"), ("bare.csv", "kind,size\n")):
            self.write(name, extra + "".join("%s%s,%d\n" % ("%d," % (i % 2) if "label" in extra else "", "ab"[i % 2], i % 7)
                                             for i in range(100)))
        job = self.write("job.yaml", """\
name: bare
data:
  train: [data.csv]
  eval: [data.csv]
  format: csv
  columns: {label: label, sparse: [kind], dense: [size]}
  passes: 5
model: {preset: wide_deep, hidden: [4]}
batch: {size: 10}
""")
        self.check(0, "train", job, "--output", self.path("model"), "--runs", "")
        with_labels = self.check(0, "predict", "--checkpoint", self.path("model"), "--output", "-").stdout
        bare = ["predict", "--checkpoint", self.path("model"), "--output", "-", "--data", self.path("bare.csv")]
        result = self.check(1, *bare)
        self.assertIn('has no column "label"', result.stderr)
        self.assertIn("--no-labels", result.stderr)
        self.assertEqual(self.check(0, *bare, "--no-labels").stdout, with_labels)
        self.assertEqual(with_labels.count("\n"), 100)
        os.mkdir(self.path("labels"))
        result = self.check(1, "predict", "--checkpoint", self.path("model"), "--output", "-", "--data",
                            self.path("labels/label.csv"))
        self.assertIn("labels/label.csv: cannot open", result.stderr)
        self.assertNotIn("--no-labels", result.stderr)

    def test_train_never_removes_what_another_run_left(self):
        job, model = self.make_job(200, 50), self.path("model")
        train = ["train", job, "--output", model, "--runs", "", "--json"]
        first = json.loads(self.check(0, *train).stdout)["checkpoint"]
        result = self.check(1, *train, "--set", "name=other")
        for said in (first, "of job tiny", "--resume", "--overwrite"):
            self.assertIn(said, result.stderr)
        self.check(0, "checkpoint", "verify", first)
        whole = self.path("whole")
        shutil.copytree(first, whole)
        with open(os.path.join(first, "manifest.bin"), "r+b") as file:
            file.truncate(10)
        result = self.check(1, *train)
        self.assertIn("holds 1 checkpoint already, %s, which cannot be read (" % first, result.stderr)
        self.assertIn("cut short): let the new model take its place with --overwrite", result.stderr)
        self.assertNotIn("--resume", result.stderr)  # there is nothing to go on from
        result = self.check(1, *train, "--resume")
        self.assertIn("holds no checkpoint to go on from", result.stderr)
        self.assertIn("manifest.bin: cut short", result.stderr)
        shutil.copytree(first, self.path("model/ckpt-00000000"))
        self.assertIn("holds 2 checkpoints already, none of which can be read; the newest is %s (" % first,
                      self.check(1, *train).stderr)
        shutil.rmtree(self.path("model/ckpt-00000000"))
        shutil.copytree(whole, self.path("model/ckpt-00000000"))
        result = self.check(1, *train)
        self.assertIn("holds 2 checkpoints already, the newest that can be read is %s of job tiny: go on from it" %
                      self.path("model/ckpt-00000000"), result.stderr)
        os.remove(self.path("model/ckpt-00000000/server-0.part"))
        self.assertIn("none of which can be read", self.check(1, *train).stderr)
        shutil.rmtree(self.path("model/ckpt-00000000"))
        self.assertTrue(os.path.isdir(first))
        second = json.loads(self.check(0, *train, "--overwrite").stdout)["checkpoint"]
        self.assertNotEqual(first, second)
        third = json.loads(self.check(0, *train, "--resume").stdout)["checkpoint"]
        # However the directory is written, a checkpoint of it may be gone on from.
        os.symlink(model, self.path("link"))
        again = ["train", job, "--runs", "", "--json"]
        for output, prefix in ((model + "/", ""), (model, self.path("link/")), (model + "//.", ""), ("model/", "model/")):
            resume = prefix + os.path.basename(third) if prefix else third
            third = json.loads(self.check(0, *again, "--output", output, "--resume", resume + ("/" if prefix else ""),
                                          cwd=self.folder).stdout)["checkpoint"]
            self.assertEqual(os.path.dirname(third), model)
        os.mkdir(self.path("model2"))
        shutil.copytree(third, self.path("model2/ckpt-00000001"))
        result = self.check(1, *again, "--output", self.path("model2"), "--resume", third)  # the name alone is like it
        self.assertIn("--output: %s holds 1 checkpoint already, the newest is" % self.path("model2"), result.stderr)
        # A job's own directory is no less somebody's model.
        own = [*again, "--set", "checkpoint.dir=" + model]
        result = self.check(1, *own, "--set", "name=other")
        self.assertIn("checkpoint.dir: %s holds" % model, result.stderr)
        self.check(0, "checkpoint", "verify", third)
        self.check(0, *own, "--resume")
        self.check(0, *own, "--overwrite")
        os.mkdir(self.path("empty"))
        self.check(0, "train", job, "--output", self.path("empty"), "--runs", "")

    def test_what_a_run_goes_on_from_is_checked_first(self):
        job, ckpt = self.make_job(200, 50), self.path("model")
        for absent in (["--resume=/nonexist"], ["--set", "warm_start=/nonexist"]):
            result = self.check(1, "train", job, "--runs", self.path("runs"), *absent)
            self.assertIn("/nonexist: is not on this machine", result.stderr)
        self.assertFalse(os.path.exists(self.path("runs")))
        # Servers run elsewhere: they are never told a path that begins here.
        result = self.check(1, "submit", job, "--resume", "absent/ckpt", "--scheduler", "127.0.0.1:1", "--connect-timeout",
                            "1s", cwd=self.folder)
        self.assertIn("resume: %s: is not on this machine" % os.path.realpath(self.path("absent/ckpt")), result.stderr)
        self.check(0, "train", job, "--output", ckpt, "--runs", "")
        result = self.check(1, "submit", job, "--resume=" + ckpt, "--set", "seed=8", "--scheduler", "127.0.0.1:1")
        self.assertIn("seed: 8, was 7", result.stderr)  # before a scheduler is looked for

    def test_folders_without_a_checkpoint(self):
        os.mkdir(self.path("empty"))
        for verb in ("ls", "verify", "inspect"):
            result = self.check(1, "checkpoint", verb, self.path("empty"))
            self.assertIn(self.path("empty") + ": holds no complete checkpoint", result.stderr)
            self.assertIn("/nonexist", self.check(1, "checkpoint", verb, "/nonexist").stderr)

    def test_a_checkpoint_is_listed_by_its_own_directory(self):
        self.check(0, "train", self.make_job(200, 50), "--output", self.path("model"), "--runs", "")
        all_of_them = json.loads(self.check(0, "checkpoint", "ls", self.path("model"), "--json").stdout)["checkpoints"]
        self.assertEqual(len(all_of_them), 1)
        one = all_of_them[0]["path"]
        self.assertEqual(json.loads(self.check(0, "checkpoint", "ls", one, "--json").stdout)["checkpoints"], all_of_them)
        self.assertIn(one, self.check(0, "checkpoint", "ls", one).stdout)

    def test_verify_says_which_and_checks_all(self):
        model = self.path("model")
        self.check(0, "train", self.make_job(200, 50), "--output", model, "--runs", "")
        one = self.path("model/ckpt-00000001")
        self.assertEqual(self.check(0, "checkpoint", "verify", model).stdout, one + ": valid\n")
        self.assertEqual(self.check(0, "checkpoint", "verify", one, "--all").stdout, one + ": valid\n")
        for number in (2, 3):
            shutil.copytree(one, self.path("model/ckpt-0000000%d" % number))
        newest = self.path("model/ckpt-00000003")
        self.assertEqual(self.check(0, "checkpoint", "verify", model).stdout,
                         newest + ": valid (the newest of 3; --all checks each)\n")
        every = self.check(0, "checkpoint", "verify", model, "--all").stdout
        self.assertEqual(every, "".join(self.path("model/ckpt-0000000%d: valid\n" % n) for n in (1, 2, 3)))
        for name, damaged in (("server-0.part", 1), ("manifest.bin", 2)):
            with open(self.path("model/ckpt-0000000%d/%s" % (damaged, name)), "r+b") as file:
                file.truncate(10)
            self.check(0, "checkpoint", "verify", model)
            result = self.check(1, "checkpoint", "verify", model, "--all")
            self.assertRegex(result.stdout, r"ckpt-0000000%d: damaged: .*%s" % (damaged, name))
            self.assertIn(newest + ": valid\n", result.stdout)
            self.assertIn("%s: %d of 3 checkpoints %s damaged" % (model, damaged, "is" if damaged == 1 else "are"),
                          result.stderr)
        said = json.loads(self.check(1, "checkpoint", "verify", model, "--all", "--json").stdout)["checkpoints"]
        self.assertEqual([one["valid"] for one in said], [False, False, True])
        self.assertIn("manifest.bin", said[1]["problem"])

    def test_what_is_there_is_replaced_only_with_overwrite(self):
        model, empty = self.path("model"), self.write("empty", "")
        self.check(0, "train", self.make_job(200, 50), "--output", model, "--runs", "")
        os.symlink(self.path("kept"), self.path("link"))
        for verb in (["predict", "--checkpoint", model], ["datagen", "--rows", "3"],
                     ["checkpoint", "export", model, "--format", "npz"]):
            for name in ("kept", "link"):
                self.write("kept", "old")
                output = ["--output", self.path(name)]
                result = self.check(1, *verb, *output)
                self.assertIn("--output: %s is there already: replace it with --overwrite" % self.path(name),
                              result.stderr)
                self.assertEqual(read(self.path("kept")), "old")
            self.check(0, *verb, "--output", self.path("kept"), "--overwrite")
            self.check(0, *verb, "--output", empty)  # mktemp made it
            os.remove(empty)
            self.check(0, *verb, "--output", empty)
            self.write("empty", "")
        export = ["checkpoint", "export", model, "--output", self.path("tsv")]
        os.mkdir(self.path("tsv"))
        self.check(0, *export)
        self.assertIn("tsv holds files already", self.check(1, *export).stderr)
        self.check(0, *export, "--overwrite")

    def test_predict_replaces_files_but_writes_to_devices_and_links(self):
        model = self.path("model")
        self.check(0, "train", self.make_job(200, 50), "--output", model, "--runs", "")
        os.mkfifo(self.path("fifo"))
        self.write("target", "old")
        os.symlink(self.path("target"), self.path("link"))
        with subprocess.Popen(["cat", self.path("fifo")], stdout=subprocess.PIPE, text=True) as reader:
            self.check(0, "predict", "--checkpoint", model, "--output", self.path("fifo"))
            from_fifo, _ = reader.communicate(timeout=30)
        self.check(0, "predict", "--checkpoint", model, "--output", self.path("link"), "--overwrite")
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(from_fifo.count("\n"), 50)
        self.assertEqual(read(self.path("target")), from_fifo)
        os.symlink("/dev/full", self.path("full"))  # not the device itself: a wrong build would replace it
        result = self.check(1, "predict", "--checkpoint", model, "--output", self.path("full"))
        self.assertIn("No space left", result.stderr)
        self.assertTrue(os.path.islink(self.path("full")))

    def test_synthetic_jobs_take_no_files(self):
        job = self.write("job.yaml", """\
name: synthetic
data:
  format: {synthetic: {rows: 200, eval_rows: 50}}
model: {preset: lr}
""")
        model = self.path("model")
        self.check(0, "train", job, "--output", model, "--runs", "")
        for verb in (["evaluate"], ["predict", "--output", self.path("out.tsv"), "--overwrite"]):
            self.check(0, *verb, "--checkpoint", model)
            result = self.check(1, *verb, "--checkpoint", model, "--data", self.path("absent.tsv"))
            self.assertIn("takes no files", result.stderr)

    def test_train_does_not_wait_for_more_workers(self):
        result = self.check(0, "train", self.make_job(200, 50, JOB + "workers: {min: 3}\n"), "--runs", "", timeout=60)
        self.assertIn("workers.min: 3", result.stderr)

    def test_failures_say_why(self):
        job = self.make_job(100, 100)
        self.write("train.tsv", "1\tx\n")
        result = self.check(1, "train", job, "--runs", "")
        self.assertIn("train.tsv", result.stderr)
        result = self.check(1, "evaluate", "--checkpoint", self.path("absent"))
        self.assertIn("absent", result.stderr)
        result = self.check(1, "verify-parity", job)
        self.assertIn("bsp", result.stderr)

    def test_results_that_cannot_be_written_are_a_failure(self):
        for arguments in (["validate", CENSUS, "--resolved"], ["version", "--json"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([SHOAL] + arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn("could not be written", result.stderr)

    def test_resume_past_a_damaged_checkpoint_takes_no_name_twice(self):
        """Without periodic checkpoints the final one was refused for the damaged one's name, and the model was lost."""
        job, ckpt = self.make_job(), self.path("ckpt")
        self.check(0, "train", job, "--runs", "", "--set", "checkpoint={dir: %s, every: 50ms}" % ckpt, "--set",
                   "data.passes=30")
        names = sorted(os.listdir(ckpt))
        shutil.rmtree(os.path.join(ckpt, names[-1]))
        damaged = os.path.join(ckpt, names[-2])
        with open(os.path.join(damaged, "manifest.bin"), "r+b") as file:
            file.truncate(100)
        result = json.loads(self.check(0, "train", job, "--resume", "--runs", "", "--json", "--set",
                                       "checkpoint={dir: %s}" % ckpt, "--set", "data.passes=30").stdout)
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertGreater(os.path.basename(result["checkpoint"]), names[-2])

    def test_data_that_is_not_there_is_an_error(self):
        model = self.path("model")
        self.check(0, "train", self.make_job(200, 50), "--output", model, "--runs", "")
        for verb in (["evaluate"], ["predict", "--output", self.path("out.tsv"), "--overwrite"]):
            result = self.check(1, *verb, "--checkpoint", model, "--data", self.path("absent.tsv"))
            self.assertIn("absent.tsv", result.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("out.tsv")])

    def test_interrupt_ends_with_a_checkpoint(self):
        job = self.make_job(20000, 100, JOB.replace("passes: 2", "passes: 100000"))
        with subprocess.Popen([SHOAL, "train", job, "--json", "--output", self.path("model"), "--runs",
                               self.path("runs")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not self.has_trained():
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, error)
        self.assertEqual(json.loads(out)["state"], "CANCELLED")
        self.check(0, "checkpoint", "verify", self.path("model"))


class ClusterTest(CliTest):

    def start_cluster(self):
        scheduler = self.start("scheduler", "--state", self.path("state.db"))
        self.assertRegex(scheduler.line, r"^listening on 127\.0\.0\.1:\d+$")
        server = self.start("server", "--scheduler", scheduler.address, "--name", "s0")
        self.assertRegex(server.line, r"^listening on 127\.0\.0\.1:\d+$")
        worker = self.start("worker", "--scheduler", scheduler.address, "--name", "w0", "--threads", "2")
        self.assertEqual(worker.line, "worker w0 joined " + scheduler.address)
        return scheduler, server, worker

    def test_daemons(self):
        scheduler, server, worker = self.start_cluster()
        job, at = self.make_job(), ["--scheduler", scheduler.address]
        report = json.loads(self.check(0, "submit", job, "--wait", "--json", "--runs", "", *at, "--set",
                                       "checkpoint.dir=" + self.path("ckpt")).stdout)
        self.assertEqual((report["state"], report["examples"]), ("SUCCEEDED", 8000))
        self.assertEqual(report["workers"][0]["name"], "w0")
        self.check(0, "evaluate", "--checkpoint", self.path("ckpt"))
        status = json.loads(self.check(0, "status", "--json", *at).stdout)
        self.assertEqual({(p["name"], p["role"], p["state"]) for p in status["processes"]},
                         {("s0", "server", "ALIVE"), ("w0", "worker", "ALIVE")})
        self.assertEqual(json.loads(self.check(0, "list", "--json", *at).stdout)["jobs"][0]["state"], "SUCCEEDED")
        self.assertEqual(json.loads(self.check(0, "status", "tiny", "--json", *at).stdout)["id"], report["id"])
        self.assertIn("SUCCEEDED", self.check(0, "status", env={"SHOAL_SCHEDULER": scheduler.address}).stdout)
        self.assertNotEqual(self.check(0, "logs", "tiny", *at).stdout, "")
        self.assertIn("tiny", self.check(1, "logs", "nobody", *at).stderr)

        endless = json.loads(self.check(0, "submit", job, "--json", *at, "--set", "data.passes=100000").stdout)
        self.assertRegex(self.check(0, "cancel", str(endless["id"]), *at).stdout, "cancelled|cancelling")
        watched = self.check(1, "watch", str(endless["id"]), "--json", *at)
        self.assertEqual(json.loads(watched.stdout)["state"], "CANCELLED")
        self.assertIn("already CANCELLED", self.check(0, "cancel", str(endless["id"]), *at).stdout)
        self.assertIn("already SUCCEEDED", self.check(0, "cancel", str(report["id"]), *at).stdout)
        self.assertIn(server.address + " is not a scheduler",
                      self.check(1, "list", "--scheduler", server.address).stderr)

        result = self.check(1, "submit", job, "--resume=/nonexist", "--wait", "--runs", "", *at)
        self.assertIn("resume: /nonexist: is not on this machine; the job fails unless the servers have it", result.stderr)
        self.assertIn("cannot go on from checkpoint /nonexist", result.stderr)
        self.assertIn("--resume must name a checkpoint by a path under which every server finds it", result.stderr)
        result = self.check(1, "submit", job, "--set", "warm_start=/nonexist", "--wait", "--runs", "", *at)
        self.assertIn("/nonexist: No such file", result.stderr)
        self.assertIn("warm_start.checkpoint must name a checkpoint by a path under which every", result.stderr)

        self.assertEqual(worker.stop(), (0, ""))
        for _ in range(2):
            self.assertIn("w0 is LEFT: there is nothing to drain", self.check(1, "drain", "w0", *at).stderr)
            self.assertIn("w0: LEFT already", self.check(0, "drain", "w0", "--wait", *at).stdout)
        self.assertEqual(json.loads(self.check(0, "drain", "w0", "--wait", "--json", *at).stdout),
                         {"name": "w0", "state": "LEFT"})
        for daemon in (server, scheduler):
            self.assertEqual(daemon.stop(), (0, ""))

    def test_interrupting_submit_cancels_the_job(self):
        scheduler, _, _ = self.start_cluster()
        job = self.make_job(4000, 100, JOB.replace("passes: 2", "passes: 100000"))
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([SHOAL, "submit", job, "--wait", "--json", "--runs", self.path("runs"), "--scheduler",
                                   scheduler.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and not self.has_trained():
                    time.sleep(0.1)
                process.send_signal(number)
                out, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, error)
            self.assertEqual(json.loads(out)["state"], "CANCELLED")
            shutil.rmtree(self.path("runs"))

    def test_a_newer_worker_of_the_same_name_fences_the_older(self):
        scheduler, _, worker = self.start_cluster()
        self.start("worker", "--scheduler", scheduler.address, "--name", "w0")
        self.assertEqual(worker.wait()[0], 1)

    def test_local_runs_a_job_and_leaves_nobody_behind(self):
        job = self.make_job()
        result = self.check(0, "local", "--servers", "2", "--workers", "2", "--job", job, "--json", "--runs", "")
        report = json.loads(result.stdout)
        self.assertEqual((report["state"], report["examples"]), ("SUCCEEDED", 8000))
        self.assertEqual(sum(worker["examples"] for worker in report["workers"]), 8000)
        self.assertIn("[worker-1] ", result.stderr)

    def test_local_goes_on_without_who_was_drained(self):
        local = self.start("local", "--servers", "2", "--workers", "2")
        for name in ("worker-1", "server-1"):
            self.assertIn("LEFT", self.check(0, "drain", name, "--wait", "--scheduler", local.address).stdout)
        report = json.loads(self.check(0, "submit", self.make_job(), "--wait", "--json", "--runs", "",
                                       "--scheduler", local.address).stdout)
        self.assertEqual((report["state"], report["examples"]), ("SUCCEEDED", 8000))
        self.assertIsNone(local.process.poll())
        self.assertEqual(local.stop()[0], 0)

    def test_local_tears_down(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            local = self.start("local", "--servers", "1", "--workers", "1")
            self.assertRegex(local.line, r"^listening on ")
            children = self.children(local.process.pid)
            self.assertEqual(len(children), 3)
            status, _ = local.stop(number)
            self.assertEqual(status, 0 if number == signal.SIGTERM else -number)
            deadline = time.monotonic() + 10
            while any(os.path.exists("/proc/%d/exe" % child) for child in children):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def children(self, parent):
        found = []
        for name in os.listdir("/proc"):
            try:
                stat = read("/proc/%s/stat" % name) if name.isdigit() else ""
            except OSError:
                continue  # it has ended meanwhile
            match = re.search(r"\) \S+ (\d+) ", stat)
            if match and int(match.group(1)) == parent:
                found.append(int(name))
        return found

    def test_verify_parity(self):
        job = self.make_job(3000, 100)
        result = self.check(0, "verify-parity", job, "--set", "sync.bsp.lanes=4", "--json", timeout=300)
        report = json.loads(result.stdout)
        self.assertTrue(report["equal"])
        self.assertEqual(len(report["runs"]), 3)
        self.assertGreater(report["runs"][0]["rounds"], 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
