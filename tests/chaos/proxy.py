"""TCP between the daemons of a cluster, so that it can be cut and slowed down without any privilege.

Each link listens on a port of its own and passes bytes on to a target, which may change. What a client gets is decided by
the process that connects (found in /proc): the same server can be reached by one worker and not by another.
"""

import collections
import os
import selectors
import socket
import threading
import time

UP, REFUSE, HOLE = "up", "refuse", "hole"

CHUNK_BYTES = 256 * 1024
# Bytes that wait on their way: beyond it the sender has to wait, as on a real network.
MAX_QUEUED_BYTES = 8 * 1024 * 1024


def socket_owner(port, remote_port, pids):
    """Name of the process whose TCP socket leads from one port to the other; `pids` by name. None: of nobody."""
    wanted = ":%04X" % port, ":%04X" % remote_port
    inode = None
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):  # gRPC's sockets are of the second kind even for 127.0.0.1
        try:
            with open(path, encoding="ascii") as table:
                lines = table.readlines()
        except OSError:
            continue  # no IPv6
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[1][-5:] == wanted[0] and fields[2][-5:] == wanted[1] and fields[9] != "0":
                inode = "socket:[%s]" % fields[9]
    if inode is None:
        return None
    for name, pid in pids.items():
        folder = "/proc/%d/fd" % pid
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            try:
                if os.readlink(os.path.join(folder, entry)) == inode:
                    return name
            except OSError:
                pass  # closed meanwhile
    return None


class Pipe:
    """One direction of a connection: what has been read from `source` and not yet written to `sink`."""

    def __init__(self, source, sink):
        self.source = source
        self.sink = sink
        self.chunks = collections.deque()  # (time from which it may go on, bytes)
        self.bytes = 0
        self.ended = False  # the source has closed


class Connection:

    def __init__(self, link, client, owner):
        self.link = link
        self.client = client
        self.owner = owner  # name of the client's process
        self.server = None
        self.pipes = []


class Link:
    """A listening port and where it leads to."""

    def __init__(self, name, listener):
        self.name = name
        self.listener = listener
        self.port = listener.getsockname()[1]
        self.target = None


class Network:
    """All links of a cluster, served by one thread. Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pids = {}  # of the clients, by name
        self.states = {}  # (client, link name) -> REFUSE or HOLE
        self.delays = {}  # (client, link name) -> seconds
        self.links = {}
        self.connections = set()
        self.stopping = False
        self.forwarded_bytes = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def add_link(self, name):
        """Port under which clients reach what is called `name`."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        listener.setblocking(False)
        with self.lock:
            self.links[name] = Link(name, listener)
        return self.links[name].port

    def set_target(self, name, address):
        """`address` is HOST:PORT, or None while nobody is there. Connections to the old target are left to end."""
        with self.lock:
            self.links[name].target = address

    def set_pid(self, client, pid):
        with self.lock:
            self.pids[client] = pid

    def set_state(self, client, name, state):
        """UP, REFUSE (connections end) or HOLE (bytes stop, connections stay)."""
        with self.lock:
            if state == UP:
                self.states.pop((client, name), None)
            else:
                self.states[(client, name)] = state

    def set_delay(self, client, name, seconds):
        with self.lock:
            self.delays[(client, name)] = seconds

    def stop(self):
        self.stopping = True
        self.thread.join()
        for connection in list(self.connections):
            self._close(connection)
        for link in self.links.values():
            link.listener.close()

    # --- the thread ---

    def _state(self, connection):
        return self.states.get((connection.owner, connection.link.name), UP)

    def _serve(self):
        while not self.stopping:
            selector = selectors.DefaultSelector()
            try:
                self._turn(selector)
            finally:
                selector.close()

    def _turn(self, selector):
        """Registers what can be waited for, waits, and moves bytes."""
        now = time.monotonic()
        timeout = 0.05
        interest = collections.defaultdict(int)
        users = {}
        with self.lock:
            links = list(self.links.values())
            for connection in list(self.connections):
                state = self._state(connection)
                if state == REFUSE:
                    self._close(connection)
                    continue
                if state == HOLE:
                    continue
                for pipe in connection.pipes:
                    if not pipe.ended and pipe.bytes < MAX_QUEUED_BYTES:
                        interest[pipe.source] |= selectors.EVENT_READ
                        users.setdefault(pipe.source, {})["read"] = (connection, pipe)
                    if pipe.chunks:
                        wait = pipe.chunks[0][0] - now
                        if wait <= 0:
                            interest[pipe.sink] |= selectors.EVENT_WRITE
                            users.setdefault(pipe.sink, {})["write"] = (connection, pipe)
                        else:
                            timeout = min(timeout, wait)
        for link in links:
            selector.register(link.listener, selectors.EVENT_READ, ("accept", link))
        for sock, events in interest.items():
            try:
                selector.register(sock, events, ("move", users[sock]))
            except (ValueError, KeyError):
                pass  # closed meanwhile
        for key, events in selector.select(timeout):
            kind, what = key.data
            if kind == "accept":
                self._accept(what)
                continue
            if events & selectors.EVENT_READ and "read" in what:
                self._read(*what["read"])
            if events & selectors.EVENT_WRITE and "write" in what:
                self._write(*what["write"])

    def _accept(self, link):
        try:
            client, peer = link.listener.accept()
        except OSError:
            return
        with self.lock:
            pids = dict(self.pids)
            target = link.target
        owner = socket_owner(peer[1], link.port, pids)
        connection = Connection(link, client, owner)
        if target is None or self._state(connection) == REFUSE:
            client.close()
            return
        host, port = target.rsplit(":", 1)
        try:
            connection.server = socket.create_connection((host, int(port)), timeout=2)
        except OSError:
            client.close()
            return
        for sock in (client, connection.server):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.pipes = [Pipe(client, connection.server), Pipe(connection.server, client)]
        with self.lock:
            self.connections.add(connection)

    def _read(self, connection, pipe):
        if connection not in self.connections:
            return
        try:
            data = pipe.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            pipe.ended = True
            if not pipe.chunks:
                self._close(connection)
            return
        delay = self.delays.get((connection.owner, connection.link.name), 0)
        pipe.chunks.append((time.monotonic() + delay, data))
        pipe.bytes += len(data)
        if delay == 0 and len(pipe.chunks) == 1:
            self._write(connection, pipe)

    def _write(self, connection, pipe):
        while pipe.chunks and pipe.chunks[0][0] <= time.monotonic():
            due, data = pipe.chunks[0]
            try:
                sent = pipe.sink.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._close(connection)
                return
            self.forwarded_bytes += sent
            pipe.bytes -= sent
            if sent < len(data):
                pipe.chunks[0] = (due, data[sent:])
                return
            pipe.chunks.popleft()
        if pipe.ended and not pipe.chunks:
            self._close(connection)

    def _close(self, connection):
        self.connections.discard(connection)
        for sock in (connection.client, connection.server):
            if sock is not None:
                sock.close()
