#!/usr/bin/env bash
# Checkpoint and restore of 10 million rows beside the disk's own speed, and what a checkpoint costs those who push.
#   tests/large/checkpoint_speed.sh [--rows N] [--dim N] [--servers N] [--restore-servers N]
# Writes some gigabytes under TMPDIR (a file system in memory says nothing about a disk). Not part of tests/run_all.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build -c opt //tests/large:checkpoint_speed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(bazel info -c opt bazel-bin)/tests/large/checkpoint_speed" --dir "$work/checkpoints" "$@"
