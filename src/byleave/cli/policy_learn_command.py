"""`byleave policy learn`: rules for what people approved again and again, and for what sandboxed runs were refused.

At a terminal each rule is reviewed (`learn_review`). Elsewhere they are printed, and nothing changes; `--write` adds
them to a file, after the user's consent.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from byleave.analysis.answers import gather
from byleave.analysis.learn import TIMES, Learner
from byleave.analysis.rule_trial import RuleTrial
from byleave.cli.learn_review import Rejections, proposal_lines, review
from byleave.cli.output import fitted, say, say_json, say_verbose, warn
from byleave.cli.progress import ProgressBar
from byleave.cli.rule_file import add_to_file
from byleave.cli.terminal import may_ask
from byleave.cli.workspace import load_policy, open_workspace, origins, working_directory
from byleave.core.redact import Redactor
from byleave.errors import InputError
from byleave.policy.dirs import CONFIG_FILE
from byleave.store.audit.query import read_when
from byleave.text import quoted, shown_lines
from byleave.workspace.listing import files_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.analysis.answers import Evidence
    from byleave.analysis.learn import Proposal
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace

_LONGEST = 6  # digits of a number of times
# What the text of a record holds that says yes or no; everything else is not even decoded.
_MARKS = ('"answer":{', '"outcome":"refused', '"decision":"deny"')
_NOTHING = "nothing to learn yet: a rule takes {} of alike requests that still need one (--times N)"


def run(given: ParsedArguments) -> int:
    """Propose rules; at a terminal, review them; with --write, add them to a file."""
    times = _times(given)
    since = None if given.one("since") is None else read_when(str(given.one("since")), now=time.time())
    target = given.one("write")
    path = None if target is None else os.path.join(working_directory(), target)
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    evidence = _read(given, workspace, since)
    rejections = Rejections(workspace.homes.workspace(workspace.root.path))
    with ProgressBar(given, "trying rules") as bar:
        learner = Learner(
            evidence,
            RuleTrial(workspace, policy, path),
            times=times,
            files=files_below(workspace.root.path),
            rejected=rejections.rules(),
            report=bar,
        )
        proposals = learner.proposals()
    if given.flag("json"):
        say_json({"proposals": [each.tree for each in proposals]})
        return 0 if path is None else _write(given, workspace, path, [each.toml for each in proposals])
    if not proposals:
        say(fitted(_NOTHING.format("1 approval" if times == 1 else f"{times} approvals")))
        return 0
    if sys.stdout.isatty() and not given.flag("yes") and may_ask(given):
        accepted = review(learner, proposals, rejections)
        own = os.path.join(workspace.homes.config, CONFIG_FILE)
        return _write(given, workspace, own if path is None else path, accepted)
    if path is not None:
        return _write(given, workspace, path, [each.toml for each in proposals])
    _print(proposals)
    return 0


def _read(given: ParsedArguments, workspace: Workspace, since: str | None) -> Evidence:
    log = workspace.audit_log(None, Redactor())
    try:
        with ProgressBar(given, "reading records") as bar:
            return gather(log.scan(holding=_MARKS, report=bar), since=since)
    finally:
        warn(given, log.warnings)
        log.close()


def _print(proposals: Sequence[Proposal]) -> None:
    """Print a file that can be used as it is: what is said of a rule stands above it as comments."""
    for proposal in proposals:
        for line in proposal_lines(proposal):
            say("\n".join(f"# {row}".rstrip() for row in fitted(line).split("\n")))
        say(shown_lines(proposal.toml))
        say("")


def _write(given: ParsedArguments, workspace: Workspace, path: str, rules: Sequence[str]) -> int:
    """Add the rules to the file; a project file has to be trusted again after that."""
    if not rules:
        return 0
    toml = "\n\n".join(rules) + "\n"
    what = "1 learned rule" if len(rules) == 1 else f"{len(rules)} learned rules"
    code = add_to_file(given, workspace, path, toml, subject=f"{what} into {path}")
    inside = os.path.realpath(path).startswith(f"{workspace.root.path}/")
    if code == 0 and inside and not given.flag("quiet") and not given.flag("json"):
        say("a project file has no effect until you trust it in its new content: `byleave trust`")
    return code


def _times(given: ParsedArguments) -> int:
    word = given.one("times")
    if word is None:
        return TIMES
    if not (word.isascii() and word.isdigit() and len(word) <= _LONGEST and int(word) > 0):
        raise InputError(f"--times {quoted(word)} is no number of times", hint="write a number such as 3")
    return int(word)
