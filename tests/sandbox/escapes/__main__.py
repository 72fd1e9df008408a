"""Try the escapes by hand: `PYTHONPATH=tests python -m sandbox.escapes [--json] [--launcher WORDS] [ID...]`."""

import argparse
import shlex
import signal
import sys

from sandbox.escapes.trial import as_json, fitting, load, try_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--launcher", help="words that start a program in another sandbox; $WS and $POLICY are replaced"
    )
    options = parser.parse_args()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN):  # some signal the process group that we are in
        signal.signal(number, signal.SIG_IGN)
    cases = [case for case in fitting(load()) if not options.ids or case["id"] in options.ids]
    outcomes, broken = try_all(cases, shlex.split(options.launcher) if options.launcher else None)
    if options.json:
        sys.stdout.write(as_json(outcomes, broken))
        return 0
    for outcome in outcomes:
        said = outcome.inside.told if outcome.counts else outcome.plain.told
        sys.stdout.write(f"{outcome.word:9} {outcome.id:32} {said[-120:]!r}\n")
    counting = [outcome for outcome in outcomes if outcome.counts]
    stopped = [outcome for outcome in counting if outcome.word == "stopped"]
    sys.stdout.write(f"{len(stopped)} of {len(counting)} stopped; {broken or 'ordinary work works'}\n")
    return 0 if len(stopped) == len(counting) and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
