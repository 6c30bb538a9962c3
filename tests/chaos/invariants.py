"""What must hold all along a run, judged from what the workers logged about the servers' answers, and what the sums say.

The logs are those of tests/chaos/faulty_worker: one JSON object a line, times of the steady clock, which all processes of a
machine share. Answers to calls that overlap may come in any order, so two are compared only when the first had been
received before the second was sent.
"""

import collections
import json
import os
import shutil
import sqlite3
import tempfile

# RequestOutcome and PushOutcome of proto/wire/parameter_messages.h.
OK, STALE_MAP, FENCED = 0, 1, 2
PUSH_DUPLICATE, PUSH_FENCED, PUSH_STALE_MAP, PUSH_MISALIGNED, PUSH_OUT_OF_ORDER = 1, 2, 3, 4, 5
SPLIT_DONE = 2**64 - 1
# Answers of the field: those to leases whose watermarks the harness falsified do not count.
ANSWERS = ("fenced", "duplicate", "misaligned", "out_of_order", "stale_map")


class Broken(Exception):
    """An invariant does not hold."""


class Open:
    """An answer to OpenSplit."""

    def __init__(self, said):
        self.lease, self.outcome = said["lease"], said["outcome"]
        self.least, self.most = said.get("least"), said.get("most")
        self.sent, self.received = said["sent"], said["received"]


class Push:
    """An answer to Push."""

    def __init__(self, said):
        (self.server, self.run, self.lane, self.pass_, self.split, self.lease, self.begin, self.end, self.last,
         self.partitions, self.examples) = said["asked"]
        self.outcome, self.answers = said["outcome"], said["answers"]
        self.sent, self.received = said["sent"], said["received"]
        self.accepted = self.partitions - sum(self.answers) if self.outcome == OK else 0


class Invariants:
    """Reads the logs of a folder as they grow and raises Broken as soon as they contradict a promise. Not thread-safe."""

    def __init__(self, folder, mode, staleness):
        self.folder, self.mode, self.staleness = folder, mode, staleness
        self.offsets = collections.defaultdict(int)  # by file
        # (server, run, map, pass, split): what one incarnation said about one split while it owned the same partitions.
        self.opens = collections.defaultdict(list)
        self.pushes = collections.defaultdict(list)
        self.dirty = set()  # of these, those with new answers
        self.holders = {}  # lease -> (run, pass, split, lane)
        self.lanes = {}  # lane -> name of the worker's log
        self.leases = collections.defaultdict(set)  # (run, pass, split) -> leases
        self.ended = set()  # (run, pass, split) whose last push every server that was asked has taken, or was done
        self.planted = set()  # leases whose watermarks were falsified
        self.overtaken = set()  # leases with a push that the next one overtook
        self.batches = []  # (time, name of the log), with --log-batches
        self.maps = {}  # version of the map -> when an answer was first received that knew it
        self.begun = []  # (time of the first answer to it, name of the log, run, pass, split, lease)
        self.compared = self.fenced_after = self.superseded = self.newest_lease = 0

    # --- reading ---

    def read(self):
        """New whole lines of all logs; (name, line) each."""
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".jsonl"):
                continue
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.offsets[name])
                text = file.read()
            whole = text.rfind(b"\n") + 1
            self.offsets[name] += whole
            for line in text[:whole].split(b"\n"):
                if line:
                    try:
                        yield name, json.loads(line)
                    except ValueError:
                        pass  # the end of a life that was killed while it wrote, with the next life's beginning

    def update(self):
        """Takes what is new and judges it. Raises Broken."""
        for name, line in self.read():
            if "open" in line:
                self.take_open(name, line["open"])
            elif "push" in line:
                self.take_push(name, Push(line["push"]), line["push"]["map"])
            elif "planted" in line:
                self.planted.add(line["planted"])
            elif "overtaken" in line:
                self.overtaken.add(line["overtaken"])
            elif "batch" in line:
                self.batches.append((line["batch"]["at"], name))
            elif "ahead" in line:
                said = line["ahead"]
                if self.mode == "ssp" and said["batch"] - said["slowest"] > self.staleness:
                    raise Broken("staleness: server %d let batch %d begin while the slowest lane had finished %d, allowed are %d" %
                                 (said["server"], said["batch"], said["slowest"], self.staleness))
        for key in self.dirty:
            self.check_watermarks(key)
            self.check_fencing(key)
        self.dirty.clear()

    def take_open(self, name, said):
        self.take_lease(name, said["run"], said["pass"], said["split"], said["lease"], said["lane"])
        key = (said["server"], said["run"], said["map"], said["pass"], said["split"])
        self.note_map(said["map"], said["received"])
        answer = Open(said)
        self.opens[key].append(answer)
        self.dirty.add(key)
        split = (said["run"], said["pass"], said["split"])
        if answer.outcome == OK:
            if said["lease"] not in self.leases[split]:
                self.leases[split].add(said["lease"])
                self.begun.append((said["received"], name, *split, said["lease"]))
            if answer.least == SPLIT_DONE:
                self.ended.add(split)

    def take_push(self, name, push, map_version):
        self.take_lease(name, push.run, push.pass_, push.split, push.lease, push.lane)
        key = (push.server, push.run, map_version, push.pass_, push.split)
        self.note_map(map_version, push.received)
        self.pushes[key].append(push)
        self.dirty.add(key)
        if push.last and push.outcome == OK and push.accepted + push.answers[PUSH_DUPLICATE] == push.partitions:
            self.ended.add((push.run, push.pass_, push.split))

    def note_map(self, version, received):
        self.maps[version] = min(received, self.maps.get(version, received))

    def newer_maps(self, when):
        """How many maps lanes heard of only after a time. Each of them ends calls that are under way, whose batches are
        computed again."""
        known = [version for version, received in self.maps.items() if received <= when]
        return len([version for version in self.maps if version > max(known, default=0)])

    def take_lease(self, name, run, pass_, split, lease, lane):
        """A lease is one lane's right to one split, and a lane is one life of one thread."""
        held = self.holders.setdefault(lease, (run, pass_, split, lane))
        if held != (run, pass_, split, lane):
            raise Broken("lease %d was given out twice: run %d, pass %d, split %d to lane %d, then run %d, pass %d, split %d to "
                         "lane %d" % (lease, *held, run, pass_, split, lane))
        if self.lanes.setdefault(lane, name) != name:
            raise Broken("lane %d belongs to %s and to %s" % (lane, self.lanes[lane], name))
        self.newest_lease = max(self.newest_lease, lease)

    # --- judging ---

    def check_watermarks(self, key):
        """What an incarnation of a server says later is never below what it has said before."""
        evidence = [(answer.sent, answer.received, answer.least, answer.most) for answer in self.opens[key]
                    if answer.outcome == OK and answer.least is not None]
        if self.mode != "bsp":  # there, watermarks advance when a round is applied
            evidence += [(push.sent, push.received, None, push.end) for push in self.pushes[key] if push.accepted > 0]
        for bound, name in ((2, "least"), (3, "most")):
            known = [said for said in evidence if said[bound] is not None]
            before = collections.deque(sorted(known, key=lambda said: said[1]))
            highest = 0
            for said in sorted((said for said in known if said[2] is not None), key=lambda said: said[0]):
                while before and before[0][1] < said[0]:
                    highest = max(highest, before.popleft()[bound])
                if said[bound] < highest:
                    raise Broken("server %d, run %d, map %d, pass %d, split %d: %s watermark %d after %d" %
                                 (*key, name, said[bound], highest))
                self.compared += 1

    def check_fencing(self, key):
        """Once a server has seen a lease, no older one of that split is served by it."""
        opened = collections.deque(sorted((answer for answer in self.opens[key] if answer.outcome == OK),
                                          key=lambda answer: answer.received))
        calls = sorted(self.opens[key] + self.pushes[key], key=lambda call: call.sent)
        newest = 0
        for call in calls:
            while opened and opened[0].received < call.sent:
                newest = max(newest, opened.popleft().lease)
            if call.lease >= newest:
                continue
            served = call.accepted > 0 if isinstance(call, Push) else call.outcome == OK
            if served:
                raise Broken("server %d, run %d, map %d, pass %d, split %d: %s of lease %d was accepted after lease %d had fenced "
                             "it" % (*key, "a push" if isinstance(call, Push) else "opening", call.lease, newest))
            self.fenced_after += 1

    def check_durable(self, state_path):
        """Of a scheduler that is not running: each lease that was used was on disk before."""
        limit = durable_lease_limit(state_path)
        if self.newest_lease >= limit:
            raise Broken("lease %d was used; the scheduler's state file has reserved those below %d" % (self.newest_lease, limit))

    def check_end(self, splits, passes):
        """Of a job that has succeeded: each split was ended under some lease, all the others were fenced by one newer one."""
        run = max((split[0] for split in self.leases), default=0)
        if self.mode == "bsp":  # several runs; what was done before the cut of the last is not trained again in it
            done = {(pass_, split) for _, pass_, split in self.ended}
        else:
            done = {(pass_, split) for of, pass_, split in self.ended if of == run}
        missing = [(pass_, split) for pass_ in range(passes) for split in range(splits) if (pass_, split) not in done]
        if missing:
            raise Broken("the job has ended, but no server has said so of pass %d, split %d (and %d others)" %
                         (*missing[0], len(missing) - 1))
        self.superseded = sum(len(leases) - 1 for leases in self.leases.values())

    # --- counting ---

    def answers(self):
        """How often partitions gave each answer to leases that were not tampered with; to those whose pushes were only
        reordered; all answers."""
        field, reordered, all_answers = collections.Counter(), collections.Counter(), collections.Counter()
        calls = [call for calls in list(self.opens.values()) + list(self.pushes.values()) for call in calls]
        for call in calls:
            given = collections.Counter()
            if call.outcome != OK:
                given["fenced" if call.outcome == FENCED else "stale_map"] = 1
            elif isinstance(call, Push):
                for name, outcome in (("duplicate", PUSH_DUPLICATE), ("fenced", PUSH_FENCED), ("stale_map", PUSH_STALE_MAP),
                                      ("misaligned", PUSH_MISALIGNED), ("out_of_order", PUSH_OUT_OF_ORDER)):
                    given[name] = call.answers[outcome]
            all_answers.update(given)
            if call.lease not in self.planted:
                (reordered if call.lease in self.overtaken else field).update(given)
        return field, reordered, all_answers

    def computed_again(self, when, rows, batch):
        """Records that were computed from a time on although they had been computed before, with --log-batches and one
        thread a worker: all those of batches that began then, less those of the job that no batch had had before."""
        pushes = collections.defaultdict(dict)  # by worker: computation -> when it was first sent
        for calls in self.pushes.values():
            for push in calls:
                key = (push.lane, push.run, push.pass_, push.split, push.lease, push.begin, push.end)
                first = pushes[self.lanes[push.lane]]
                first[key] = min(push.sent, first.get(key, push.sent))
        begun = collections.defaultdict(list)
        for at, name in self.batches:
            begun[name].append(at)
        had, computed = {}, 0  # had: (pass, split, begin) -> records
        for name, times in begun.items():
            times.sort()
            sent = collections.deque(sorted((at, key) for key, at in pushes[name].items()))
            for at, following in zip(times, times[1:] + [float("inf")]):
                records, where = batch, ("never pushed", name, at)
                while sent and sent[0][0] < following:
                    key = sent.popleft()[1]
                    records, where = key[6] - key[5], (key[2], key[3], key[5])
                if at >= when:
                    computed += records
                elif where[0] != "never pushed" or following >= when:
                    had[where] = records
        return computed - (rows - sum(had.values()))


def durable_lease_limit(state_path):
    """Leases below it may have been given out, by the state file of a scheduler that was killed."""
    with tempfile.TemporaryDirectory() as folder:
        # A copy: reading it in place would mend what the next scheduler has to mend.
        for suffix in ("", "-wal"):
            if os.path.exists(state_path + suffix):
                shutil.copy(state_path + suffix, os.path.join(folder, "state.db" + suffix))
        connection = sqlite3.connect(os.path.join(folder, "state.db"))
        try:
            rows = connection.execute("SELECT value FROM record WHERE kind = 'counter' AND id = 3").fetchall()
        finally:
            connection.close()
    return int(rows[0][0]) if rows else 1


# --- the sums of the counting job ---


def read_rows(folder):
    """Rows of an exported counting model: (key, slot) -> columns, and its dense sums."""
    rows, records = {}, []
    with open(os.path.join(folder, "count.tsv"), encoding="ascii") as file:
        for line in file:
            key, slot, *columns = line.split()
            rows[(key, slot)] = tuple(float(column) for column in columns)
    with open(os.path.join(folder, "records.tsv"), encoding="ascii") as file:
        for line in file:
            records.append(float(line.split()[1]))
    return rows, records


def compare_rows(expected, got):
    """How the sums of a run differ from those of the undisturbed one, row by row."""
    lost = doubled = otherwise = 0.0
    empty = (0.0,)
    for key in expected[0].keys() | got[0].keys():
        mine, theirs = expected[0].get(key, empty), got[0].get(key, empty)
        difference = theirs[0] - mine[0]
        lost += max(-difference, 0)
        doubled += max(difference, 0)
        otherwise += difference == 0 and mine != theirs
    records = got[1][0] - expected[1][0]
    return {
        "updates": int(sum(columns[0] for columns in expected[0].values())),
        "rows": len(expected[0]),
        "lost": int(lost),
        "doubled": int(doubled),
        "other_rows": int(otherwise),
        "records": int(expected[1][0]),
        "records_lost": int(max(-records, 0)),
        "records_doubled": int(max(records, 0)),
        "exact": expected == got,
    }
