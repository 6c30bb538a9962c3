#!/usr/bin/env bash
# All C++ files are as clang-format would write them.
set -euo pipefail
cd "$(dirname "$0")/../.."
git ls-files '*.cc' '*.h' '*.cu' | xargs -r clang-format --dry-run -Werror
