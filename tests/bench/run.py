#!/usr/bin/env python3
"""Runs the benchmarks and prints one table: id, ours, the other side, ratio, target, ok or short.

  run.py [--size quick] [--only T1,T3] [--json FILE] [--record]

Every target is a ratio of two sides that were measured in turn in one run; absolute figures say what this machine did
today. The last column is the change of the ratio since the baseline (baseline.json beside this file, --record writes it).
Exits with 1 when a driver failed, and with --strict also when a row is short of its target.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

import drivers
import rows

BASELINE = os.path.join(drivers.HERE, "baseline.json")


def run_driver(driver, binaries, size):
    """Its rows; the second value is False when it failed."""
    result = subprocess.run(drivers.command(driver, binaries) + ["--size", size], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True, check=False)
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not found:
        print("%s: exit status %d, %d rows" % (" ".join(driver.command), result.returncode, len(found)),
              file=sys.stderr)
        return found, False
    return found, True


def figure(value):
    """At least three digits, without an exponent."""
    if value is None:
        return ""
    return "%.0f" % value if abs(value) >= 1000 else "%.3g" % value


def key(row):
    """What names a row across runs."""
    return "%s %s" % (row["id"], row["name"])


def line(row, baseline, size):
    """The columns of a row. One that was measured at another size has no baseline."""
    if "skip" in row:
        return [row["id"], row["name"], "", "", "", "", "", "", "skipped: " + row["skip"], ""]
    value = rows.ratio(row)
    before = baseline.get(key(row), {})
    before = before["ratio"] if before.get("size") == size else None
    change = "%+.0f%%" % (100 * (value / before - 1)) if value and before else ""
    target = "" if row["target"] is None else ("<= " if row["at_most"] else ">= ") + figure(row["target"])
    other = figure(statistics.median(row["other"])) + " " + row["other_name"] if row["other"] else ""
    return [
        row["id"], row["name"], figure(statistics.median(row["ours"])) + " " + row["unit"], other, figure(value),
        "±%.0f%%" % (50 * rows.spread(row)), target, rows.verdict(row), row.get("note", ""), change
    ]


def print_table(found, baseline, size):
    """All rows, in columns."""
    table = [["id", "what", "ours", "other side", "ratio", "spread", "target", "", "note", "since baseline"]]
    table += [line(row, baseline, size) for row in found]
    widths = [max(len(columns[i]) for columns in table) for i in range(len(table[0]))]
    for columns in table:
        print("  ".join(text.ljust(width) for text, width in zip(columns, widths)).rstrip())


def summary(found, size):
    """What --json and --record write."""
    out = []
    for row in found:
        if "skip" not in row:
            row = dict(row, ratio=rows.ratio(row), spread=rows.spread(row), verdict=rows.verdict(row))
        out.append(row)
    return {"size": size, "machine": platform.machine(), "cores": os.cpu_count(), "rows": out}


def read_baseline(path):
    """By key; empty when there is none."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {key(row): row for row in json.load(file)["rows"]}


def record(path, found, size):
    """Replaces the rows that were measured; the others stay."""
    merged = read_baseline(path)
    for row in summary(found, size)["rows"]:
        if "skip" not in row:
            row["size"] = size
            merged[key(row)] = row
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"rows": [merged[name] for name in sorted(merged)]}, file, indent=1)
        file.write("\n")


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rows.add_size(parser)
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", help="--size quick")
    parser.add_argument("--only", default="", help="ids of rows, comma-separated (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write all samples to FILE")
    parser.add_argument("--record", action="store_true", help="make this run's rows the baseline")
    parser.add_argument("--baseline", metavar="FILE", default=BASELINE)
    parser.add_argument("--bin", metavar="FOLDER", default="bazel-bin", help="where the built programs are")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a row is short of its target")
    parser.add_argument("--smoke-test", action="store_true", help="run what ends in seconds, at --size smoke")
    parser.add_argument("--list", action="store_true", help="print the ids and what measures them")
    return parser.parse_args()


def main():
    """Runs the drivers that were asked for."""
    arguments = parse_arguments()
    wanted = {name.strip().upper() for name in arguments.only.split(",") if name.strip()}
    known = {name.upper() for driver in drivers.DRIVERS for name in driver.rows}
    if wanted - known:
        print("--only: %s, must be among %s" % (" ".join(sorted(wanted - known)), " ".join(sorted(known))),
              file=sys.stderr)
        return 2
    chosen = [d for d in drivers.DRIVERS if not wanted or wanted & {name.upper() for name in d.rows}]
    if arguments.list:
        for driver in chosen:
            print("%s: %s" % (", ".join(driver.rows), " ".join(driver.command)))
        return 0
    if arguments.smoke_test:
        arguments.size = "smoke"
        chosen = [driver for driver in chosen if driver.smoke]
    found, good = [], True
    for driver in chosen:
        print("running %s ..." % ", ".join(driver.rows), file=sys.stderr, flush=True)
        measured, ok = run_driver(driver, arguments.bin, arguments.size)
        found += [row for row in measured if not wanted or row["id"].upper() in wanted]
        good = good and ok
    print_table(found, read_baseline(arguments.baseline), arguments.size)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(summary(found, arguments.size), file, indent=1)
    if arguments.record:
        record(arguments.baseline, found, arguments.size)
    short = [row for row in found if rows.verdict(row) == "short"]
    print("%d rows, %d short of their target" % (len(found), len(short)))
    return 0 if good and not (arguments.strict and short) else 1


if __name__ == "__main__":
    sys.exit(main())
