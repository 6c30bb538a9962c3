#!/usr/bin/env python3
"""Training end to end beside others: T4 (DeepFM in one process), T5 (FM and LR from libsvm text), T6 (daemons).

  train_bench.py SHOAL PEAK {T4,T5,T6}... [--size quick]

Prints rows as rows.py states them. Both sides of a row run in turn on the same files, with two threads.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import rows

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")
# Debian's own: the packages of the other sides belong to it.
PYTHON = "/usr/bin/python3"
THREADS = 2
WIDTHS = ["429", "400", "400", "400"]  # of DeepFM's MLP; its last layer, 400 x 1, is below 0.1 % of the work
USEFUL_FLOP = 6 * (429 * 400 + 2 * 400 * 400 + 400)  # of an example: forward, and backward twice as much
LOSS_TOLERANCE = 0.01  # between two frameworks that draw other initial values and another order
BATCH = 4096

DEEPFM = """
name: deepfm
data:
  train: [%(train)s]
  format: {criteo: {integers: dense}}
  passes: %(passes)d
  split_bytes: 2MiB
  cache: memory
model: {preset: deepfm, embedding_dim: 16, hidden: [400, 400, 400]}
optimizer:
  sparse: {adagrad: {learning_rate: 0.01, epsilon: 1e-10}}
  dense: {adam: {learning_rate: 0.001}}
batch: {size: %(batch)d}
sync: {bsp: {lanes: %(lanes)d}}
precision: %(precision)s
"""

LIBSVM = """
name: %(preset)s
data:
  train: [%(train)s]
  eval: [%(eval)s]
  format: libsvm
  passes: %(passes)d
  split_bytes: 4MiB
  cache: memory
model: {preset: %(preset)s, embedding_dim: 16}
optimizer:
  sparse: {adagrad: {learning_rate: %(rate)s}}
  dense: {adagrad: {learning_rate: 0.05}}
batch: {size: 1024}
sync: asp
"""


class Failed(Exception):
    """A side did not run; says what it printed."""


def run(command):
    """Its stdout."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, check=False)
    if result.returncode != 0:
        raise Failed("%s: %s" % (" ".join(command), (result.stderr or result.stdout).strip()[-500:]))
    return result.stdout


def cpu_seconds():
    """User and system time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_json(command):
    """The JSON object that it prints last; with cpu_seconds, of it and what it started."""
    before = cpu_seconds()
    result = json.loads(run(command).strip().splitlines()[-1])
    result["cpu_seconds"] = cpu_seconds() - before
    return result


def has_module(name):
    """Whether PYTHON can import it."""
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", "import " + name], stderr=subprocess.DEVNULL,
                                                     check=False).returncode == 0


class Bench:
    """What the rows share: programs, a folder, sizes."""

    def __init__(self, shoal, peak, folder, size):
        self.shoal = shoal
        self.peak_program = peak
        self.folder = folder
        self.repeats = {"smoke": 1, "quick": 2, "full": 5}[size]
        self.rows = {"smoke": 2 * BATCH, "quick": 100_000, "full": 400_000}[size]
        self.libsvm_rows = {"smoke": 2000, "quick": 200_000, "full": 200_000}[size]
        self.smoke = size == "smoke"
        self.passes = 2

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def datagen(self, name, *options):
        path = self.path(name)
        if not os.path.exists(path):
            run([self.shoal, "datagen", "--output", path] + [str(option) for option in options])
        return path

    def criteo(self):
        """About a million keys in all, 38,462 in each of 26 columns."""
        return self.datagen("train.tsv", "--rows", self.rows, "--ids-per-category", 38462, "--seed", 7)

    def deepfm(self, precision):
        """Two logical lanes with half of the batch each: one step for 4096 examples, as PyTorch's two threads do it."""
        text = DEEPFM % {
            "train": self.criteo(),
            "passes": self.passes,
            "batch": BATCH // THREADS,
            "lanes": THREADS,
            "precision": precision
        }
        return self.write("deepfm-%s.yaml" % precision, text)

    def train(self, job):
        """One process."""
        return run_json([self.shoal, "train", job, "--threads", str(THREADS), "--runs", "", "--json"])

    def daemons(self, job):
        """A scheduler, two servers and a worker."""
        return run_json([
            self.shoal, "local", "--servers", "2", "--workers", "1", "--threads", str(THREADS), "--job", job, "--runs",
            "", "--json"
        ])

    def peak(self, precision):
        """GFLOP/s of one thread."""
        return float(run([self.peak_program, str(BATCH // THREADS), precision] + WIDTHS))


def t4(bench):
    """DeepFM in one process beside PyTorch, and beside oneDNN's own matmul."""
    other = bench.criteo()
    torch = [PYTHON, os.path.join(PEERS, "deepfm_torch.py"), other, "--passes", str(bench.passes), "--batch", str(BATCH)]
    have_torch = has_module("torch")
    for precision, target in (("f32", 3), ("bf16", 6)):
        ours, theirs, peaks = [], [], []
        for _ in range(bench.repeats):
            ours.append(bench.train(bench.deepfm(precision)))
            peaks.append(bench.peak(precision))
            if have_torch:
                theirs.append(run_json(torch))
        rates = [result["examples_per_second"] for result in ours]
        loss = ours[-1]["train"]["logloss"]
        name = "DeepFM, " + precision
        if theirs:
            gap = loss - statistics.median(result["logloss"] for result in theirs)
            if abs(gap) > LOSS_TOLERANCE and not bench.smoke:
                raise Failed("%s: log loss %.4f, PyTorch %.4f: not the same training" % (name, loss, loss - gap))
            note = "log loss %.4f, PyTorch %.4f (BLAS: %s)" % (loss, loss - gap, theirs[0]["blas_core"])
            rows.emit("T4", name, "examples/s", rates, [result["examples_per_second"] for result in theirs],
                      "PyTorch", target, note=note)
        else:
            rows.skip("T4", name, "PyTorch is not installed (deploy/install_deps.sh --bench)")
        rows.emit("T4", name + ", of the peak", "GFLOP/s useful", [1e-9 * USEFUL_FLOP * rate for rate in rates],
                  [THREADS * peak for peak in peaks], "oneDNN matmul", 0.55 if precision == "f32" else None)


def t6(bench):
    """The same job on daemons beside one process."""
    job = bench.deepfm("f32")
    ours, other = rows.interleave(bench.repeats, lambda: bench.daemons(job), lambda: bench.train(job))
    rows.emit("T6", "DeepFM, daemons", "examples/s", [result["examples_per_second"] for result in ours],
              [result["examples_per_second"] for result in other], "one process", 0.7)
    # What other programs on the machine disturb less; what lanes wait for one another and for the wire is not in it.
    rows.emit("T6", "DeepFM, daemons, by CPU time", "examples per CPU second",
              [result["examples"] / result["cpu_seconds"] for result in ours],
              [result["examples"] / result["cpu_seconds"] for result in other], "one process", 0.7)


def liblinear(bench, train, evaluation):
    """Log loss on the evaluation rows; None when liblinear is not installed."""
    programs = "liblinear-train", "liblinear-predict"
    if any(subprocess.run(["which", program], stdout=subprocess.DEVNULL, check=False).returncode
           for program in programs):
        return None
    # Its indices start at 1.
    paths = []
    for path in (train, evaluation):
        paths.append(path + ".one")
        with open(path, encoding="utf-8") as source, open(paths[-1], "w", encoding="utf-8") as out:
            for line in source:
                out.write(re.sub(r"(\d+):", lambda match: "%d:" % (int(match.group(1)) + 1), line))
    model, predictions = bench.path("liblinear.model"), bench.path("liblinear.out")
    run(["liblinear-train", "-q", "-s", "0", paths[0], model])
    run(["liblinear-predict", "-b", "1", "-q", paths[1], model, predictions])
    return log_loss(predictions, paths[1])


def log_loss(predictions, labels):
    """Of liblinear-predict's probabilities."""
    import math  # pylint: disable=import-outside-toplevel
    with open(predictions, encoding="utf-8") as guesses, open(labels, encoding="utf-8") as truth:
        one = next(guesses).split()[1:].index("1")
        losses = []
        for guess, line in zip(guesses, truth):
            probability = float(guess.split()[1 + one])
            probability = min(max(probability, 1e-15), 1 - 1e-15)
            losses.append(-math.log(probability if line.split()[0] == "1" else 1 - probability))
    return statistics.mean(losses)


def after_first_pass(bench, preset, rate, train, evaluation):
    """Examples a second of passes 2 to 4, the same if the machine had been idle (from the CPU time that they took, over the
    threads), and the evaluation's log loss after all 4."""
    results = {}
    for passes in (1, 4):
        text = LIBSVM % {"preset": preset, "train": train, "eval": evaluation, "passes": passes, "rate": rate}
        results[passes] = bench.train(bench.write("%s-%d.yaml" % (preset, passes), text))
    seconds, cpu = (max(results[4][name] - results[1][name], 1e-3) for name in ("seconds", "cpu_seconds"))
    return 3 * bench.libsvm_rows / seconds, 3 * bench.libsvm_rows * THREADS / cpu, results[4]["eval"]["logloss"]


def t5(bench):
    """FM and LR from libsvm text."""
    options = ["--format", "libsvm", "--seed", 3, "--interactions"]
    train = bench.datagen("train.svm", "--rows", bench.libsvm_rows, *options)
    evaluation = bench.datagen("eval.svm", "--rows", bench.libsvm_rows // 10, "--first-row", bench.libsvm_rows, *options)
    others = {}
    linear = liblinear(bench, train, evaluation)
    if linear is not None:
        others["liblinear"] = linear
    if has_module("sklearn"):
        others["SGDClassifier"] = run_json([PYTHON, os.path.join(PEERS, "sgd_sklearn.py"), train, evaluation])["logloss"]
    for preset, rate, wanted in (("fm", "0.1", 350_000), ("lr", "0.05", 1_000_000)):
        samples = [after_first_pass(bench, preset, rate, train, evaluation) for _ in range(bench.repeats)]
        title = "%s, k=16" % preset if preset == "fm" else preset
        rows.emit("T5", title, "examples/s after pass 1", [sample[0] for sample in samples], [wanted], "wanted", 1)
        rows.emit("T5", title + ", by CPU time", "examples/s of %d cores" % THREADS, [sample[1] for sample in samples],
                  [wanted], "wanted", 1)
        for name, loss in others.items():
            rows.emit("T5", "%s, log loss, %s" % (preset, name), "", [sample[2] for sample in samples], [loss], name, 1,
                      at_most=True)
    if not others:
        rows.skip("T5", "log loss", "neither liblinear nor scikit-learn is installed (deploy/install_deps.sh --bench)")


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shoal")
    parser.add_argument("peak")
    parser.add_argument("names", nargs="+", choices=["T4", "T5", "T6"])
    rows.add_size(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        bench = Bench(os.path.abspath(arguments.shoal), os.path.abspath(arguments.peak), folder, arguments.size)
        for name in arguments.names:
            try:
                {"T4": t4, "T5": t5, "T6": t6}[name](bench)
            except Failed as error:
                print(error, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
