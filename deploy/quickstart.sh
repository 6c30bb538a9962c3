#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what the build needs, builds the one binary, trains on the census
# data that comes with the project. Safe to repeat. Runs as root or as a user with sudo; needs no GPU.
#   deploy/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# Bazel keeps its caches under HOME, which minimal environments leave unset.
if [[ -z "${HOME:-}" ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME
fi

deploy/install_deps.sh
echo "building shoal (several minutes the first time) ..." >&2
bazel build -c opt //cli:shoal

shoal=bazel-bin/cli/shoal
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
echo "training examples/census/job.yaml ..." >&2
"$shoal" train examples/census/job.yaml --threads 2 --output "$runs/model" --runs "$runs" --log-level warning

cat <<'END'

That was a wide & deep model of who earns more than 50,000 dollars; "eval" is measured on data it has not seen.
What to do next (README.md has more):
  bazel-bin/cli/shoal train examples/census/job.yaml --output model     # keeps the model
  bazel-bin/cli/shoal evaluate --checkpoint model                       # measures it again
  bazel-bin/cli/shoal predict --checkpoint model --output census.tsv    # one probability per record
  bazel-bin/cli/shoal local --servers 2 --workers 3                     # a cluster on this machine
  bazel-bin/cli/shoal --help
END
