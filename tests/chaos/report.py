#!/usr/bin/env python3
"""Measures what each fault costs: one run per fault and mode, the fault in the middle of an otherwise calm run.

  report.py --shoal BINARY --faulty-worker BINARY [--seconds 16] [--modes asp,ssp,bsp] [--only ROWS]

Prints a table: seconds from the fault to the first good step (a batch that all servers took and that began after the
fault; for a worker: until its split goes on elsewhere), records computed again, records lost and updates doubled (both
0, or the sums would differ), and records a second before, during (from the fault until the last good step was missing,
at least a second) and after.
"""

import argparse
import collections
import json
import os
import sys
import tempfile
import time

import chaos

# name: (fault, its arguments, --replicas, modes)
ROWS = {
    "nothing": (None, {}, 1, "asp ssp bsp"),
    "worker killed": ("worker_kill", {"who": "w1", "down": 6}, 1, "asp ssp bsp"),
    "worker hangs 4 s": ("worker_hang", {"who": "w1", "lasts": 4}, 1, "asp ssp bsp"),
    "worker drained": ("worker_term", {"who": "w1", "signal": "SIGTERM", "down": 6}, 1, "asp ssp bsp"),
    "all workers gone 2 s": ("workers_gone", {"down": 2}, 1, "asp ssp bsp"),
    "scheduler killed, back after 2 s": ("scheduler_kill", {"down": 2}, 1, "asp ssp bsp"),
    "server killed, no replica": ("server_kill", {"who": "s1", "down": 6}, 1, "asp ssp bsp"),
    "server killed, replica": ("server_kill", {"who": "s1", "down": 6}, 2, "asp ssp"),
    "server hangs 4 s": ("server_hang", {"who": "s1", "lasts": 4}, 1, "asp ssp bsp"),
    "server drained": ("server_drain", {"who": "s1", "how": "SIGTERM", "down": 6}, 1, "asp ssp bsp"),
    "server joins": ("server_join", {"lasts": 100}, 1, "asp ssp bsp"),
    "worker cut off from a server 4 s": ("cut_worker_server", {"client": "w1", "to": "s1", "how": "hole", "lasts": 4}, 1,
                                         "asp ssp bsp"),
    "disk full 3 s": ("disk_full", {"lasts": 3}, 1, "asp bsp"),
}


def batches(run):
    """[(time, worker)] of all batches that began, in order."""
    found = []
    for name, line in run.lines():
        if "batch" in line:
            found.append((line["batch"]["at"], name))
    return sorted(found)


def good_step(run, struck, victim):
    """Seconds until work went on after the fault."""
    at = [time for time, _ in batches(run)]
    if victim is not None and victim[0] == "w":
        # Its split goes on elsewhere.
        held = {}
        for name, line in run.lines():
            if "open" in line and line["open"]["received"] < struck:
                split = (line["open"]["pass"], line["open"]["split"])
                if split not in held or held[split][0] < line["open"]["lease"]:
                    held[split] = (line["open"]["lease"], name)
        mine = max((lease, split) for split, (lease, name) in held.items() if name.startswith(victim + "."))
        later = [line["open"]["received"] for _, line in run.lines() if "open" in line and
                 (line["open"]["pass"], line["open"]["split"]) == mine[1] and line["open"]["lease"] > mine[0]]
        return min(later) - struck if later else 0.0
    after = [time for time in at if time > struck]
    # The longest time without a batch among those that began after the fault.
    gaps = [(later - earlier, later) for earlier, later in zip([struck] + after, after) if earlier < struck + 8]
    if not gaps:
        return float("nan")
    longest, end = max(gaps)
    return end - struck if longest > 0.1 else after[0] - struck


def throughput(run, begin, end, rows_per_batch):
    count = sum(1 for time, _ in batches(run) if begin <= time < end)
    return count * rows_per_batch / max(end - begin, 1e-9)


def measure(options, name, mode, calm_batches):
    fault, arguments, replicas, _ = ROWS[name]
    half = options.seconds / 2
    schedule = [] if fault is None else [{"at": half, "fault": fault, **arguments}]
    folder = tempfile.mkdtemp(prefix="report-", dir=options.out)
    run_options = argparse.Namespace(**vars(options))
    run_options.mode, run_options.replicas = mode, replicas
    run = chaos.Run(run_options, 1, folder, schedule)
    struck = []
    strike = run.strike

    def note_time(event):
        struck.append(time.monotonic())
        strike(event)

    run.strike = note_time
    run.execute(options.calm)  # exact, or it raises
    when = struck[0] if struck else batches(run)[0][0] + half
    victim = arguments.get("who") or ("w" if fault == "workers_gone" else None)
    step = good_step(run, when, victim if victim and len(victim) > 1 else None) if fault else 0.0
    computed = len(batches(run))
    again = max(computed - calm_batches, 0) * 500 if calm_batches else 0
    during_end = when + max(step, 1.0)
    return {
        "computed": computed,
        "cells": [name, mode, "%.2f" % step, str(again), "0", "0"] + [
            "%.0f k" % (throughput(run, *span, 500) / 1000)
            for span in ((when - 4, when), (when, during_end), (during_end, during_end + 3))
        ]
    }


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=";".join(ROWS), help="rows, separated by semicolons")
    parser.add_argument("--modes", default="asp,ssp,bsp")
    own, rest = parser.parse_known_args(arguments)
    options = chaos.parse(rest + ["--rate", "0", "--wrong-rate", "0"])
    options.seconds = options.seconds if "--seconds" in rest else 16
    options.rows = int(options.seconds * options.workers * options.threads * 500 * 1000 / options.batch_ms)
    options.out = options.out or tempfile.mkdtemp(prefix="chaos-report-")
    options.log_batches = True
    options.calm = chaos.Calm(options)
    print("| fault | mode | first good step, s | records computed again | lost | doubled | records/s before | during | after |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    calm_batches = collections.Counter()
    failed = 0
    for name in own.only.split(";"):
        for mode in ROWS[name][3].split():
            if mode not in own.modes.split(","):
                continue
            try:
                row = measure(options, name, mode, calm_batches[mode])
            except chaos.Failed as failure:
                print("| %s | %s | FAILED: %s |" % (name, mode, str(failure).split("\n", maxsplit=1)[0]), flush=True)
                failed += 1
                continue
            if name == "nothing":
                calm_batches[mode] = row["computed"]
            print("| " + " | ".join(row["cells"]) + " |", flush=True)
    print("logs: %s" % options.out, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
