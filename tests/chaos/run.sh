#!/usr/bin/env bash
# Trains the counting job on clusters of real processes under a seeded mix of faults (chaos.py has the options).
#   tests/chaos/run.sh --seeds 8 --seconds 20
#   tests/chaos/run.sh --replay /tmp/chaos-x/seed-3-y/schedule.json
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build -c opt //cli:shoal //tests/chaos:faulty_worker
bin=$(bazel info -c opt bazel-bin)
exec python3 tests/chaos/chaos.py --shoal "$bin/cli/shoal" --faulty-worker "$bin/tests/chaos/faulty_worker" "$@"
