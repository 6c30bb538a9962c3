#!/usr/bin/env bash
# Builds with optimisation and runs the benchmarks: both sides of each row in one go, then one table.
#   tests/bench/run.sh [--quick] [--only T1,T3] [--json FILE] [--record] ...   (run.py --help tells all)
set -euo pipefail
cd "$(dirname "$0")/../.."

case " $* " in
  *" --help "* | *" -h "* | *" --list "*) exec python3 tests/bench/run.py "$@" ;;
esac
deploy/install_deps.sh --bench
bazel build -c opt //cli:shoal //tests/bench:all_drivers
exec python3 tests/bench/run.py "$@"
