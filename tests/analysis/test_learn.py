"""The least rules for what people answered: what they hold, what they never hold, and what they never allow."""

import json
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amounts
from byleave.analysis.answers import Evidence, action_key, gather
from byleave.analysis.learn import Learner, Proposal
from byleave.analysis.over_grant import over_grant, trials
from byleave.analysis.rule_trial import RuleTrial
from byleave.policy.load import Workspace

YES = {"by": "terminal", "choice": "once"}
NO = {"by": "terminal", "choice": "no"}


def record(action: dict[str, Any], decision: str = "allow", **more: Any) -> dict[str, Any]:
    because = [{"rule": "a rule", "source": "byleave.toml:3", "decision": decision}]
    verdict = {"decision": decision, "because": because}
    base = {"event": "decision", "time": "2026-05-01T10:00:00Z", "session": "default", "door": "acp"}
    return {**base, "action": action, "verdict": verdict, **more}


def yes(command: str, **more: Any) -> dict[str, Any]:
    return record({"kind": "command", "command": command}, answer=YES, **more)


def no(command: str) -> dict[str, Any]:
    return record({"kind": "command", "command": command}, "deny", answer=NO)


def denied(command: str) -> dict[str, Any]:
    return record({"kind": "command", "command": command}, "deny")


def evidence(records: Iterable[dict[str, Any]], since: str | None = None) -> Evidence:
    return gather(((number, json.dumps(each)) for number, each in enumerate(records, 1)), since=since)


def learn(
    root: Path, *records: dict[str, Any], rules: str = "", times: int = 3, files: Iterable[str] = ()
) -> list[Proposal]:
    return learner(root, records, rules=rules, times=times, files=files).proposals()


def learner(
    root: Path, records: Iterable[dict[str, Any]], *, rules: str = "", times: int = 3, files: Iterable[str] = ()
) -> Learner:
    workspace = Workspace(str(root))
    policy = workspace.load() if not rules else workspace.compile_tree(tomllib.loads(rules))
    return Learner(evidence(records), RuleTrial(workspace, policy), times=times, files=tuple(files))


def allows(found: Iterable[Proposal]) -> list[Any]:
    return [rule["allow"] for each in found for rule in tomllib.loads(each.toml).get("rules", ())]


def test_the_same_command_is_named_word_by_word(tmp_path: Path) -> None:
    (found,) = learn(tmp_path, *[yes("make test")] * 3, *[yes("make clean")] * 2)
    assert (allows([found]), found.covers, found.examples) == (
        [{"command": "make", "args": ["test"]}],
        3,
        ("make test",),
    )


def test_what_differs_behind_several_commands_stays_open(tmp_path: Path) -> None:
    (found,) = learn(tmp_path, *[yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")])
    assert allows([found]) == [{"command": "git", "args": ["push", "origin", "**"], "not": {"group": "destructive"}}]
    assert found.covers == 3


def test_a_subcommand_with_different_words_becomes_a_rule_about_the_subcommand(tmp_path: Path) -> None:
    found = learn(tmp_path, *[yes(f"git stash {name}") for name in ("list", "show", "push")])
    assert allows(found) == [{"command": "git", "subcommand": "stash", "not": {"group": "destructive"}}]


@pytest.mark.parametrize("words", ["--force main", "main -f", "+main", ":main", "--delete main", "--mirror"])
def test_an_open_rule_does_not_reach_what_deletes_or_overwrites(tmp_path: Path, words: str) -> None:
    (found,) = learn(tmp_path, *[yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")])
    alone = Workspace(str(tmp_path)).compile_tree(tomllib.loads(found.toml))
    assert not alone.decide({"kind": "command", "command": f"git push origin {words}"}).allowed


def test_different_subcommands_are_never_one_rule(tmp_path: Path) -> None:
    assert learn(tmp_path, *[yes(f"docker {name} x") for name in ("start", "pull", "tag")]) == []
    assert learn(tmp_path, yes("npm install"), yes("npm publish"), yes("npm test")) == []


@pytest.mark.parametrize(
    "line", ["rm {}", "bash {}.sh", "python3 {}.py", "sudo make {}", "curl https://{}.example", "git reset --hard {}"]
)
def test_what_deletes_or_runs_anything_stays_word_by_word(tmp_path: Path, line: str) -> None:
    assert learn(tmp_path, *[yes(line.format(name)) for name in ("alpha", "beta", "gamma", "delta")]) == []


@pytest.mark.parametrize(
    "line",
    [
        "git cherry-pick 3f786850e387550fdab836ed7e6dc881de23001b",
        "git show-branch 1b2c3d4e",
        "tar -xf /tmp/build-x81/a.tar",
        "gh run view 9182736455",
        "gh issue close --comment 'thank you'",
        "kubectl logs pod-550e8400-e29b-41d4-a716-446655440000",
        "aws s3 ls backup-2026-05-01",
        "deploy --token ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    ],
)
def test_what_is_of_one_occasion_is_in_no_rule(tmp_path: Path, line: str) -> None:
    assert learn(tmp_path, *[yes(line)] * 5) == []


def test_a_message_is_left_open(tmp_path: Path) -> None:
    found = learn(tmp_path, *[yes(f"git commit -m 'message number {number}'") for number in range(3)])
    assert allows(found) == [{"command": "git", "subcommand": "commit"}]


def test_a_number_that_varies_is_left_open_even_where_one_of_them_comes_often(tmp_path: Path) -> None:
    found = learn(tmp_path, *[yes("gh pr view 12")] * 3, yes("gh pr view 15"), yes("gh pr view 19"))
    assert [(rule["args"], found[0].covers) for rule in allows(found)] == [(["pr", "view", "**"], 5)]


def test_no_rule_reaches_what_a_person_or_a_rule_has_refused(tmp_path: Path) -> None:
    pushes = [yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")]
    assert learn(tmp_path, *pushes, no("git push origin main")) == []
    assert learn(tmp_path, *pushes, denied("git push origin --tags main")) == []
    assert learn(tmp_path, *pushes, denied("g''it push origin main")) == []
    assert len(learn(tmp_path, *pushes, no("git push --force"))) == 1


def test_a_rule_about_files_does_not_open_a_command_that_was_refused(tmp_path: Path) -> None:
    rules = '[[rules]]\nallow = { command = ["echo", "cd"] }\n'
    own = Path(os.environ["BYLEAVE_HOME"])
    own.mkdir(mode=0o700, exist_ok=True)
    (own / "config.toml").write_text(rules)
    (tmp_path / "data").mkdir()
    updates = [record({"kind": "create", "path": f"data/{name}.csv"}, answer=YES) for name in "abc"]
    assert len(learn(tmp_path, *updates)) == 1
    assert learn(tmp_path, *updates, no("echo x > data/d.csv")) == []
    assert learn(tmp_path, *updates, no("cd data && echo x >d.csv")) == []
    assert learn(tmp_path, *updates, record({"kind": "create", "path": "data/deep/x.csv"}, "deny")) == []


def test_a_no_before_the_time_that_is_looked_at_still_counts(tmp_path: Path) -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
    found = evidence(
        [{**no("make test"), "time": early}, yes("make lint", time=early), yes("make", time=late)], since=late
    )
    assert (len(found.lessons), len(found.objections)) == (1, 1)


def test_an_unanswered_question_is_no_refusal(tmp_path: Path) -> None:
    silent = record({"kind": "command", "command": "make test"}, "deny", answer={"by": "x", "choice": "silence"})
    assert len(learn(tmp_path, *[yes("make test")] * 3, silent)) == 1


def test_a_client_that_answers_by_itself_teaches_nothing(tmp_path: Path) -> None:
    machine = {**YES, "who": "client"}
    assert learn(tmp_path, *[{**yes("make test"), "answer": machine}] * 3) == []


def test_replies_that_a_hook_recorded_count_once_for_each_call(tmp_path: Path) -> None:
    reply = {**yes("make test"), "event": "reply", "answer": {"by": "codex", "choice": "once", "who": "person"}}
    calls = [{**reply, "tool_call": name} for name in ("one", "one", "two", "three")]
    assert [each.covers for each in learn(tmp_path, *calls)] == [3]


def test_an_outcome_refused_is_a_no(tmp_path: Path) -> None:
    refused = {"event": "effect", "action": {"kind": "command", "command": "make test"}, "outcome": "refused"}
    assert learn(tmp_path, *[yes("make test")] * 3, refused) == []


def test_damaged_records_are_passed_over() -> None:
    odd = ["", "{", "[]", '{"action": 3}', '{"action": {"kind": 3}, "answer": {"choice": "once"}}', '{"answer": []}']
    assert gather(enumerate(odd)) == Evidence()


def test_files_of_one_directory_become_a_rule_about_the_directory(tmp_path: Path) -> None:
    paths = ["data/one.csv", "data/two.csv", "data/deep/three.csv"]
    updates = [record({"kind": "update", "path": path}, answer=YES) for path in paths]
    found = learn(tmp_path, *updates, files=["data/one.csv", "data/other.csv", "data/secret.key", "src/a.py"])
    assert allows(found) == [{"path": "data/**/*.csv", "ops": ["update"]}]
    assert found[0].over_grant.tree == {"tried": 3, "also_allowed": 1, "examples": ["update data/other.csv"]}


def test_nothing_speaks_of_the_whole_workspace_or_of_hidden_directories(tmp_path: Path) -> None:
    for start in ("", ".secrets/", "build/.cache/"):
        names = [record({"kind": "update", "path": f"{start}{name}.bin"}, answer=YES) for name in "abcd"]
        assert [each for each in allows(learn(tmp_path, *names)) if each["path"].startswith(("**", "."))] == []


def test_urls_share_their_host_and_the_beginning_of_their_path(tmp_path: Path) -> None:
    urls = [f"https://docs.example.org/guide/{name}" for name in ("one", "two", "three")]
    found = learn(tmp_path, *[record({"kind": "url", "url": url}, answer=YES) for url in urls])
    assert [rule["url"]["path_prefix"] for rule in allows(found)] == ["/guide"]
    others = [f"https://docs.example.org/{name}" for name in ("one", "two", "three")]
    found = learn(tmp_path, *[record({"kind": "url", "url": url}, answer=YES) for url in others])
    assert allows(found) == [{"url": {"host": "docs.example.org", "scheme": "https", "port": 443}}]


def test_tools_with_one_beginning_become_a_pattern(tmp_path: Path) -> None:
    calls = [{"kind": "call", "server": "hub", "tool": f"get_{name}", "agent": "a"} for name in ("x", "y", "z")]
    found = learn(tmp_path, *[record(call, answer=YES) for call in calls])
    assert allows(found) == [{"call": {"server": "hub", "tool": "get_*"}}]


def test_a_refusal_of_a_confined_run_becomes_access(tmp_path: Path) -> None:
    action = {"kind": "url", "url": "https://registry.example.org/", "tool": "shell"}
    rules = '[shell]\nconfine = "auto"\n'
    workspace = Workspace(str(tmp_path))
    policy = workspace.compile_tree(tomllib.loads(rules))
    tool = next(name for name in policy.compiled.policy.views[0].tools)
    action["tool"] = tool
    built_in = {"decision": "deny", "because": [{"rule": "x", "source": "built-in", "decision": "deny"}]}
    refused = [
        {**record(action, "deny"), "door": "run", "verdict": built_in, "time": f"2026-05-01T10:0{minute}:00Z"}
        for minute in (1, 1, 2, 3)
    ]
    (found,) = learn(tmp_path, *refused, rules=rules)
    tree = tomllib.loads(found.toml)
    assert (tree["shell"]["access"]["net"][0]["host"], found.covers) == ("registry.example.org", 3)


def test_a_rule_that_would_not_decide_is_not_proposed(tmp_path: Path) -> None:
    own = Path(os.environ["BYLEAVE_HOME"])
    own.mkdir(mode=0o700, exist_ok=True)
    (own / "config.toml").write_text('[[rules]]\nask = { command = "make" }\n')
    assert learn(tmp_path, *[yes("make test")] * 3) == []


def test_a_narrower_rule_leaves_nothing_open(tmp_path: Path) -> None:
    teacher = learner(tmp_path, [yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")])
    (wide,) = teacher.proposals()
    assert [rule["args"][-1] for rule in allows(teacher.narrowed(wide))] == ["alpha", "beta", "gamma"]


@pytest.mark.parametrize(
    "edited",
    [
        '[[rules]]\nallow = { command = ["git", "make"], options = "any" }',
        '[[rules]]\nallow = { command = "git", subcommand = ["push", "fetch"] }\nsandbox = true',
        '[[rules]]\nallow = { any = [{ command = "git" }, { command = "make" }] }',
    ],
)
def test_no_edited_rule_allows_what_was_refused(edited: str, tmp_path: Path) -> None:
    """Not in a list of programs, and not for an agent that confines its commands."""
    teacher = learner(tmp_path, [no("git push origin main")], rules='[shell]\nconfine = "auto"')
    assert teacher.try_rule(edited) is None
    assert teacher.try_rule(edited.replace("git", "cargo").replace("push", "test")) is not None


def test_where_only_confined_runs_are_allowed_rules_are_learned_for_them(tmp_path: Path) -> None:
    shell = '[shell]\nconfine = "require"'
    answers = [*[yes("make test")] * 3, *[yes("git push origin main")] * 3, no("git push origin next")]
    found = learn(tmp_path, *answers, rules=shell)
    assert {each["command"] for each in allows(found)} == {"make", "git"}
    wide = learn(tmp_path, *[yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")], rules=shell)
    assert wide[0].over_grant.also_allowed > 0


def test_what_else_a_list_of_programs_allows_is_counted(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    trial = RuleTrial(workspace, workspace.load())
    rule = '[[rules]]\nallow = { command = ["git", "ls"] }'
    after = trial.with_rule(rule)
    assert after is not None
    tried = trials(rule, commands=["git status", "ls -l", "rm x"])
    found = over_grant(rule, tried, before=trial.before, after=after)
    direct = [each for each in tried if after.decide(each).allowed and not trial.before.decide(each).allowed]
    assert {"git status", "ls -l"} <= {each["command"] for each in direct}
    assert found.also_allowed == len(direct)


# Properties

WORDS = ("push", "test", "run", "origin", "main", "--force", "-q", "alpha", "beta", "src/a.py", "17")
LINES = st.builds(
    lambda program, words: " ".join([program, *words]),
    st.sampled_from(["git", "npm", "make", "cargo", "pytest", "tool"]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)
MANY = settings(
    max_examples=amounts.of(25, 8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@MANY
@given(st.lists(LINES, min_size=1, max_size=12), st.lists(LINES, max_size=5), st.integers(1, 2))
def test_no_proposal_allows_what_was_refused_and_each_covers_its_examples(
    tmp_path: Path, allowed: list[str], refused: list[str], times: int
) -> None:
    records = [yes(line) for line in allowed] + [no(line) if len(line) % 2 else denied(line) for line in refused]
    workspace = Workspace(str(tmp_path))
    trial = RuleTrial(workspace, workspace.load())
    for proposal in Learner(evidence(records), trial, times=times).proposals():
        after = trial.with_rule(proposal.toml)
        alone = workspace.compile_tree(tomllib.loads(proposal.toml))
        assert after is not None
        assert [line for line in refused if after.decide({"kind": "command", "command": line}).allowed] == []
        assert [line for line in refused if alone.decide({"kind": "command", "command": line}).allowed] == []
        assert all(after.decide({"kind": "command", "command": line}).allowed for line in proposal.examples)
        covered = sum(after.decide({"kind": "command", "command": line}).allowed for line in allowed)
        assert times <= proposal.covers <= covered


@MANY
@given(st.lists(LINES, min_size=2, max_size=8))
def test_the_count_of_what_else_is_allowed_is_that_of_a_direct_trial(tmp_path: Path, allowed: list[str]) -> None:
    workspace = Workspace(str(tmp_path))
    trial = RuleTrial(workspace, workspace.load())
    lines = [
        "git push origin x; ls",
        "g''it push",
        "cd src && cargo test",
        "$(make test)",
        "sudo npm run a",
        "pytest",
        *allowed,
    ]
    for proposal in Learner(evidence(yes(line) for line in allowed), trial, times=1).proposals():
        after = trial.with_rule(proposal.toml)
        assert after is not None
        tried = trials(proposal.toml, commands=lines)[:60]
        found = over_grant(proposal.toml, tried, before=trial.before, after=after)
        direct = [each for each in tried if after.decide(each).allowed and not trial.before.decide(each).allowed]
        assert (found.tried, found.also_allowed) == (len(tried), len(direct))


def test_the_count_on_the_whole_corpus_is_that_of_a_direct_trial(tmp_path: Path) -> None:
    (wide,) = learn(tmp_path, *[yes(f"git push origin {name}") for name in ("alpha", "beta", "gamma")])
    workspace = Workspace(str(tmp_path))
    trial = RuleTrial(workspace, workspace.load())
    after = trial.with_rule(wide.toml)
    assert after is not None
    seen = {action_key({"kind": "command", "command": line}) for line in wide.examples}
    tried = [each for each in trials(wide.toml) if action_key(each) not in seen]
    direct = [each for each in tried if after.decide(each).allowed and not trial.before.decide(each).allowed]
    assert (wide.over_grant.tried, wide.over_grant.also_allowed) == (len(tried), len(direct))
    assert wide.caution is not None
    assert f"{len(direct)} of {len(tried)}" in wide.caution
