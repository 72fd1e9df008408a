"""Which files there are, who is stronger, and what is said about a file that cannot be used."""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import byleave
from amounts import of
from byleave.errors import ConfigErrors, InputError, StateError
from byleave.policy.dirs import HELD_MODE, UserDirs, find_homes, find_root
from byleave.policy.layers import LARGEST_PROJECT_FILE
from byleave.policy.load import Workspace, load_policy
from scene import TOOL, Scene

ORDINARY_USER = 65534  # nobody


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def fs(path: str, grants: str = "", *, tool: str = "t") -> str:
    return f'[[tools.{tool}.access.fs]]\npath = "{path}"\n' + "".join(f"{word} = true\n" for word in grants.split())


def told(scene: Scene, *files: str | Path) -> str:
    """Return what a load of the scene complains about."""
    with pytest.raises(ConfigErrors) as caught:
        scene.load(*files)
    return str(caught.value)


# From the weakest to the strongest, as DESIGN.md has it.
DISCOVERED = ("user", "project", "project-local", "session", "managed")
GIVEN = ("session", "command line", "managed")
PAIRS = [*combinations(DISCOVERED, 2), *(pair for pair in combinations(GIVEN, 2) if "command line" in pair)]


@pytest.mark.parametrize(("weaker", "stronger"), PAIRS)
def test_a_tie_falls_to_the_stronger_layer(weaker: str, stronger: str, scene: Scene) -> None:
    given = "command line" in (weaker, stronger)
    scene.say("command line" if given else "user", TOOL)
    for layer, text in ((weaker, fs("src", "read")), (stronger, fs("src", "write"))):
        with scene.say(layer, "").open("w") as file:
            file.write((TOOL if layer == ("command line" if given else "user") else "") + text)
    for name in ("byleave.toml", ".byleave/local.toml"):
        if (scene.root / name).exists():
            scene.trust(name)
    files = (scene.file("command line"),) if given else ()
    assert (
        scene.decision("read", path="src/x", files=files),
        scene.decision("create", path="src/x", files=files),
    ) == ("deny", "allow")


def test_of_several_files_on_the_command_line_the_last_is_the_strongest(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOOL + fs("src", "read"))
    (tmp_path / "b.toml").write_text(fs("src", "write"))
    forth, back = (tmp_path / "a.toml", tmp_path / "b.toml"), (tmp_path / "b.toml", tmp_path / "a.toml")
    assert [scene.decision("read", path="src/x", files=files) for files in (forth, back)] == ["deny", "allow"]


def test_a_longer_path_wins_whatever_layer_it_is_in(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src/gen", "write"))
    scene.say("project", fs("src", "read"))
    scene.trust()
    assert scene.decision("create", path="src/gen/x") == "allow"


STRATEGIES = {
    "append": ("allow", "allow", "deny"),
    "prepend": ("allow", "allow", "allow"),
    "replace": ("deny", "allow", "deny"),
    "dedup": ("allow", "allow", "deny"),
}


@pytest.mark.parametrize(("strategy", "expect"), STRATEGIES.items())
def test_a_stronger_layer_says_how_its_list_joins(strategy: str, expect: tuple[str, ...], scene: Scene) -> None:
    scene.say("user", TOOL + fs("old", "read") + fs("both", "read"))
    rules = '[{path = "new", read = true}, {path = "both"}]'
    scene.say("project", f'[tools.t.access]\nfs = {{strategy = "{strategy}", value = {rules}}}')
    scene.trust()
    assert tuple(scene.decision("read", path=f"{path}/x") for path in ("old", "new", "both")) == expect


REPLACED: list[tuple[str, str, str, dict[str, Any]]] = [
    (
        'fs = [{path = "secret"}]',
        'fs = {strategy = "replace", value = [{path = ".", read = true}]}',
        "read",
        {"path": "secret/k"},
    ),
    ('fs = [{path = "."}]', 'fs = {strategy = "replace", value = [{path = ".", read = true}]}', "read", {"path": "k"}),
    (
        'net = [{host = "a.example"}]',
        'net = {strategy = "replace", value = [{host = "a.example", allow = true}]}',
        "url",
        {"url": "https://a.example/"},
    ),
    (
        'env = [{name = "A"}]',
        'env = {strategy = "replace", value = [{name = "A", read = true}]}',
        "env",
        {"name": "A"},
    ),
]


@pytest.mark.parametrize(("theirs", "ours", "kind", "fields"), REPLACED)
def test_what_an_untrusted_file_denies_is_not_replaced_in_its_own_voice(
    theirs: str, ours: str, kind: str, fields: dict[str, Any], scene: Scene
) -> None:
    scene.say("user", TOOL)
    scene.say("session", f"[tools.t.access]\n{ours}\n")
    assert scene.decision(kind, **fields) == "allow"
    scene.say("project", f"[tools.t.access]\n{theirs}\n")
    assert scene.decision(kind, **fields) == "deny"
    scene.trust()
    assert scene.decision(kind, **fields) == "allow"


def test_the_rules_of_an_untrusted_file_are_not_replaced_in_its_own_voice(scene: Scene) -> None:
    scene.say("user", TOOL)
    scene.say("session", 'rules = { strategy = "replace", value = [{ allow = { command = "git" } }] }\n')
    assert scene.decision("command", command="git push") == "allow"
    scene.say("project", 'rules = [{ deny = { command = "git", subcommand = "push" } }]\n')
    assert [scene.decision("command", command=f"git {word}") for word in ("push", "status")] == ["deny", "allow"]
    scene.trust()
    assert scene.decision("command", command="git push") == "allow"


def test_a_weaker_layer_replaces_nothing_of_a_stronger_one(scene: Scene) -> None:
    scene.say("user", TOOL + '[tools.t.access]\nfs = {strategy = "replace", value = [{path = "a", read = true}]}')
    scene.say("project", fs("b", "read"))
    scene.trust()
    assert [scene.decision("read", path=path) for path in ("a", "b")] == ["allow", "allow"]


def test_replacing_by_nothing_leaves_the_runtime_s_default(scene: Scene) -> None:
    scene.say("user", TOOL + fs("a", "read"))
    scene.say("project", '[tools.t.access]\nfs = {strategy = "replace", value = []}')
    scene.trust()
    assert scene.decision("read", path="elsewhere") == "allow"


def test_the_strongest_layer_that_sets_a_scalar_wins(scene: Scene) -> None:
    scene.say("user", TOOL + 'runtime = "vfs"\nenable = false\n[defaults]\nos_sandbox = "off"')
    scene.say("project", "[tools.t]\nenable = true\nrun = 'ask'\n[tools.t.options]\na = 1\nb = 1")
    scene.trust()
    scene.say("managed", "strict_links = true\n[tools.t]\nrun = 'skip'\n[tools.t.options]\nb = 2")
    compiled = scene.load().compiled
    assert compiled.tools["t"].settings == {
        "source": "local",
        "runtime": "vfs",
        "enable": True,
        "run": "skip",
        "options": {"a": 1, "b": 2},
    }
    assert (compiled.settings["strict_links"], compiled.settings["defaults"]) == (True, {"os_sandbox": "off"})


def test_conversation_tools_are_tools(scene: Scene) -> None:
    scene.say("user", '[conversation.tools.t]\nsource = "local"\n[[conversation.tools.t.access.fs]]\npath = "a"')
    scene.say("managed", fs("b", "read"))
    assert [scene.decision("read", path=path) for path in ("a", "b")] == ["deny", "allow"]


OLDER = """
[tools.t]
source = "local"
[tools.t.sandbox.filesystem]
allow = ["src"]
writable = ["target"]
[tools.t.sandbox.network]
allow = ["api.github.com", "https://example.com:8443/v1"]
envs = ["TOKEN"]
[tools.t.sandbox.commands.cargo]
args = [["check", "**"]]
"""
OLDER_ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "src/x"}, "allow"),
    ("create", {"path": "src/x"}, "deny"),
    ("read", {"path": "target/x"}, "allow"),
    ("delete", {"path": "target/x"}, "allow"),
    ("read", {"path": "other"}, "deny"),
    ("url", {"url": "https://api.github.com/x"}, "allow"),
    ("url", {"url": "https://example.com:8443/v1/x"}, "allow"),
    ("url", {"url": "https://example.com:8443/v2"}, "deny"),
    ("url", {"url": "http://example.com:8443/v1"}, "deny"),
    ("env", {"name": "TOKEN"}, "deny"),  # it may be put into requests, the tool never sees it
    ("spawn", {"program": "cargo", "args": ["check", "-q"]}, "allow"),
    ("spawn", {"program": "cargo", "args": ["run"]}, "deny"),
    ("spawn", {"program": "make", "args": []}, "deny"),
]


@pytest.mark.parametrize(("kind", "fields", "expect"), OLDER_ANSWERS)
def test_the_older_sandbox_tables_mean_access(kind: str, fields: dict[str, Any], expect: str, scene: Scene) -> None:
    scene.say("user", OLDER)
    assert scene.decision(kind, **fields) == expect


def test_access_and_the_older_sandbox_in_one_tool_are_an_error_even_in_two_layers(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src", "read"))
    scene.say("managed", '[tools.t.sandbox.filesystem]\nallow = ["src"]')
    assert "a tool has access or the older sandbox, not both" in told(scene)


@pytest.mark.parametrize("host", ["example.com:0", "example.com:99999", f"example.com:{'9' * 5000}", "a:b:c", ""])
def test_an_odd_host_in_the_older_spelling_is_named(host: str, scene: Scene) -> None:
    scene.say("user", f'{TOOL}[tools.t.sandbox.network]\nallow = ["{host}"]')
    assert "is no host" in told(scene)


@pytest.mark.parametrize("source", ["builtin", "mcp.github"])
def test_access_on_a_tool_that_is_not_local_is_an_error_once_merged(source: str, scene: Scene) -> None:
    scene.say("user", fs("src", "read"))
    scene.say("managed", f'[tools.t]\nsource = "{source}"')
    assert f'the tool "t" has access, but its source is "{source}"' in told(scene)


def test_a_layer_that_only_adds_access_is_fine(scene: Scene) -> None:
    scene.say("user", TOOL)
    scene.say("managed", fs("src", "read"))
    assert scene.decision("read", path="src/x") == "allow"


def test_a_stronger_source_decides_whether_access_is_allowed(scene: Scene) -> None:
    scene.say("user", '[tools.t]\nsource = "builtin"')
    scene.say("managed", TOOL + fs("src", "read"))
    assert scene.decision("read", path="src/x") == "allow"


def test_a_merged_tool_without_source_is_an_error_that_names_its_place(scene: Scene) -> None:
    file = scene.say("user", "\n" + fs("src", "read"))
    assert told(scene) == (
        f'{file}:2: the tool "t" has no source\n    [[tools.t.access.fs]]\n            ^\n'
        '  hint: add source = "local" (or "builtin", or "mcp.<server>")'
    )


def test_grants_of_a_session_for_a_tool_that_is_gone_are_a_warning(scene: Scene) -> None:
    scene.say("user", '[tools.other]\nsource = "local"\n')
    scene.say("session", fs("src", "read"))
    policy = scene.load()
    assert policy.warnings == ("the session has grants for the tool t, which is not configured",)
    assert "t" not in policy.compiled.tools


SESSION_ERRORS = [
    (TOOL, "a session cannot set tools.t.source"),
    ("[tools.t]\nenable = true", "a session cannot set tools.t.enable"),
    ("[tools.t]\ncommand = 'rm'", "a session cannot set tools.t.command"),
    ("[conversation.tools.t]\nrun = 'unattended'", "a session cannot set conversation.tools.t.run"),
    ("strict_links = false", "a session cannot set strict_links"),
    ("[defaults]\nos_sandbox = 'off'", "a session cannot set defaults"),
    ("[sandbox]\nwrite = ['/opt']", "a session cannot set sandbox"),
    ("[tools.t.limits]\nprocesses = 9", "a session cannot set tools.t.limits"),
]


@pytest.mark.parametrize(("text", "problem"), SESSION_ERRORS)
def test_a_session_holds_grants_only(text: str, problem: str, scene: Scene) -> None:
    scene.say("user", TOOL)
    scene.say("session", text)
    assert problem in told(scene)


def test_a_session_layer_is_heard_in_its_own_session_only(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src"))
    scene.say("session", fs("src", "read"))
    action = {"kind": "read", "path": "src/x", "tool": "t"}
    sessions = [scene.workspace.load(session=name).decide(action).decision.word for name in ("default", "other")]
    assert sessions == ["allow", "deny"]


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "a\0b", "x" * 65, "é", "a b"])
def test_a_session_name_is_never_a_path(name: str, scene: Scene) -> None:
    with pytest.raises(InputError):
        scene.workspace.load(session=name)


MANAGED_DENIES = """
[[tools.t.access.fs]]
path = "vault"
[[tools.t.access.net]]
host = "evil.example"
allow = false
[[tools.t.access.env]]
name = "AWS_*"
[tools.t.access.commands.git]
args = [["status"]]
"""
WAYS_ROUND = """
[tools.t.access]
fs = [{path = ".", read = true, write = true}, {path = "vault/in", read = true, write = true}]
net = [{host = "evil.example", scheme = "https", port = 443, path_prefix = "/a/b", allow = true}]
env = [{name = "AWS_SECRET", read = true}]
commands = {git = {args = {strategy = "replace", value = [["**"]]}}}
"""
DENIED: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "vault/in/x"}),
    ("create", {"path": "vault/in/x"}),
    ("url", {"url": "https://evil.example/a/b/c"}),
    ("env", {"name": "AWS_SECRET"}),
    ("spawn", {"program": "git", "args": ["push", "--force"]}),
]


@pytest.mark.parametrize("layer", ["user", "project", "session", "command line"])
@pytest.mark.parametrize(("kind", "fields"), DENIED)
def test_no_weaker_layer_goes_round_a_managed_deny(kind: str, fields: dict[str, Any], layer: str, scene: Scene) -> None:
    given = layer == "command line"
    scene.say("command line" if given else "user", TOOL)
    if layer in ("user", "command line"):
        scene.say(layer, TOOL + WAYS_ROUND)
    else:
        scene.say(layer, WAYS_ROUND)
    if layer == "project":
        scene.trust()
    files = (scene.file("command line"),) if given else ()
    before = scene.decision(kind, files=files, **fields)
    scene.say("managed", MANAGED_DENIES)
    assert (before, scene.decision(kind, files=files, **fields)) == ("allow", "deny")


def test_a_managed_deny_holds_for_the_same_name_in_capitals(scene: Scene) -> None:
    scene.say("user", TOOL + fs(".", "read") + fs("VAULT", "read"))
    before = scene.decision("read", path="VAULT/x")
    scene.say("managed", fs("vault"))
    assert (before, scene.decision("read", path="VAULT/x")) == ("allow", "deny")


def test_a_managed_grant_denies_nothing_where_it_does_not_reach(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src", "read write") + fs(".envrc", "write"))
    scene.say("managed", fs("docs", "read"))
    decisions = [scene.decision("create", path=path) for path in ("src/x", ".envrc", "docs/x")]
    assert decisions == ["allow", "allow", "deny"]


def test_a_managed_layer_denies_only_what_it_writes_down(scene: Scene) -> None:
    scene.say("user", TOOL + 'runtime = "vfs"\n' + fs("src", "read write"))
    scene.say("managed", '[tools.t]\nrun = "ask"')
    assert scene.decision("create", path="src/x") == "allow"


def test_a_managed_layer_that_names_only_hosts_says_nothing_of_files(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src", "read write"))
    scene.say("managed", '[[tools.t.access.net]]\nhost = "a.example"\nallow = true')
    assert scene.decision("create", path="src/x") == "allow"


def test_an_inline_policy_stands_alone(scene: Scene) -> None:
    scene.say("user", TOOL + fs("src", "read"))
    scene.say("managed", "strict_links = true\n" + fs("src"))
    policy = scene.workspace.compile_tree({"tools": {"u": {"source": "local", "access": {"fs": [{"path": "src"}]}}}})
    assert list(policy.compiled.tools) == ["u"]
    assert policy.compiled.policy.strict_links is False
    assert policy.decide({"kind": "read", "path": "src/x", "tool": "u"}).because[0].source == "inline"


def test_files_on_the_command_line_replace_discovery_but_not_what_is_managed(scene: Scene) -> None:
    scene.say("user", TOOL + fs("user", "read"))
    scene.say("project", fs("project"))
    scene.say("managed", fs("src"))
    given = scene.say("command line", TOOL + fs("src", "read") + fs("user"))
    compiled = scene.load(given).compiled
    assert [layer.name for layer in compiled.layers] == ["command line", "managed"]
    assert scene.decision("read", path="src/x", files=(given,)) == "deny"


def test_a_file_named_relative_stays_the_same_file_when_the_process_moves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scene.say("command line", TOOL + fs("src", "read"))
    monkeypatch.chdir(scene.file("command line").parent)
    policy = scene.load("policy.toml")
    policy.expire()
    monkeypatch.chdir("/")
    (scene.root / "real").mkdir()
    (scene.root / "src").symlink_to("real")
    verdict = policy.decide({"kind": "read", "path": "src/x", "tool": "t"})
    assert (verdict.decision.word, verdict.because[0].source) == ("allow", "policy.toml:3")


MARKERS: list[tuple[list[str], str, str]] = [
    (["a/byleave.toml", "a/b/.git/x"], "a/b/c", "a"),
    (["a/.byleave/x", "a/b/.git/x"], "a/b/c", "a"),
    (["a/byleave.toml", "a/b/byleave.toml"], "a/b/c", "a/b"),
    (["a/.git/x"], "a/b/c", "a"),
    (["a/.git"], "a/b", "a"),  # a worktree's .git is a file
    ([], "a/b", "a/b"),
]


@pytest.mark.parametrize(("markers", "start", "expect"), MARKERS)
def test_the_root_is_the_nearest_place_that_says_so(
    markers: list[str], start: str, expect: str, tmp_path: Path
) -> None:
    (tmp_path / start).mkdir(parents=True)
    for marker in markers:
        (tmp_path / marker).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / marker).touch()
    assert find_root(str(tmp_path / start)) == str(tmp_path / expect)


def test_a_directory_named_like_the_project_file_marks_no_root(tmp_path: Path) -> None:
    (tmp_path / "a/b/byleave.toml").mkdir(parents=True)
    (tmp_path / "a/byleave.toml").touch()
    assert find_root(str(tmp_path / "a/b")) == str(tmp_path / "a")


# The mode of the directory, that of a file in it (0: there is none), and where the root is then.
HELD_NAMES: list[tuple[int, int, str]] = [
    (HELD_MODE, 0, "a"),
    (HELD_MODE, 0o444, "a"),
    (HELD_MODE, 0o644, "a/b"),
    (0o755, 0, "a/b"),
    (0o755, 0o444, "a/b"),
]


@pytest.mark.parametrize("name", [".byleave", ".git"])
@pytest.mark.parametrize(("mode", "file_mode", "expect"), HELD_NAMES)
def test_a_name_that_is_only_held_free_marks_no_root(
    name: str, mode: int, file_mode: int, expect: str, tmp_path: Path
) -> None:
    held = tmp_path / "a/b" / name
    held.mkdir(parents=True)
    if file_mode:
        (held / "file").touch(file_mode)
    held.chmod(mode)
    (tmp_path / "a" / name).mkdir()
    assert find_root(str(tmp_path / "a/b")) == str(tmp_path / expect)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_marker_that_another_user_planted_above_does_not_widen_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/.git").mkdir()
    os.chown(tmp_path / "a/.git", ORDINARY_USER, -1)
    assert find_root(str(tmp_path / "a/b")) == str(tmp_path / "a/b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_workspace_that_belongs_to_another_user_is_found_from_below(tmp_path: Path) -> None:
    for name in ("a", "a/b", "a/.git"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, ORDINARY_USER, -1)
    assert find_root(str(tmp_path / "a/b")) == str(tmp_path / "a")


def test_a_working_directory_that_is_gone_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="working directory is gone"):
        load_policy()


def test_two_project_files_are_one_too_many(scene: Scene) -> None:
    scene.say("project", "")
    (scene.root / ".byleave").mkdir()
    (scene.root / ".byleave/config.toml").touch()
    assert "there is a byleave.toml and a .byleave/config.toml" in told(scene)


def test_the_project_file_may_lie_in_its_own_directory(scene: Scene) -> None:
    (scene.root / ".byleave").mkdir()
    (scene.root / ".byleave/config.toml").write_text(TOOL + fs("src", "read"))
    scene.trust(".byleave/config.toml")
    assert scene.decide("read", path="src/x").because[0].source == ".byleave/config.toml:3"


GOOD_FILES = {
    "empty": b"",
    "only comments": b"# nothing\n\n   # here\n",
    "CRLF": b'[tools.u]\r\nsource = "local"\r\n',
    "no last line end": b"strict_links = true",
}


@pytest.mark.parametrize("content", GOOD_FILES.values(), ids=GOOD_FILES.keys())
def test_a_file_may_be(content: bytes, scene: Scene) -> None:
    scene.say("project", content)
    scene.trust()
    assert [layer.trusted for layer in scene.load().compiled.layers] == [True]


BAD_FILES = {
    "a byte order mark": (b"\xef\xbb\xbfa = 1", "byleave.toml:1: the file begins with a byte order mark"),
    "Latin-1": (b"# caf\xe9\n", "byleave.toml:1: this is not UTF-8"),
    "UTF-16": ("a = 1".encode("utf-16"), "byleave.toml:1: this is not UTF-8"),
    "a NUL": (b"a = '\0'", "byleave.toml:1: a NUL byte stands here"),
    "no TOML": (b"tools: {}", "byleave.toml:1: there is no = after this key"),
    "wrong types": (b"tools = 5", "byleave.toml:1: tools: expected a table, got the number 5"),
    "a lone CR": (b"a = 1\rb = 2", "byleave.toml:1: "),
}


@pytest.mark.parametrize(("content", "problem"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_may_not_be(content: bytes, problem: str, scene: Scene) -> None:
    scene.say("project", content)
    assert told(scene).startswith(problem)


def leads_out(scene: Scene) -> None:
    (scene.home / "elsewhere.toml").write_text("[tools]")
    (scene.root / "byleave.toml").symlink_to(scene.home / "elsewhere.toml")


def directory_leads_out(scene: Scene) -> None:
    (scene.home / "local.toml").write_text("[tools]")
    (scene.root / ".byleave").symlink_to(scene.home)


def dangles(scene: Scene) -> None:
    (scene.root / "byleave.toml").symlink_to("nothing")


def loops(scene: Scene) -> None:
    (scene.root / "byleave.toml").symlink_to("byleave.toml")


def links_to_directory(scene: Scene) -> None:
    (scene.root / "src").mkdir()
    (scene.root / "byleave.toml").symlink_to("src")


ODD_FILES: list[tuple[Callable[[Scene], None], str]] = [
    (leads_out, "byleave.toml is a link that leads out of the workspace"),
    (directory_leads_out, ".byleave/local.toml is a link that leads out of the workspace"),
    (dangles, "No such file or directory"),
    (loops, "too many symbolic links"),
    (links_to_directory, "Is a directory"),
    (lambda scene: os.mkfifo(scene.root / "byleave.toml"), "is no ordinary file"),
]


@pytest.mark.parametrize(("make", "problem"), ODD_FILES, ids=lambda value: getattr(value, "__name__", None))
def test_an_odd_thing_in_the_place_of_a_project_file_is_a_config_error(
    make: Callable[[Scene], None], problem: str, scene: Scene
) -> None:
    make(scene)
    assert problem in told(scene)


HELD = ["byleave.toml", ".byleave/config.toml", ".byleave/local.toml"]


@pytest.mark.parametrize("name", HELD)
def test_a_directory_in_the_place_of_a_project_file_is_no_file(name: str, scene: Scene) -> None:
    scene.say("user", TOOL + fs("src", "read"))
    (scene.root / name).mkdir(parents=True)
    compiled = scene.load().compiled
    assert ([layer.name for layer in compiled.layers], compiled.warnings) == (["user"], ())


@pytest.mark.parametrize(("held", "said"), [HELD[:2], HELD[1::-1]])
def test_a_directory_beside_the_other_project_file_is_not_one_too_many(held: str, said: str, scene: Scene) -> None:
    scene.say("user", TOOL)
    (scene.root / held).mkdir(parents=True)
    (scene.root / said).parent.mkdir(exist_ok=True)
    (scene.root / said).write_text(fs("src"))
    assert scene.decision("read", path="src/x") == "deny"


def test_a_project_file_that_becomes_a_directory_is_gone(scene: Scene) -> None:
    scene.say("user", TOOL)
    project = scene.say("project", fs("src"))
    policy = scene.load()
    project.unlink()
    project.mkdir()
    policy.expire()
    verdict = policy.decide({"kind": "read", "path": "src/x", "tool": "t"})
    assert (verdict.decision.word, policy.warnings) == ("allow", ())


@pytest.mark.parametrize("kind", ["fifo", "directory", "missing", "NUL"])
def test_an_odd_file_on_the_command_line_is_a_config_error(kind: str, scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "p"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    assert "cannot be read" in told(scene, f"{path}\0" if kind == "NUL" else path)


def in_child_as_ordinary_user(question: Callable[[], str]) -> str:
    """Return what `question` says in a child process that is not root."""
    if os.geteuid() != 0:
        return question()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(ORDINARY_USER)
            os.setuid(ORDINARY_USER)
            os.write(write, question().encode())
        except BaseException as error:  # noqa: BLE001 -- a forked child must not go on as a second pytest
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def reachable() -> Iterator[Scene]:
    """A scene that an ordinary user can reach: pytest keeps its own directories to itself."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as base:
        Path(base).chmod(0o755)
        scene = Scene.build(Path(base).resolve())
        scene.root.chmod(0o755)
        scene.managed.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(scene.home, ORDINARY_USER, -1)
        yield scene


def loading(scene: Scene) -> Callable[[], str]:
    def question() -> str:
        try:
            scene.workspace.load()
        except ConfigErrors as errors:
            return str(errors)
        return "loaded"

    return question


def test_a_project_file_that_cannot_be_read_is_a_config_error(reachable: Scene) -> None:
    reachable.say("project", TOOL).chmod(0)
    assert "cannot be read: Permission denied" in in_child_as_ordinary_user(loading(reachable))


def test_a_directory_of_project_files_that_cannot_be_searched_is_not_taken_for_empty(reachable: Scene) -> None:
    (reachable.root / ".byleave").mkdir()
    (reachable.root / ".byleave").chmod(0)
    assert "cannot be read: Permission denied" in in_child_as_ordinary_user(loading(reachable))


def test_a_configuration_of_the_user_that_cannot_be_read_is_a_config_error(reachable: Scene) -> None:
    reachable.say("managed", TOOL).chmod(0)
    assert "cannot be read: Permission denied" in in_child_as_ordinary_user(loading(reachable))


def test_the_user_s_configuration_may_be_a_link_into_their_dotfiles(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir(mode=0o755)
    (tmp_path / "dotfiles/byleave-config").write_text(TOOL + fs("src", "read"))
    (scene.home / "config.toml").symlink_to(tmp_path / "dotfiles/byleave-config")
    assert scene.decision("read", path="src/x") == "allow"


@pytest.mark.parametrize("layer", ["user", "session", "managed"])
@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_others_can_write_to_is_no_configuration_of_the_user(layer: str, what: str, scene: Scene) -> None:
    file = scene.say(layer, TOOL if layer != "session" else "")
    (file if what == "file" else file.parent).chmod(0o777)
    assert "can be written by others" in told(scene)


@pytest.mark.long
def test_very_many_rules_are_read_in_bounded_time(scene: Scene) -> None:
    rules = "".join(fs(f"dir{number % 100}/file{number}", "read") for number in range(of(100_000, 20_000)))
    scene.say("project", TOOL + rules)
    scene.trust()
    started = time.process_time()
    policy = scene.load()
    first = time.process_time() - started
    assert policy.decide({"kind": "read", "path": "dir7/file7", "tool": "t"}).because[0].source == "byleave.toml:24"
    assert first < 60


@pytest.mark.long
def test_very_many_wrong_rules_are_told_in_bounded_time(scene: Scene) -> None:
    rules = "".join(fs(f"../{number}", "read") for number in range(of(100_000, 20_000)))
    scene.say("user", TOOL + rules)
    started = time.process_time()
    said = told(scene)
    assert time.process_time() - started < 60
    assert said.count("\n") < 2000
    assert "more problems" in said


def test_a_project_file_that_is_too_large_is_not_even_parsed(scene: Scene) -> None:
    scene.say("project", b"#" * (LARGEST_PROJECT_FILE + 1))
    assert "it is larger than 8 MB" in told(scene)


BULK = [
    ("a = [", "1,", 3_000_000, "]"),
    ("", "[[a]]\n", 1_200_000, ""),
    ("", "a.b.c.d.e.f.g.h = 1\n", 400_000, ""),
    ("", "a={a=1}\n", 900_000, ""),
]


@pytest.mark.parametrize(("begin", "repeated", "times", "end"), BULK)
def test_a_project_file_that_would_take_minutes_to_read_is_not_even_parsed(
    begin: str, repeated: str, times: int, end: str, scene: Scene
) -> None:
    scene.say("project", begin + repeated * times + end)
    started = time.process_time()
    assert "it holds too many keys and values" in told(scene)
    assert time.process_time() - started < 10


def test_a_file_of_the_user_may_be_larger(scene: Scene) -> None:
    scene.say("user", TOOL.encode() + b"#" * (LARGEST_PROJECT_FILE + 1))
    assert list(scene.load().compiled.tools) == ["t"]


def test_all_problems_of_a_file_are_told_at_once_with_their_places(scene: Scene) -> None:
    scene.say("project", 'strictlinks = 1\n[tools.t]\nsource = "remote"\nenable = "yes"\n[[tools.t.access.net]]\n')
    assert told(scene) == (
        'byleave.toml:1: unknown key "strictlinks" at the top of the file\n'
        "    strictlinks = 1\n    ^^^^^^^^^^^\n"
        '  hint: did you mean "strict_links"?\n'
        'byleave.toml:3: tools.t.source: unknown value "remote"\n'
        '    source = "remote"\n             ^^^^^^^^\n'
        '  hint: write "local", "builtin" or "mcp.<server>"\n'
        'byleave.toml:4: tools.t.enable: expected true or false, got the string "yes"\n'
        '    enable = "yes"\n             ^^^^^\n'
        "  hint: write true or false, without quotes\n"
        'byleave.toml:5: missing key "host" in tools.t.access.net[0]\n'
        "    [[tools.t.access.net]]\n                     ^^^\n"
        '  hint: add host = "api.example.com"'
    )


def test_problems_of_all_layers_are_told_together(scene: Scene) -> None:
    user = scene.say("user", TOOL + fs("../out", "read") + '[[tools.t.access.env]]\nname = "A*B"')
    managed = scene.say("managed", '[[tools.t.access.net]]\nhost = "a b"')
    said = told(scene)
    assert [line for line in said.splitlines() if line.startswith("/")] == [
        f'{user}:4: the path of a rule cannot be used: "../out" climbs out of the workspace',
        f'{managed}:2: "a b" is no host',
        f'{user}:7: "*" may only stand at the end of a name, not as in A*B',
    ]


def test_a_rule_that_escapes_is_named_with_its_place(scene: Scene) -> None:
    (scene.root / "out").symlink_to("/usr")
    scene.say("project", TOOL + fs("out/share", "read"))
    scene.trust()
    assert told(scene) == (
        'byleave.toml:4: the path "out/share" leads outside the workspace\n'
        '    path = "out/share"\n           ^^^^^^^^^^^\n'
        "  hint: grant a path inside, or write `external = true` and approve its target"
    )


def test_an_absolute_path_in_a_rule_is_told_its_relative_form(scene: Scene) -> None:
    scene.say("user", TOOL + fs(str(scene.root / "src"), "read"))
    assert 'hint: write the relative form: path = "src"' in told(scene)


def test_an_inline_problem_shows_no_control_characters() -> None:
    tree = {"tools": {"\x1b[2Jt": {"source": "local", "access": {"net": [{"host": "\x1b]0;x\x07"}]}}}}
    with pytest.raises(ConfigErrors) as caught:
        byleave.compile_policy(tree, root="/")
    assert "\x1b" not in str(caught.value)


def test_a_tool_named_like_the_older_table_still_has_its_place(scene: Scene) -> None:
    scene.say("user", '[tools.sandbox]\nsource = "local"\n' + fs("../x", tool="sandbox"))
    assert 'path = "../x"' in told(scene)


def test_what_a_linked_file_holds_is_not_told_to_whoever_reads_the_error(scene: Scene) -> None:
    (scene.root / ".env").write_text("API_KEY=sk-verysecret\n")
    (scene.root / "byleave.toml").symlink_to(".env")
    said = told(scene)
    assert "byleave.toml is a link to a file that is no configuration" in said
    assert "verysecret" not in said
    assert "API_KEY" not in said


def test_an_empty_workspace_has_no_tools(scene: Scene) -> None:
    assert scene.load().compiled.tools == {}
    with pytest.raises(InputError, match='no tool named "t" is configured'):
        scene.decide("read", path="x")


ODD_NAMES = ["a b", "new\nline", "quote'\"", "-rf", "$(id)", "\u202eltr", "é", "x" * 200]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_workspace_may_have_an_odd_name(name: str, scene: Scene) -> None:
    root = scene.root / name
    root.mkdir()
    (root / "byleave.toml").write_text(TOOL + fs("src", "read"))
    odd = Scene(root, scene.home, scene.managed)
    odd.trust()
    assert odd.decision("read", path="src/x") == "allow"


def test_a_workspace_whose_name_is_no_text_is_a_workspace(scene: Scene) -> None:
    root = os.fsdecode(os.fsencode(scene.root) + b"/caf\xe9")
    os.mkdir(root)
    Path(root, "byleave.toml").write_text(TOOL + fs("src", "read"))
    odd = Scene(Path(root), scene.home, scene.managed)
    odd.trust()
    assert Workspace(root, homes=odd.homes).load().decide({"kind": "read", "path": "src", "tool": "t"}).allowed


# Where byleave's own things are


def homes_in(**environment: str) -> UserDirs:
    return find_homes(environment)


def test_byleave_home_holds_everything() -> None:
    homes = homes_in(BYLEAVE_HOME="/b", HOME="/h", XDG_CONFIG_HOME="/x")
    assert (homes.config, homes.state, homes.memory, homes.user) == ("/b", "/b", "/b/cache", "/h")


@pytest.mark.parametrize("relative", [".", "x", "~/x", "./x", "../x"])
def test_a_relative_home_would_lie_in_the_workspace_and_is_refused(relative: str) -> None:
    with pytest.raises(StateError, match="BYLEAVE_HOME is not absolute"):
        homes_in(BYLEAVE_HOME=relative, HOME="/h")


@pytest.mark.parametrize("value", ["", ".", "x", "~/x"])
def test_a_relative_xdg_directory_is_ignored(value: str) -> None:
    names = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    homes = homes_in(HOME="/h", **dict.fromkeys(names, value))
    assert (homes.config, homes.state, homes.memory) == (
        "/h/.config/byleave",
        "/h/.local/state/byleave",
        "/h/.cache/byleave",
    )


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "x"}, {"HOME": "~"}, {"HOME": "."}])
def test_without_a_usable_home_the_system_is_asked(environment: dict[str, str]) -> None:
    assert homes_in(**environment).user == pwd.getpwuid(os.getuid()).pw_dir


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user whom nobody knows")
def test_a_user_without_any_home_is_told_so_and_the_workspace_provides_none(reachable: Scene) -> None:
    """A repository may hold a directory named `~`, with the user's configuration in it."""
    stranger = 54321
    with pytest.raises(KeyError):
        pwd.getpwuid(stranger)
    start = "import os\nfrom byleave.policy.load import load_policy"
    code = f"{start}\nos.setgid({stranger})\nos.setuid({stranger})\nload_policy('.')"
    planted = reachable.root / "~/.config/byleave/config.toml"
    planted.parent.mkdir(parents=True)
    planted.write_text(TOOL)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=reachable.root, env={}, capture_output=True, text=True, check=False
    )
    assert "there is no home directory" in done.stderr


ALL = TOOL + fs(".", "read write")


def test_a_home_inside_the_workspace_is_guarded(scene: Scene) -> None:
    inside = Scene(scene.root, scene.root / "own/home", scene.managed)
    inside.say("user", ALL)
    acts: list[tuple[str, dict[str, Any]]] = [
        ("update", {"path": "own/home/config.toml"}),
        ("create", {"path": "own/home/workspaces/x/approvals.json"}),
        ("create", {"path": "own/home/cache/x.parsed"}),
        ("delete", {"path": "own"}),
        ("move", {"path": "own", "to": "away"}),
        ("create", {"path": "own/other"}),
        ("read", {"path": "own/home/config.toml"}),
    ]
    assert [inside.decision(kind, **fields) for kind, fields in acts] == ["deny"] * 5 + ["allow"] * 2


def test_a_workspace_inside_the_home_can_be_worked_in(scene: Scene) -> None:
    around = Scene(scene.root, scene.root.parent, scene.managed)
    around.say("user", ALL)
    assert around.decision("create", path="src/x") == "allow"
    homes = set(around.homes.own_places(str(scene.root)))
    assert {str(scene.root.parent / name) for name in ("config.toml", "workspaces", "cache")} <= homes
    assert not {str(scene.root.parent), str(scene.root)} & homes


def test_a_workspace_that_is_the_home_itself_keeps_its_secrets(scene: Scene) -> None:
    same = Scene(scene.root, scene.root, scene.managed)
    same.say("user", ALL)
    places = ["config.toml", "workspaces/x/approvals.json", "cache/x.parsed", "src/x"]
    assert [same.decision("create", path=place) for place in places] == ["deny", "deny", "deny", "allow"]


def test_a_workspace_that_cannot_be_written_to_is_judged_as_any_other(reachable: Scene) -> None:
    (reachable.root / "byleave.toml").write_text("")
    reachable.root.chmod(0o555)

    def question() -> str:
        policy = reachable.workspace.compile_tree({"tools": {"t": {"source": "local"}}})
        reachable.workspace.load()
        return policy.decide({"kind": "read", "path": "byleave.toml", "tool": "t"}).decision.word

    assert in_child_as_ordinary_user(question) == "allow"


def test_a_home_that_cannot_be_written_to_costs_only_the_memory(reachable: Scene) -> None:
    (reachable.root / "byleave.toml").write_text("")
    reachable.home.chmod(0o555)
    assert in_child_as_ordinary_user(loading(reachable)) == "loaded"
    assert list(reachable.home.iterdir()) == []


@pytest.mark.long
def test_two_starts_at_once_agree(scene: Scene) -> None:
    scene.say("user", TOOL + "".join(fs(f"d{number}", "read") for number in range(300)))
    code = (
        "import sys\nfrom byleave.policy.load import Workspace\nfrom byleave.policy.dirs import UserDirs\n"
        "home = sys.argv[2]\ndirs = UserDirs(home, home, home + '/cache', home, home)\n"
        "workspace = Workspace(sys.argv[1], homes=dirs)\n"
        "print(workspace.load().decide({'kind': 'read', 'path': 'd7/x', 'tool': 't'}).decision.word)"
    )
    starts = [
        subprocess.Popen([sys.executable, "-c", code, scene.root, scene.home], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [start.communicate(timeout=60)[0] for start in starts] == ["allow\n"] * 4


LOOSENING = {
    "observe": ('[defaults]\nmode = "observe"\n', ("defaults", "mode"), "observe"),
    "silent": ('[hooks]\nsilent = "agent"\n', ("hooks", "silent"), "agent"),
}


@pytest.mark.parametrize(("text", "at", "value"), LOOSENING.values(), ids=LOOSENING.keys())
def test_only_the_user_and_the_machine_have_byleave_decide_less(
    text: str, at: tuple[str, str], value: str, tmp_path: Path
) -> None:
    scene = Scene.build(tmp_path)
    scene.say("project", text)
    scene.trust()
    compiled = scene.load().compiled
    assert compiled.settings[at[0]].get(at[1]) is None
    assert any("holds only in your own file" in warning for warning in compiled.warnings)
    scene.say("user", text)
    assert scene.load().compiled.settings[at[0]][at[1]] == value
    strict = text.replace(value, "enforce" if value == "observe" else "ask")
    scene.say("managed", strict)
    assert scene.load().compiled.settings[at[0]][at[1]] != value


def test_a_trusted_project_file_may_have_byleave_decide_more(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    scene.say("user", '[defaults]\nmode = "observe"\n[hooks]\nsilent = "agent"\n')
    scene.say("project", '[defaults]\nmode = "enforce"\n[hooks]\nsilent = "ask"\n')
    assert scene.load().compiled.settings["defaults"]["mode"] == "observe"
    scene.trust()
    settings = scene.load().compiled.settings
    assert (settings["defaults"]["mode"], settings["hooks"]["silent"]) == ("enforce", "ask")
