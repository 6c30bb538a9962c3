#!/usr/bin/env bash
# Shell scripts parse, and shellcheck (where it is installed) has nothing to say.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
for script in "${scripts[@]}"; do bash -n "$script"; done
if command -v shellcheck >/dev/null; then
  shellcheck -S warning "${scripts[@]}"
fi
