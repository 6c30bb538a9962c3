#!/usr/bin/env bash
# Clang's thread-safety analysis of every file that locks. g++ ignores the annotations, so this is where they count.
# Needs the generated headers of an optimised build under bazel-bin.
set -euo pipefail
cd "$(dirname "$0")/../.."
generated=$(bazel info -c opt bazel-bin 2>/dev/null)

files=()
while read -r file; do
  header="${file%.cc}.h"
  if grep -q 'Mutex' "$file" || { [[ -f "$header" ]] && grep -q 'Mutex' "$header"; }; then
    files+=("$file")
  fi
done < <(git ls-files 'base/*.cc' 'proto/*.cc' 'server/*.cc' 'scheduler/*.cc' 'worker/*.cc' 'local/*.cc' | grep -v '_test\.cc$\|_fuzz\.cc$')
[[ ${#files[@]} -gt 0 ]]
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang++ -fsyntax-only -std=c++17 -march=x86-64-v2 -w \
  -Wthread-safety -Werror=thread-safety -DSPDLOG_COMPILED_LIB -DSPDLOG_SHARED_LIB -DSPDLOG_FMT_EXTERNAL \
  -I. -I"$generated"
