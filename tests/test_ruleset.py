"""The builders, and every example and promise of the design they come from."""

from pathlib import Path

import pytest

from byleave import Matcher, Operation, Outcome, Rule, Ruleset
from byleave.matchers import Compilation, ReadOnlyGit, SafeNpm

GIT = Ruleset(
    [
        Rule(Matcher.command("git").with_subcommands(["status", "log", "diff", "show"]), Outcome.ALLOW),
        Rule(Matcher.command("git").with_subcommands(["push", "reset", "rebase"]), Outcome.DENY),
        Rule(Matcher.command("cargo").with_subcommands(["check", "build", "test", "clippy"]), Outcome.ALLOW),
    ]
)
DEVELOPMENT = [
    Rule(ReadOnlyGit.matcher(), Outcome.ALLOW),
    Rule(Compilation.matcher().within_directory("."), Outcome.ALLOW),
    Rule(
        Matcher.any_of(
            [
                Matcher.command("cargo").with_subcommand("test"),
                Matcher.command("npm").with_subcommand("test"),
                Matcher.command("go").with_subcommand("test"),
                Matcher.command("pytest"),
            ]
        ),
        Outcome.ALLOW,
    ),
    Rule(
        Matcher.any_of(
            [Matcher.command("npm").with_subcommand("list"), Matcher.command("cargo").with_subcommand("tree")]
        ),
        Outcome.ALLOW,
    ),
    Rule(
        Matcher.any_of(
            [
                Matcher.command("rm").with_flag("-rf"),
                Matcher.command("sudo"),
                Matcher.command("chmod"),
                Matcher.command("curl").piped_to_shell(),
            ]
        ),
        Outcome.DENY,
    ),
]
ALLOW, ASK, DENY = Outcome.ALLOW, Outcome.ASK, Outcome.DENY


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("git status", ALLOW),
        ("git status -s", ALLOW),
        ("git status --porcelain", ALLOW),
        ("git log --oneline -n 10", ALLOW),
        ("git push", DENY),
        ("git rebase -i HEAD~3", DENY),
        ("cargo build --release", ALLOW),
        ("cargo publish", ASK),
        ("make", ASK),
    ],
)
def test_commands_are_matched_by_name_and_subcommand(command: str, outcome: Outcome) -> None:
    assert GIT.evaluate(Operation.execute(command)) is outcome


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("git diff", ALLOW),
        ("cargo build", ALLOW),
        ("go build ./...", ALLOW),
        ("tsc", ALLOW),
        ("pytest -q", ALLOW),
        ("npm test", ALLOW),
        ("npm list", ALLOW),
        ("cargo tree", ALLOW),
        ("npm install", ASK),
        ("rm -rf build", DENY),
        ("rm -fr build", DENY),
        ("rm build", ASK),
        ("sudo make install", DENY),
        ("chmod +x x", DENY),
        ("curl https://example.com/i.sh | sh", DENY),
        ("curl https://example.com/i.sh", ASK),
        ("make && make test", ALLOW),
        ("git status && npm install", ASK),
        ("git status; sudo id", DENY),
    ],
)
def test_a_typical_development_policy_answers(command: str, outcome: Outcome, tmp_path: Path) -> None:
    assert Ruleset(DEVELOPMENT, root=str(tmp_path)).evaluate(Operation.execute(command)) is outcome


def test_a_pipeline_is_allowed_because_all_of_its_parts_match() -> None:
    ruleset = Ruleset(
        [
            Rule(Matcher.command("find"), ALLOW),
            Rule(Matcher.command("grep"), ALLOW),
            Rule(Matcher.command("xargs").with_subcommand("grep"), ALLOW),
        ]
    )
    assert ruleset.evaluate(Operation.execute("find . -name '*.ts' | xargs grep 'interface'")) is ALLOW


def test_a_rule_on_the_wrapper_and_its_child_does_not_cover_the_childs_dangerous_options() -> None:
    ruleset = Ruleset([Rule(Matcher.command("sudo").with_subcommand("sort"), ALLOW)])
    assert ruleset.evaluate(Operation.execute("sudo sort names")) is ALLOW
    assert ruleset.evaluate(Operation.execute("sudo sort -o out names")) is ASK


def test_what_a_wrapper_adds_at_run_time_could_be_a_dangerous_option() -> None:
    ruleset = Ruleset([Rule(Matcher.command("xargs").with_subcommand("sort"), ALLOW)])
    assert ruleset.evaluate(Operation.execute("xargs sort")) is ASK


def test_a_group_can_be_extended() -> None:
    extended = Matcher.any_of([Compilation.matcher(), Matcher.command("zig").with_subcommand("build")])
    ruleset = Ruleset([Rule(extended, ALLOW)])
    assert ruleset.evaluate(Operation.execute("zig build")) is ALLOW
    assert ruleset.evaluate(Operation.execute("cargo build")) is ALLOW
    assert ruleset.evaluate(Operation.execute("zig run x")) is ASK


def test_matchers_combine_with_all(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    scoped = Matcher.all_of([Matcher.command("npm"), Matcher.within_directory(str(tmp_path / "project"))])
    ruleset = Ruleset([Rule(scoped, ALLOW)], root=str(tmp_path))
    assert ruleset.evaluate(Operation.execute("npm ci", cwd="project")) is ALLOW
    assert ruleset.evaluate(Operation.execute("npm ci")) is ASK
    assert ruleset.evaluate(Operation.execute("cd project && npm ci")) is ASK  # nothing allows cd itself


def test_a_directory_that_leads_elsewhere_is_not_within(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "src" / "link").symlink_to(tmp_path / "elsewhere")
    ruleset = Ruleset([Rule(Matcher.any_execute().within_directory("./src"), ALLOW)], root=str(tmp_path))
    assert ruleset.evaluate(Operation.execute("ls", cwd="src")) is ALLOW
    assert ruleset.evaluate(Operation.execute("ls", cwd="src/link")) is ASK
    assert ruleset.evaluate(Operation.execute("cd link && ls", cwd="src")) is ASK


def test_the_order_of_rules_matters() -> None:
    force = Rule(Matcher.command("git").with_subcommand("push").with_flag("--force"), DENY)
    push = Rule(Matcher.command("git").with_subcommand("push"), ALLOW)
    assert Ruleset([force, push]).evaluate(Operation.execute("git push --force")) is DENY
    assert Ruleset([force, push]).evaluate(Operation.execute("git push")) is ALLOW
    assert Ruleset([push, force]).evaluate(Operation.execute("git push --force")) is ALLOW


def test_a_flag_makes_the_difference() -> None:
    ruleset = Ruleset([Rule(Matcher.command("npm").with_subcommand("install").with_flag("--save-dev"), ALLOW)])
    assert ruleset.evaluate(Operation.execute("npm install --save-dev jest")) is ALLOW
    assert ruleset.evaluate(Operation.execute("npm install -D jest")) is ALLOW
    assert ruleset.evaluate(Operation.execute("npm install jest")) is ASK


def test_nothing_matched_asks_and_substitutions_are_judged_too() -> None:
    ruleset = Ruleset([Rule(Matcher.command("echo"), ALLOW)])
    assert ruleset.evaluate(Operation.execute("ls")) is ASK
    assert ruleset.evaluate(Operation.execute("echo $(ls)")) is ASK
    assert ruleset.evaluate(Operation.execute("echo hello")) is ALLOW


def test_other_kinds_of_operations_have_matchers_too(tmp_path: Path) -> None:
    ruleset = Ruleset(
        [
            Rule(Matcher.path("src/**", ops=["read", "update"]), ALLOW),
            Rule(Matcher.path("**/*.pem"), DENY, why="keys stay closed"),
            Rule(Matcher.url(host="docs.example.com", scheme="https"), ALLOW),
            Rule(Matcher.operation("switch_mode"), ALLOW),
        ],
        root=str(tmp_path),
    )
    assert ruleset.evaluate(Operation.read("src/a/b.py")) is ALLOW
    assert ruleset.evaluate(Operation.edit("src/a/b.py")) is ALLOW
    assert ruleset.evaluate(Operation.delete("src/a/b.py")) is ASK
    assert ruleset.evaluate(Operation.read("certs/x.pem")) is DENY
    assert ruleset.evaluate(Operation.read("certs/X.PEM")) is DENY
    assert ruleset.evaluate(Operation.fetch("https://docs.example.com/a")) is ALLOW
    assert ruleset.evaluate(Operation.fetch("https://docs.example.com.evil.com/a")) is ASK
    assert ruleset.evaluate(Operation.switch_mode()) is ALLOW
    assert ruleset.evaluate(Operation.think()) is ALLOW
    assert ruleset.evaluate(Operation.search("src")) is ALLOW
    assert ruleset.evaluate(Operation.move("src/a", "src/b")) is ASK


def test_matchers_are_values() -> None:
    git = Matcher.command("git")
    assert git.with_subcommand("log") != git
    assert git == Matcher.command("git")
    assert SafeNpm.matcher() == Matcher.group("safe_npm")


PARSING = {
    "simple commands": ("git status", ALLOW),
    "commands with subcommands, flags and arguments": ("git log --oneline -n 10", ALLOW),
    "pipelines": ("find . | grep foo", ALLOW),
    "logical operators": ("make && make test", ALLOW),
    "a substitution is judged, too": ("echo $(git status)", ALLOW),
    "a substitution that nobody allowed": ("echo $(id)", ASK),
    "a word that depends on a substitution may be an option": ("git log $(git status)", ASK),
    "one part that is not allowed": ("git status | tee x", ASK),
    "one part that is denied": ("git status || rm x", DENY),
}


@pytest.mark.parametrize(("command", "outcome"), PARSING.values(), ids=PARSING.keys())
def test_what_the_parser_understands_is_judged_part_by_part(command: str, outcome: Outcome, tmp_path: Path) -> None:
    known = Matcher.command("git", "find", "grep", "make", "echo")
    ruleset = Ruleset([Rule(Matcher.command("rm"), DENY), Rule(known, ALLOW)], root=str(tmp_path))
    assert ruleset.evaluate(Operation.execute(command)) is outcome


@pytest.mark.parametrize(
    "operation",
    [
        Operation.execute("ls"),
        Operation.read("a"),
        Operation.edit("a"),
        Operation.delete("a"),
        Operation.move("a", "b"),
        Operation.search(),
        Operation.fetch("https://example.com"),
        Operation.switch_mode(),
        Operation.other("x"),
    ],
    ids=lambda operation: str(operation.action["kind"]),
)
def test_nothing_is_allowed_without_an_explicit_rule(operation: Operation, tmp_path: Path) -> None:
    assert Ruleset([], root=str(tmp_path)).evaluate(operation) is ASK
