"""Every way round a rule that was ever found, and the rows of the design about commands, as named cases."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.arguments import ArgumentTest
from byleave.core.command_groups import GROUPS
from byleave.core.command_line import names_guarded
from byleave.core.decision import Verdict
from byleave.policy.load import Workspace
from scene import Scene

Rules = list[dict[str, Any]]
PLAIN: Rules = [{"deny": {"command": "rm"}}, {"allow": {"command": ["ls", "echo", "cat", "cd", "grep", "sort"]}}]
OUT: Rules = [*PLAIN, {"allow": {"path": "out/**", "ops": ["create", "update"]}}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with links that lead astray."""
    base = tmp_path / "ws"
    for directory in ("out", "src/deep", "secrets", "releases/1", ".claude", ".git/hooks"):
        (base / directory).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (base / "vendor").symlink_to(tmp_path / "elsewhere")
    (base / "current").symlink_to("releases/1")
    (base / "out/settings").symlink_to("../.claude/settings.json")
    (base / "src/away").symlink_to(tmp_path / "elsewhere")
    return base


def ask(root: Path, rules: Rules, command: str, **more: Any) -> Verdict:
    policy = Workspace(str(root)).compile_tree({"rules": rules})
    return policy.decide({"kind": "command", "command": command, **more})


COMMANDS: dict[str, tuple[Rules, str, str]] = {
    "a transparent wrapper needs only its child's rule": (PLAIN, "nice -n 5 ls", "allow"),
    "a transparent wrapper that writes needs a rule itself": (PLAIN, "/usr/bin/time -o /etc/x ls", "ask"),
    "a writing wrapper inside another": (PLAIN, "env time -o x ls", "ask"),
    "a rule for the writing wrapper": (
        [*PLAIN, {"allow": {"command": "time", "flags": ["-o"]}}],
        "command time -o x ls",
        "allow",
    ),
    "a wrapper of the same name elsewhere": (PLAIN, "./env ls", "ask"),
    "wrappers inside wrappers": (PLAIN, "timeout 5 nice env A=1 ls", "allow"),
    "a deny through wrappers inside wrappers": (PLAIN, "timeout 5 nice env A=1 rm x", "deny"),
    "a wrapper without a child": (PLAIN, "nice", "ask"),
    "env alone shows the environment": (PLAIN, "env", "ask"),
    "a harmful variable before a wrapper": (PLAIN, "LD_PRELOAD=x nice ls", "ask"),
    "a harmful variable inside a wrapper": (PLAIN, "nice env PATH=/x ls", "ask"),
    "a harmful variable on its own": (PLAIN, "PATH=/x; ls", "ask"),
    "a harmful variable exported": ([*PLAIN, {"allow": {"command": "export"}}], "export PATH=/x; ls", "ask"),
    "a harmless variable": (PLAIN, "LC_ALL=C ls", "allow"),
    "options cannot lift a harmful variable": (
        [{"allow": {"any_command": True, "options": "any"}}],
        "GIT_PAGER=x git log",
        "ask",
    ),
    "an opaque wrapper needs its own rule": (PLAIN, "xargs ls", "ask"),
    "a wrapper's rule names the child": (
        [{"allow": {"command": "xargs", "subcommand": "grep"}}],
        "xargs grep x",
        "allow",
    ),
    "a wrapper's rule names no path": (
        [{"allow": {"command": "xargs", "subcommand": "grep"}}],
        "xargs ./grep x",
        "ask",
    ),
    "the child of another wrapper": (
        [{"allow": {"command": "sudo", "subcommand": ["ls", "id"]}}, {"allow": {"command": "xargs"}}],
        "sudo ls; xargs id",
        "ask",
    ),
    "a deny by path may mean the bare name": ([{"deny": {"command": "/bin/dd"}}, *PLAIN], "dd if=x", "ask"),
    "an allow by relative path": ([{"allow": {"command": "./build.sh"}}], "./build.sh", "allow"),
    "the same relative path elsewhere": (
        [{"allow": {"command": ["./build.sh", "cd"]}}],
        "cd src && ./build.sh",
        "ask",
    ),
    "the same relative path through env": ([{"allow": {"command": "./build.sh"}}], "env -C src ./build.sh", "ask"),
    "not lets other commands pass": ([{"allow": {"not": {"command": "rm"}}}], "ls", "allow"),
    "not sees through a path": ([{"allow": {"not": {"command": "rm"}}}], "/bin/rm x", "ask"),
    "not sees through a look-alike": ([{"allow": {"not": {"command": "rm"}}}], "./rm x", "ask"),
    "not of an unknown name": ([{"allow": {"not": {"command": "rm"}}}], "$X y", "ask"),
    "not of a compound": ([{"allow": {"not": {"command": "rm"}}}], "ls; rm x", "ask"),
    "not covers no dangerous option": ([{"allow": {"not": {"command": "rm"}}}], "sort -o x y", "ask"),
    "a deny of all else catches a look-alike": (
        [{"deny": {"not": {"command": "git"}}}, {"allow": {"command": "git"}}],
        "./git log",
        "deny",
    ),
    "a deny that may match stands above a later allow": (
        [{"deny": {"command": "git", "flags": ["--force"]}}, {"allow": {"command": "git", "options": "any"}}],
        "git push $X",
        "ask",
    ),
    "an ask that may match gives way to a later deny": (
        [{"ask": {"command": "git", "flags": ["--force"]}}, {"deny": {"command": "git"}}],
        "git push $X",
        "deny",
    ),
    "options any in one alternative stays there": (
        [{"allow": {"any": [{"command": "sort", "options": "any"}, {"command": "find"}]}}],
        "find . -delete",
        "ask",
    ),
    "options any in one of all holds for all": (
        [{"allow": {"all": [{"command": "sort"}, {"any_command": True, "options": "any"}]}}],
        "sort -o x y",
        "allow",
    ),
    "a flag that is named is covered, another is not": (
        [{"allow": {"command": "sort", "flags": ["-o"]}}],
        "sort -o x --compress-program=y z",
        "ask",
    ),
    "anything after is not any option": ([{"allow": {"command": "sort", "args": ["-u", "**"]}}], "sort -u -o x", "ask"),
    "a dangerous option spelled out": ([{"allow": {"command": "sort", "args": ["-o", "x"]}}], "sort -o x", "allow"),
    "the options of a module": (
        [{"allow": {"command": "python", "args": ["-m", "pytest", "**"]}}],
        "python -m pytest -p x",
        "ask",
    ),
    "only assignments": (PLAIN, "A=1", "ask"),
    "only a comment": (PLAIN, "# rm", "allow"),
    "nothing": (PLAIN, "", "ask"),
    "only a redirection": (OUT, "> out/x", "allow"),
    "both streams into a file": (OUT, "ls >& /etc/x", "ask"),
    "both streams, the other way": (OUT, "ls &> /etc/x", "ask"),
    "appending": (OUT, "ls >> /etc/x", "ask"),
    "reading and writing": (OUT, "ls <> /etc/x", "ask"),
    "a here-document into a file": (OUT, "cat <<E > x\nrm\nE\n", "ask"),
    "one of two files": (OUT, "ls > out/a > b", "ask"),
    "a file through a link to a guarded place": (OUT, "ls > out/settings", "deny"),
    "byleave's own file, climbing": (OUT, "ls > out/../byleave.toml", "deny"),
    "a protected place": ([*PLAIN, {"allow": {"path": "**"}}], "ls > .claude/x", "ask"),
    "a protected place that a rule names": ([*PLAIN, {"allow": {"path": ".claude/**"}}], "ls > .claude/x", "allow"),
    "a file in the directory of cd": (OUT, "cd out && ls > x", "allow"),
    "a file above the directory of cd": (OUT, "cd out && ls > ../x", "ask"),
    "a file where cd leads through a link": (OUT, "cd src/away && ls > x", "ask"),
    "a file where nobody knows": (OUT, 'cd "$X" && ls > x', "ask"),
    "a directory that is not there": (OUT, "cd nowhere && ls > x", "ask"),
    "a cd in a subshell": (OUT, "(cd out); ls > x", "ask"),
    "a file with a glob": (OUT, "ls > out/*", "deny"),  # a link in there leads to settings with hooks
    "a file with a variable": (OUT, 'ls > "out/$X"', "ask"),
    "a file at home": (OUT, "ls > ~/x", "deny"),  # in these tests the home directory is byleave's own
    "a socket": (OUT, "ls > /dev/tcp/192.0.2.1/80", "ask"),
    "no file at all": (OUT, "ls 2>&1 >/dev/null", "allow"),
    "a process that is not allowed": (OUT, "ls > >(id)", "ask"),
    "a denied file is read": ([{"deny": {"path": "secrets/**"}}, *PLAIN], "cat < secrets/k", "deny"),
    "an unknown file is read": ([{"deny": {"path": "secrets/**"}}, *PLAIN], 'cat < "$X"', "ask"),
    "an unknown file is read where no rule cares": (PLAIN, 'cat < "$X"', "allow"),
    "a denied file is read where nobody knows": (
        [{"deny": {"path": "secrets/**"}}, *PLAIN],
        'cd "$X"; cat < secrets/k',
        "ask",
    ),
    "piped to a shell": ([{"deny": {"command": "curl", "piped_to_shell": True}}], "curl x | sudo sh", "deny"),
    "piped to a shell through tee": (
        [{"deny": {"command": "curl", "piped_to_shell": True}}],
        "curl x | tee f | sh",
        "deny",
    ),
    "sent to a shell by redirection": (
        [{"deny": {"command": "curl", "piped_to_shell": True}}, {"allow": {"any_command": True}}],
        "curl x > >(sh)",
        "deny",
    ),
    "a text nobody understood": (PLAIN, "ls 'unfinished", "ask"),
    "a text nobody understood that names a deny": (PLAIN, "/bin/rm 'unfinished", "deny"),
    "a text nobody understood that names what byleave guards": (PLAIN, "byleave trust 'unfinished", "deny"),
    "a text nobody understood where nothing may run": ([{"deny": {"any_command": True}}], "ls 'unfinished", "deny"),
    "a text nobody understood where one agent may run nothing": (
        [{"deny": {"any_command": True, "agent": "x"}}],
        "ls 'unfinished",
        "ask",
    ),
    "a text nobody understood where nothing may run in one place": (
        [{"deny": {"any_command": True, "within": "src"}}],
        "ls 'unfinished",
        "ask",
    ),
    "a text that is too long": (PLAIN, "ls " + "x" * 40_000, "ask"),
    "a text that is too long and names a deny": (PLAIN, "rm " + "x" * 40_000, "deny"),
    "every literal of the deny must be there": (
        [{"deny": {"command": "git", "args": ["push", "**"]}}],
        "git log 'unfinished",
        "ask",
    ),
    "a group within a directory denies what it lists last": (
        [{"deny": {"group": "privilege", "within": "."}}],
        "launchctl 'unfinished",
        "deny",
    ),
}


@pytest.mark.parametrize(("rules", "command", "decision"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_is_answered_as_its_case_says(rules: Rules, command: str, decision: str, root: Path) -> None:
    verdict = ask(root, rules, command)
    assert verdict.decision.word == decision, verdict.reason


GUARDED = (
    *("byleave trust", "sh -c 'byleave trust x'", "env byleave untrust", "python3 -m byleave approvals approve 1"),
    *("xargs byleave mount", "sudo byleave policy", "echo $(byleave trust)", "/opt/x/byleave hook", "byleave $X"),
    *("nohup byleave agents", "byle''ave unmount", "uvx byleave trust", "`byleave trust`", "byleave --root x trust"),
)


@pytest.mark.parametrize("command", GUARDED)
def test_byleave_guards_itself_whatever_the_rules_say(command: str, root: Path) -> None:
    rules: Rules = [{"allow": {"any_command": True, "options": "any"}}]
    assert ask(root, rules, command).decision.word == "deny"


def test_only_a_guarded_word_beside_our_name_is_guarded() -> None:
    assert names_guarded(frozenset({"byleave", "trust"}))
    assert not names_guarded(frozenset({"byleave", "check"}))
    assert not names_guarded(frozenset({"trust"}))


WITHIN = {
    "at the place": ("ls", "src", "allow"),
    "below it": ("ls", "src/deep", "allow"),
    "after cd": ("cd deep; ls", "src", "allow"),
    "after pushd": ("pushd deep; ls", "src", "allow"),
    "outside": ("ls", None, "ask"),
    "out by two dots": ("cd ..; ls", "src", "ask"),
    "out through a link": ("cd away; ls", "src", "ask"),
    "out through the directory it starts in": ("ls", "src/away", "ask"),
    "nobody knows": ('cd "$X"; ls', "src", "ask"),
    "not there": ("ls", "src/nowhere", "ask"),
    "only in a subshell": ("(cd ..; ls)", "src", "ask"),
    "either place": ("cd .. || true; ls", "src", "ask"),
    "through env": ("env -C .. ls", "src", "ask"),
}


@pytest.mark.parametrize(("command", "cwd", "decision"), WITHIN.values(), ids=WITHIN.keys())
def test_within_follows_where_the_command_really_runs(command: str, cwd: str | None, decision: str, root: Path) -> None:
    rules: Rules = [
        {"allow": {"command": ["cd", "pushd", "true"]}},
        {"allow": {"command": "ls", "within": "src"}},
    ]
    assert ask(root, rules, command, cwd=cwd).decision.word == decision


@pytest.mark.parametrize("command", ["ls", 'cd "$X"; ls'])
def test_a_deny_within_a_directory_holds_where_nobody_knows(command: str, root: Path) -> None:
    rules: Rules = [{"deny": {"command": "ls", "within": "src"}}, {"allow": {"command": ["ls", "cd"]}}]
    assert ask(root, rules, command).decision.word == ("ask" if "cd" in command else "allow")


FILES = {
    "a deny holds through a link inside": ("current/**", "releases/1/a", "deny"),
    "a deny holds through a link that leads out": ("vendor/**", "vendor/a", "deny"),
    "a deny holds for another spelling": ("secrets/**", "SECRETS/key", "deny"),
    "a deny of something else": ("secrets/**", "src/key", "allow"),
}


@pytest.mark.parametrize(("pattern", "path", "decision"), FILES.values(), ids=FILES.keys())
def test_a_denied_path_is_denied_by_every_name(pattern: str, path: str, decision: str, root: Path) -> None:
    rules: Rules = [{"deny": {"path": pattern}}, {"allow": {"path": "**"}}]
    policy = Workspace(str(root)).compile_tree({"rules": rules})
    assert policy.decide({"kind": "update", "path": path}).decision.word == decision


def test_a_relative_pattern_never_allows_what_lies_outside(root: Path) -> None:
    policy = Workspace(str(root)).compile_tree({"rules": [{"allow": {"path": "**"}}]})
    answers = [policy.decide({"kind": "read", "path": path}).decision.word for path in ("a", "/etc/passwd", "vendor/a")]
    assert answers == ["allow", "ask", "ask"]


def test_the_rest_of_the_workspace_is_not_the_rest_of_the_world(root: Path) -> None:
    rest = {"not": {"path": "src/**"}}
    decided = {
        (outcome, path): Workspace(str(root))
        .compile_tree({"rules": [{outcome: rest}]})
        .decide({"kind": "update", "path": path})
        .decision.word
        for outcome in ("allow", "deny")
        for path in ("src/a", "out/a", "/etc/passwd")
    }
    assert decided == {
        ("allow", "src/a"): "ask",
        ("allow", "out/a"): "allow",
        ("allow", "/etc/passwd"): "ask",
        ("deny", "src/a"): "ask",
        ("deny", "out/a"): "deny",
        ("deny", "/etc/passwd"): "deny",
    }


def test_an_absolute_pattern_may_point_into_the_workspace(root: Path) -> None:
    policy = Workspace(str(root)).compile_tree({"rules": [{"allow": {"path": f"{root}/src/**"}}]})
    answers = [policy.decide({"kind": "read", "path": path}).decision.word for path in ("src/a", "out/a")]
    assert answers == ["allow", "ask"]


def test_home_is_known_by_its_real_name(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    (tmp_path / "alias").symlink_to(scene.home)
    homes = scene.homes.replace(user=str(tmp_path / "alias"))
    policy = Workspace(str(scene.root), homes=homes).compile_tree({"rules": [{"deny": {"path": "~/.ssh/**"}}]})
    assert policy.decide({"kind": "read", "path": f"{scene.home}/.ssh/id"}).decision.word == "deny"


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "update", "path": "a"},
        {"kind": "url", "url": "https://example.com"},
        {"kind": "call", "server": "s", "tool": "t"},
        {"kind": "other", "name": "x"},
    ],
    ids=lambda action: action["kind"],
)
def test_what_is_not_a_command_is_no_other_command(action: dict[str, Any], root: Path) -> None:
    for outcome in ("allow", "deny"):
        policy = Workspace(str(root)).compile_tree({"rules": [{outcome: {"not": {"command": "rm"}}}]})
        assert policy.decide(action).decision.word == "ask"


Heard = tuple[bool | None, bool | None]
ARGUMENTS: dict[str, tuple[str, Any, Any, Heard]] = {
    # test, wanted value, given value; what a rule that allows hears and what one that denies does
    "the same number, written otherwise": ("equals", 1, 1.0, (True, True)),
    "true is no number": ("equals", 1, True, (False, False)),
    "one of several": ("prefix", "/srv", ["/srv/a", "/etc"], (False, True)),
    "none at all": ("prefix", "/srv", [], (False, False)),
    "an object": ("prefix", "/srv", {"a": "/srv"}, (False, None)),
    "a path that climbs back in": ("inside", "/etc", "/srv/../etc/x", (True, True)),
    "a path that climbs out": ("inside", "/etc", "../../etc/x", (False, None)),
    "a name that only begins alike": ("inside", "/srv", "/srvx", (False, False)),
    "a host behind credentials": ("host", "evil.com", "https://ok.com@evil.com/", (False, True)),
    "what is no URL": ("host", "evil.com", "evil.com", (False, None)),
    "nesting": ("glob", "d*", [[["drop"]]], (True, True)),
}


@pytest.mark.parametrize(("test", "wanted", "value", "heard"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_an_argument_is_tested_for_whoever_asks(test: str, wanted: Any, value: Any, heard: Heard) -> None:
    found = ArgumentTest("/a", test, wanted)
    assert (found.holds({"a": value}, granting=True), found.holds({"a": value}, granting=False)) == heard


def test_an_argument_may_nest_deeper_than_python_does() -> None:
    value: Any = "drop"
    for _ in range(50_000):
        value = [value]
    assert ArgumentTest("/a", "prefix", "drop").holds({"a": value}, granting=False) is True


def test_half_a_character_does_not_break_a_pattern(root: Path) -> None:
    call = {"server": "db", "arg": "/sql", "regex": "(?i)drop"}
    policy = Workspace(str(root)).compile_tree({"rules": [{"deny": {"call": call}}]})
    action = {"kind": "call", "server": "db", "tool": "q", "arguments": {"sql": "\ud800 DROP"}}
    assert policy.decide(action).decision.word == "deny"


OUTSIDE_GROUPS = {
    "read_only_git": (
        *("git remote show origin", "git remote show https://example.com/x", "git remote show --no-query origin"),
        *(
            "git branch -D x",
            "git branch x",
            "git branch --list --no-list x",
            "git branch --del x",
            "git branch -m a b",
        ),
        *(
            "git branch --edit-description",
            "git branch -uo/m",
            "git tag x",
            "git tag -l -d x",
            "git tag --list --no-list x",
        ),
        *(
            "git remote add x y",
            "git remote -v update",
            "git remote set-url a b",
            "git diff --output=x",
            "git log --outp x",
        ),
        *(
            "git diff --ext-diff",
            "git show --textconv",
            "git cat-file --filters HEAD:x",
            "git cat-file --textconv HEAD:x",
        ),
        *("git -c core.pager=x log", "git --exec-path=/x log", "git --git-dir=/x log", "git --config-env=a=B log"),
        *("git config x y", "git log $X", "GIT_EXTERNAL_DIFF=x git diff", "./git status", "git grep -O x", "git stash"),
    ),
    "compilation": (
        *("cargo --config x build", "cargo clippy --fix", "cargo doc --open", "cargo run", "go test -exec id"),
        *(
            "go build --toolexec=id",
            "go vet -vettool=/x",
            "go build -o /x",
            "make SHELL=/x",
            "make -fx",
            "make --eval=x",
        ),
        *("cmake -P x", "cmake -DCMAKE_CXX_COMPILER=/x .", "cmake --build . -- -f x", "ninja -f x", "tsc --outDir /x"),
        *(
            "tsc @f",
            "gradle build -I x",
            "gradle build publish",
            "mvn test deploy",
            "mvn -f x test",
            "gcc -wrapper id a.c",
        ),
        *(
            "gcc -fplugin=x a.c",
            "gcc @f",
            "gcc -B/x a.c",
            "gcc -Wl,-o,x a.c",
            "gcc -fuse-ld=/x a.c",
            "clang -Xclang -load",
        ),
        *("rustc -Clinker=x a", "rustc --codegen linker=x a", "javac -J-javaagent:x A", "javac @f", "npx -p evil tsc"),
        *("npx --package=evil tsc", "npx tsc@evil", "bazel build --run_under=id x", "gcc $X", "bazel build $X"),
    ),
    "safe_npm": (
        *("npm audit fix", "npm audit --fix", "npm ls --script-shell=x", "npm view x --browser=id", "npm install"),
        *("npm view --userconfig=x y", "npm outdated --node-options=x"),
    ),
    "package_listing": (
        *("pip list --log x", "pip --python /x list", "cargo tree --config x", "go list -toolexec=x", "pip install x"),
        *("uv --config-file x tree", "yarn --use-yarnrc x list", "npm ls --script-shell=x"),
    ),
    "tests": (
        *("pytest -p evil", "pytest -c x", "pytest --junitxml=x", "pytest --pastebin=all", "python -m pytest -p evil"),
        *("python -m pytest --junitxml=x", "jest --config x", "mocha -r x", "tox -c x", "tox -e py -- id", "nox -f x"),
        *(
            "rspec -r x",
            "phpunit --bootstrap x",
            "ctest -S x",
            "bats -o x",
            "uv run --with evil pytest",
            "make test SHELL=x",
        ),
        *("cargo test --config x", "npm test --script-shell=x", "go test -exec x", "mvn test deploy", "jest $X"),
    ),
    "read_only_files": (
        *("find . -delete", "find . -exec ./x \\;", "find . -fprint x", "sort -o x y", "sort --out x y", "sort -ox y"),
        *("sort --compress-program=x y", "tree -o x", "uniq a b", "fd -x ./x", "fd --exec-batch=id", "rg --pre id x"),
        *("rg --hostname-bin=id x", "date -s x", "file -C", "diff --paginate a b", "sort $X", "tee x", "sed -i x y"),
    ),
}


@pytest.mark.parametrize(
    ("group", "command"), [(group, command) for group, commands in OUTSIDE_GROUPS.items() for command in commands]
)
def test_a_group_holds_only_what_its_name_says(group: str, command: str, root: Path) -> None:
    assert ask(root, [{"allow": {"group": group}}], command).decision.word == "ask"


INSIDE_GROUPS = {
    "read_only_git": (
        "git status -s",
        "git log --oneline -n 10",
        "git branch -a",
        "git tag -l 'v*'",
        "git remote -v",
        "git remote show -n o",
    ),
    "compilation": (
        "cargo build --release",
        "go test ./...",
        "make -j4 all",
        "tsc -p .",
        "npx tsc",
        "gcc -c -Wall a.c",
    ),
    "safe_npm": ("npm ls --depth=0", "npm audit --json", "npm view react version"),
    "package_listing": ("pip list", "uv pip list", "cargo tree", "go list ./...", "yarn why x"),
    "tests": (
        "pytest -q -x tests",
        "npm run test -- -u",
        "python -m pytest -k x",
        "uv run pytest",
        "make test",
        "bats t",
    ),
    "read_only_files": (
        "ls -la",
        "grep -rn x src",
        "find . -name '*.py'",
        "sort -u x",
        "uniq x",
        "rg x",
        "cat x | wc -l",
    ),
    "network": ("curl x", "git fetch", "ssh h"),
    "destructive": ("rm -rf x", "rm -fr x", "git push -f", "git clean -fd", "find . -delete"),
    "privilege": ("sudo", "chmod +x x"),
    "installing": (
        *("npm install x", "npm i", "npm ci", "pnpm add x", "yarn", "yarn add x", "bun add x", "pip install -r r.txt"),
        *("python3 -m pip install -e .", "uv add x", "uv pip install x", "uv sync", "poetry add x", "cargo install x"),
        *("cargo add serde", "go get example.com/x", "go mod download", "gem install x", "bundle install"),
        *("composer require a/b", "brew install x", "apt-get install -y x", "nvm install 20", "rustup update"),
    ),
    "publishing": (
        *("git push", "git push origin main", "npm publish", "yarn npm publish", "uv publish", "twine upload dist/x"),
        *("cargo publish", "gem push x.gem", "docker push x", "terraform apply", "make deploy", "npm run deploy"),
    ),
    "remote": ("git fetch", "git clone u", "git submodule update --init", "scp a h:b", "docker ps", "gh pr list"),
    "administration": ("sudo ls", "mkfs.ext4 /dev/sda1", "shutdown -h now", "crontab -e", "systemctl stop x", "mount"),
}


@pytest.mark.parametrize(
    ("group", "command"), [(group, command) for group, commands in INSIDE_GROUPS.items() for command in commands]
)
def test_a_group_holds_what_its_name_says(group: str, command: str, root: Path) -> None:
    assert ask(root, [{"deny": {"group": group}}], command).decision.word == "deny"
    if group in OUTSIDE_GROUPS:
        assert ask(root, [{"allow": {"group": group}}], command).decision.word == "allow"


def test_every_group_has_cases() -> None:
    assert set(GROUPS) == set(INSIDE_GROUPS)


def test_the_parts_of_a_script_are_shown_by_their_words(root: Path) -> None:
    verdict = ask(root, PLAIN, "sh -c 'ls a; rm b'")
    assert [part.text for part in verdict.parts or ()] == ["sh -c 'ls a; rm b'", "ls a", "rm b"]


def test_alternatives_of_several_kinds_all_count(tmp_path: Path) -> None:
    deny = {"any": [{"command": "rm"}, {"path": "secrets/**"}, {"url": {"host": "h.example"}}]}
    rest = [{"allow": {"path": "**"}}, {"allow": {"url": {"scheme": "https"}}}, {"allow": {"any_command": True}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"deny": deny}, *rest]})
    actions = [
        {"kind": "read", "path": "secrets/key"},
        {"kind": "url", "url": "https://h.example/"},
        {"kind": "command", "command": "rm x"},
        {"kind": "read", "path": "notes"},
    ]
    assert [policy.decide(action).decision.word for action in actions] == ["deny", "deny", "deny", "allow"]


KEPT = {
    "a path rule that names it": ([{"allow": {"path": ".git/config", "ops": ["update", "create"]}}], "allow"),
    "a rule that spells the command": ([{"allow": {"command": "cp", "args": ["a", ".git/config"]}}], "allow"),
    "a path rule for all around it": ([{"allow": {"path": "**"}}], "ask"),
    "an open rule for the command": ([{"allow": {"command": "cp", "args": ["a", "**"]}}], "ask"),
}


@pytest.mark.parametrize(("rules", "decision"), KEPT.values(), ids=KEPT.keys())
def test_a_protected_place_is_written_where_a_rule_names_it(rules: Rules, decision: str, root: Path) -> None:
    assert ask(root, [*rules, {"allow": {"command": "cp"}}], "cp a .git/config").decision.word == decision
