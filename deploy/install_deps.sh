#!/usr/bin/env bash
# Installs what shoal builds and tests with, from Debian 12's own packages. Safe to repeat: does nothing when all is
# there. Runs as root or through sudo.
#   deploy/install_deps.sh          what building and running needs
#   deploy/install_deps.sh --tests  also what the tests and checks need
#   deploy/install_deps.sh --bench  also what the benchmarks need, the programs that they compare with included
set -euo pipefail

packages=(
  bazel-bootstrap g++ pkg-config
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev
  libdnnl-dev libhwy-dev libspdlog-dev libfmt-dev libcli11-dev libyaml-cpp-dev nlohmann-json3-dev
  libsqlite3-dev zlib1g-dev libzstd-dev libxxhash-dev libcurl4-openssl-dev
)
if [[ "${1:-}" == "--tests" ]]; then
  packages+=(catch2 clang clang-format libclang-rt-14-dev zstd python3 dataset-fashion-mnist gdb)
elif [[ "${1:-}" == "--bench" ]]; then
  packages+=(libbenchmark-dev python3 python3-torch libopenblas0-pthread python3-sklearn liblinear-tools)
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$state" == "installed" ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

if [[ $(id -u) -eq 0 ]]; then
  sudo=()
elif command -v sudo >/dev/null; then
  sudo=(sudo)
else
  echo "install_deps.sh: these packages are missing and installing them needs root (or sudo): ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}" >&2
"${sudo[@]}" apt-get update -q >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
