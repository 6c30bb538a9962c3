#!/usr/bin/env bash
# Headers have at most 200 lines and sources at most 600: past that a file is cut by operation.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0
while read -r file; do
  limit=600
  [[ "$file" != *.h ]] || limit=200
  lines=$(wc -l <"$file")
  if ((lines > limit)); then
    echo "$file has $lines lines; the limit is $limit"
    status=1
  fi
done < <(git ls-files '*.cc' '*.h' '*.cu')
exit $status
