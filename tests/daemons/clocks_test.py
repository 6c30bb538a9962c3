#!/usr/bin/env python3
"""Wall clocks that jump, back by an hour and ahead by a day, in all processes of a cluster that trains a counting job:
nothing changes. Nobody is declared dead for it, who is dead is found within the deadline, calls still time out, and the
sums are exact.

  clocks_test.py PATH_OF_SHOAL PATH_OF_FAULTY_WORKER PATH_OF_CLOCK_JUMP

Workers are slowed down, and some of their calls delayed and lost (tests/chaos/faulty_worker), so that there are waits of
all kinds under way whenever a clock jumps.
"""

import datetime
import json
import os
import signal
import struct
import sys
import time

from cluster import COUNTING, Daemon, DaemonTest, main, report_line

FIELDS = ["data.format.synthetic.rows=100000", "data.format.synthetic.categories=6", "data.passes=1",
          "data.split_bytes=1MiB", "sync={ssp: {staleness: 4}}", "replicas=2", "checkpoint.every=1s"]
BATCH_MS = 40  # of a lane, until the job may end
DEADLINE_SECONDS = 3
HOUR = 3600


class ClocksTest(DaemonTest):

    faulty_worker = clock_jump = None

    def jump(self, seconds):
        """Sets the wall clock of all processes off by so much."""
        with open(self.path("clock"), "r+b") as file:
            file.write(struct.pack("<q", seconds))

    def spawn_jumping(self, name, binary, *arguments):
        daemon = Daemon("/usr/bin/env", name, ["LD_PRELOAD=" + self.clock_jump, "CLOCK_JUMP=" + self.path("clock"), binary,
                                               *arguments], self.folder)
        self.addCleanup(daemon.close)
        self.daemons[name] = daemon
        return daemon

    def start(self):
        with open(self.path("clock"), "wb") as file:
            file.write(struct.pack("<q", 0))
        scheduler = self.spawn_jumping("scheduler", self.binary, "scheduler", "--heartbeat", "200ms", "--deadline",
                                       "%ds" % DEADLINE_SECONDS)
        self.address = scheduler.await_ready().rsplit(" ", 1)[1]
        for name in ("s0", "s1", "s2"):
            self.spawn_jumping(name, self.binary, "server", "--scheduler", self.address, "--name", name).await_ready()
        for name in ("w0", "w1", "w2"):
            self.spawn_jumping(name, self.faulty_worker, "--scheduler", self.address, "--name", name, "--batch-ms",
                               str(BATCH_MS), "--full-speed-file", self.path("full-speed"), "--rate", "0.01", "--kinds",
                               "reply_lost,delayed,late", "--seed", name[1]).await_ready()

    def wall_times(self, job):
        """Of what the scheduler has logged, in the order of its lines."""
        lines = json.loads(self.run_verb("logs", str(job), "--json", "--scheduler", self.address).stdout)["lines"]
        return [datetime.datetime.strptime(line.split(" ")[0], "%Y-%m-%dT%H:%M:%S.%fZ") for line in lines]

    def states(self):
        return {name: self.process_states(name) for name in self.daemons if name != "scheduler"}

    def test_a_clock_that_jumps_changes_nothing(self):
        expected = self.train(COUNTING, *FIELDS[:4], threads=2)["digest"]
        self.start()
        start = time.monotonic()
        job = self.submit(COUNTING, *FIELDS, "checkpoint.dir=" + self.path("checkpoints"))
        self.await_examples(job, 8000)
        self.jump(-HOUR)
        # It goes on at once, and longer than any deadline.
        self.await_examples(job, self.job_status(job)["examples"] + 16000)
        for name, daemon in self.daemons.items():
            with open("/proc/%d/maps" % daemon.process.pid, encoding="utf-8") as maps:
                self.assertIn(os.path.basename(self.clock_jump), maps.read(), name)
        self.jump(24 * HOUR)
        self.await_examples(job, self.job_status(job)["examples"] + 8000)
        self.assertEqual(set(map(tuple, self.states().values())), {("ALIVE",)}, self.logs())
        self.jump(-HOUR)
        for name in ("w1", "s1"):
            self.daemons[name].signal(signal.SIGKILL)
        killed = time.monotonic()
        for name in ("w1", "s1"):
            self.await_that("death of " + name, lambda name=name: self.process_states(name) == ["DEAD"])
        noticed = time.monotonic() - killed
        self.write("full-speed", "")
        report = self.await_end(job, "SUCCEEDED")
        report_line("clock back an hour, ahead a day, back again", "dead noticed after %.1f s" % noticed,
                    "%.1f s" % (time.monotonic() - start))
        self.assertEqual(report["digest"], expected, self.logs())
        self.assertEqual(report["examples"], 100000)
        # The clocks did jump.
        times = self.wall_times(job)
        steps = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertLess(min(steps), datetime.timedelta(minutes=-50), steps)


if __name__ == "__main__":
    ClocksTest.clock_jump = os.path.abspath(sys.argv.pop(3))
    ClocksTest.faulty_worker = os.path.abspath(sys.argv.pop(2))
    main(sys.argv)
