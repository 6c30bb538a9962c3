"""Every mode on a cluster of real processes learns what one process learns, shares the work, and counts exactly.

  modes_test.py PATH_OF_SHOAL

One scheduler, two servers and three workers with one lane each, against `shoal train --threads 3`.
"""

import sys
import time

from cluster import CENSUS, COUNTING, MODES, SYNTHETIC, DaemonTest, main, report_line

# Two million rows in one pass; linear, with large batches, so that the six runs take about a minute on two cores.
SYNTHETIC_FIELDS = ["data.format.synthetic.rows=2000000", "data.passes=1", "batch.size=2048"]

# Three equal workers would have a third each; less than this means that one was left out.
MIN_SHARE = 0.15
MAX_AUC_DIFFERENCE = 0.003


class ModesTest(DaemonTest):

    def setUp(self):
        super().setUp()
        self.start_cluster()

    def compare(self, name, job, fields):
        for mode, sync in MODES.items():
            with self.subTest(job=name, mode=mode):
                start = time.monotonic()
                alone = self.train(job, sync, *fields)
                middle = time.monotonic()
                # The job starts when all workers are there, so that each gets its share.
                report = self.run_job(job, sync, "workers.min=3", *fields)
                end = time.monotonic()
                shares = {worker["name"]: worker["share"] for worker in report["workers"]}
                report_line(name, mode, "examples %d" % report["examples"],
                            "AUC %.5f (train %.5f)" % (report["eval"]["auc"], alone["eval"]["auc"]),
                            "shares " + " ".join("%.3f" % share for share in shares.values()),
                            "%.1f s (train %.1f s)" % (end - middle, middle - start))
                self.assertEqual((report["state"], alone["state"]), ("SUCCEEDED", "SUCCEEDED"))
                self.assertEqual(report["examples"], alone["examples"])
                self.assertLess(abs(report["eval"]["auc"] - alone["eval"]["auc"]), MAX_AUC_DIFFERENCE)
                self.assertEqual(sorted(shares), ["w0", "w1", "w2"])
                self.assertGreater(min(shares.values()), MIN_SHARE, shares)
                if mode == "bsp":
                    self.assertEqual(report["digest"], alone["digest"])
                if mode == "ssp":
                    self.assertLessEqual(report["staleness"]["max"], 4)

    def test_synthetic_two_million_rows(self):
        self.compare("synthetic", SYNTHETIC, SYNTHETIC_FIELDS)

    def test_census(self):
        self.compare("census", CENSUS, [])

    def test_dense_layers_larger_than_a_message(self):
        # 9 million floats in 4 partitions: each has 9 MB, each server 18 MB, where a message has at most 16.
        fields = ["data.format.synthetic.rows=2048", "data.format.synthetic.eval_rows=64", "data.passes=1",
                  "batch.size=256", "partitions=4", "model.preset=mlp", "model.hidden=[2900, 3000]"]
        alone = self.train(SYNTHETIC, MODES["bsp"], *fields)
        start = time.monotonic()
        report = self.run_job(SYNTHETIC, MODES["bsp"], *fields)
        report_line("36 MB of dense layers", "bsp", report["digest"], "%.1f s" % (time.monotonic() - start))
        self.assertEqual(report["digest"], alone["digest"])
        start = time.monotonic()
        report = self.run_job(SYNTHETIC, MODES["asp"], "replicas=2", *fields)
        report_line("36 MB of dense layers", "asp, two replicas", "%.1f s" % (time.monotonic() - start))
        self.assertEqual((report["state"], report["examples"]), ("SUCCEEDED", 2048))

    def test_halves_on_the_wire_are_the_same_bits_as_in_one_process(self):
        wire = ["wire.pull=bf16", "wire.push=f16"]
        alone = self.train(CENSUS, MODES["bsp"], *wire)
        report = self.run_job(CENSUS, MODES["bsp"], *wire)
        report_line("census", "bsp, halves on the wire", "AUC %.5f" % report["eval"]["auc"], report["digest"])
        self.assertEqual(report["digest"], alone["digest"])
        self.assertNotEqual(report["digest"], self.train(CENSUS, MODES["bsp"])["digest"])

    def test_counting_is_exact(self):
        expected = self.train(COUNTING, threads=1)["digest"]
        self.assertTrue(expected)
        for mode, sync in MODES.items():
            with self.subTest(mode=mode):
                start = time.monotonic()
                report = self.run_job(COUNTING, sync, "checkpoint.dir=" + self.path(mode))
                report_line("counting", mode, report["digest"], "%.1f s" % (time.monotonic() - start))
                self.assertEqual(report["examples"], 400000)
                self.assertEqual(report["digest"], expected)
                self.run_verb("checkpoint", "verify", self.path(mode))  # the files hold the rows of that digest
                self.assertEqual(self.train(COUNTING, sync)["digest"], expected)


if __name__ == "__main__":
    main(sys.argv)
