"""`[shell.access]`: compiled as a tool's access is, in every layer, and never loosened by an untrusted file."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.access import SHELL_TOOL
from byleave.core.policy import ToolPolicy
from byleave.errors import ConfigErrors
from byleave.policy.layers import Layer
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import shell_layer
from command import byleave as run_command

NET = [{"host": "registry.example.org", "allow": True}]


def shell_of(root: Path, tree: dict[str, Any]) -> ToolPolicy:
    return byleave.compile_policy(tree, root=str(root)).compiled.policy.tool(SHELL_TOOL)


def decision(root: Path, action: dict[str, Any], extra: tuple[Layer, ...] = ()) -> str:
    policy = Workspace(str(root)).load(extra=list(extra))
    return policy.decide({**action, "tool": SHELL_TOOL}).decision.word


def test_without_tables_a_command_has_the_workspace_and_no_network(tmp_path: Path) -> None:
    access = shell_of(tmp_path, {"shell": {}}).access
    assert access.can_read("a")
    assert access.can_update("a")
    assert access.can_execute("a")
    policy = byleave.compile_policy({"shell": {}}, root=str(tmp_path))
    verdict = policy.decide({"kind": "url", "url": "https://registry.example.org/", "tool": SHELL_TOOL})
    assert (verdict.decision.word, (verdict.suggestion or "").splitlines()[0]) == ("deny", "[[shell.access.net]]")


def test_tables_mean_what_they_mean_for_a_tool(tmp_path: Path) -> None:
    tables = {"fs": [{"path": "src", "read": True}], "net": NET, "commands": {"make": {}}}
    ours = shell_of(tmp_path, {"shell": {"access": tables}}).access
    tool = {"source": "local", "runtime": "stdio", "access": tables}
    theirs = byleave.compile_policy({"tools": {"t": tool}}, root=str(tmp_path)).compiled.policy.tool("t").access
    assert [rule.text for rule in ours.fs.rules] == [rule.text for rule in theirs.fs.rules]  # type: ignore[union-attr]
    assert [rule.text for rule in ours.net.rules] == [rule.text for rule in theirs.net.rules]  # type: ignore[union-attr]
    assert list(ours.commands.rules) == list(theirs.commands.rules)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "passes"),
    [("CI", True), ("GIT_AUTHOR_NAME", True), ("LC_ALL", True), ("AWS_SECRET_ACCESS_KEY", False), ("MINE", True)],
)
def test_variables_add_to_the_closed_list(tmp_path: Path, name: str, *, passes: bool) -> None:
    policy = byleave.compile_policy(
        {"shell": {"access": {"env": [{"name": "MINE", "read": True}]}}}, root=str(tmp_path)
    )
    assert policy.decide({"kind": "env", "name": name, "tool": SHELL_TOOL}).allowed is passes


@pytest.mark.parametrize(
    "tree",
    [
        {"shell": {"access": {"fs": [{"path": "/etc", "read": True}]}}},
        {"shell": {"access": {"net": [{"host": "*"}]}}},
        {"shell": {"access": {"env": [{"name": "A*B"}]}}},
        {"shell": {"access": {"commands": {"": {}}}}},
        {"shell": {"access": {"files": []}}},
        {"shell": {"acess": {}}},
        {"tools": {SHELL_TOOL: {"source": "local", "runtime": "stdio"}}},
    ],
)
def test_what_means_nothing_is_an_error(tmp_path: Path, tree: dict[str, Any]) -> None:
    with pytest.raises(ConfigErrors):
        byleave.compile_policy(tree, root=str(tmp_path))


def test_an_error_points_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[shell]\n\n[[shell.access.fs]]\npath = "/etc"\n')
    run_command("trust", "--yes", "--root", str(tmp_path))
    done = run_command("policy", "show", "--root", str(tmp_path))
    assert done.code == 2
    assert "byleave.toml:4" in done.err


UNTRUSTED = """
[shell]
confine = "off"
[[shell.access.net]]
host = "registry.example.org"
allow = true
[[shell.access.fs]]
path = "."
read = true
[[shell.access.env]]
name = "SECRET"
read = true
"""
REACH = {"kind": "url", "url": "https://registry.example.org/"}
WRITE = {"kind": "update", "path": "a"}
SECRET = {"kind": "env", "name": "SECRET"}


def test_an_untrusted_file_tightens_and_never_loosens(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "byleave.toml").write_text(UNTRUSTED)
    made = (shell_layer(),)
    assert [decision(tmp_path, each, made) for each in (REACH, WRITE, SECRET)] == ["deny", "deny", "deny"]
    run_command("trust", "--yes", "--root", str(tmp_path))
    assert [decision(tmp_path, each) for each in (REACH, WRITE, SECRET)] == ["allow", "deny", "allow"]


def test_an_ignored_table_makes_no_plain_allow_of_a_confined_one(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[[rules]]\nallow = { any_command = true }\nsandbox = true\n")
    root = tmp_path / "ws"
    root.mkdir()
    (root / "byleave.toml").write_text("[shell]\nconfine = 'off'\n")
    words = ["check", "command", "make", "--root", str(root), "--json"]
    assert '"decision": "ask"' in run_command(*words).out
    done = run_command(*words, "--policy", str(config))
    assert '"decision": "ask"' in done.out


def test_layers_join_as_for_a_tool_and_the_strongest_confines(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    weaker, stronger = tmp_path / "a.toml", tmp_path / "b.toml"
    weaker.write_text("[shell]\nconfine = 'require'\n[[shell.access.net]]\nhost = 'a.example'\nallow = true\n")
    stronger.write_text("[[shell.access.net]]\nhost = 'b.example'\nallow = true\n")
    policy = Workspace(str(root)).load(files=[str(weaker), str(stronger)])
    assert policy.compiled.policy.shell == "require"
    for host in ("a.example", "b.example"):
        assert policy.decide({"kind": "url", "url": f"https://{host}/", "tool": SHELL_TOOL}).allowed


def test_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text(UNTRUSTED)
    listed = run_command("trust", "--yes", "--root", str(tmp_path)).out
    assert '[shell] confine = "off"' in listed
    assert 'net: host = "registry.example.org", allow = true' in listed
    shown = run_command("policy", "show", "--root", str(tmp_path)).out
    assert "shell  confine = off" in shown
    assert "allow registry.example.org" in shown
    found = run_command("doctor", "--root", str(tmp_path)).out
    assert "the network only as far as registry.example.org" in " ".join(found.split())


def test_what_passes_by_itself_is_not_masked_in_records(tmp_path: Path) -> None:
    from byleave.guard.warnings import mask_for

    policy = byleave.compile_policy(
        {"shell": {"access": {"env": [{"name": "MINE", "read": True}]}}}, root=str(tmp_path)
    )
    mask = mask_for(policy.compiled.policy, {"NODE_ENV": "development", "MINE": "a-secret-value"})
    assert mask.text("development a-secret-value") == "development [REDACTED]"
