#!/bin/sh
# A walk through everything that byleave does: make demo FULL=1. Nothing of yours is touched.
set -eu

demo=$(cd "$(dirname "$0")" && pwd)
. "$demo/scratch.sh"
export BYLEAVE_HOME="$scratch/home"
mkdir -p "$scratch/project/src" "$scratch/project/.git" "$scratch/elsewhere"
cd "$scratch/project"
echo '{"scripts": {"test": "true"}}' > package.json
echo 'API_KEY=hunter2' > .env
echo 'fn main() {}' > src/main.rs
ln -s "$scratch/elsewhere" leak

for topic in "$demo"/walk/*.sh; do . "$topic"; done
printf '\nThat was the walk: every answer above was checked.\n'
