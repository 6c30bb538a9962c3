"""Trains the example jobs as users do and holds their quality against fixed bounds; prints every figure.

  accuracy_test.py PATH_OF_SHOAL [NAME_OF_TEST...]

Data that may not be shipped is looked for under $SHOAL_TEST_DATA, else ../shared/data beside the repository; a row
without data prints `SKIPPED: reason`. The census data is shipped, the synthetic rows need none.
"""

import json
import os
import statistics
import subprocess
import sys
import time
import unittest

SHOAL = os.path.abspath(sys.argv.pop(1))
# This file is a link to the source tree when bazel runs the test.
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
DATA = os.environ.get("SHOAL_TEST_DATA") or os.path.join(REPOSITORY, "..", "shared", "data")
FASHION_MNIST = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
THREADS = 2
TIMEOUT_SECONDS = 600
METRICS = ["auc", "logloss", "accuracy", "precision_at_1", "precision_at_3", "precision_at_5"]


def run_json(*arguments):
    """The JSON object that the binary prints."""
    result = subprocess.run([SHOAL, *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=TIMEOUT_SECONDS, check=False)
    if result.returncode != 0:
        raise AssertionError("%s: exit status %d\n%s" % (arguments, result.returncode, result.stderr[-4000:]))
    return json.loads(result.stdout)


class ExampleTest(unittest.TestCase):
    """One test per example job; a bound holds for the median over the seeds."""

    precision = "f32"
    wire = "f32"
    tolerance = 0  # on top of the bounds

    def at_least(self, figure, bound):
        self.assertGreaterEqual(figure, bound - self.tolerance)

    def at_most(self, figure, bound):
        self.assertLessEqual(figure, bound + self.tolerance)

    def need(self, path):
        """The path of a data file (relative ones are below DATA); skips the test when it is absent."""
        path = os.path.join(DATA, path)
        if not os.path.exists(path):
            print("SKIPPED: %s: no file %s" % (self.id().split(".")[-1], path), flush=True)
            self.skipTest("no file " + path)
        return path

    def train(self, job, seeds, *overrides):
        """Trains once per seed, prints and returns the medians of the metrics of the evaluation data."""
        start = time.monotonic()
        results = []
        for seed in seeds:
            arguments = ["train", os.path.join("examples", job), "--threads", str(THREADS), "--runs", ""]
            for override in [*overrides, "seed=%d" % seed, "precision=" + self.precision, "wire.pull=" + self.wire,
                             "wire.push=" + self.wire]:
                arguments += ["--set", override]
            report = run_json(*arguments)
            self.assertEqual(report["state"], "SUCCEEDED")
            results.append(report["eval"])
        figures = {}
        text = []
        for metric in METRICS:
            values = [result[metric] for result in results if result.get(metric) is not None]
            if values:
                self.assertEqual(len(values), len(results), metric)
                figures[metric] = statistics.median(values)
                text.append("%s %.4f" % (metric, figures[metric]))
                if len(values) > 1:
                    text[-1] += " (%.4f to %.4f)" % (min(values), max(values))
        print("%s, %s, wire %s, %d seed%s, %.1f s: %s" % (
            job, self.precision, self.wire, len(seeds), "s" if len(seeds) > 1 else "", time.monotonic() - start,
            ", ".join(text)), flush=True)
        return figures

    def test_census(self):
        wide_deep = self.train("census/job.yaml", [42])
        self.at_least(wide_deep["auc"], 0.913)
        self.at_least(wide_deep["accuracy"], 0.858)
        deep = self.train("census/deep.yaml", [42])
        self.at_least(deep["auc"], 0.910)

    def test_a9a(self):
        figures = self.train("a9a/job.yaml", [42],
                             "data.train=" + self.need("libsvm/angel_a9a_123d_train.libsvm.gz"),
                             "data.eval=" + self.need("libsvm/a9a.t.gz"))
        self.at_least(figures["accuracy"], 0.848)
        self.at_least(figures["auc"], 0.900)
        self.at_most(figures["logloss"], 0.326)

    def test_agaricus(self):
        figures = self.train("agaricus/job.yaml", [42],
                             "data.train=" + self.need("libsvm/agaricus_train.txt.gz"),
                             "data.eval=" + self.need("libsvm/agaricus_test.txt.gz"))
        self.assertEqual(figures["accuracy"], 1.0)

    def criteo(self, model):
        path = self.need("criteo/kaggle_first10k_train.tsv.gz")
        return self.train("criteo/%s.yaml" % model, [1, 2, 3, 4, 5], "data.train.0.path=" + path,
                          "data.eval.0.path=" + path)

    def test_criteo_lr(self):
        figures = self.criteo("lr")
        self.at_least(figures["auc"], 0.740)
        self.at_most(figures["logloss"], 0.475)

    def test_criteo_fm(self):
        self.at_least(self.criteo("fm")["auc"], 0.725)

    def test_criteo_deepfm(self):
        self.at_least(self.criteo("deepfm")["auc"], 0.725)

    def test_criteo_dcn(self):
        self.at_least(self.criteo("dcn")["auc"], 0.725)

    def test_criteo_dlrm(self):
        self.at_least(self.criteo("dlrm")["auc"], 0.725)

    def test_synthetic(self):
        # The evaluation rows follow the training rows of the same teacher.
        teacher = run_json("datagen", "--rows", "100000", "--first-row", "1000000", "--seed", "1", "--interactions",
                           "--output", os.devnull)["teacher"]["auc"]
        print("synthetic: the teacher's auc %.4f" % teacher, flush=True)
        fm = self.train("synthetic/fm.yaml", [42])["auc"]
        self.at_least(fm, teacher - 0.005)
        self.assertLessEqual(self.train("synthetic/lr.yaml", [42])["auc"], fm - 0.02)

    def test_fashion_mnist(self):
        self.need(FASHION_MNIST)
        self.at_least(self.train("fashion_mnist/job.yaml", [42])["accuracy"], 0.880)

    def bibtex(self, job):
        return self.train("bibtex/%s.yaml" % job, [1, 2, 3],
                          "data.train=" + self.need("xmc/bibtex_train.xmc.txt.gz"),
                          "data.eval=" + self.need("xmc/bibtex_test.xmc.txt.gz"))

    def test_bibtex_linear(self):
        self.at_least(self.bibtex("linear")["precision_at_1"], 0.615)

    def test_bibtex_hidden(self):
        figures = self.bibtex("hidden")
        self.at_least(figures["precision_at_1"], 0.62)
        self.at_least(figures["precision_at_5"], 0.275)


class Bf16Test(ExampleTest):
    """The same rows, with the same bounds and no tolerance on top, for the models that have matrix products."""

    precision = "bf16"
    test_a9a = test_agaricus = test_criteo_lr = test_criteo_fm = test_synthetic = test_bibtex_linear = None


class WireBf16Test(ExampleTest):
    """Values travel as bf16 both ways. Rounding is the same in one process as across a network."""

    wire = "bf16"
    tolerance = 0.002
    test_agaricus = test_criteo_fm = test_criteo_dcn = test_criteo_dlrm = test_synthetic = test_bibtex_linear = None
    test_fashion_mnist = None


class AllBf16Test(ExampleTest):
    """bf16 in the products and on the wire."""

    precision = "bf16"
    wire = "bf16"
    tolerance = 0.002
    test_agaricus = test_criteo_lr = test_criteo_fm = test_criteo_dcn = test_criteo_dlrm = test_synthetic = None
    test_a9a = test_bibtex_linear = test_bibtex_hidden = test_fashion_mnist = None


if __name__ == "__main__":
    unittest.main(verbosity=2)
