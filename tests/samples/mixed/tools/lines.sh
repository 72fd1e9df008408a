#!/bin/sh
# Lists the lines of code of each part.
set -eu
cd "$(dirname "$0")/.."
for part in web api tools; do
  printf "%s " "$part"
  find "$part" -type f \( -name "*.js" -o -name "*.py" -o -name "*.sh" \) -exec cat {} + | wc -l
done
