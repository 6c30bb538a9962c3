"""The benchmarks: which program measures which rows. Each gets --size and prints rows (rows.py)."""

import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# rows: ids that --only knows. command: {bin} is the folder of built programs, {here} this folder.
# smoke: part of the test that the drivers work, so it must end in seconds at --size smoke.
Driver = collections.namedtuple("Driver", "rows command smoke")

DRIVERS = [
    Driver(["T1", "T2"], ["{bin}/cli/shoal", "bench", "wire", "--json"], True),
    Driver(["T7"], ["{bin}/tests/bench/plane_bench", "memory"], True),
    Driver(["T9"], ["{here}/cluster_bench.py", "--shoal", "{bin}/cli/shoal", "--only", "T9"], True),
    Driver(["scaling"], ["{here}/cluster_bench.py", "--shoal", "{bin}/cli/shoal", "--only", "scaling"], True),
    Driver(["T8"], ["{bin}/tests/bench/plane_bench", "data"], True),
    Driver(["T4"], ["{here}/train_bench.py", "{bin}/cli/shoal", "{bin}/tests/bench/onednn_peak", "T4"], True),
    Driver(["T5"], ["{here}/train_bench.py", "{bin}/cli/shoal", "{bin}/tests/bench/onednn_peak", "T5"], True),
    Driver(["T6"], ["{here}/train_bench.py", "{bin}/cli/shoal", "{bin}/tests/bench/onednn_peak", "T6"], False),
    Driver(["T3"], ["{bin}/tests/bench/plane_bench", "store"], True),
]


def command(driver, binaries):
    """What to execute."""
    words = [word.format(bin=binaries, here=HERE) for word in driver.command]
    return [sys.executable] + words if words[0].endswith(".py") else words
