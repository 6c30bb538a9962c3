#!/usr/bin/env bash
# Every driver still runs and prints rows, at its smallest size: smoke_test.sh RUN.PY
set -euo pipefail
exec python3 "$1" --smoke-test --bin .
