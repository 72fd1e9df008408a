"""What patterns of path rules match is covered in a sandbox: what may not be read is not there."""

import errno
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from byleave import compile_policy
from byleave.errors import SandboxError
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import base_view
from byleave.sandbox.plan import closed_files
from byleave.sandbox.plan.build import make_plan
from byleave.sandbox.plan.plan import PlanRequest, SandboxPlan
from byleave.sandbox.sandbox import ToolSandbox
from command import COMMAND, Done, byleave, environment
from sandbox.machine import needs_sandbox
from sandbox.without_namespaces import needs_unshare, on_such_a_machine

READ_ALL = "for file in $(find . -name '.env' -o -name '*.pem' -o -name '*.py'); do cat $file 2>/dev/null; done; true"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "ws"
    for name in (".env", "app/.env", "app/deep/er/.env", "app/main.py", "keys/a.pem", "keys/public.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"content of {name}\n")
    return made


def run(root: Path, rules: str, *words: str, more: Sequence[str] = (), before: Sequence[str] = ()) -> Done:
    """Run a command in a sandbox under these rules, below a state of its own."""
    policy = root.parent / "rules.toml"
    policy.write_text(rules)
    home = {"BYLEAVE_HOME": str(root.parent / "byleave"), "HOME": str(root.parent / "home")}
    done = subprocess.run(
        [*before, *COMMAND, "run", "-q", "--policy", str(policy), *more, "--", *words],
        cwd=root,
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def deny(path: str, *ops: str) -> str:
    named = f", ops = {json.dumps(ops)}" if ops else ""
    return f'[[rules]]\ndeny = {{ path = "{path}"{named} }}\n'


@needs_sandbox
def test_existing_matches_of_a_pattern_cannot_be_read(root: Path) -> None:
    assert run(root, deny("**/.env"), "sh", "-c", READ_ALL).out == "content of app/main.py\ncontent of keys/a.pem\n"


@needs_unshare
@pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock"])
def test_existing_matches_cannot_be_read_where_namespaces_are_not_allowed(root: Path, *, bwrap: bool) -> None:
    before = on_such_a_machine(bwrap=bwrap, place=root.parent)
    told = run(root, deny("**/.env"), "cat", ".env", "app/.env", "app/deep/er/.env", "app/main.py", before=before)
    assert told.out == "content of app/main.py\n"


@needs_sandbox
def test_a_name_that_differs_in_case_is_covered_too(root: Path) -> None:
    (root / "app/.ENV").write_text("content of app/.ENV\n")
    assert run(root, deny("**/.env"), "sh", "-c", "cat app/.ENV app/main.py").out == "content of app/main.py\n"


@needs_sandbox
def test_an_ask_covers_like_a_deny(root: Path) -> None:
    rules = '[[rules]]\nask = { path = "**/*.pem" }\n'
    assert run(root, rules, "sh", "-c", "cat keys/a.pem keys/public.txt").out == "content of keys/public.txt\n"


@needs_sandbox
def test_what_may_not_be_written_is_read_only(root: Path) -> None:
    script = "cat keys/a.pem; echo x > keys/a.pem; rm keys/a.pem; mv keys/a.pem keys/b.pem; echo x > keys/public.txt"
    told = run(root, deny("**/*.pem", "create", "update", "delete"), "sh", "-c", script)
    assert (told.out, (root / "keys/a.pem").read_text(), (root / "keys/public.txt").read_text()) == (
        "content of keys/a.pem\n",
        "content of keys/a.pem\n",
        "x\n",
    )


@needs_sandbox
def test_an_earlier_allow_keeps_a_match_open(root: Path) -> None:
    rules = '[[rules]]\nallow = { path = "app/*/er/.env" }\n' + deny("**/.env")
    assert run(root, rules, "sh", "-c", "cat .env app/deep/er/.env").out == "content of app/deep/er/.env\n"


@needs_sandbox
def test_a_directory_with_a_covered_file_is_not_moved_away(root: Path) -> None:
    script = "mv app moved; cat moved/.env app/.env; cat app/main.py moved/main.py"
    assert run(root, deny("**/.env"), "sh", "-c", script).out == "content of app/main.py\n"


@needs_sandbox
def test_a_covered_file_cannot_be_read_through_a_link(root: Path) -> None:
    script = "ln -s ../.env app/x; ln .env app/y; ln app/.env z; cat app/x app/y z app/main.py"
    assert run(root, deny("**/.env"), "sh", "-c", script).out == "content of app/main.py\n"


@needs_sandbox
def test_what_this_run_mounts_is_covered_by_the_names_it_has(root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep/.env").write_text("secret\n")
    (outside / "deep/open").write_text("open\n")
    access = root.parent / "access.toml"
    access.write_text('[[access.fs]]\npath = "."\nread = true\nexecute = true\n')
    more = ["--access", str(access), "--mount", f"data={outside}"]
    told = run(root, deny("data/**/.env"), "sh", "-c", "cat data/deep/.env data/deep/open", more=more)
    assert told.out == "open\n"


@needs_sandbox
def test_an_absolute_rule_covers_what_the_system_shows(root: Path) -> None:
    told = run(root, deny("/etc/host*"), "sh", "-c", "cat /etc/hosts; head -c 4 /etc/passwd")
    assert told.out == "root"


@needs_sandbox
def test_an_absolute_rule_covers_a_place_of_the_workspace(root: Path) -> None:
    assert run(root, deny(f"{root}/app/**/.env"), "sh", "-c", "cat app/.env .env").out == "content of .env\n"


@needs_sandbox
def test_the_plan_says_what_is_covered_and_what_is_not(root: Path) -> None:
    told = json.loads(run(root, deny("**/.env"), "true", more=["--explain", "--json"]).out)
    covered = sorted(path[len(str(root)) + 1 :] for path in told["masked"] if path.startswith(f"{root}/"))
    later = "what matches when the sandbox starts is covered; what comes to match while it runs is not"
    assert covered == [".env", "app/.env", "app/deep/er/.env"]
    assert {"path": "**/.env", "op": "any", "why": later, "laxer": True} in told["approximate"]


@needs_sandbox
def test_hidden_names_can_be_closed_without_closing_everything(root: Path) -> None:
    assert run(root, deny("**/.*"), "sh", "-c", "cat .env app/main.py").out == "content of app/main.py\n"


@needs_sandbox
def test_a_sandbox_that_stays_open_covers_what_has_come_meanwhile(root: Path) -> None:
    tree = {
        "rules": [{"deny": {"path": "**/.env"}}],
        "tools": {"t": {"source": "local", "runtime": "stdio"}},
    }
    workspace = Workspace(str(root))
    policy = workspace.compile_tree(tree)
    with ToolSandbox(Confinement(workspace, policy, "t"), policy.decide) as box:

        def read(name: str) -> bytes:
            with box.spawn(["cat", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                assert process.stdout is not None
                return process.stdout.read()

        before = read("app/main.py")
        (root / "keys/.env").write_text("secret\n")
        assert (before, read("keys/.env")) == (b"content of app/main.py\n", b"")


def plan_for(root: Path, rules: list[dict[str, object]], agent: str | None = None) -> SandboxPlan:
    tree = {"rules": rules, "tools": {"t": {"source": "local", "runtime": "stdio"}}}
    workspace = Workspace(str(root))
    confinement = Confinement(workspace, workspace.compile_tree(tree), "t", SandboxOptions(agent=agent))
    return confinement._plan(None, "/usr/bin")[0]  # noqa: SLF001 -- without starting anything


def test_too_much_to_look_at_starts_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_files, "_MOST_ENTRIES", 3)
    with pytest.raises(SandboxError, match=r"too much to find everything that deny path \*\*/\.env closes"):
        plan_for(root, [{"deny": {"path": "**/.env"}}])


def fill(root: Path, number: int) -> None:
    (root / "certs").mkdir()
    for each in range(number):
        (root / "certs" / f"{each}.pem").touch()


def test_too_many_closed_files_are_counted_by_pattern_and_the_way_out_works(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_files, "MOST_COVERED", 20)
    fill(root, 30)
    rules: list[dict[str, object]] = [{"deny": {"path": ["**/.env", "**/*.pem"]}}]
    with pytest.raises(SandboxError) as caught:
        plan_for(root, rules)
    counted = {line: sum(path.match(line) for path in root.rglob("*")) for line in ("*.pem", ".env")}
    assert caught.value.problem == (
        f"rules close {sum(counted.values())} files to reading, and a sandbox covers at most 20: "
        f"**/*.pem matches {counted['*.pem']} and **/.env matches {counted['.env']}"
    )
    opened = 'allow = { path = "certs/**" }'
    assert f'most are in "certs": if they are harmless, put `{opened}` before that rule' in caught.value.hint
    plan = plan_for(root, [{"allow": {"path": "certs/**"}}, *rules])
    assert not any(place.path.endswith("7.pem") for place in plan.places)


@needs_sandbox
def test_more_than_a_thousand_closed_files_are_covered(root: Path) -> None:
    fill(root, 1500)
    (root / "certs/1499.pem").write_text("secret")
    for each in range(300):
        (root / f"deep/{each}").mkdir(parents=True)
        (root / f"deep/{each}/.env").write_text("secret")
    rules = '[[rules]]\ndeny = { path = ["**/.env", "**/*.pem"] }\n[[rules]]\nallow = { path = "**" }\n'
    (root.parent / "policy.toml").write_text(f"[shell]\n{rules}")
    policy = ["--policy", str(root.parent / "policy.toml")]
    text = "cat certs/1499.p?m deep/299/.e*v; ls certs | wc -l"
    (root / "script.sh").write_text(text)
    done = byleave("run", "-q", "--root", str(root), *policy, "--shell", "sh script.sh", cwd=root)
    assert (done.code, done.out) == (0, "1500\n"), done


def test_a_directory_that_cannot_be_listed_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command can make one: the next ones do not start, and the user has to learn why."""
    (root / "shut").mkdir()
    scandir = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("/shut"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SandboxError, match=rf'^"{root}/shut" cannot be listed, so what deny path') as caught:
        plan_for(root, [{"deny": {"path": "**/.env"}}])
    assert caught.value.hint == "make the directory readable (chmod u+rx), or remove it"


def test_too_much_to_make_read_only_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_files, "_MOST_ENTRIES", 3)
    plan = plan_for(root, [{"deny": {"path": "**/*.pem", "ops": ["update"]}}])
    why = "there is too much here to find everything that the pattern matches"
    assert why in [each.why for each in plan.approximate if each.laxer]


def test_without_a_closing_rule_nothing_is_looked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_files, "_MOST_ENTRIES", 0)
    plan = plan_for(root, [{"allow": {"path": "src/*.py"}}])
    assert [each for each in plan.approximate if "pattern" in each.why] == []


def test_a_rule_about_one_agent_covers_for_that_agent(root: Path) -> None:
    rules: list[dict[str, object]] = [{"deny": {"all": [{"agent": "claude"}, {"path": "**/.env"}]}}]
    plans = [plan_for(root, rules, agent) for agent in ("claude", "codex")]
    assert ["read" in plan.at(f"{root}/app/.env").capabilities for plan in plans] == [False, True]  # type: ignore[union-attr]


def test_own_files_in_a_place_that_is_covered_get_no_cover_of_their_own(root: Path, tmp_path: Path) -> None:
    """A cover in a cover has no place: nothing started with a policy in /etc/byleave."""
    shown = tmp_path / "shown"
    own, opened = shown / "own", shown / "own" / "cache" / "server"
    opened.mkdir(parents=True)
    (own / "gateway.toml").write_text("")
    (opened / "state").mkdir()
    policy = compile_policy({"tools": {"t": {"source": "local"}}}, root=str(root)).compiled.policy
    places = tuple(map(str, (own / "gateway.toml", opened / "state", own, own / "cache")))
    request = PlanRequest("t", str(root), "", places, read=(str(shown),), write=(str(opened),))
    plan, _seen = make_plan(policy, request, base_view(), None, "/usr/bin")
    found = [place.path for place in plan.places if place.path.startswith(str(shown)) and not place.capabilities]
    assert found == [str(own), str(opened / "state")]
