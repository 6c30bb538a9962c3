#!/usr/bin/env python3
"""Clusters of real processes under a seeded mix of faults; the counting job must stay exact.

  chaos.py --shoal BINARY --faulty-worker BINARY [--seeds 8] [--first-seed 1] [--seconds 20] [--jobs 2]
           [--mode asp|ssp|bsp] [--replicas 1|2] [--only FAULTS] [--without FAULTS] [--replay FILE] [--out DIR]
           [--job counting|linear]

Each seed is one run: scheduler, servers and workers, each behind links that can be cut, train the counting job while
faults happen for --seconds. Then all is healed and the job must end by itself. A run fails when the sums are not exact, a
watermark of a server's incarnation went back, a server served a lease that a newer one had fenced, a lease was given out
twice or before it was on disk, a lane got further ahead than ssp allows (invariants.py), the job failed, a process that
was told to go did not, or nothing moved for too long; it then says how to replay it. The last line is
"N passed, N failed, N skipped".
"""

import argparse
import collections
import concurrent.futures
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fleet import COUNTING, SYNTHETIC, Fleet, with_set
from invariants import ANSWERS, Broken, Invariants, compare_rows, read_rows
from proxy import HOLE, REFUSE, UP
from schedule import ALL_FAULTS, make_schedule

STALENESS = 4
BATCH = 500
PARTITIONS = 24
# Each record adds 7.5 to a sum of small hashes, on average; floats hold every integer up to 2^24.
MAX_ROWS = 2000000
MAX_AUC_DIFFERENCE = 0.003
# The harness needs no help to make the field give these. A lane has one push under way at a server, and a newer lease
# fences the older: OUT_OF_ORDER needs a network that confirms a push before it delivers it, behind the next one.
# MISALIGNED needs leases whose batches begin elsewhere, and all batches of a job have the same size, so only falsified
# watermarks lead to it.
FIELD_ANSWERS = ("fenced", "duplicate", "stale_map")
REORDERED_ANSWERS = ("out_of_order",)
# Nothing has to be waited for longer than this on an idle machine, once all faults are over; a busy one gets four times.
PATIENCE_SECONDS = 60
TEND_SECONDS = 0.1
JUDGE_SECONDS = 3
POLL_SECONDS = 0.5


class Failed(Exception):
    """An invariant does not hold."""


class Calm:
    """What the job learns in one process without faults, by mode; made on first use."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.reports = {}

    def report(self, mode):
        key = None if self.options.job == "counting" else mode  # counts are the same in all modes
        with self.lock:
            if key not in self.reports:
                self.reports[key] = self.train(mode)
            return self.reports[key]

    def train(self, mode):
        options = self.options
        with tempfile.TemporaryDirectory(dir=options.out) as folder:
            fields = [*job_fields(options), sync_field(mode), "checkpoint.dir=" + folder]
            result = subprocess.run([options.shoal, "train", job_path(options), "--json", "--runs", "", "--threads",
                                     str(options.workers * options.threads), *with_set(*fields)],
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False)
            if result.returncode != 0:
                raise Failed("the undisturbed job: %s" % result.stderr)
            report = json.loads(result.stdout)
            if options.job == "counting":
                report["rows"] = export_rows(options, folder)
        return report


class Run:
    """One seed."""

    def __init__(self, options, seed, folder, schedule=None):
        self.options = argparse.Namespace(**vars(options))
        self.options.seed = seed
        self.mode = options.mode or ("asp", "ssp", "bsp")[seed % 3]
        if self.mode == "bsp":
            self.options.overtake_rate = 0  # success that is not true would be told to all servers
        self.replicas = options.replicas or (1 if self.mode == "bsp" else 1 + (seed // 3) % 2)
        self.folder = folder
        self.schedule = schedule
        if schedule is None:
            self.schedule = make_schedule(seed, options.seconds, options.workers, options.servers, options.deadline,
                                          options.faults, options.every, options.once)
        self.happened = collections.Counter()
        self.drained = {}  # daemons that `shoal drain` was asked for, by name
        self.restarts = {}  # of those told to go: seconds until they are started again
        self.pending = []  # (time, action) besides the schedule: heals and restarts
        self.job = None
        self.samples = []  # (time, examples)
        self.last_status = {}
        self.moved = time.monotonic()  # when examples or splits last changed
        self.fleet = None
        self.watched = {}
        self.invariants = Invariants(folder, self.mode, STALENESS)
        self.judged = 0.0  # when they were looked at
        self.exact = None  # how the sums differ (compare_rows), once the job has ended
        self.closing = False
        self.answers = queue.Queue()  # statuses from the poller
        self.outcomes = queue.Queue()  # what is to be done on the run's own thread

    def fields(self):
        return job_fields(self.options) + [sync_field(self.mode), "checkpoint={dir: %s, every: 1s}" % self.checkpoints] + (
            ["replicas=%d" % self.replicas] if self.replicas > 1 else [])

    # --- the life of a run ---

    def execute(self, calm):
        """Report of the job; raises Failed."""
        self.fleet = Fleet(self.options, self.folder)
        self.checkpoints = os.path.join(self.folder, "checkpoints")
        os.mkdir(self.checkpoints)
        try:
            self.start()
            self.inject()
            self.heal()
            status = self.await_end()
            self.check(status, calm.report(self.mode))
            return status
        except (Failed, Broken) as failure:
            path = os.path.join(self.folder, "failure.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write("%s\n%s\n%s\n%s\n" % (failure, self.events(), self.fleet.stacks(), self.logs()))
            raise Failed("%s\nall stacks and logs: %s" % (failure, path)) from failure
        finally:
            self.closing = True
            self.fleet.close()

    def start(self):
        fleet = self.fleet
        fleet.start_scheduler()
        for i in range(self.options.servers):
            fleet.start_server("s%d" % i)
        for i in range(self.options.workers):
            fleet.start_worker("w%d" % i)
        self.wait_for("all processes are ready", lambda: all(
            daemon.ready is not None for daemon in fleet.daemons.values()))
        fleet.lead_links()
        result = self.verb("submit", job_path(self.options), "--json", "--runs", "", *with_set(*self.fields()))
        if result.returncode != 0:
            raise Failed("submit: %s" % result.stderr)
        self.job = json.loads(result.stdout)["id"]
        threading.Thread(target=self.ask_for_status, daemon=True).start()

        def trains():
            self.take_status()
            return self.last_status.get("examples", 0) > 0

        self.wait_for("the first examples", trains)

    def inject(self):
        start = time.monotonic()
        todo = collections.deque(self.schedule)
        while time.monotonic() < start + self.options.seconds or todo:
            now = time.monotonic()
            while todo and start + todo[0]["at"] <= now:
                self.strike(todo.popleft())
            self.tend()
            if self.ended():
                break
            time.sleep(TEND_SECONDS)

    def heal(self):
        """Undoes everything; workers are not slowed down any more, so that the job ends soon."""
        for _, action in sorted(self.pending, key=lambda item: item[0]):
            action()
        self.pending.clear()
        with open(os.path.join(self.folder, "full-speed"), "w", encoding="ascii"):
            pass
        self.moved = time.monotonic()

    def await_end(self):
        while not self.ended():
            self.tend()
            time.sleep(TEND_SECONDS)
        while self.fleet.leaving:
            self.tend_processes()
            time.sleep(TEND_SECONDS)
        return self.last_status

    def tend(self):
        """What has to be looked at again and again."""
        now = time.monotonic()
        due = [item for item in self.pending if item[0] <= now]
        self.pending = [item for item in self.pending if item[0] > now]
        for _, action in sorted(due, key=lambda item: item[0]):
            action()
        while not self.outcomes.empty():
            self.outcomes.get()()
        self.fleet.lead_links()
        self.tend_processes()
        self.take_status()
        if now - self.judged > JUDGE_SECONDS:
            self.judged = now
            self.invariants.update()
        if now - self.moved > self.options.patience:
            raise Failed("nothing has moved for %d s: %s" % (self.options.patience, json.dumps(self.brief())))

    def tend_processes(self):
        for name, (daemon, told) in list(self.fleet.leaving.items()):
            code = daemon.process.poll()
            if code is None and self.forgotten(name, daemon, told):
                del self.fleet.leaving[name]
                self.fleet.daemons[name] = daemon
                self.restarts.pop(name, None)
                self.happened["drain_forgotten"] += 1
                continue
            if code is None:
                if time.monotonic() - told > self.options.grace + self.options.patience:
                    raise Failed("%s was told to go and is still there" % name)
                continue
            del self.fleet.leaving[name]
            daemon.close()
            if code != 0:
                raise Failed("%s was told to go and ended with status %d:\n%s" % (name, code, daemon.log()[-2000:]))
            if name in self.restarts:
                self.restart_later(name, self.restarts.pop(name))
        for name, daemon in list(self.fleet.daemons.items()):
            code = daemon.process.poll()
            if code is None:
                continue
            if code == 0 and name in self.drained:
                # It was quicker than the verb that told it; or it was started while the verb waited for the scheduler.
                if self.drained[name] is not daemon:
                    self.restarts.setdefault(name, 0.5)
                self.fleet.tell_to_go(name)
                continue
            # Fenced, or without a scheduler for too long: its end is right, and it is started again.
            if code != 1 or name == "scheduler":
                raise Failed("%s ended with status %d:\n%s" % (name, code, daemon.log()[-3000:]))
            self.happened["ended_fenced"] += 1
            self.fleet.kill(name)
            self.later(0.5, lambda name=name: self.start_again(name))

    def forgotten(self, name, daemon, told):
        """Whether a process that only the scheduler has told to go was declared dead before it heard of it: it is a new
        member then, which nobody has told to go."""
        if self.drained.get(name) is not daemon or time.monotonic() - told < 5:
            return False
        result = self.verb("status", "--json")
        if result.returncode != 0:
            return False
        lives = [process for process in json.loads(result.stdout)["processes"] if process["name"] == name]
        lives.sort(key=lambda process: process["process"])
        return lives[-1]["state"] == "ALIVE" and any(process["state"] == "DEAD" for process in lives[:-1])

    def later(self, seconds, action):
        self.pending.append((time.monotonic() + seconds, action))

    def wait_for(self, what, condition):
        deadline = time.monotonic() + self.options.patience
        while not condition():
            if time.monotonic() > deadline:
                raise Failed("%s: not within %d s" % (what, self.options.patience))
            time.sleep(0.05)

    # --- faults ---

    def start_again(self, name):
        if name in self.fleet.daemons or name in self.fleet.leaving:
            return
        if name == "scheduler":
            self.fleet.start_scheduler()
        elif name[0] == "s":
            self.fleet.start_server(name)
        else:
            self.fleet.start_worker(name)

    def strike(self, event):
        if getattr(self, "do_" + event["fault"])(event):
            self.happened[event["fault"]] += 1

    def restart_later(self, name, down):
        self.later(down, lambda: self.start_again(name))

    def do_worker_kill(self, event):
        if not self.fleet.kill(event["who"]):
            return False
        self.restart_later(event["who"], event["down"])
        return True

    def do_server_kill(self, event):
        others = [name for name in self.fleet.daemons if name[0] == "s" and name not in ("scheduler", event["who"])]
        if not others or not self.fleet.kill(event["who"]):
            return False
        self.restart_later(event["who"], event["down"])
        return True

    def do_scheduler_kill(self, event):
        if not self.fleet.kill("scheduler"):
            return False
        self.invariants.update()
        self.invariants.check_durable(os.path.join(self.folder, "state.db"))
        self.restart_later("scheduler", event["down"])
        return True

    def do_workers_gone(self, event):
        gone = [name for name in list(self.fleet.daemons) if name[0] == "w" and self.fleet.kill(name)]
        for name in gone:
            self.restart_later(name, event["down"])
        return bool(gone)

    def do_half_gone(self, event):
        gone = [name for name in event["who"] if self.fleet.kill(name)]
        for name in gone:
            self.restart_later(name, event["down"])
        return bool(gone)

    def do_worker_join(self, event):
        name = "x%d" % self.happened["worker_join"]
        self.fleet.start_worker(name)
        self.later(event["lasts"], lambda: self.fleet.kill(name))
        return True

    def do_server_join(self, event):
        name = "s%d" % (100 + self.happened["server_join"])
        self.fleet.start_server(name)
        self.later(event["lasts"], lambda: self.drain(name, None))
        return True

    def hang(self, name, seconds):
        daemon = self.fleet.daemons.get(name)
        if daemon is None:
            return False
        daemon.signal(signal.SIGSTOP)

        def wake():
            if daemon.process.poll() is None:
                daemon.signal(signal.SIGCONT)

        self.later(seconds, wake)
        return True

    def do_worker_hang(self, event):
        return self.hang(event["who"], event["lasts"])

    def do_scheduler_hang(self, event):
        return self.hang("scheduler", event["lasts"])

    def do_server_hang(self, event):
        return self.hang(event["who"], event["lasts"])

    def do_worker_term(self, event):
        name = event["who"]
        if name not in self.fleet.daemons or self.fleet.daemons[name].ready is None:
            return False
        self.fleet.tell_to_go(name, getattr(signal, event["signal"]))
        self.restart_when_gone(name, event["down"])
        return True

    def restart_when_gone(self, name, down):
        """A second life before the first has ended would fence it, and then it does not end with status 0."""

        if down is None:
            return
        if name in self.fleet.leaving:
            self.restarts[name] = down
        else:
            self.restart_later(name, down)

    def drain(self, name, down):
        """Tells the scheduler in the background, as a scheduler that is away makes it take a while; down: seconds until
        it is started again after it has gone, None: never."""
        daemon = self.fleet.daemons.get(name)
        if daemon is None or daemon.ready is None:
            return False

        def ask():
            result = self.verb("drain", name)
            self.outcomes.put(lambda: told(result))

        def told(result):
            self.happened["drain_refused"] += result.returncode != 0
            if result.returncode == 0:
                if self.fleet.daemons.get(name) is daemon:
                    self.fleet.tell_to_go(name)
                self.restart_when_gone(name, down)

        self.drained[name] = daemon
        threading.Thread(target=ask, daemon=True).start()
        return True

    def do_worker_drain(self, event):
        return self.drain(event["who"], event["down"])

    def do_server_drain(self, event):
        name = event["who"]
        daemon = self.fleet.daemons.get(name)
        if daemon is None or daemon.ready is None:
            return False
        if event["how"] == "verb":
            return self.do_worker_drain(event)
        self.fleet.tell_to_go(name, getattr(signal, event["how"]))
        self.restart_when_gone(name, event["down"])
        return True

    def cut(self, event):
        self.fleet.cut(event["client"], event["to"], {"refuse": REFUSE, "hole": HOLE}[event["how"]])
        self.later(event["lasts"], lambda: self.fleet.cut(event["client"], event["to"], UP))
        return True

    do_cut_worker_server = do_cut_worker_scheduler = do_cut_server_scheduler = cut

    def do_slow_link(self, event):
        self.fleet.slow(event["client"], event["to"], event["delay"])
        self.later(event["lasts"], lambda: self.fleet.slow(event["client"], event["to"], 0))
        return True

    def do_disk_full(self, event):
        servers = [name for name in self.fleet.daemons if name[0] == "s" and name != "scheduler"]
        self.fleet.limit_files(servers, True)
        self.later(event["lasts"], lambda: self.fleet.limit_files(servers, False))
        return True

    def do_bad_messages(self, event):
        """Not part of schedules, where messages are lost, doubled and late all the time (--rate)."""
        path = os.path.join(self.folder, "bad-messages")
        with open(path, "w", encoding="ascii"):
            pass
        self.later(event["lasts"], lambda: os.remove(path))
        return True

    # --- watching ---

    def verb(self, verb, *arguments, patience="30s"):
        return subprocess.run([self.options.shoal, verb, *arguments, "--scheduler", self.fleet.address,
                               "--connect-timeout", patience], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, check=False)

    def ask_for_status(self):
        """Thread: asks for the job's status again and again, as far as there is anybody to ask."""
        while not self.closing:
            result = subprocess.run([self.options.shoal, "status", str(self.job), "--json", "--scheduler",
                                     self.fleet.address, "--connect-timeout", "1s"], stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, timeout=60, check=False)
            if result.returncode == 0:
                self.answers.put((time.monotonic(), json.loads(result.stdout)))
            time.sleep(POLL_SECONDS)

    def take_status(self):
        while not self.answers.empty():
            now, status = self.answers.get()
            key = (status.get("examples"), status.get("splits_done"), status.get("state"), status.get("pass"))
            if key != self.watched.get("key"):
                self.watched["key"] = key
                self.moved = now
            self.samples.append((now, status.get("examples", 0)))
            self.last_status = status
            self.check_staleness(status)
            if status["state"] in ("FAILED", "CANCELLED"):
                raise Failed("the job is %s: %s" % (status["state"], status.get("reason")))

    def ended(self):
        return self.last_status.get("state") == "SUCCEEDED"

    def brief(self):
        return {key: self.last_status.get(key) for key in ("state", "reason", "examples", "counters")}

    def events(self):
        """What the scheduler has noted about the job and the processes, if it still answers."""
        if self.job is None or "scheduler" not in self.fleet.daemons:
            return ""
        return "--- events\n%s--- processes\n%s" % (self.verb("logs", str(self.job), patience="2s").stdout,
                                                        self.verb("status", patience="2s").stdout)

    def logs(self):
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".log"))
        texts = []
        for name in names:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                texts.append("--- %s\n%s" % (name, file.read()[-2500:]))
        return "\n".join(texts)

    # --- invariants ---

    def check_staleness(self, status):
        if self.mode == "ssp" and status.get("staleness", {}).get("max", 0) > STALENESS:
            raise Failed("staleness: %s, must be at most %d" % (status["staleness"], STALENESS))

    def check(self, status, calm):
        result = subprocess.run([self.options.shoal, "checkpoint", "verify", self.checkpoints], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            raise Failed("the final checkpoint: %s%s" % (result.stdout, result.stderr))
        self.check_sums(status, calm)
        if status["examples"] > self.options.rows:
            raise Failed("examples: %d, must be at most %d" % (status["examples"], self.options.rows))
        self.check_staleness(status)
        self.invariants.update()
        self.invariants.check_end(status["splits"], status["passes"])

    def check_sums(self, status, calm):
        """The counting job row by row; what bsp learns bit by bit; other models by what they predict."""
        if self.options.job == "counting":
            self.exact = compare_rows(calm["rows"], export_rows(self.options, self.checkpoints))
            if not self.exact["exact"]:
                raise Failed("not exact: of %(updates)d updates %(lost)d are lost and %(doubled)d doubled, %(other_rows)d of "
                             "%(rows)d rows differ otherwise; of %(records)d records %(records_lost)d lost, "
                             "%(records_doubled)d doubled" % self.exact)
        if self.options.job == "counting" or self.mode == "bsp":
            if status["digest"] != calm["digest"]:
                raise Failed("not exact: digest %s, must be %s" % (status["digest"], calm["digest"]))
        elif abs(status["eval"]["auc"] - calm["eval"]["auc"]) > MAX_AUC_DIFFERENCE:
            raise Failed("AUC %.5f, must be within %.3f of %.5f" %
                         (status["eval"]["auc"], MAX_AUC_DIFFERENCE, calm["eval"]["auc"]))

    def lines(self):
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".jsonl"):
                continue
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                for line in file:
                    if line.endswith("}\n") and '"faults"' in line:  # else it was killed while it wrote
                        yield name, json.loads(line)

    def transport_faults(self):
        """Of the faulty clients, over all lives of all workers."""
        total = collections.Counter()
        last = {}
        for name, line in self.lines():
            faults = line["faults"]
            # A new life counts from 0 again.
            if name in last and any(faults[kind] < last[name][kind] for kind in faults):
                total.update(last[name])
            last[name] = faults
        for faults in last.values():
            total.update(faults)
        return total


def export_rows(options, checkpoints):
    """Rows of the newest checkpoint of a counting job."""
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        result = subprocess.run([options.shoal, "checkpoint", "export", checkpoints, "--output", folder, "--format", "tsv"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            raise Failed("export of %s: %s" % (checkpoints, result.stderr))
        return read_rows(folder)


def job_path(options):
    return COUNTING if options.job == "counting" else SYNTHETIC


def sync_field(mode):
    return {"asp": "sync=asp", "ssp": "sync={ssp: {staleness: %d}}" % STALENESS, "bsp": "sync={bsp: {lanes: 4}}"}[mode]


def job_fields(options):
    # Few columns: the harness passes on every byte of it.
    return ["data.format.synthetic.rows=%d" % options.rows, "data.format.synthetic.categories=6",
            "data.format.synthetic.integers=2", "data.format.synthetic.ids_per_category=2000", "data.passes=1",
            "data.split_bytes=1MiB", "batch.size=%d" % BATCH, "partitions=%d" % PARTITIONS]


def run_seed(options, seed, calm, schedule=None):
    """(seed, error or None, Run, status)"""
    folder = tempfile.mkdtemp(prefix="seed-%d-" % seed, dir=options.out)
    run = Run(options, seed, folder, schedule)
    with open(os.path.join(folder, "schedule.json"), "w", encoding="utf-8") as file:
        json.dump({"seed": seed, "mode": run.mode, "replicas": run.replicas, "seconds": options.seconds,
                   "schedule": run.schedule}, file, indent=1)
    start = time.monotonic()
    status, error = {}, None
    try:
        status = run.execute(calm)
    except Failed as failure:
        error = str(failure)
    seconds = time.monotonic() - start
    field, reordered, answers = run.invariants.answers()
    run.happened.update(watermarks_compared=run.invariants.compared, leases=len(run.invariants.holders),
                        leases_superseded=run.invariants.superseded, refused_after_fencing=run.invariants.fenced_after)
    print("%s seed %d  %s  replicas %d  %.1f s  faults %s  answers %s%s" %
          ("ok    " if error is None else "FAILED", seed, run.mode, run.replicas, seconds, dict(run.happened),
           {name: "%d (field %d, reordered %d)" % (answers[name], field[name], reordered[name]) for name in ANSWERS},
           "" if error is None else "\n" + error), flush=True)
    if error is not None:
        print("replay with: tests/chaos/run.sh --replay %s\n%s" %
              (os.path.join(folder, "schedule.json"), json.dumps(run.schedule)), flush=True)
    return seed, error, run, status


def size_job(options):
    """Records that the slowed workers need --seconds for; they are slowed more rather than count beyond MAX_ROWS."""
    batches = min(options.seconds * options.workers * options.threads * 1000 / max(options.batch_ms, 1), MAX_ROWS / BATCH)
    options.batch_ms = max(options.batch_ms, options.seconds * options.workers * options.threads * 1000 / batches)
    return int(batches) * BATCH


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", required=True)
    parser.add_argument("--faulty-worker", required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--minutes", type=float, help="seeds as many as there is time for, instead of --seeds")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--job", choices=("counting", "linear"), default="counting")
    parser.add_argument("--mode", choices=("asp", "ssp", "bsp"))
    parser.add_argument("--replicas", type=int, choices=(1, 2))
    parser.add_argument("--only", help="kinds of faults, by comma")
    parser.add_argument("--without", default="", help="kinds of faults, by comma")
    parser.add_argument("--replay", help="a schedule.json of a run that failed")
    parser.add_argument("--out", help="where logs and schedules stay; default: a folder that is removed when all passed")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=1.5, help="seconds of silence until a process counts as dead")
    parser.add_argument("--grace", type=int, default=20, help="--grace-period of servers, seconds")
    parser.add_argument("--every", type=float, default=1.0, help="mean seconds between faults")
    parser.add_argument("--once", action="store_true", help="one fault a run, at any time")
    parser.add_argument("--rate", type=float, default=0.002, help="of each transport fault, by call")
    parser.add_argument("--wrong-rate", type=float, default=0.5, help="of wrong watermarks, by opening of a split that "
                        "was begun before")
    parser.add_argument("--overtake-rate", type=float, default=0.002, help="of pushes that are delivered behind the next "
                        "one, by push (asp, ssp)")
    parser.add_argument("--scale-every", type=int, default=0, help="plants a defect: sums of every N-th push are wrong")
    parser.add_argument("--scale-by", type=float, default=2, help="by this factor: 0 loses, 2 doubles")
    parser.add_argument("--batch-ms", type=float, default=10, help="least time for a batch while faults happen; longer when "
                        "the job would have more than %d records otherwise" % MAX_ROWS)
    parser.add_argument("--rows", type=int, help="of the job; default: what the slowed workers need --seconds for")
    parser.add_argument("--patience", type=int, default=PATIENCE_SECONDS)
    options = parser.parse_args(arguments)
    options.faults = [fault for fault in (options.only.split(",") if options.only else ALL_FAULTS)
                      if fault not in options.without.split(",")]
    unknown = set(options.faults) - set(ALL_FAULTS)
    if unknown:
        parser.error("no such fault: %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(ALL_FAULTS)))
    if options.rows is None:
        options.rows = size_job(options)
    return options


def main(arguments):
    options = parse(arguments)
    keep = options.out is not None
    options.out = options.out or tempfile.mkdtemp(prefix="chaos-")
    os.makedirs(options.out, exist_ok=True)
    schedule = None
    seeds = [options.seed] if options.seed is not None else range(options.first_seed, options.first_seed + options.seeds)
    if options.replay:
        with open(options.replay, encoding="utf-8") as file:
            replay = json.load(file)
        schedule, seeds = replay["schedule"], [replay["seed"]]
        options.mode, options.replicas, options.seconds = replay["mode"], replay["replicas"], replay["seconds"]
    start = time.monotonic()
    calm = Calm(options)

    def in_time(seed):
        if options.minutes and time.monotonic() > start + options.minutes * 60:
            return None
        return run_seed(options, seed, calm, schedule)

    if options.minutes:
        seeds = range(options.first_seed, options.first_seed + int(options.minutes * 60 * options.jobs) + 1)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = [result for result in pool.map(in_time, seeds) if result is not None]
    happened, transport, answers, in_field, in_reordered = (collections.Counter() for _ in range(5))
    for _, _, run, _ in results:
        happened.update(run.happened)
        transport.update(run.transport_faults())
        field, reordered, given = run.invariants.answers()
        answers.update(given)
        in_field.update(field)
        in_reordered.update(reordered)
    failed = [seed for seed, error, _, _ in results if error is not None]
    print("faults that happened: %s" % dict(sorted(happened.items())))
    print("transport faults: %s" % dict(sorted(transport.items())))
    print("answers: %s" % dict(sorted(answers.items())))
    print("of these to leases that the harness did not tamper with: %s" % dict(sorted(in_field.items())))
    print("to leases whose pushes were only reordered: %s" % dict(sorted(in_reordered.items())))
    print("%d rows a run, %d runs, %.0f s; failed seeds: %s" % (options.rows, len(results), time.monotonic() - start, failed))
    if not keep and not failed:
        subprocess.run(["rm", "-rf", options.out], check=False)
    passed = len(results) - len(failed)
    if len(results) >= 8 and schedule is None and options.only is None and options.job == "counting":
        # Over so many runs each answer must have been given, or they do not test what they should.
        missing = [name for name in ANSWERS if answers[name] == 0]
        missing += [name + " (field)" for name in FIELD_ANSWERS if in_field[name] == 0]
        missing += [name + " (reordered)" for name in REORDERED_ANSWERS if in_reordered[name] == 0]
        if missing:
            print("FAILED: never answered: %s" % ", ".join(missing))
            failed.append("answers")
        else:
            passed += 1
    print("%d passed, %d failed, 0 skipped" % (passed, len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    threading.excepthook = lambda args: os._exit(2)  # a thread of the network that died would look like a fault
    sys.exit(main(sys.argv[1:]))
