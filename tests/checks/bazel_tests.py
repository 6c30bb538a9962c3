#!/usr/bin/env python3
"""Runs `bazel test` and counts test cases, not targets.

  bazel_tests.py -- BAZEL_TEST_ARGUMENTS...

Lists each skip with its reason. The last line is "N passed, N failed, N skipped"; exits with 1 when a test failed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

# Catch2, unittest.
CATCH_PASSED = re.compile(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", re.M)
CATCH_MIXED = re.compile(r"^test cases: *(\d+) \|(.*)$", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(OK|FAILED)(?: \((.*)\))?", re.M)
SKIPPED = re.compile(r"^.*?SKIPPED: (.*)$", re.M)


def count_log(text, passed):
    """(passed, failed, reasons of skips) of one test log; `passed` is the target's own result."""
    reasons = list(dict.fromkeys(SKIPPED.findall(text)))
    good, bad = (1, 0) if passed else (0, 1)
    match = CATCH_PASSED.search(text)
    if match and passed:
        good = int(match.group(1))
    match = CATCH_MIXED.search(text)
    if match:
        numbers = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", match.group(2))}
        good, bad = numbers.get("passed", 0), numbers.get("failed", 0)
    match = UNITTEST.search(text)
    if match:
        numbers = {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", match.group(3) or "")}
        bad = numbers.get("failures", 0) + numbers.get("errors", 0)
        good = int(match.group(1)) - bad
    if not passed:
        bad = max(bad, 1)  # a crash or a time-out leaves no summary
    # A case that prints why it skips has run and passed as far as its framework knows.
    return max(good - len(reasons), 0), bad, reasons


def read_events(path):
    """By label: (status, log files)."""
    results = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            identity = event.get("id", {})
            if "testResult" in identity:
                entry = results.setdefault(identity["testResult"]["label"], ["", []])
                for output in event.get("testResult", {}).get("testActionOutput", []):
                    if output.get("name") == "test.log":
                        entry[1].append(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))
            elif "testSummary" in identity:
                entry = results.setdefault(identity["testSummary"]["label"], ["", []])
                entry[0] = event.get("testSummary", {}).get("overallStatus", "NO_STATUS")
            elif "targetCompleted" in identity and not event.get("completed", {}).get("success", False):
                results.setdefault(identity["targetCompleted"]["label"], ["FAILED_TO_BUILD", []])
    return results


def main():
    arguments = sys.argv[sys.argv.index("--") + 1:]
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events.json")
        command = ["bazel", "test", "--keep_going", "--build_tests_only", "--build_event_json_file=" + events]
        status = subprocess.run(command + arguments, check=False).returncode
        results = read_events(events) if os.path.exists(events) else {}
    good = bad = 0
    skips = []
    for label, (state, logs) in sorted(results.items()):
        text = "".join(open(log, encoding="utf-8", errors="replace").read() for log in logs[-1:] if os.path.exists(log))
        passed, failed, reasons = count_log(text, state in ("PASSED", "FLAKY"))
        good, bad = good + passed, bad + failed
        skips += [(label, reason) for reason in reasons]
        if failed:
            print("FAILED: %s (%s, %d failed)" % (label, state, failed))
    # 0: all passed; 4: no tests; 3: some failed, which is counted above. Anything else went wrong before the tests.
    if status not in (0, 3, 4) and bad == 0:
        print("FAILED: bazel test ended with status %d" % status)
        bad = 1
    for label, reason in skips:
        print("skipped: %s: %s" % (label, reason))
    print("%d passed, %d failed, %d skipped" % (good, bad, len(skips)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
