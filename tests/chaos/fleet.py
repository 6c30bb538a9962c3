"""The processes of a cluster under chaos: each behind its own links, killed, stopped, told to go and started again."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "daemons"))

from cluster import COUNTING, SYNTHETIC, Daemon, with_set  # noqa: E402,F401  pylint: disable=wrong-import-position
from proxy import Network  # noqa: E402  pylint: disable=wrong-import-position

PR_SET_PDEATHSIG = 1


def _child_setup():
    """In the child: it dies with the harness, and a file that must not grow is an error, not a signal."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class ChaosDaemon(Daemon):
    """A daemon that dies with the harness and whose first line does not have to be waited for."""

    def __init__(self, binary, name, arguments, folder):
        self.name = name
        self.started = time.monotonic()
        self.log_path = os.path.join(folder, name + ".log")
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, text=True, preexec_fn=_child_setup)
        self.ready = None  # its first line, once it has come
        self.linked = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if self.ready is None:
                self.ready = line.rstrip("\n")

    def await_ready(self):
        while self.ready is None:
            if self.process.poll() is not None and not self.reader.is_alive():
                raise AssertionError("%s is not ready: %s" % (self.name, self.log()[-2000:]))
            time.sleep(0.01)
        return self.ready

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Fleet:
    """One scheduler, servers s0 s1 ... and workers w0 w1 ... Not thread-safe."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.network = Network()
        self.daemons = {}  # running, by name
        self.leaving = {}  # told to go: name -> (daemon, time)
        self.incarnations = {}  # by name
        self.notes = []
        self.scheduler_links = {}
        self.address = "127.0.0.1:%d" % self._scheduler_link("harness")
        self.network.set_pid("harness", os.getpid())

    # --- starting ---

    def _scheduler_link(self, client):
        """Everybody reaches the scheduler by a link of his own, so its state is that of (client, link of the client)."""
        if client not in self.scheduler_links:
            self.scheduler_links[client] = self.network.add_link("scheduler for " + client)
        return self.scheduler_links[client]

    def _start(self, name, binary, arguments):
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        daemon = ChaosDaemon(binary, name, arguments, self.folder)
        self.daemons[name] = daemon
        self.network.set_pid(name, daemon.process.pid)
        return daemon

    def start_scheduler(self):
        options = self.options
        daemon = self._start("scheduler", options.shoal, [
            "scheduler", "--heartbeat", "200ms", "--deadline", "%dms" % (options.deadline * 1000), "--state",
            os.path.join(self.folder, "state.db")
        ])
        address = daemon.await_ready().rsplit(" ", 1)[1]
        for client in list(self.scheduler_links):
            self.network.set_target("scheduler for " + client, address)
        self.scheduler_address = address

    def _scheduler_for(self, name):
        port = self._scheduler_link(name)
        self.network.set_target("scheduler for " + name, getattr(self, "scheduler_address", None))
        return "127.0.0.1:%d" % port

    def start_server(self, name):
        if name not in self.network.links:
            self.network.add_link(name)
        return self._start(name, self.options.shoal, [
            "server", "--name", name, "--scheduler", self._scheduler_for(name), "--connect-timeout", "60s", "--advertise",
            "127.0.0.1:%d" % self.network.links[name].port, "--grace-period", "%ds" % self.options.grace
        ])

    def lead_links(self):
        """Leads the links of servers that have begun to listen to them."""
        for name, daemon in self.daemons.items():
            if name in self.network.links and daemon.ready is not None and not daemon.linked:
                daemon.linked = True
                self.network.set_target(name, daemon.ready.rsplit(" ", 1)[1])

    def start_worker(self, name):
        options = self.options
        return self._start(name, options.faulty_worker, [
            "--name", name, "--scheduler", self._scheduler_for(name), "--threads", str(options.threads), "--seed",
            str(options.seed * 1000 + self.incarnations.get(name, 0)), "--rate", str(options.rate), "--wrong-rate",
            str(options.wrong_rate), "--overtake-rate", str(options.overtake_rate), "--batch-ms", "%d" % options.batch_ms,
            "--full-speed-file",
            os.path.join(self.folder, "full-speed"), "--log", os.path.join(self.folder, name + ".jsonl")
        ] + (["--kinds", options.kinds, "--bad-while", os.path.join(self.folder, "bad-messages")]
             if getattr(options, "kinds", None) else []) +
                           (["--log-batches"] if getattr(options, "log_batches", False) else []) +
                           (["--scale-every", str(options.scale_every), "--scale-by", str(options.scale_by)]
                            if options.scale_every else []))

    # --- what can be done to them ---

    def kill(self, name):
        daemon = self.daemons.pop(name, None)
        if daemon is None:
            return False
        daemon.close()
        self._unreachable(name)
        return True

    def _unreachable(self, name):
        if name == "scheduler":
            for client in list(self.scheduler_links):
                self.network.set_target("scheduler for " + client, None)
        elif name in self.network.links:
            self.network.set_target(name, None)

    def tell_to_go(self, name, number=None):
        """Sends a signal (none: somebody else tells it); the process must end by itself, with status 0."""
        daemon = self.daemons.pop(name, None)
        if daemon is None:
            return False
        if number is not None:
            daemon.process.send_signal(number)
        self.leaving[name] = (daemon, time.monotonic())
        return True

    def limit_files(self, names, limited):
        """No file of these processes can grow past a page any more, or again."""
        for name in names:
            if name in self.daemons:
                bound = 4096 if limited else resource.RLIM_INFINITY
                try:
                    resource.prlimit(self.daemons[name].process.pid, resource.RLIMIT_FSIZE, (bound, resource.RLIM_INFINITY))
                except OSError:
                    pass

    def cut(self, client, to, state):
        self.network.set_state(client, "scheduler for " + client if to == "scheduler" else to, state)

    def slow(self, client, to, seconds):
        self.network.set_delay(client, "scheduler for " + client if to == "scheduler" else to, seconds)

    # --- the end ---

    def stacks(self):
        """What every thread of every process does, as far as gdb is there."""
        texts = []
        for name, daemon in list(self.daemons.items()) + [(name, daemon) for name, (daemon, _) in self.leaving.items()]:
            if daemon.process.poll() is not None:
                continue
            try:
                result = subprocess.run(
                    ["gdb", "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 12", "-p",
                     str(daemon.process.pid)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                    check=False)
                texts.append("--- stacks of %s (process %d)\n%s" % (name, daemon.process.pid, result.stdout))
            except (OSError, subprocess.TimeoutExpired) as error:
                texts.append("--- stacks of %s: %s" % (name, error))
        return "\n".join(texts)

    def close(self):
        for daemon in list(self.daemons.values()) + [daemon for daemon, _ in self.leaving.values()]:
            daemon.close()
        self.daemons.clear()
        self.leaving.clear()
        self.network.stop()
