#!/usr/bin/env bash
# Builds every fuzz target with clang and runs each for a few seconds; a crash, a leak or a hang fails.
#   fuzz_smoke.sh [SECONDS_PER_TARGET]
# The last line is "N passed, N failed, 0 skipped".
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:-5}"

mapfile -t targets < <(bazel query 'attr(tags, "[\[ ]fuzz[,\]]", kind(cc_binary, //...))' 2>/dev/null)
if [[ ${#targets[@]} -eq 0 ]]; then
  echo "no fuzz targets found: bazel query failed"
  exit 1
fi
bin=$(bazel info --config=fuzz bazel-bin 2>/dev/null)
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in "${targets[@]}"; do
  binary="${target#//}"
  binary="$bin/${binary/://}"
  log="$work/log"
  # One at a time, so that one that doesn't build hides no other.
  if bazel build --config=fuzz "$target" >"$log" 2>&1 &&
    "$binary" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -seed=1 -artifact_prefix="$work/" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -40 "$log"
    echo "FAILED: fuzz $target"
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
