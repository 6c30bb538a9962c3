#!/usr/bin/env python3
"""T9: idle CPU of each daemon, and training while checkpoints are written. Scaling: the same job on more workers and
servers, as examples per second, CPU per example and bytes per example on the wire.

  cluster_bench.py --size quick --shoal PATH [--only T9]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import rows

JOB = """\
name: bench
data: {format: {synthetic: {rows: %(rows)d}}, passes: 1}
model: {preset: fm, embedding_dim: 8}
optimizer: {sparse: {rowwise_adagrad: 0.05}, dense: {adam: 0.001}}
batch: {size: 1024}
sync: asp
workers: {min: %(workers)d}
seed: 42
"""
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_SECONDS = 600


class Cluster:
    """Daemons of one cluster; a context manager."""

    def __init__(self, shoal, servers, workers, folder):
        self.shoal, self.servers, self.workers, self.folder = shoal, servers, workers, folder
        self.processes = {}
        self.address = ""

    def __enter__(self):
        self.address = self.start("scheduler", "scheduler")
        for i in range(self.servers):
            self.start("s%d" % i, "server", "--scheduler", self.address, "--name", "s%d" % i)
        for i in range(self.workers):
            self.start("w%d" % i, "worker", "--scheduler", self.address, "--name", "w%d" % i, "--threads", "1")
        return self

    def __exit__(self, *unused):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
            process.stdout.close()

    def start(self, name, *arguments):
        """Starts a daemon; the last word of its first line."""
        with open(os.path.join(self.folder, name + ".log"), "a", encoding="utf-8") as log:
            process = subprocess.Popen([self.shoal, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=log, text=True)
        self.processes[name] = process
        line = process.stdout.readline().rstrip("\n")
        if not line:
            raise RuntimeError("%s did not start" % name)
        return line.rsplit(" ", 1)[1]

    def cpu_seconds(self, name):
        """User and system time of a daemon so far."""
        with open("/proc/%d/stat" % self.processes[name].pid, encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def all_cpu(self):
        """Of all daemons."""
        return sum(self.cpu_seconds(name) for name in self.processes)

    def run(self, job, *fields):
        """Report of a job that is run to its end."""
        path = os.path.join(self.folder, "job.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(job)
        command = [self.shoal, "submit", path, "--wait", "--json", "--runs", "", "--scheduler", self.address]
        for field in fields:
            command += ["--set", field]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=PATIENCE_SECONDS, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return json.loads(result.stdout)


def loopback_bytes():
    """Received on the loopback interface so far, by everybody."""
    with open("/proc/net/dev", encoding="utf-8") as file:
        for line in file:
            name, _, fields = line.partition(":")
            if name.strip() == "lo":
                return int(fields.split()[0])
    return 0


def idle(shoal, seconds):
    """CPU of daemons that have nothing to do, in percent of a core."""
    with tempfile.TemporaryDirectory() as folder, Cluster(shoal, 2, 2, folder) as cluster:
        # A job has been there: its threads, connections and maps stay.
        cluster.run(JOB % {"rows": 5000, "workers": 1})
        time.sleep(1)
        before = {name: cluster.cpu_seconds(name) for name in cluster.processes}
        time.sleep(seconds)
        for name in cluster.processes:
            used = 100 * (cluster.cpu_seconds(name) - before[name]) / seconds
            rows.emit("T9", "idle CPU, " + name, "% of a core", [used], [1], "bound", 1, True)


def checkpoints(shoal, size, repeats):
    """Examples per second with and without checkpoints, and the share that is lost."""
    with tempfile.TemporaryDirectory() as folder, Cluster(shoal, 2, 1, folder) as cluster:
        job = JOB % {"rows": size, "workers": 1}

        def rate(*fields):
            return cluster.run(job, *fields)["examples_per_second"]

        rate()
        where = "checkpoint={dir: %s, every: 1s, keep: 2}" % os.path.join(folder, "ckpt")
        samples = rows.interleave(repeats, lambda: rate(where), rate)
        rows.emit("T9", "training with a checkpoint every second", "examples/s", samples[0], samples[1], "without any", 0.9)


def scaling(shoal, examples, shapes):
    """One job, more and more processes. On two cores the CPU per example is what should stay flat."""
    first = None
    for workers, servers in shapes:
        with tempfile.TemporaryDirectory() as folder, Cluster(shoal, servers, workers, folder) as cluster:
            cluster.run(JOB % {"rows": 20000, "workers": workers})
            cpu, wire = cluster.all_cpu(), loopback_bytes()
            report = cluster.run(JOB % {"rows": examples, "workers": workers})
            cpu = 1e6 * (cluster.all_cpu() - cpu) / report["examples"]
            wire = (loopback_bytes() - wire) / report["examples"]
            first = first or cpu
            rows.emit("scaling", "%d workers, %d servers: CPU per example" % (workers, servers), "us", [cpu], [first],
                      "1 worker, 1 server", None, True,
                      "%.0f examples/s, %.0f bytes/example" % (report["examples_per_second"], wire))


def main():
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rows.add_size(parser)
    parser.add_argument("--shoal", required=True, help="the binary")
    parser.add_argument("--only", choices=["T9", "scaling"])
    arguments = parser.parse_args()
    shoal = os.path.abspath(arguments.shoal)
    size = arguments.size
    if arguments.only in (None, "T9"):
        idle(shoal, {"smoke": 1, "quick": 5, "full": 20}[size])
        if size != "smoke":
            checkpoints(shoal, *{"quick": (300000, 3), "full": (1000000, 5)}[size])
    if arguments.only in (None, "scaling"):
        shapes = {
            "smoke": [(1, 1)],
            "quick": [(1, 1), (2, 1), (2, 2), (4, 2)],
            "full": [(workers, servers) for servers in (1, 2, 4) for workers in (1, 2, 4, 8)]
        }[size]
        scaling(shoal, {"smoke": 20000, "quick": 200000, "full": 500000}[size], shapes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
