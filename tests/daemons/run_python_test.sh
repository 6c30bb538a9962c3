#!/usr/bin/env bash
# Runs a Python test (standard library only) as a bazel test: run_python_test.sh TEST.py ARGUMENTS...
set -euo pipefail
exec python3 "$@"
