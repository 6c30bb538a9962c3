#!/usr/bin/env bash
# Installs what tests need, builds with optimisation, runs every test that is not manual. Lists each skipped test with
# its reason; the last line is "N passed, N failed, N skipped". Exits with 1 when a test failed.
#   tests/run_all.sh
# Real test data is looked for in SHOAL_TEST_DATA, else in ../shared/data beside the project.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z "${HOME:-}" ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME
fi
if [[ -z "${SHOAL_TEST_DATA:-}" && -d ../shared/data ]]; then
  SHOAL_TEST_DATA=$(cd ../shared/data && pwd)
fi
# Tests run elsewhere, so a relative path would mean nothing to them; unset and empty are the same to them.
[[ -z "${SHOAL_TEST_DATA:-}" ]] || SHOAL_TEST_DATA=$(realpath "$SHOAL_TEST_DATA")
export SHOAL_TEST_DATA="${SHOAL_TEST_DATA:-}"

deploy/install_deps.sh --tests
bazel build -c opt //cli:shoal
exec tests/checks/bazel_tests.py -- -c opt //...
