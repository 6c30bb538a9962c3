"""What goes wrong when: a seed becomes a list of faults, which can be written to a file and replayed."""

import random

# Faults of which the harness can be told to leave some out (--without).
WORKER_FAULTS = ("worker_kill", "worker_hang", "worker_term", "worker_drain", "workers_gone", "half_gone", "worker_join")
SCHEDULER_FAULTS = ("scheduler_kill", "scheduler_hang")
SERVER_FAULTS = ("server_kill", "server_hang", "server_drain", "server_join")
NETWORK_FAULTS = ("cut_worker_server", "cut_worker_scheduler", "cut_server_scheduler", "slow_link")
STORAGE_FAULTS = ("disk_full",)
ALL_FAULTS = WORKER_FAULTS + SCHEDULER_FAULTS + SERVER_FAULTS + NETWORK_FAULTS + STORAGE_FAULTS

# How often each is chosen. Those that stop everybody are rarer, or nothing else would have time to happen.
WEIGHTS = {
    "worker_kill": 4,
    "worker_hang": 3,
    "worker_term": 2,
    "worker_drain": 1,
    "workers_gone": 1,
    "half_gone": 1,
    "worker_join": 1,
    "scheduler_kill": 2,
    "scheduler_hang": 1,
    "server_kill": 3,
    "server_hang": 2,
    "server_drain": 1,
    "server_join": 1,
    "cut_worker_server": 2,
    "cut_worker_scheduler": 1,
    "cut_server_scheduler": 1,
    "slow_link": 1,
    "disk_full": 1,
}


def make_schedule(seed, seconds, workers, servers, deadline, faults=ALL_FAULTS, every=1.0, once=False):
    """Faults by time: {"at": seconds from the first example, "fault": kind, ...}; `once`: one, at any time. A function of
    its arguments."""
    rng = random.Random(seed)
    kinds = [kind for kind in ALL_FAULTS if kind in faults]
    events = []
    at = rng.uniform(0.05, 0.8) * seconds if once else 0.5
    # Every kind comes up in turn over the seeds, whatever the dice say.
    forced = [kinds[(seed * 3 + i) % len(kinds)] for i in range(3)] if kinds else []
    while at < seconds and kinds and not (once and events):
        if forced:
            kind = forced.pop()
        else:
            kind = rng.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        event = {"at": round(at, 2), "fault": kind}
        worker = "w%d" % rng.randrange(workers)
        server = "s%d" % rng.randrange(servers)
        # Half of the hangs and cuts outlast the deadline: the others come back before anybody has noticed.
        lasts = round(rng.uniform(0.2, 0.8) * deadline if rng.random() < 0.4 else rng.uniform(1.3, 2.5) * deadline, 2)
        if kind in ("worker_kill", "worker_term", "worker_drain"):
            event.update(who=worker, down=round(rng.uniform(0.1, 2.0), 2))
            if kind == "worker_term":
                event["signal"] = rng.choice(["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"])
        elif kind == "worker_hang":
            event.update(who=worker, lasts=lasts)
        elif kind == "half_gone":
            event.update(who=sorted(rng.sample(["w%d" % i for i in range(workers)], (workers + 1) // 2)),
                         down=round(rng.uniform(0.5, 1.5), 2))
        elif kind == "workers_gone":
            event.update(down=round(rng.uniform(1.0, 2.5), 2))
        elif kind == "worker_join":
            event.update(lasts=round(rng.uniform(1.0, 4.0), 2))
        elif kind == "scheduler_kill":
            event.update(down=round(rng.uniform(0.1, 2.5), 2))
        elif kind == "scheduler_hang":
            event.update(lasts=round(rng.uniform(0.2, 1.5) * deadline, 2))
        elif kind in ("server_kill", "server_drain"):
            event.update(who=server, down=round(rng.uniform(0.1, 2.0), 2))
            if kind == "server_drain":
                event["how"] = rng.choice(["verb", "SIGTERM"])
        elif kind == "server_hang":
            event.update(who=server, lasts=lasts)
        elif kind == "server_join":
            event.update(lasts=round(rng.uniform(2.0, 6.0), 2))
        elif kind == "cut_worker_server":
            event.update(client=worker, to=server, how=rng.choice(["refuse", "hole"]), lasts=lasts)
        elif kind == "cut_worker_scheduler":
            event.update(client=worker, to="scheduler", how=rng.choice(["refuse", "hole"]), lasts=lasts)
        elif kind == "cut_server_scheduler":
            event.update(client=server, to="scheduler", how=rng.choice(["refuse", "hole"]), lasts=lasts)
        elif kind == "slow_link":
            event.update(client=worker, to=server, delay=round(rng.uniform(0.02, 0.3), 3), lasts=lasts)
        elif kind == "disk_full":
            event.update(lasts=round(rng.uniform(1.0, 3.0), 2))
        events.append(event)
        at += rng.uniform(0.4, 1.6) * every
    return events
