"""Defects that are planted into clusters of real processes: the harness must find each and say how to replay it.

  planted_test.py PATH_OF_SHOAL PATH_OF_FAULTY_WORKER
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

CHAOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.py")


class PlantedTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_chaos(self, schedule, *arguments, seconds=1):
        """Output of one run with asp, which must fail."""
        path = os.path.join(self.folder, "planted.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"seed": 5, "mode": "asp", "replicas": 1, "seconds": seconds, "schedule": schedule}, file)
        result = subprocess.run([sys.executable, CHAOS, "--shoal", SHOAL, "--faulty-worker", FAULTY_WORKER, "--replay", path,
                                 "--rows", "60000", "--servers", "2", "--workers", "2", "--out", self.folder, "--rate", "0",
                                 "--wrong-rate", "0", "--overtake-rate", "0", *arguments], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("FAILED seed 5", result.stdout)
        self.assertRegex(result.stdout, "replay with: tests/chaos/run.sh --replay .*schedule.json")
        self.assertTrue(result.stdout.endswith("0 passed, 1 failed, 0 skipped\n"))
        return result.stdout

    def differences(self, output):
        found = re.search(r"not exact: of (\d+) updates (\d+) are lost and (\d+) doubled", output)
        self.assertIsNotNone(found, output)
        print("RESULT of %s updates lost %s, doubled %s" % found.groups(), flush=True)
        return [int(number) for number in found.groups()]

    def test_updates_that_are_lost_or_doubled(self):
        # A push of 500 records to one of two servers has about half of their 8 updates each.
        updates, lost, doubled = self.differences(self.run_chaos([], "--scale-every", "60", "--scale-by", "0"))
        self.assertGreater(lost, 1000)
        self.assertLess(lost, updates / 10)
        self.assertEqual(doubled, 0)
        updates, lost, doubled = self.differences(self.run_chaos([], "--scale-every", "60", "--scale-by", "2"))
        self.assertGreater(doubled, 1000)
        self.assertLess(doubled, updates / 10)
        self.assertEqual(lost, 0)

    def test_a_cluster_that_stands_still(self):
        schedule = [{"at": 0.2, "fault": "scheduler_hang", "lasts": 1000}]
        output = self.run_chaos(schedule, "--patience", "8", seconds=100)
        self.assertIn("nothing has moved for 8 s", output)
        self.assertIn(json.dumps(schedule), output)
        failure = re.search("all stacks and logs: (.*failure.txt)", output).group(1)
        with open(failure, encoding="utf-8") as file:
            text = file.read()
        for name in ("scheduler", "s0", "s1", "w0", "w1"):
            self.assertIn("--- stacks of %s (process" % name, text)
        self.assertGreater(text.count("Thread "), 10)


if __name__ == "__main__":
    SHOAL, FAULTY_WORKER = (os.path.abspath(path) for path in (sys.argv.pop(1), sys.argv.pop(1)))
    unittest.main(verbosity=2)
