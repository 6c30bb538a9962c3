"""A cluster of real processes on this machine, and the jobs that are run on it: shared by the tests of this folder."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

COUNTING = os.path.abspath("examples/counting/job.yaml")
SYNTHETIC = os.path.abspath("examples/synthetic/lr.yaml")
CENSUS = os.path.abspath("examples/census/job.yaml")

# The modes under test, each with three lanes: one for each worker.
MODES = {"asp": "sync=asp", "ssp": "sync={ssp: {staleness: 4}}", "bsp": "sync={bsp: {lanes: 3}}"}

# Nothing here takes longer than a few seconds on an idle machine; the bound is for a busy one.
PATIENCE_SECONDS = 120


def with_set(*fields):
    """["a=1", "b=2"] as arguments of a verb that takes a job."""
    return [argument for field in fields for argument in ("--set", field)]


def report_line(*columns):
    """One line of measured figures in the test's log."""
    print("RESULT " + "  ".join(str(column) for column in columns), flush=True)


class Daemon:
    """One process. Its stderr goes to a file; its first line on stdout says that it is ready."""

    def __init__(self, binary, name, arguments, folder, cwd=None):
        self.name = name
        self.log_path = os.path.join(folder, name + ".log")
        # Restarted under the same name: both lives are in one log.
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, text=True, cwd=cwd)

    def await_ready(self):
        """The first line on stdout; fails when there is none."""
        line = self.process.stdout.readline().rstrip("\n")  # the daemon's own --connect-timeout bounds it
        if not line:
            raise AssertionError("%s is not ready: %s" % (self.name, self.log()))
        return line

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE_SECONDS):
        """Exit status (negative: the signal that ended it)."""
        return self.process.wait(timeout=timeout)

    def cpu_seconds(self):
        """User and system time used so far."""
        with open("/proc/%d/stat" % self.process.pid, encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class DaemonTest(unittest.TestCase):
    """Each test has a folder and may have a cluster: one scheduler, servers s0 s1 ..., workers w0 w1 ..."""

    binary = None  # set by main()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.address = None
        self.daemons = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    # --- processes ---

    def spawn(self, name, *arguments, cwd=None):
        daemon = Daemon(self.binary, name, arguments, self.folder, cwd)
        self.addCleanup(daemon.close)
        self.daemons[name] = daemon
        return daemon

    def start_cluster(self, servers=2, workers=3, heartbeat="200ms", deadline="3s", options=(), cwd=None):
        """Starts all; returns when every process has joined. `cwd`: folder of a process by name."""
        scheduler = self.spawn("scheduler", "scheduler", "--heartbeat", heartbeat, "--deadline", deadline, *options)
        self.address = scheduler.await_ready().rsplit(" ", 1)[1]
        names = ["s%d" % i for i in range(servers)] + ["w%d" % i for i in range(workers)]
        for name in names:
            self.spawn(name, "server" if name[0] == "s" else "worker", "--scheduler", self.address, "--name", name,
                       cwd=(cwd or {}).get(name))
        for name in names:
            self.daemons[name].await_ready()

    def logs(self):
        return "\n".join("--- %s\n%s" % (name, daemon.log()[-3000:]) for name, daemon in self.daemons.items())

    # --- verbs ---

    def run_verb(self, *arguments, status=0, timeout=PATIENCE_SECONDS * 2):
        """Runs the binary to its end; its exit status must be `status`."""
        result = subprocess.run([self.binary, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=timeout, check=False)
        if result.returncode != status:
            self.fail("%s: exit %d instead of %d\n%s\n%s\n%s" %
                      (arguments, result.returncode, status, result.stdout, result.stderr, self.logs()))
        return result

    def train(self, job, *fields, threads=3):
        """Report of the job in one process."""
        return json.loads(
            self.run_verb("train", job, "--json", "--runs", "", "--threads", str(threads), *with_set(*fields)).stdout)

    def submit(self, job, *fields):
        """Number of the job on the cluster."""
        result = self.run_verb("submit", job, "--json", "--runs", "", "--scheduler", self.address, *with_set(*fields))
        return json.loads(result.stdout)["id"]

    def run_job(self, job, *fields, status=0):
        """Report of the job on the cluster."""
        result = self.run_verb("submit", job, "--wait", "--json", "--runs", "", "--scheduler", self.address,
                               *with_set(*fields), status=status)
        return json.loads(result.stdout)

    def job_status(self, job):
        return json.loads(self.run_verb("status", str(job), "--json", "--scheduler", self.address).stdout)

    def process_states(self, name):
        """States of all incarnations of a name, oldest first."""
        status = json.loads(self.run_verb("status", "--json", "--scheduler", self.address).stdout)
        found = [process for process in status["processes"] if process["name"] == name]
        return [process["state"] for process in sorted(found, key=lambda process: process["process"])]

    # --- waiting ---

    def await_that(self, what, condition, timeout=PATIENCE_SECONDS):
        """Asks until it holds; its value."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                self.fail("%s: not within %d s\n%s" % (what, timeout, self.logs()))
            time.sleep(0.05)

    def await_examples(self, job, examples):
        """Waits until the running job has trained so many; it must not have ended before."""

        def reached():
            status = self.job_status(job)
            if status["state"] not in ("QUEUED", "STARTING", "RUNNING"):
                self.fail("job %s ended before it had trained %d examples: %s" % (job, examples, status))
            return status["examples"] >= examples

        self.await_that("%d examples" % examples, reached)

    def await_end(self, job, state):
        """Report of a job once it has ended, in `state`."""

        def ended():
            status = self.job_status(job)
            return status if status["state"] in ("SUCCEEDED", "FAILED", "CANCELLED") else None

        status = self.await_that("end of job %s" % job, ended)
        self.assertEqual(status["state"], state, "%s\n%s" % (status, self.logs()))
        return status


def main(arguments):
    """Entry of a test: PATH_OF_SHOAL [unittest arguments]."""
    DaemonTest.binary = os.path.abspath(arguments.pop(1))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that is timed out leaves no process behind
    unittest.main(module="__main__", argv=arguments, verbosity=2)
