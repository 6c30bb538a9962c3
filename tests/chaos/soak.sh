#!/usr/bin/env bash
# Chaos for a long time: one seed after another, a minute each, until the time is over.
#   tests/chaos/soak.sh --minutes 120
set -euo pipefail
exec "$(dirname "$0")/run.sh" --seconds 60 --first-seed 1000 "$@"
