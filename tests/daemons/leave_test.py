"""Daemons that are told to go, by a signal or by the cloud that they run on: they hand back what they have and exit 0.

  leave_test.py PATH_OF_SHOAL
"""

import http.server
import json
import signal
import sys
import threading
import time

from cluster import COUNTING, DaemonTest, main, report_line

ROWS = 400000
FIELDS = ["data.format.synthetic.rows=%d" % ROWS, "data.passes=3", "data.split_bytes=4MiB", "workers.min=2"]


class Metadata:
    """The metadata services of three clouds, on a port of this machine."""

    def __init__(self):
        self.going = False
        self.refused = 0  # questions without the header or token that the real service demands
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def answer(self, status, body=""):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            def do_PUT(self):  # pylint: disable=invalid-name
                if self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]:
                    self.answer(200, "a-token")
                else:
                    self.answer(400)

            def do_GET(self):  # pylint: disable=invalid-name
                demanded = {
                    "/latest": ("X-aws-ec2-metadata-token", "a-token"),
                    "/comput": ("Metadata-Flavor", "Google"),
                    "/metada": ("Metadata", "true")
                }[self.path[:7]]
                if self.headers[demanded[0]] != demanded[1]:
                    service.refused += 1
                    self.answer(401)
                elif self.path == "/latest/meta-data/spot/instance-action":
                    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 100))
                    self.answer(*((200, json.dumps({"action": "terminate", "time": when})) if service.going else (404, "")))
                elif self.path == "/computeMetadata/v1/instance/preempted":
                    self.answer(200, "TRUE" if service.going else "FALSE")
                elif self.path.startswith("/metadata/instance/compute/name?"):
                    self.answer(200, "vm_1")
                elif self.path.startswith("/metadata/scheduledevents?"):
                    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
                    event = {"EventType": "Preempt", "Resources": ["vm_1"], "NotBefore": when}
                    self.answer(200, json.dumps({"Events": [event] if service.going else []}))
                else:
                    self.answer(404)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class LeaveTest(DaemonTest):

    expected = None  # digest of the job in one process, made once

    def expected_digest(self):
        if LeaveTest.expected is None:
            LeaveTest.expected = self.train(COUNTING, *FIELDS, "workers.min=1", threads=2)["digest"]
        return LeaveTest.expected

    def assert_left(self, name, what, start, limit):
        self.assertEqual(self.daemons[name].wait(), 0, self.logs())
        seconds = time.monotonic() - start
        report_line(what, name, "left after %.2f s" % seconds)
        self.assertLess(seconds, limit)
        self.assertEqual(self.process_states(name)[-1], "LEFT")

    def test_each_signal_makes_a_worker_return_its_lease(self):
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
        self.start_cluster(servers=1, workers=2 + len(signals))
        job = self.submit(COUNTING, *FIELDS)
        self.await_examples(job, 1)
        for i, number in enumerate(signals):
            start = time.monotonic()
            self.daemons["w%d" % i].signal(number)
            # A batch takes milliseconds: most of this is for a busy machine.
            self.assert_left("w%d" % i, number.name, start, 5)
        report = self.await_end(job, "SUCCEEDED")
        self.assertEqual((report["examples"], report["digest"]), (ROWS * 3, self.expected_digest()))

    def test_a_second_signal_ends_it_at_once(self):
        self.start_cluster(servers=1, workers=1)
        self.daemons["scheduler"].signal(signal.SIGSTOP)  # so that nothing can be handed over
        start = time.monotonic()
        self.daemons["s0"].signal(signal.SIGTERM)
        time.sleep(0.5)  # two signals that are pending at the same time are one
        self.daemons["s0"].signal(signal.SIGTERM)
        self.assertEqual(self.daemons["s0"].wait(), 1)
        self.assertLess(time.monotonic() - start, 5)
        self.daemons["scheduler"].signal(signal.SIGCONT)

    def test_idle_daemons_leave_at_once(self):
        self.start_cluster(servers=2, workers=1)
        for name in ("w0", "s0", "s1"):
            start = time.monotonic()
            self.daemons[name].signal(signal.SIGTERM)
            self.assert_left(name, "SIGTERM when idle", start, 5)

    def test_the_verb_drains_a_worker_and_idle_servers(self):
        self.start_cluster(servers=2, workers=2)
        job = self.submit(COUNTING, *FIELDS)
        self.await_examples(job, 1)
        start = time.monotonic()
        self.assertIn("w1: LEFT", self.run_verb("drain", "w1", "--wait", "--scheduler", self.address).stdout)
        self.assert_left("w1", "shoal drain", start, 10)
        self.assertEqual(self.await_end(job, "SUCCEEDED")["digest"], self.expected_digest())
        self.run_verb("drain", "s1", "--wait", "--scheduler", self.address)
        self.assert_left("s1", "shoal drain", start, 120)
        self.assertIn("nobody", self.run_verb("drain", "nobody", "--scheduler", self.address, status=1).stderr)

    def test_a_spot_notice_drains_a_worker(self):
        for cloud in ("aws", "gcp", "azure"):
            with self.subTest(cloud=cloud):
                metadata = Metadata()
                self.addCleanup(metadata.close)
                self.start_cluster(servers=1, workers=1)
                self.spawn("spot", "worker", "--scheduler", self.address, "--name", "spot", "--spot-notices", cloud,
                           "--spot-url", metadata.url).await_ready()
                job = self.submit(COUNTING, *FIELDS)
                self.await_examples(job, ROWS // 10)
                self.assertIsNone(self.daemons["spot"].process.poll())
                start = time.monotonic()
                metadata.going = True
                # It asks every 2 s.
                self.assert_left("spot", cloud, start, 20)
                self.assertIn("spot notice", self.daemons["spot"].log())
                self.assertEqual(metadata.refused, 0)
                report = self.await_end(job, "SUCCEEDED")
                self.assertEqual((report["examples"], report["digest"]), (ROWS * 3, self.expected_digest()))
                for daemon in self.daemons.values():
                    daemon.close()

    def test_a_spot_notice_drains_a_server(self):
        metadata = Metadata()
        self.addCleanup(metadata.close)
        self.start_cluster(servers=1, workers=2)
        self.spawn("spot", "server", "--scheduler", self.address, "--name", "spot", "--spot-notices", "aws", "--spot-url",
                   metadata.url).await_ready()
        job = self.submit(COUNTING, *FIELDS)
        self.await_examples(job, ROWS // 10)
        self.assertIsNone(self.daemons["spot"].process.poll())
        start = time.monotonic()
        metadata.going = True
        self.assert_left("spot", "aws", start, 60)
        self.assertIn("spot notice", self.daemons["spot"].log())
        # It gave its partitions away; none of them was lost and nothing was trained again.
        log = self.run_verb("logs", str(job), "--scheduler", self.address).stdout
        self.assertIn("have moved from server spot to server s0", log)
        report = self.await_end(job, "SUCCEEDED")
        self.assertEqual((report["examples"], report["digest"]), (ROWS * 3, self.expected_digest()))
        self.assertEqual(report["recoveries"], [])

    def test_spot_notices_that_nobody_answers_change_nothing(self):
        self.start_cluster(servers=1, workers=0)
        self.spawn("spot", "worker", "--scheduler", self.address, "--name", "spot", "--spot-notices", "aws", "--spot-url",
                   "http://127.0.0.1:1").await_ready()
        self.await_that("the warning", lambda: "spot notices" in self.daemons["spot"].log())
        self.assertEqual(self.run_job(COUNTING)["examples"], 400000)
        self.assertEqual(self.daemons["spot"].log().count("spot notices"), 1)
        self.run_verb("worker", "--scheduler", self.address, "--spot-notices", "ibm", status=2)


if __name__ == "__main__":
    main(sys.argv)
