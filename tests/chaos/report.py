#!/usr/bin/env python3
"""Measures what each fault costs: one run per fault and mode, the fault in the middle of an otherwise calm run.

  report.py --shoal BINARY --faulty-worker BINARY [--seconds 20] [--modes asp,ssp,bsp] [--only ROWS]

Prints a table, all of it measured:
  first good step   seconds from the fault until a batch that was sent after it had been taken by all partitions; for a fault
                    of one worker: a batch of the split that it held
  longest pause     the longest time without such a batch, from the fault on
  computed again    records of the batches that were computed after the fault, less those that had not been computed before;
                    in brackets: how many newer maps there were, each of which ends calls that are under way. Without one
                    a killed worker costs at most two batches a lane, else the row fails
  lost, doubled     updates (one record, one key) that are missing in the rows of the counting job, or there too often
  records/s         before the fault, during (while it lasts and until the longest pause is over, at least a second), after
"""

import argparse
import collections
import os
import shutil
import sys
import tempfile
import time

import chaos

BEFORE_SECONDS = AFTER_SECONDS = 4
# How long after a fault its longest pause may begin.
PAUSE_SECONDS = 8

# name: (fault, its arguments, --replicas, modes, more options of the harness)
ROWS = {
    "nothing": (None, {}, 1, "asp ssp bsp", {}),
    "worker killed": ("worker_kill", {"who": "w1", "down": 6}, 1, "asp ssp bsp", {}),
    "worker hangs 4 s (SIGSTOP, SIGCONT)": ("worker_hang", {"who": "w1", "lasts": 4}, 1, "asp ssp bsp", {}),
    "worker drained (SIGTERM)": ("worker_term", {"who": "w1", "signal": "SIGTERM", "down": 6}, 1, "asp ssp bsp", {}),
    "all workers gone 2 s": ("workers_gone", {"down": 2}, 1, "asp ssp bsp", {}),
    "scheduler killed, back after 2 s": ("scheduler_kill", {"down": 2}, 1, "asp ssp bsp", {}),
    "server killed, replicas 1": ("server_kill", {"who": "s1", "down": 6}, 1, "asp ssp bsp", {}),
    "server killed, replicas 2": ("server_kill", {"who": "s1", "down": 6}, 2, "asp ssp", {}),
    "server hangs 4 s (SIGSTOP, SIGCONT)": ("server_hang", {"who": "s1", "lasts": 4}, 1, "asp ssp bsp", {}),
    "server drained (SIGTERM)": ("server_drain", {"who": "s1", "how": "SIGTERM", "down": 6}, 1, "asp ssp bsp", {}),
    "server added": ("server_join", {"lasts": 100}, 1, "asp ssp bsp", {}),
    "worker cut off from one server 4 s": ("cut_worker_server", {"client": "w1", "to": "s1", "how": "hole", "lasts": 4}, 1,
                                           "asp ssp bsp", {}),
    "server cut off from the scheduler 4 s": ("cut_server_scheduler",
                                              {"client": "s1", "to": "scheduler", "how": "hole", "lasts": 4}, 1,
                                              "asp ssp bsp", {}),
    "2 % of requests, 2 % of replies lost for 4 s": ("bad_messages", {"lasts": 4}, 1, "asp ssp bsp",
                                                     {"rate": 0.02, "kinds": "request_lost,reply_lost"}),
    "4 % of messages doubled for 4 s": ("bad_messages", {"lasts": 4}, 1, "asp ssp bsp", {"rate": 0.04, "kinds": "doubled"}),
    "4 % of messages delayed for 4 s": ("bad_messages", {"lasts": 4}, 1, "asp ssp bsp", {"rate": 0.04, "kinds": "delayed"}),
    "4 % of messages reordered (late) for 4 s": ("bad_messages", {"lasts": 4}, 1, "asp ssp bsp",
                                                 {"rate": 0.04, "kinds": "late"}),
    "disk full 3 s": ("disk_full", {"lasts": 3}, 1, "asp ssp bsp", {}),
}
# Faults of one worker, by the argument that names it.
VICTIMS = {"worker_kill": "who", "worker_hang": "who", "worker_term": "who", "cut_worker_server": "client"}

# A batch that all partitions have taken: when its first push was sent and its last answer received.
Step = collections.namedtuple("Step", "sent received split records")


def good_steps(run, partitions):
    """All of them, by the time of their last answer."""
    calls = collections.defaultdict(list)
    for pushes in run.invariants.pushes.values():
        for push in pushes:
            calls[(push.lane, push.run, push.pass_, push.split, push.lease, push.begin, push.end)].append(push)
    steps = []
    for key, pushes in calls.items():
        taken = {}  # by server
        for push in sorted(pushes, key=lambda push: push.received):
            whole = push.outcome == 0 and push.accepted + push.answers[1] == push.partitions
            if whole and push.server not in taken:
                taken[push.server] = push
        if sum(push.partitions for push in taken.values()) >= partitions:
            steps.append(Step(min(push.sent for push in pushes), max(push.received for push in taken.values()), key[1:4],
                              key[6] - key[5]))
    return sorted(steps, key=lambda step: step.received)


def split_of(run, worker, when):
    """(run, pass, split) that a worker held at a time."""
    held = [(at, split) for at, name, *split, _ in run.invariants.begun if name == worker + ".jsonl" and at < when]
    return tuple(max(held)[1]) if held else None


def first_good(steps, when, split):
    """Time of the first good step after a fault; of that split (in whichever run), if there is one."""
    for step in steps:
        if step.sent > when and (split is None or step.split[1:] == split[1:]):
            return step.received
    return None


def longest_pause(steps, when):
    """(seconds, its end)"""
    after = [step.received for step in steps if step.received > when]
    pauses = [(later - earlier, later) for earlier, later in zip([when] + after, after) if earlier < when + PAUSE_SECONDS]
    return max(pauses, default=(0.0, when))


def throughput(steps, begin, end):
    return sum(step.records for step in steps if begin <= step.received < end) / max(end - begin, 1e-9)


def measure(options, name, mode):
    """A row of the table; raises chaos.Failed, also when the sums are not exact."""
    fault, arguments, replicas, _, more = ROWS[name]
    schedule = [] if fault is None else [{"at": options.seconds * 0.3, "fault": fault, **arguments}]
    run_options = argparse.Namespace(**{**vars(options), "mode": mode, "replicas": replicas, **more})
    run = chaos.Run(run_options, 1, tempfile.mkdtemp(prefix="report-", dir=options.out), schedule)
    struck, healed = [], []
    strike, heal = run.strike, run.heal

    def note_strike(event):
        struck.append(time.monotonic())
        strike(event)

    def note_heal():
        healed.append(time.monotonic())
        heal()

    run.strike, run.heal = note_strike, note_heal
    try:
        run.execute(options.calm)
    except chaos.Failed as failure:
        if run.exact is None or run.exact["exact"]:
            raise
        print("FAILED: %s" % failure, file=sys.stderr)  # the row says how much is lost or doubled
        run.invariants.update()
    steps = good_steps(run, chaos.PARTITIONS)
    when = struck[0] if struck else healed[0] - options.seconds * 0.7
    split = split_of(run, arguments[VICTIMS[fault]], when) if fault in VICTIMS else None
    good = first_good(steps, when, split) or first_good(steps, when, None) or float("nan")
    pause, pause_end = longest_pause(steps, when)
    during_end = max(good, pause_end if pause > 0.2 else when, when + arguments.get("lasts", 0) % 100, when + 1)
    after_end = min(during_end + AFTER_SECONDS, healed[0])
    again = run.invariants.computed_again(when, options.rows, chaos.BATCH)
    maps = run.invariants.newer_maps(when)
    cells = ["-" if fault is None else "%.2f" % (good - when), "%.2f" % pause, "%d (%d)" % (again, maps),
             "%d" % run.exact["lost"], "%d" % run.exact["doubled"]]
    cells += ["%.0f k" % (throughput(steps, *span) / 1000) if span[1] - span[0] > 0.5 else "too late"
              for span in ((when - BEFORE_SECONDS, when), (when, during_end), (during_end, after_end))]
    if fault == "worker_kill" and maps == 0 and again > 2 * options.threads * chaos.BATCH:
        raise chaos.Failed("%d records computed again, at most two batches of %d a lane are promised" % (again, chaos.BATCH))
    return [name, mode] + cells, run.exact["exact"]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=";".join(ROWS), help="rows, separated by semicolons")
    parser.add_argument("--modes", default="asp,ssp,bsp")
    own, rest = parser.parse_known_args(arguments)
    unknown = set(own.only.split(";")) - set(ROWS)
    if unknown:
        parser.error("no such row: %s; there are %s" % ("; ".join(sorted(unknown)), "; ".join(ROWS)))
    options = chaos.parse(["--rate", "0", "--wrong-rate", "0", "--overtake-rate", "0"] + rest)
    keep = options.out is not None
    options.out = options.out or tempfile.mkdtemp(prefix="chaos-report-")
    os.makedirs(options.out, exist_ok=True)
    options.log_batches = True
    options.calm = chaos.Calm(options)
    print("| fault | mode | first good step, s | longest pause, s | records computed again | updates lost | updates doubled | "
          "records/s before | during | after |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for name in own.only.split(";"):
        for mode in ROWS[name][3].split():
            if mode not in own.modes.split(","):
                continue
            try:
                cells, exact = measure(options, name, mode)
            except chaos.Failed as failure:
                cells, exact = [name, mode, "FAILED: " + str(failure).split("\n", maxsplit=1)[0]] + [""] * 7, False
            failed += not exact
            print("| " + " | ".join(cells) + " |", flush=True)
    if failed or keep:
        print("logs: %s" % options.out, file=sys.stderr)
    else:
        shutil.rmtree(options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
