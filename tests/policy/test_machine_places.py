"""Protected places that are known by what leads to them: links at home, variables, git's configuration."""

import json
import sys
from pathlib import Path

import pytest

from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.dirs import UserDirs
from byleave.policy.layers import inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from byleave.policy.machine_places import find_own_code


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    base = tmp_path.resolve()
    root, home = base / "dotfiles", base / "home"
    for name in ("config/fish", "claude", "tools", ".git", "shared/hooks", "zsh"):
        (root / name).mkdir(parents=True)
    for name in ("bashrc", "plain", "tools/monitor.sh", "tools/other.sh", "extra"):
        (root / name).write_text("")
    home.mkdir()
    (home / ".bashrc").symlink_to(root / "bashrc")
    (home / ".config").symlink_to(root / "config")
    (home / ".claude").symlink_to(root / "claude")
    (root / ".git/config").write_text(
        '[core]\n\thooksPath = "shared/hooks" # ours\n\tfsmonitor = tools/monitor.sh --fast\n'
        '[includeIf "gitdir:~/x/"]\n\tpath = ../extra\n'
    )
    monkeypatch.setenv("ZDOTDIR", str(root / "zsh"))
    monkeypatch.setenv("CODEX_HOME", str(base / "codex"))
    homes = UserDirs(str(base / "own"), str(base / "own"), str(base / "own/cache"), str(base / "managed"), str(home))
    return Workspace(str(root), homes=homes)


CASES = [
    ("bashrc", "ask"),
    ("config/fish/config.fish", "ask"),
    ("config/systemd/user/x.service", "ask"),
    ("config/opencode/plugins/x.js", "deny"),
    ("claude/settings.json", "deny"),
    ("claude/agents/x.md", "ask"),
    ("shared/hooks/pre-commit", "ask"),
    ("tools/monitor.sh", "ask"),
    ("extra", "ask"),
    ("zsh/functions", "ask"),
    ("../codex/AGENTS.md", "ask"),
    ("../codex/hooks.json", "deny"),
    ("tools/other.sh", "allow"),
    ("config/other", "allow"),
    ("plain", "allow"),
]


@pytest.mark.parametrize(("path", "expected"), CASES)
def test_what_is_obeyed_under_another_name_is_protected_there(path: str, expected: str, here: Workspace) -> None:
    policy = here.compile_tree({"rules": [{"allow": {"path": "**"}}, {"allow": {"path": "/**"}}]})
    place = str((Path(here.root.path) / path).resolve())
    assert policy.decide({"kind": "update", "path": place}).decision.word == expected


def test_a_change_of_gits_configuration_is_seen_while_a_policy_is_in_use(here: Workspace) -> None:
    policy = here.load()
    config = Path(here.root.path) / ".git/config"
    before = policy.compiled.policy.protected.inside()
    config.write_text("[core]\n\thooksPath = plain\n")
    policy.look_again()
    after = policy.compiled.policy.protected.inside()
    assert ("plain" in {place.path for place in before}, "plain" in {place.path for place in after}) == (False, True)


def _root_parts(here: Workspace) -> set[str]:
    names = {"HEAD", "refs", "objects", "config", "hooks", "commondir"}
    return {place.path for place in here.load().compiled.policy.protected.inside()} & names


def test_names_that_a_sandbox_reserves_are_no_parts_of_a_repository(here: Workspace) -> None:
    root, state = Path(here.root.path), Path(here.homes.workspace(here.root.path))
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert _root_parts(here) == {"refs", "commondir"}
    (root / "refs").mkdir()
    (root / "refs").chmod(0o1755)
    assert _root_parts(here) == {"objects", "commondir"}  # what only looks like a reservation is none
    state.mkdir(parents=True)
    (state / "placeholders.lock").touch()
    lock, made = ((place).lstat().st_ino for place in (state / "placeholders.lock", root / "refs"))
    for listed, in_use, part in ((made, lock, "refs"), (made + 1, lock, "objects"), (made, lock + 1, "objects")):
        journal = {"lock": in_use, "names": [["refs", None, [listed, 0o1755, 0]]]}
        (state / "placeholders.json").write_text(json.dumps(journal))
        assert _root_parts(here) == {part, "commondir"}  # one that a program exchanged for its own is none, either
    (state / "placeholders.json").write_text(json.dumps({**journal, "lock": lock}))
    assert _root_parts(here) == {"refs", "commondir"}
    (root / "refs/heads").mkdir()
    assert _root_parts(here) == {"objects", "commondir"}


NAMING = [
    ("**", "sub/.husky/pre-commit", "ask"),
    ("sub/**", "sub/.husky/pre-commit", "ask"),
    ("**/.husky/**", "sub/.husky/pre-commit", "allow"),
    ("sub/.husky/**", "sub/.husky/pre-commit", "allow"),
    ("**/.claude/**", "sub/.claude/agents/x", "allow"),
    ("**/.claude/**", "sub/.claude/settings.json", "deny"),
    ("~/**", "~/.config/fish/x", "ask"),
    ("~/.config/fish/**", "~/.config/fish/x", "allow"),
    ("~/.claude/**", "~/.claude/settings.json", "deny"),
    ("/**", "/usr/local/bin/x", "ask"),
    ("**/byleave.toml", "sub/byleave.toml", "deny"),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), NAMING)
def test_only_a_rule_that_names_a_place_opens_it_and_none_opens_what_is_final(
    pattern: str, path: str, expected: str, tmp_path: Path
) -> None:
    base = tmp_path.resolve()
    for name in ("ws", "home"):
        (base / name).mkdir()
    homes = UserDirs(
        str(base / "own"), str(base / "own"), str(base / "own/cache"), str(base / "no"), str(base / "home")
    )
    workspace = Workspace(str(base / "ws"), homes=homes)
    policy = workspace.compile_tree({"rules": [{"allow": {"path": pattern}}]})
    assert policy.decide({"kind": "create", "path": path}).decision.word == expected


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"lock": 1}', '{"lock": LOCK, "names": 7}', '{"lock": LOCK, "names": [1]}']
)
def test_a_journal_of_reserved_names_that_cannot_be_read_reserves_none(text: str, here: Workspace) -> None:
    root, state = Path(here.root.path), Path(here.homes.workspace(here.root.path))
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "refs").mkdir()
    (root / "refs").chmod(0o1755)
    state.mkdir(parents=True)
    (state / "placeholders.lock").touch()
    lock = (state / "placeholders.lock").lstat().st_ino
    (state / "placeholders.json").write_text(text.replace("LOCK", str(lock)))
    assert _root_parts(here) == {"objects", "commondir"}


def updates(here: Workspace, *paths: str) -> list[str]:
    policy = here.compile_tree({"rules": [{"allow": {"path": "**"}}, {"allow": {"path": "/**"}}]})
    return [policy.decide({"kind": "update", "path": path}).decision.word for path in paths]


def test_configurations_that_include_each_other_are_read_once(here: Workspace) -> None:
    root = Path(here.root.path)
    (root / ".git/config").write_text("[include]\n\tpath = ../extra\n\tpath =\n")
    (root / "extra").write_text(f"[include]\n\tpath = {root}/.git/config\n[core]\n\thooksPath = shared\n")
    assert updates(here, "extra", "shared/x", "plain") == ["ask", "ask", "allow"]


def test_a_place_that_holds_the_workspace_is_not_protected_with_all_in_it(
    here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(here.root.path)
    monkeypatch.setenv("ZDOTDIR", str(root.parent))
    monkeypatch.setenv("PATH", f"{root.parent}:{root}/tools")
    (root / ".git/config").write_text("[core]\n\thooksPath = ..\n")
    assert updates(here, "plain", "tools/other.sh") == ["allow", "ask"]


def own_code(root: Path) -> set[str]:
    return {place.path for place in find_own_code(str(root)) if place.final}


def test_an_interpreter_of_the_system_has_no_environment_to_protect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "bin").mkdir()
    for name in ("python", "byleave"):
        (tmp_path / "bin" / name).touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    root, marks = (
        tmp_path / "ws",
        {str(tmp_path / name) for name in ("pyvenv.cfg", "bin/python", "bin/byleave", "bin/rg")},
    )
    found = own_code(root) & marks
    monkeypatch.setattr(sys, "executable", "")
    nameless = own_code(root) & marks
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert (found, nameless, own_code(root) & marks) == (
        {str(tmp_path / name) for name in ("pyvenv.cfg", "bin/python", "bin/byleave")},
        {str(tmp_path / "pyvenv.cfg")},
        set(),
    )


def test_without_a_home_what_names_say_is_protected_all_the_same(here: Workspace) -> None:
    tree = {"tools": {"t": {"source": "local", "access": {"fs": [{"path": ".", "write": True}]}}}}
    compiled = compile_layers([inline_layer(tree)], CompileContext(here.root))
    policy = LivePolicy(compiled, here.root)
    tried = [{"kind": "create", "path": path, "tool": "t"} for path in (".git/hooks/x", "shared/hooks/x", "new")]
    assert [policy.decide(action).decision.word for action in tried] == ["deny", "allow", "allow"]
