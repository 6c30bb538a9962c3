"""The harness itself: schedules are functions of their seed, links can be cut and slowed, checks see what is wrong.

  harness_test.py
"""

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chaos import Failed, Run  # noqa: E402  pylint: disable=wrong-import-position
from proxy import HOLE, REFUSE, UP, Network  # noqa: E402  pylint: disable=wrong-import-position
from schedule import ALL_FAULTS, make_schedule  # noqa: E402  pylint: disable=wrong-import-position


class ScheduleTest(unittest.TestCase):

    def test_a_seed_is_a_schedule(self):
        first = make_schedule(7, 20, 3, 3, 1.5)
        self.assertEqual(first, make_schedule(7, 20, 3, 3, 1.5))
        self.assertEqual(first, json.loads(json.dumps(first)))  # as it is replayed
        self.assertNotEqual(first, make_schedule(8, 20, 3, 3, 1.5))
        self.assertEqual(sorted(event["at"] for event in first), [event["at"] for event in first])
        self.assertGreater(len(first), 10)
        self.assertLess(first[-1]["at"], 20)

    def test_eight_seeds_have_every_fault(self):
        seen = {event["fault"] for seed in range(1, 9) for event in make_schedule(seed, 20, 3, 3, 1.5)}
        self.assertEqual(seen, set(ALL_FAULTS))

    def test_once_is_once_at_any_time(self):
        schedules = [make_schedule(seed, 10, 3, 3, 1.5, ("server_kill",), once=True) for seed in range(30)]
        self.assertEqual({len(schedule) for schedule in schedules}, {1})
        times = [schedule[0]["at"] for schedule in schedules]
        self.assertLess(min(times), 3)
        self.assertGreater(max(times), 6)

    def test_only_the_faults_that_are_wanted(self):
        seen = {event["fault"] for event in make_schedule(1, 20, 3, 3, 1.5, ("worker_kill", "slow_link"))}
        self.assertEqual(seen, {"worker_kill", "slow_link"})
        self.assertEqual(make_schedule(1, 20, 3, 3, 1.5, ()), [])


class Echo:
    """Sends back what it gets."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.echo, args=(client,), daemon=True).start()

    @staticmethod
    def echo(client):
        with client:
            while True:
                try:
                    data = client.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                client.sendall(data)


class NetworkTest(unittest.TestCase):

    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.listener.close)
        self.network = Network()
        self.addCleanup(self.network.stop)
        self.port = self.network.add_link("s0")
        self.network.set_target("s0", self.echo.address)
        self.network.set_pid("me", os.getpid())

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.addCleanup(client.close)
        return client

    def exchange(self, client, data=b"hello"):
        client.sendall(data)
        got = b""
        while len(got) < len(data):
            part = client.recv(65536)
            if not part:
                break
            got += part
        return got

    def test_bytes_go_through(self):
        data = os.urandom(3000000)
        client = self.connect()
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += client.recv(65536)
        sender.join()
        self.assertEqual(got, data)

    def test_a_refused_link_ends_connections_old_and_new(self):
        client = self.connect()
        self.assertEqual(self.exchange(client), b"hello")
        self.network.set_state("me", "s0", REFUSE)
        self.assertEqual(client.recv(10), b"")
        self.assertEqual(self.connect().recv(10), b"")
        self.network.set_state("me", "s0", UP)
        self.assertEqual(self.exchange(self.connect()), b"hello")

    def test_a_hole_swallows_until_it_is_mended(self):
        client = self.connect()
        self.assertEqual(self.exchange(client), b"hello")
        self.network.set_state("me", "s0", HOLE)
        client.sendall(b"late")
        client.settimeout(0.3)
        with self.assertRaises(socket.timeout):
            client.recv(10)
        client.settimeout(10)
        self.network.set_state("me", "s0", UP)
        self.assertEqual(client.recv(10), b"late")

    def test_it_is_cut_for_one_process_only(self):
        self.network.set_state("somebody else", "s0", REFUSE)
        self.assertEqual(self.exchange(self.connect()), b"hello")

    def test_a_slow_link(self):
        self.network.set_delay("me", "s0", 0.2)
        client = self.connect()
        start = time.monotonic()
        self.assertEqual(self.exchange(client), b"hello")
        self.assertGreaterEqual(time.monotonic() - start, 0.4)  # there and back

    def test_nobody_there(self):
        self.network.set_target("s0", None)
        self.assertEqual(self.connect().recv(10), b"")


class ChecksTest(unittest.TestCase):

    def make_run(self, mode="ssp"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        options = argparse.Namespace(mode=mode, replicas=1, seconds=1, workers=1, servers=1, deadline=1, faults=[],
                                     every=1, once=False, rows=100, job="counting")
        return Run(options, 1, folder.name)

    def log(self, run, *lines):
        with open(os.path.join(run.folder, "w0.jsonl"), "a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")

    @staticmethod
    def said(least, most, sent, received, server=7, map_version=1):
        return {"open": {"server": server, "run": 1, "map": map_version, "pass": 0, "split": 3, "lease": 1,
                         "least": least, "most": most, "sent": sent, "received": received}}

    def test_a_watermark_that_goes_back_is_seen(self):
        run = self.make_run()
        self.log(run, self.said(100, 200, 1.0, 1.1), self.said(100, 300, 1.2, 1.3))
        run.check_watermarks()
        self.log(run, self.said(100, 250, 1.4, 1.5))
        with self.assertRaisesRegex(Failed, "watermark 250 after 300"):
            run.check_watermarks()

    def test_answers_at_the_same_time_or_of_another_incarnation_say_nothing(self):
        run = self.make_run()
        self.log(run, self.said(100, 300, 1.0, 2.0), self.said(100, 200, 1.5, 2.5),  # overlapping
                 self.said(0, 0, 3.0, 3.1, server=8), self.said(0, 0, 3.0, 3.1, map_version=2))
        run.check_watermarks()
        self.assertEqual(run.happened["watermarks_compared"], 8)

    def test_wrong_sums_and_too_much_staleness_are_seen(self):
        run = self.make_run()
        run.options.shoal, run.checkpoints = "true", run.folder
        good = {"digest": {"count": "aa"}, "examples": 100, "staleness": {"max": 4}}
        run.check(good, good)
        with self.assertRaisesRegex(Failed, "not exact"):
            run.check({**good, "digest": {"count": "ab"}}, good)
        with self.assertRaisesRegex(Failed, "staleness"):
            run.check({**good, "staleness": {"max": 5}}, good)
        with self.assertRaisesRegex(Failed, "must be at most 100"):
            run.check({**good, "examples": 101}, good)

    def test_transport_faults_are_added_up_over_lives(self):
        run = self.make_run()
        self.log(run, {"faults": {"late": 2, "doubled": 1}}, {"faults": {"late": 5, "doubled": 1}},
                 {"faults": {"late": 0, "doubled": 0}}, {"faults": {"late": 1, "doubled": 4}})
        self.assertEqual(run.transport_faults(), {"late": 6, "doubled": 5})


if __name__ == "__main__":
    unittest.main(verbosity=2)
