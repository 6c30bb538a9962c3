#!/usr/bin/env python3
"""Trains on a large generated file and shows that memory stays flat and that lanes of equal speed get equal shares.

    tests/large/flat_memory.py [--shoal bazel-bin/cli/shoal] [--mib 1024]

Makes a Criteo-like file of the given size and one of an eighth of it under TMPDIR, trains lr on both with a cluster of
real processes (1 scheduler, 1 server, 2 workers of one lane), and compares the workers' peak memory. Not part of
tests/run_all.sh: it writes more than a gigabyte and takes some minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

JOB = """
name: flat-memory
data:
  train: [{path}]
  format: criteo
model: {{preset: lr}}
batch: {{size: 1024}}
sync: asp
workers: {{min: 2}}
"""

# The larger file may cost this much more memory: buffers fill up a little further, nothing grows with the file.
ALLOWED_GROWTH = 1.25
# Two lanes on two cores are equal in speed, but for what else the machine does.
ALLOWED_SKEW = 0.1


def run(arguments, **options):
    return subprocess.run(arguments, check=True, **options)


def make_file(shoal, path, mib):
    rows = 20000
    run([shoal, "datagen", "--format", "criteo", "--rows", str(rows), "--seed", "1", "--output", path],
        stderr=subprocess.DEVNULL)
    per_row = os.path.getsize(path) / rows
    run([shoal, "datagen", "--format", "criteo", "--rows", str(int(mib * 2**20 / per_row) + 1), "--seed", "1",
         "--output", path, "--overwrite"], stderr=subprocess.DEVNULL)
    return os.path.getsize(path)


def worker_peaks(parent, peaks, stop):
    """Notes the largest VmHWM of each worker process below `parent`."""
    while not stop.is_set():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) != parent:
                        continue
                with open(f"/proc/{pid}/cmdline") as cmdline:
                    if "\0worker\0" not in cmdline.read():
                        continue
                with open(f"/proc/{pid}/status") as status:
                    for line in status:
                        if line.startswith("VmHWM:"):
                            peaks[pid] = max(peaks.get(pid, 0), int(line.split()[1]) / 1024)
            except OSError:
                pass
        time.sleep(0.2)


def train(shoal, folder, path):
    job = os.path.join(folder, "job.yaml")
    with open(job, "w") as out:
        out.write(JOB.format(path=path))
    process = subprocess.Popen([shoal, "local", "--servers", "1", "--workers", "2", "--job", job, "--json", "--runs", ""],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peaks, stop = {}, threading.Event()
    watcher = threading.Thread(target=worker_peaks, args=(process.pid, peaks, stop))
    watcher.start()
    out, err = process.communicate()
    stop.set()
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"training on {path} failed:\n{err[-2000:]}")
    result = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return result, max(peaks.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shoal", default="bazel-bin/cli/shoal")
    parser.add_argument("--mib", type=int, default=1024)
    options = parser.parse_args()
    shoal = os.path.abspath(options.shoal)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        peaks = []
        for mib in (options.mib // 8, options.mib):
            path = os.path.join(folder, f"{mib}.tsv")
            size = make_file(shoal, path, mib)
            result, peak = train(shoal, folder, path)
            os.remove(path)
            peaks.append(peak)
            shares = sorted(worker["share"] for worker in result["workers"])
            print(f"{size / 2**20:.0f} MiB: {result['examples']} examples, {result['examples_per_second']:.0f}/s, "
                  f"largest worker {peak:.0f} MiB, shares {' '.join(f'{s:.3f}' for s in shares)}")
        if peaks[1] > peaks[0] * ALLOWED_GROWTH:
            print(f"FAILED: memory grew from {peaks[0]:.0f} to {peaks[1]:.0f} MiB")
            failed += 1
        if shares[-1] - shares[0] > ALLOWED_SKEW:
            print(f"FAILED: shares differ by {shares[-1] - shares[0]:.3f}")
            failed += 1
    print(f"{2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
