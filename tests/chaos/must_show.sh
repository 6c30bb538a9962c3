#!/usr/bin/env bash
# What the docs promise about training under fire, each with enough seeds (docs/operations.md has the figures). About an
# hour and a half on two cores.
#   tests/chaos/must_show.sh
set -uo pipefail
cd "$(dirname "$0")" || exit 1
passed=0
failed=0
row() {
  local name="$1"
  shift
  echo "=== $name"
  local line
  line=$(./run.sh "$@" 2>&1 | tee /dev/stderr | tail -1)
  if [[ "$line" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
}
row "counting is exact in 100 runs" --seeds 100 --seconds 20
row "bsp: a server killed at any step, the same bits" --job linear --mode bsp --only server_kill --once --seeds 20 --seconds 8
row "bsp: workers killed, drained and added, the same bits" --job linear --mode bsp --seeds 20 --seconds 8 \
  --only worker_kill,worker_term,worker_drain,worker_join
for mode in ssp asp; do
  row "$mode: half of the workers killed every few seconds, the same AUC" --job linear --mode "$mode" --only half_gone \
    --every 3 --seeds 3 --seconds 20 --workers 4
done
echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
