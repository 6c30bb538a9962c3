#!/usr/bin/env bash
# Prints what each fault costs, as a table: time to the first good step, records computed again, lost and doubled, and
# throughput before, during and after (report.py).
#   tests/chaos/report.sh
#   tests/chaos/report.sh --only 'nothing;worker killed' --modes asp
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build -c opt //cli:shoal //tests/chaos:faulty_worker
bin=$(bazel info -c opt bazel-bin)
exec python3 tests/chaos/report.py --shoal "$bin/cli/shoal" --faulty-worker "$bin/tests/chaos/faulty_worker" "$@"
