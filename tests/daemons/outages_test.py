"""Parts of a cluster that are out of reach, out of space in the middle of a counting job: it stays exact,
`status` says what is wrong, and it heals by itself.

  outages_test.py PATH_OF_SHOAL PATH_OF_FAULTY_WORKER PATH_OF_SLOW_DISK

Workers are slowed down (tests/chaos/faulty_worker), so that the job lasts long enough on any machine.
"""

import json
import os
import re
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))

from cluster import COUNTING, MODES, Daemon, DaemonTest, main, report_line  # noqa: E402  pylint: disable=wrong-import-position
from proxy import HOLE, UP, Network  # noqa: E402  pylint: disable=wrong-import-position

ROWS = 200000
# Splits of many batches, so that what happens hits a lane inside a lease.
FIELDS = ["data.format.synthetic.rows=%d" % ROWS, "data.format.synthetic.categories=6", "data.passes=1",
          "data.split_bytes=2MiB"]
BATCH_MS = 40  # of a lane, until the job may end: about 6000 examples a second
DEADLINE = "1500ms"


class OutagesTest(DaemonTest):

    expected = None  # digest of the job in one process, made once
    slow_disk = None  # what is preloaded into servers
    faulty_worker = None

    def expected_digest(self):
        if OutagesTest.expected is None:
            OutagesTest.expected = self.train(COUNTING, *FIELDS, threads=2)["digest"]
        return OutagesTest.expected

    def finish(self, job, what, start, examples=None):
        """The job must succeed with exact sums; its report. Workers are not slowed down any more."""
        self.write("full-speed", "")
        report = self.await_end(job, "SUCCEEDED")
        counters = {name: count for name, count in report["counters"].items() if count > 0}
        report_line(what, counters, "%.1f s" % (time.monotonic() - start))
        self.assertEqual(report["digest"], self.expected_digest(), self.logs())
        if examples is not None:
            self.assertEqual(report["examples"], examples)
        return report

    def start(self, servers, workers, deadline="3s"):
        """A cluster whose workers w0 w1 ... are slowed down."""
        if os.path.exists(self.path("full-speed")):
            os.remove(self.path("full-speed"))
        self.start_cluster(servers=servers, workers=0, deadline=deadline)
        for i in range(workers):
            self.spawn_worker("w%d" % i)

    def spawn_worker(self, name, log=None):
        daemon = Daemon(self.faulty_worker, log or name, ["--scheduler", self.address, "--name", name, "--batch-ms",
                                                          str(BATCH_MS), "--full-speed-file", self.path("full-speed")],
                        self.folder)
        self.addCleanup(daemon.close)
        self.daemons[log or name] = daemon
        daemon.await_ready()
        return daemon

    def spawn_server(self, name, *arguments, environment=()):
        """A server to which a file that must not grow is an error, not a signal."""
        command = ["-c", 'trap "" XFSZ; exec env "$@"', "sh", *environment, self.binary, "server", "--scheduler", self.address,
                   "--name", name, *arguments]
        daemon = Daemon("/bin/sh", name, command, self.folder)
        self.addCleanup(daemon.close)
        self.daemons[name] = daemon
        daemon.await_ready()
        return daemon

    # --- workers ---

    def test_all_workers_gone_for_a_while(self):
        self.start(1, 2, DEADLINE)
        start = time.monotonic()
        job = self.submit(COUNTING, *FIELDS)
        self.await_examples(job, ROWS // 40)
        for name in ("w0", "w1"):
            self.daemons[name].signal(signal.SIGKILL)
        status = self.await_that("the reason", lambda: "waiting for a worker" in self.job_status(job)["reason"] and
                                 self.job_status(job))
        self.assertEqual(status["state"], "RUNNING")
        report_line("all workers gone", status["reason"], "at %d examples" % status["examples"])
        self.assertLess(status["examples"], ROWS)
        self.spawn_worker("w0", log="w0-again")
        self.finish(job, "all workers gone", start)
        self.assertEqual(self.process_states("w0"), ["DEAD", "ALIVE"])

    def test_a_worker_restarted_under_its_name_fences_the_one_that_hangs(self):
        self.start(1, 2, "60s")  # nobody is declared dead
        start = time.monotonic()
        job = self.submit(COUNTING, *FIELDS)
        self.await_examples(job, ROWS // 40)
        zombie = self.daemons["w0"]
        zombie.signal(signal.SIGSTOP)
        self.spawn_worker("w0", log="w0-again")
        self.assertEqual(self.process_states("w0"), ["FENCED", "ALIVE"])
        self.await_examples(job, self.job_status(job)["examples"] + 1)
        zombie.signal(signal.SIGCONT)
        self.assertEqual(zombie.wait(), 1)
        self.assertIn("fenced", zombie.log())
        self.finish(job, "restarted under the same name", start)

    # --- the network ---

    def network(self):
        network = Network()
        self.addCleanup(network.stop)
        return network

    def lead(self, network, name, address):
        """A link to an address; its own address."""
        port = network.add_link(name)
        network.set_target(name, address)
        return "127.0.0.1:%d" % port

    def test_a_worker_that_reaches_only_one_server(self):
        network = self.network()
        self.start(1, 1, DEADLINE)
        port = network.add_link("s1")
        server = self.spawn("s1", "server", "--scheduler", self.address, "--name", "s1", "--advertise", "127.0.0.1:%d" % port)
        network.set_target("s1", server.await_ready().rsplit(" ", 1)[1])
        cut = self.spawn_worker("cut")
        network.set_pid("cut", cut.process.pid)
        network.set_state("cut", "s1", HOLE)
        start = time.monotonic()
        job = self.submit(COUNTING, *FIELDS, "workers.min=2")
        report = self.finish(job, "reaches one server of two", start, examples=ROWS)
        shares = {worker["name"]: worker["share"] for worker in report["workers"]}
        self.assertGreater(shares["w0"], 0.95, shares)  # nothing waits for the other for ever
        self.assertIn("gives its split back", cut.log())
        network.set_state("cut", "s1", UP)

        def works_again():
            again = self.run_job(COUNTING, *FIELDS, "workers.min=2")
            self.assertEqual(again["digest"], self.expected_digest())
            return any(worker["name"] == "cut" and worker["share"] > 0.1 for worker in again["workers"])

        self.await_that("it works again", works_again)

    def test_a_server_that_cannot_reach_the_scheduler(self):
        for mode in ("asp", "bsp"):
            with self.subTest(mode=mode):
                network = self.network()
                self.start(1, 2, DEADLINE)
                server = self.spawn("s1", "server", "--scheduler", self.lead(network, "scheduler", self.address), "--name", "s1")
                network.set_pid("s1", server.process.pid)  # before it connects
                server.await_ready()
                start = time.monotonic()
                job = self.submit(COUNTING, MODES[mode], *FIELDS,
                                  "checkpoint={dir: %s, every: 300ms}" % self.path("checkpoints-" + mode))
                self.await_that("a checkpoint", lambda job=job: self.job_status(job)["checkpoint"])
                network.set_state("s1", "scheduler", HOLE)
                self.await_that("s1 declared dead", lambda: self.process_states("s1")[0] == "DEAD")
                network.set_state("s1", "scheduler", UP)
                self.await_that("s1 joined again", lambda: self.process_states("s1")[-1] == "ALIVE")
                self.assertIsNone(server.process.poll())
                self.finish(job, "server cut off from the scheduler, " + mode, start)
                self.assertIn("server s1", self.run_verb("logs", str(job), "--scheduler", self.address).stdout)
                for daemon in self.daemons.values():
                    daemon.close()

    # --- the disk ---

    def test_a_disk_that_is_full_for_a_while(self):
        self.start(0, 2)
        server = self.spawn_server("s0")
        directory = self.path("checkpoints")
        start = time.monotonic()
        job = self.submit(COUNTING, *FIELDS, "checkpoint={dir: %s, every: 300ms}" % directory)
        self.await_that("a checkpoint", lambda: self.job_status(job)["checkpoint"])
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        status = self.await_that("the warning", lambda: "checkpoint failed" in self.job_status(job)["reason"] and
                                 self.job_status(job))
        report_line("disk full", status["reason"])
        self.assertIn("server s0", status["reason"])
        self.assertIn(directory, status["reason"])
        self.assertEqual(status["state"], "RUNNING")
        self.run_verb("checkpoint", "verify", directory)  # the newest complete one
        full = int(re.search(r"\d+$", status["checkpoint"]).group())
        self.await_examples(job, status["examples"] + 1)  # training goes on
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        report = self.finish(job, "disk full", start, examples=ROWS)
        self.assertGreater(int(re.search(r"\d+$", report["checkpoint"]).group()), full)
        self.assertEqual(report["reason"], "")
        self.run_verb("checkpoint", "verify", directory)

    def test_a_slow_disk(self):
        for mode in ("asp", "bsp"):
            with self.subTest(mode=mode):
                self.start(0, 2)
                disk, directory = self.path("disk"), self.path("slow-" + mode)
                self.spawn_server("s0", environment=["LD_PRELOAD=" + self.slow_disk, "SLOW_DISK=" + disk])
                start = time.monotonic()
                job = self.submit(COUNTING, MODES[mode], *FIELDS, "checkpoint={dir: %s, every: 200ms}" % directory)
                self.await_that("a checkpoint", lambda job=job: self.job_status(job)["checkpoint"])
                self.write("disk", "1000")  # so that a part takes an hour

                def part():
                    return [name for name in os.listdir(directory) if name.endswith(".tmp")]  # pylint: disable=cell-var-from-loop

                writing = self.await_that("a part that is being written", part)
                before = self.job_status(job)["examples"]
                self.await_examples(job, before + ROWS // 20)
                report_line("slow disk", mode, "%d examples while %s was written" % (ROWS // 20, writing[0]))
                self.assertEqual(part(), writing)
                os.remove(disk)
                self.finish(job, "slow disk, " + mode, start, examples=ROWS)
                self.run_verb("checkpoint", "verify", directory)
                for daemon in self.daemons.values():
                    daemon.close()

    def test_a_server_killed_between_deltas_of_a_bsp_job(self):
        self.start(3, 2, DEADLINE)
        directory = self.path("deltas")
        start = time.monotonic()
        job = self.submit(COUNTING, MODES["bsp"], *FIELDS, "checkpoint={dir: %s, every: 200ms, full_every: 4}" % directory)

        def newest_is_a_delta():
            if not self.job_status(job)["checkpoint"]:
                return False
            listed = json.loads(self.run_verb("checkpoint", "ls", directory, "--json").stdout)["checkpoints"]
            return listed and listed[-1]["parent"] != ""

        self.await_that("a delta", newest_is_a_delta)
        self.daemons["s1"].signal(signal.SIGKILL)
        self.finish(job, "killed between deltas", start)
        log = self.run_verb("logs", str(job), "--scheduler", self.address).stdout
        self.assertIn("server s1", log)
        self.run_verb("checkpoint", "verify", directory)


if __name__ == "__main__":
    OutagesTest.faulty_worker, OutagesTest.slow_disk = (os.path.abspath(sys.argv.pop(2)) for _ in range(2))
    main(sys.argv)
