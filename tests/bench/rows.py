"""What a benchmark says: one JSON object per row of the table, one a line, on stdout. Drivers in C++ print the same
through local/bench/bench_row.h.

  {"id": "T3", "name": "pull, 1 M rows", "unit": "M rows/s", "ours": [..], "other": [..], "other_name": "bare loop",
   "target": 0.85, "at_most": false, "note": "..."}

ours and other are samples in the order in which they were taken, A B A B; the ratio is that of the medians. `other` may
be one figure (a bound). Without `target` the row only informs. {"id": .., "name": .., "skip": "why"}: not measured here.
"""

import json
import statistics

# What every driver takes: its sizes are for a check that it works, a look, or the record.
SIZES = ("smoke", "quick", "full")


def add_size(parser):
    """--size of a driver's argparse parser."""
    parser.add_argument("--size", choices=SIZES, default="full", help="smoke: seconds, only that it works")


def emit(identity, name, unit, ours, other, other_name, target=None, at_most=False, note=""):
    """Prints a row."""
    print(
        json.dumps({
            "id": identity,
            "name": name,
            "unit": unit,
            "ours": list(ours),
            "other": list(other),
            "other_name": other_name,
            "target": target,
            "at_most": at_most,
            "note": note
        }),
        flush=True)


def skip(identity, name, why):
    """Prints that a row is not measured here, and why."""
    print(json.dumps({"id": identity, "name": name, "skip": why}), flush=True)


def interleave(repeats, ours, other):
    """Samples of two functions, taken in turn."""
    samples = [], []
    for _ in range(repeats):
        samples[0].append(ours())
        samples[1].append(other())
    return samples


def ratio(row):
    """Of the medians; None without both sides."""
    if not row.get("ours") or not row.get("other"):
        return None
    other = statistics.median(row["other"])
    return statistics.median(row["ours"]) / other if other else None


def spread(row):
    """(largest - smallest) / median over the ratios of the pairs; 0 for a single one."""
    ours, other = row.get("ours") or [], row.get("other") or []
    if len(other) == 1:
        other = other * len(ours)
    ratios = [a / b for a, b in zip(ours, other) if b]
    if len(ratios) < 2 or not statistics.median(ratios):
        return 0.0
    return (max(ratios) - min(ratios)) / statistics.median(ratios)


def verdict(row):
    """"ok", "short", or "" for a row without a target."""
    value = ratio(row)
    if row.get("target") is None or value is None:
        return ""
    return "ok" if (value <= row["target"] if row.get("at_most") else value >= row["target"]) else "short"
