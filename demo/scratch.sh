# What the demos share: a scratch project, a scratch home, and steps whose exit codes are checked.
scratch=$(mktemp -d)
trap 'byleave service stop -q || true; rm -rf "$scratch"' EXIT

say() { printf '\n\033[1m# %s\033[0m\n' "$1"; }
# Show a command, run it, and hold it to the exit code that the demo promises.
try() {
  printf '$ %s\n' "$(shift; [ "$1" != folded ] || shift; echo "$*" | sed "s|$HOME|~|g")"
  quietly "$@"
}
# The same without showing it.
quietly() {
  wanted=$1; shift
  code=0; "$@" || code=$?
  [ "$code" -eq "$wanted" ] || { echo "demo: exit code $code instead of $wanted" >&2; exit 1; }
}
# As a person of its own, without the state of other steps.
person() { env -u BYLEAVE_HOME HOME="$scratch/person" "$@"; }
