#!/usr/bin/env python3
"""The other side of T4: DeepFM in PyTorch on the CPU, tuned, over the rows of a Criteo file.

  deepfm_torch.py FILE --passes 2 [--batch 4096] [--threads 2]

The model, the initial distributions and the optimizers are those of the preset deepfm of shoal: a weight for each key, an
embedding N(0, .01), an MLP over embeddings and dense values. The data is in memory before the clock starts. Prints one JSON
object. Runs on Debian's python3-torch with libopenblas0-pthread, and refuses to run on a BLAS that has not noticed what
machine it is on: that costs a factor of three.
"""

import argparse
import ctypes
import json
import os
import re
import sys
import time

# Before numpy and torch load it. Debian's OpenBLAS takes any AVX-512 machine that it does not know for an old one.
if "OPENBLAS_CORETYPE" not in os.environ:
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        FLAGS = set(re.search(r"^flags\s*:(.*)$", cpuinfo.read(), re.M).group(1).split())
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if "avx512vl" in FLAGS else "Haswell"
    os.execv(sys.executable, [sys.executable] + sys.argv)

import numpy  # noqa: E402  pylint: disable=wrong-import-position
import torch  # noqa: E402  pylint: disable=wrong-import-position

INTEGERS, CATEGORIES = 13, 26
MODERN = {"SkylakeX", "Cooperlake", "SapphireRapids", "Haswell", "Zen"}


def blas_core():
    """What OpenBLAS thinks this machine is."""
    torch.ones(2, 2) @ torch.ones(2, 2)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        library.openblas_get_corename.restype = ctypes.c_char_p
        return library.openblas_get_corename().decode()
    raise SystemExit("deepfm_torch.py: PyTorch does not use OpenBLAS; install libopenblas0-pthread")


def read(path):
    """Labels, log1p of the integers, and category ids that are unique over all columns; and how many ids there are."""
    labels, dense, categories = [], [], []
    ids = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            labels.append(float(fields[0]))
            dense.append([max(int(x), 0) if x else 0 for x in fields[1:1 + INTEGERS]])
            categories.append([
                ids.setdefault((column, token), len(ids))
                for column, token in enumerate(fields[1 + INTEGERS:1 + INTEGERS + CATEGORIES])
            ])
    dense = numpy.log1p(numpy.array(dense, dtype=numpy.float32))
    return torch.tensor(labels), torch.from_numpy(dense), torch.tensor(categories), len(ids)


class DeepFm(torch.nn.Module):
    """preset: deepfm."""

    def __init__(self, ids, dim, hidden):
        super().__init__()
        self.embedding = torch.nn.Embedding(ids, dim, sparse=True)
        torch.nn.init.normal_(self.embedding.weight, 0, 0.01)
        self.linear = torch.nn.Embedding(ids, 1, sparse=True)
        torch.nn.init.zeros_(self.linear.weight)
        self.linear_dense = torch.nn.Linear(INTEGERS, 1)
        torch.nn.init.zeros_(self.linear_dense.weight)
        torch.nn.init.zeros_(self.linear_dense.bias)
        layers, width = [], CATEGORIES * dim + INTEGERS
        for units in hidden:
            layer = torch.nn.Linear(width, units)
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
            layers += [layer, torch.nn.ReLU(inplace=True)]
            width = units
        last = torch.nn.Linear(width, 1, bias=False)
        torch.nn.init.xavier_uniform_(last.weight)
        self.deep = torch.nn.Sequential(*layers, last)

    def forward(self, dense, categories):
        fields = self.embedding(categories)
        total = fields.sum(1)
        pairs = 0.5 * ((total * total).sum(1) - (fields * fields).sum((1, 2)))
        deep = self.deep(torch.cat([fields.flatten(1), dense], 1))[:, 0]
        return self.linear(categories).sum((1, 2)) + self.linear_dense(dense)[:, 0] + pairs + deep


def main():
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", default="400,400,400")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    core = blas_core()
    if core not in MODERN:
        raise SystemExit("deepfm_torch.py: OpenBLAS runs for %s, must be among %s" % (core, " ".join(sorted(MODERN))))
    labels, dense, categories, ids = read(arguments.file)
    model = DeepFm(ids, arguments.dim, [int(units) for units in arguments.hidden.split(",")])
    sparse = torch.optim.Adagrad([model.embedding.weight, model.linear.weight], lr=0.01, eps=1e-10)
    others = [tensor for name, tensor in model.named_parameters() if name not in ("embedding.weight", "linear.weight")]
    adam = torch.optim.Adam(others, lr=0.001)
    loss_of = torch.nn.BCEWithLogitsLoss()
    seconds, losses = 0.0, []
    for _ in range(arguments.passes):
        order = torch.randperm(len(labels))
        shuffled = labels[order], dense[order], categories[order]
        total, start = 0.0, time.monotonic()
        for begin in range(0, len(labels), arguments.batch):
            end = begin + arguments.batch
            sparse.zero_grad()
            adam.zero_grad()
            loss = loss_of(model(shuffled[1][begin:end], shuffled[2][begin:end]), shuffled[0][begin:end])
            loss.backward()
            sparse.step()
            adam.step()
            total += loss.item() * len(shuffled[0][begin:end])
        seconds += time.monotonic() - start
        losses.append(total / len(labels))
    print(
        json.dumps({
            "examples_per_second": arguments.passes * len(labels) / seconds,
            "logloss": losses[-1],
            "rows": ids,
            "blas_core": core,
            "torch": torch.__version__
        }))


if __name__ == "__main__":
    main()
