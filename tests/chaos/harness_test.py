"""The harness itself: schedules are functions of their seed, links can be cut and slowed, and each check finds the defect
that it is there for.

  harness_test.py
"""

import argparse
import contextlib
import io
import json
import os
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import chaos  # noqa: E402  pylint: disable=wrong-import-position
from chaos import Failed, Run  # noqa: E402  pylint: disable=wrong-import-position
from invariants import (FENCED, PUSH_DUPLICATE, PUSH_FENCED, SPLIT_DONE, Broken,  # noqa: E402  pylint: disable=wrong-import-position
                        Invariants, compare_rows)
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

    def test_it_is_cut_for_sockets_of_ipv6_that_lead_to_ipv4(self):
        # As gRPC's do.
        try:
            client = socket.socket(socket.AF_INET6)
            client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        except OSError:
            self.skipTest("no IPv6 here")
        self.addCleanup(client.close)
        client.settimeout(10)
        self.network.set_state("me", "s0", REFUSE)
        client.connect(("::ffff:127.0.0.1", self.port))
        self.assertEqual(client.recv(10), b"")

    def test_a_slow_link(self):
        self.network.set_delay("me", "s0", 0.2)
        client = self.connect()
        start = time.monotonic()
        self.assertEqual(self.exchange(client), b"hello")
        self.assertGreaterEqual(time.monotonic() - start, 0.4)  # there and back

    def test_nobody_there(self):
        self.network.set_target("s0", None)
        self.assertEqual(self.connect().recv(10), b"")


class LogTest(unittest.TestCase):
    """Invariants on logs that are written here."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.invariants = Invariants(self.folder, "ssp", 4)

    def log(self, *lines, worker="w0"):
        with open(os.path.join(self.folder, worker + ".jsonl"), "a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")

    @staticmethod
    def opened(least, most, sent, received, server=7, map_version=1, lease=1, outcome=0, split=3):  # pylint: disable=too-many-arguments
        return {"open": {"server": server, "run": 1, "map": map_version, "pass": 0, "split": split, "lane": 100 + lease,
                         "lease": lease, "outcome": outcome, "least": least, "most": most, "sent": sent,
                         "received": received}}

    @staticmethod
    def pushed(begin, end, sent, received, lease=1, answers=(), last=False, outcome=0, split=3):  # pylint: disable=too-many-arguments
        """`answers`: (PushOutcome, number of the 8 partitions) of those that did not accept."""
        counts = [0] * 6
        for answer, number in answers:
            counts[answer] = number
        return {"push": {"asked": [7, 1, 100 + lease, 0, split, lease, begin, end, last, 8, end - begin], "map": 1,
                         "outcome": outcome, "answers": counts, "sent": sent, "received": received}}

    def assert_broken(self, what):
        with self.assertRaisesRegex(Broken, what):
            self.invariants.update()


class WatermarkTest(LogTest):

    def test_one_that_goes_back(self):
        self.log(self.opened(100, 200, 1.0, 1.1), self.opened(100, 300, 1.2, 1.3))
        self.invariants.update()
        self.log(self.opened(100, 250, 1.4, 1.5))
        self.assert_broken("most watermark 250 after 300")

    def test_one_below_an_accepted_push(self):
        self.log(self.pushed(0, 500, 1.0, 1.1, answers=[(PUSH_DUPLICATE, 7)]), self.opened(0, 500, 1.2, 1.3))
        self.invariants.update()
        self.log(self.pushed(500, 1000, 1.4, 1.5), self.opened(500, 500, 1.6, 1.7, lease=2))
        self.assert_broken("most watermark 500 after 1000")

    def test_answers_at_the_same_time_or_of_another_incarnation_say_nothing(self):
        self.log(self.opened(100, 300, 1.0, 2.0), self.opened(100, 200, 1.5, 2.5),  # overlapping
                 self.opened(0, 0, 3.0, 3.1, server=8), self.opened(0, 0, 3.0, 3.1, map_version=2))
        self.invariants.update()
        self.assertEqual(self.invariants.compared, 8)

    def test_a_line_without_its_end_is_read_when_it_is_whole(self):
        text = json.dumps(self.opened(100, 300, 1.0, 1.1))
        path = os.path.join(self.folder, "w0.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:20])
        self.invariants.update()
        self.assertEqual(len(self.invariants.opens), 0)
        with open(path, "a", encoding="utf-8") as file:
            file.write(text[20:] + "\n{\"killed\": \n")
        self.invariants.update()
        self.assertEqual(len(self.invariants.opens), 1)


class LeaseTest(LogTest):

    def test_a_push_that_is_accepted_after_its_lease_was_fenced(self):
        self.log(self.opened(0, 0, 1.0, 1.1, lease=4))
        self.log(self.opened(0, 0, 1.2, 1.3, lease=5), worker="w1")
        self.log(self.pushed(0, 500, 1.25, 1.5, lease=4),  # while lease 5 was on its way: may have been first
                 self.pushed(500, 1000, 1.4, 1.6, lease=4, answers=[(PUSH_FENCED, 8)]),
                 self.pushed(500, 1000, 1.4, 1.6, lease=4, outcome=FENCED))
        self.invariants.update()
        self.assertEqual(self.invariants.fenced_after, 2)
        self.log(self.pushed(500, 1000, 1.4, 1.6, lease=4, answers=[(PUSH_FENCED, 7)]))
        self.assert_broken("a push of lease 4 was accepted after lease 5 had fenced it")

    def test_a_lane_that_two_workers_have(self):
        self.log(self.opened(0, 0, 1.0, 1.1, lease=4))
        self.invariants.update()
        self.log(self.pushed(0, 500, 1.2, 1.3, lease=4), worker="w1")
        self.assert_broken("lane 104 belongs to w0.jsonl and to w1.jsonl")

    def test_an_opening_that_is_accepted_after_its_lease_was_fenced(self):
        self.log(self.opened(0, 0, 1.2, 1.3, lease=5), self.opened(0, 0, 1.4, 1.5, lease=4, outcome=FENCED))
        self.invariants.update()
        self.log(self.opened(0, 0, 1.6, 1.7, lease=4))
        self.assert_broken("opening of lease 4 was accepted after lease 5")

    def test_a_lease_that_is_given_out_twice(self):
        self.log(self.opened(0, 0, 1.0, 1.1, lease=5), self.opened(0, 0, 2.0, 2.1, lease=5, split=4))
        self.assert_broken("lease 5 was given out twice: run 1, pass 0, split 3 to lane 105, then run 1, pass 0, split 4")

    def test_a_lease_that_was_used_before_it_was_on_disk(self):
        path = os.path.join(self.folder, "state.db")
        connection = sqlite3.connect(path)
        self.addCleanup(connection.close)
        connection.execute("CREATE TABLE record (kind TEXT, id INTEGER, value BLOB)")
        connection.execute("INSERT INTO record VALUES ('counter', 2, '9000'), ('counter', 3, '4097')")
        connection.commit()
        self.log(self.opened(0, 0, 1.0, 1.1, lease=4096))
        self.invariants.update()
        self.invariants.check_durable(path)
        self.log(self.opened(0, 0, 2.0, 2.1, lease=4097, split=4))
        self.invariants.update()
        with self.assertRaisesRegex(Broken, "lease 4097 was used; .* below 4097"):
            self.invariants.check_durable(path)

    def test_a_split_that_nobody_has_ended(self):
        self.log(self.opened(0, 0, 1.0, 1.1), self.pushed(0, 500, 1.2, 1.3, last=True))
        self.log(self.opened(SPLIT_DONE, SPLIT_DONE, 1.0, 1.1, lease=2, split=0))
        self.invariants.update()
        with self.assertRaisesRegex(Broken, "pass 0, split 1 .and 1 others"):
            self.invariants.check_end(4, 1)
        self.log(self.opened(0, 0, 2.0, 2.1, lease=3, split=1), self.opened(0, 0, 2.2, 2.3, lease=4, split=1),
                 self.pushed(0, 500, 2.4, 2.5, last=True, lease=4, split=1, answers=[(PUSH_DUPLICATE, 3)]),
                 self.pushed(0, 500, 2.4, 2.5, last=True, lease=5, split=2, answers=[(PUSH_FENCED, 1)]))
        self.invariants.update()
        with self.assertRaisesRegex(Broken, "pass 0, split 2 .and 0 others"):
            self.invariants.check_end(4, 1)
        self.invariants.check_end(2, 1)
        self.assertEqual(self.invariants.superseded, 1)


class CountsTest(LogTest):

    def test_rows_that_were_read_too_early(self):
        self.log({"ahead": {"server": 7, "batch": 9, "slowest": 5}})
        self.invariants.update()
        self.log({"ahead": {"server": 7, "batch": 10, "slowest": 5}})
        self.assert_broken("batch 10 begin while the slowest lane had finished 5")

    def test_answers_to_leases_that_were_tampered_with_are_counted_apart(self):
        self.log({"planted": 2}, {"overtaken": 2}, {"overtaken": 3}, self.pushed(0, 500, 1.0, 1.1, answers=[(1, 2), (2, 1), (3, 1), (4, 1), (5, 1)]),
                 self.pushed(0, 500, 2.0, 2.1, lease=2, answers=[(4, 3)]), self.pushed(0, 500, 2.0, 2.1, outcome=FENCED),
                 self.pushed(0, 500, 2.0, 2.1, lease=3, split=4, answers=[(5, 6)]))
        self.invariants.update()
        field, reordered, answers = self.invariants.answers()
        self.assertEqual(reordered, {"out_of_order": 6, "duplicate": 0, "fenced": 0, "stale_map": 0, "misaligned": 0})
        self.assertEqual(answers["out_of_order"], 7)
        self.assertEqual(field, {"duplicate": 2, "fenced": 2, "stale_map": 1, "misaligned": 1, "out_of_order": 1})
        self.assertEqual(answers["misaligned"], 4)

    def test_records_that_were_computed_again(self):
        batches = [{"batch": {"at": 1.0 + i, "thread": 0, "finished": i}} for i in range(5)]
        self.log(*batches, self.pushed(0, 500, 1.1, 1.2), self.pushed(0, 500, 1.3, 1.4),  # sent again: one computation
                 self.pushed(500, 1000, 2.1, 2.2),  # the batch of 3.0 is not pushed before the fault
                 self.pushed(500, 1000, 4.1, 4.2, lease=2), self.pushed(1000, 1200, 5.1, 5.2, lease=2))
        self.invariants.update()
        # Of 1200 records, 1000 were pushed before 3.5 and 500 computed in vain; 700 are computed after it.
        self.assertEqual(self.invariants.computed_again(3.5, 1200, 500), 700 - (1200 - 1500))
        self.assertEqual(self.invariants.computed_again(0.5, 1200, 500), 500 + 500 + 500 + 500 + 200 - 1200)
        self.assertEqual(self.invariants.computed_again(4.5, 1200, 500), 200 - (1200 - 1000))

    def test_maps_that_lanes_heard_of_after_a_time(self):
        self.log(self.opened(0, 0, 0.9, 1.0, map_version=3), self.opened(0, 0, 2.0, 2.1, map_version=3),
                 self.opened(0, 0, 2.4, 2.5, server=8, map_version=4), self.opened(0, 0, 2.9, 3.0, map_version=4),
                 self.opened(0, 0, 3.9, 4.0, map_version=6), self.pushed(0, 500, 4.1, 4.2))
        self.invariants.update()
        # That of the push is older.
        self.assertEqual([self.invariants.newer_maps(when) for when in (0.5, 2.2, 3.0, 5.0)], [4, 2, 1, 0])

    def test_sums_that_differ(self):
        good = ({("k", "C1"): (3.0, 5.0), ("l", "C1"): (2.0, 7.0)}, [5.0, 12.0])
        self.assertTrue(compare_rows(good, good)["exact"])
        found = compare_rows(good, ({("k", "C1"): (5.0, 9.0)}, [5.0, 12.0]))
        self.assertEqual((found["updates"], found["lost"], found["doubled"], found["records_lost"]), (5, 2, 2, 0))
        # A loss and a doubling in one row cancel in its count, not in its hashes.
        found = compare_rows(good, ({("k", "C1"): (3.0, 6.0), ("l", "C1"): (2.0, 7.0)}, [7.0, 12.0]))
        self.assertEqual((found["lost"], found["doubled"], found["other_rows"], found["records_doubled"]), (0, 0, 1, 2))
        self.assertFalse(found["exact"])


class SizeTest(unittest.TestCase):

    def test_sums_stay_below_what_a_float_holds(self):
        for seconds in (5, 10, 20, 60, 3600):
            options = chaos.parse(["--shoal", "x", "--faulty-worker", "y", "--seconds", str(seconds)])
            self.assertLess(options.rows * 7.5, 0.95 * 2**24)
            # As long as it should take.
            self.assertAlmostEqual(options.rows / chaos.BATCH / options.workers * options.batch_ms / 1000, seconds, delta=0.1)
        self.assertEqual(chaos.parse(["--shoal", "x", "--faulty-worker", "y", "--seconds", "5"]).batch_ms, 10)


class RunTest(unittest.TestCase):

    def make_run(self, mode="ssp"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.options = argparse.Namespace(mode=mode, replicas=1, seconds=1, workers=1, servers=1, deadline=1, faults=[],
                                          every=1, once=False, rows=100, job="linear", out=folder.name, patience=60,
                                          shoal="true")
        return Run(self.options, 1, folder.name)

    def test_no_faults_are_no_faults(self):
        run = self.make_run()
        self.options.faults = list(ALL_FAULTS)
        self.assertEqual(Run(self.options, 1, run.folder, []).schedule, [])
        self.assertNotEqual(Run(self.options, 1, run.folder).schedule, [])

    def test_a_wrong_model_and_too_much_staleness(self):
        run = self.make_run()
        run.checkpoints = run.folder
        good = {"digest": {"count": "aa"}, "examples": 100, "staleness": {"max": 4}, "eval": {"auc": 0.8}, "splits": 0,
                "passes": 1}
        run.check(good, good)
        with self.assertRaisesRegex(Failed, "AUC"):
            run.check({**good, "eval": {"auc": 0.79}}, good)
        with self.assertRaisesRegex(Failed, "staleness"):
            run.check({**good, "staleness": {"max": 5}}, good)
        with self.assertRaisesRegex(Failed, "must be at most 100"):
            run.check({**good, "examples": 101}, good)
        run.answers.put((1.0, {**good, "state": "RUNNING", "staleness": {"max": 5}}))
        with self.assertRaisesRegex(Failed, "staleness"):  # not only at the end
            run.take_status()
        run.mode = "bsp"
        with self.assertRaisesRegex(Failed, "not exact: digest"):
            run.check({**good, "digest": {"count": "ab"}}, good)

    def test_nothing_that_moves_is_found_with_all_stacks_and_said_with_the_schedule(self):
        self.make_run()

        class StuckFleet:
            daemons, leaving, notes = {}, {}, []

            def __init__(self, *_):
                pass

            def lead_links(self):
                pass

            def stacks(self):
                return "stacks of everybody"

            def close(self):
                pass

        class StuckRun(Run):

            def start(self):
                self.moved = time.monotonic() - self.options.patience - 1

        schedule = [{"at": 0.5, "fault": "scheduler_kill", "down": 1.0}]
        real, chaos.Fleet, chaos.Run = (chaos.Fleet, chaos.Run), StuckFleet, StuckRun
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                _, error, run, _ = chaos.run_seed(self.options, 7, None, schedule)
        finally:
            chaos.Fleet, chaos.Run = real
        self.assertRegex(error, "nothing has moved for 60 s")
        with open(os.path.join(run.folder, "failure.txt"), encoding="utf-8") as file:
            self.assertIn("stacks of everybody", file.read())
        self.assertIn("FAILED seed 7", out.getvalue())
        self.assertIn(json.dumps(schedule), out.getvalue())
        replay = os.path.join(run.folder, "schedule.json")
        self.assertIn("--replay " + replay, out.getvalue())
        with open(replay, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["schedule"], schedule)

    def test_transport_faults_are_added_up_over_lives(self):
        run = self.make_run()
        with open(os.path.join(run.folder, "w0.jsonl"), "a", encoding="utf-8") as file:
            for late, doubled in ((2, 1), (5, 1), (0, 0), (1, 4)):
                file.write(json.dumps({"faults": {"late": late, "doubled": doubled}}) + "\n")
        self.assertEqual(run.transport_faults(), {"late": 6, "doubled": 5})


if __name__ == "__main__":
    unittest.main(verbosity=2)
