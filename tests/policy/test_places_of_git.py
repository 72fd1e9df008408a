"""Which places of a workspace git obeys, and which ones programs are started from: whole lists of them."""

import os
import subprocess
from pathlib import Path

import pytest

from byleave.core.protected import LED_TO
from byleave.policy.machine_places import git_directory, git_places, git_stamp, places_elsewhere, program_directories


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path.resolve()
    for name in ("ws", "home/.config/git", "repo/.git"):
        (base / name).mkdir(parents=True)
    return base


def git(base: Path, *, home: bool = True, reserved: frozenset[str] = frozenset()) -> set[str]:
    """Return what is protected for git, with the names of this test's own directories left out."""
    found = list(git_places(str(base / "ws"), str(base / "home") if home else "", reserved))
    assert all(place.place == place.path and not place.final for place in found)
    return {place.path.replace(str(base), "$BASE") for place in found}


def repository(place: Path, config: str = "") -> None:
    (place / ".git").mkdir(exist_ok=True)
    (place / ".git/HEAD").write_text("ref: x\n")
    (place / ".git/config").write_text(config)


INCLUDED = 17  # of the 20 files that are read, four are there without being included; the last one is only named
OBEYED = {"config", "config.worktree", "hooks", "commondir", "info/attributes"}


def test_a_root_that_is_no_repository_is_kept_from_becoming_one(base: Path) -> None:
    assert git(base) == {"HEAD"}
    (base / "ws/.git").mkdir()
    assert git(base) == {"HEAD"}
    repository(base / "ws")
    assert git(base) == {"commondir", "refs"}
    (base / "ws/refs").mkdir()
    assert git(base) == {"commondir", "objects"}
    assert git(base, reserved=frozenset({"refs"})) == {"commondir", "refs"}
    (base / "ws/objects").mkdir()
    assert git(base) == {"commondir", "HEAD"}
    (base / "ws/HEAD").touch()
    assert git(base) == {"commondir", "HEAD"} | OBEYED
    assert git(base, reserved=frozenset({"HEAD"})) == {"commondir", "HEAD"}


def test_a_repository_elsewhere_is_found_by_the_file_that_names_it(base: Path) -> None:
    (base / "repo/.git/worktrees/w").mkdir(parents=True)
    (base / "repo/.git/worktrees/w/HEAD").touch()
    (base / "repo/.git/worktrees/w/commondir").write_text(" ../..\n")
    (base / "ws/.git").write_text("gitdir:  ../repo/.git/worktrees/w \n")
    assert git_directory(str(base / "ws")) == f"{base}/repo/.git/worktrees/w"
    elsewhere = {f"$BASE/repo/.git/{name}" for name in OBEYED}
    assert git(base) == {"commondir", "refs"} | elsewhere | {f"$BASE/repo/.git/worktrees/w/{name}" for name in OBEYED}
    (base / "ws/.git").write_text("something: else\n")
    assert git_directory(str(base / "ws")) is None
    (base / "ws/.git").unlink()
    (base / "ws/.git").symlink_to("../repo/.git")
    assert git_directory(str(base / "ws")) == f"{base}/repo/.git"
    (base / "ws/.git").unlink()
    (base / "ws/.git").symlink_to("missing")
    assert git_directory(str(base / "ws")) is None


NAMED: list[tuple[str, set[str]]] = [
    ("[core]\nhooksPath = my/hooks\n", {"my/hooks"}),
    ("[CORE]\n\tHOOKSPATH=my/hooks ; c\n", {"my/hooks"}),
    ('[core] attributesFile = "a b" # c\n', {"a b"}),
    ('[core]\nhooksPath = "a" "b"\n', {"a b"}),
    ('[core]\nhooksPath = "a\n', {"a"}),
    ("[core]\nhooksPath = a # c\n", {"a"}),
    ("[core]\nhooksPath = a#c\n", {"a"}),
    ("[core]\nhooksPath = a=b\n", {"a=b"}),
    ("[core]\nhooksPath =\n", set()),
    ("[core]\nhooksPath\n", set()),
    ("[core]\nhooksPath = /etc/hooks\n", {"/etc/hooks"}),
    ("[core]\nhooksPath = ~/hooks\n", {"$BASE/home/hooks"}),
    ("[core]\nhooksPath = ..\n", set()),
    ("[core]\nother = x\n", set()),
    ("[other]\nhooksPath = x\n", set()),
    ("hooksPath = x\n", set()),
    ("[]\nhooksPath = x\n", set()),
    ("[include]\npath = more\n", {".git/more"}),
    ('[includeIf "gitdir:~/x]/"]\npath = more\n', {".git/more"}),
    ('[core "sub"]\nhooksPath = x\n', {"x"}),
    ("[core.sub]\nhooksPath = x\n", {"x"}),
    ("[core]\nfsmonitor = ./run.sh --x\n", {"run.sh"}),
    ("[core]\nfsmonitor = run.sh; other.sh\n", {"run.sh"}),  # a comment
    ('[core]\nfsmonitor = "run.sh; other.sh"\n', {"run.sh", "other.sh"}),
    ("[core]\nfsmonitor = 'run.sh'\n", {"run.sh"}),
    ('[filter "x"]\nclean = sh -c \\"run.sh\\"\n', {"run.sh"}),
    ('[filter "x"]\nsmudge = sh run.sh %f\n', {"run.sh"}),
    ("[alias]\nx = !run.sh\n", {"run.sh"}),
    ("[alias]\nx = !sh 'other.sh'\n", {"other.sh"}),
    ("[alias]\nx = !dir missing.sh /etc/passwd\n", set()),
    ("[core]\nunheard = run.sh\n", set()),
    ("[run.sh]\nalias = run.sh\n", set()),
    ('[filter "x"]\nclean = sh "run.sh"\n', {"run.sh"}),
    ("[filter]\nx.clean = run.sh\n", {"run.sh"}),
    ("  [core]  \n  hooksPath = x  \n", {"x"}),
    ("[core] hooksPath = a]b\n", {"a]b"}),
    ('[core]\nhooksPath = a"b"\n', {"ab"}),
    ("[core]\nhooksPath = a  # c\n", {"a"}),
    ("[include]\npath =\n", set()),
    ("[core]\nhooksPath = a\0b\n", set()),
    ("[core]\nhooksPath = ..\nattributesFile = a\n", {"a"}),
    ("[core]\nattributesFile = attributes\n", {"attributes"}),
]


@pytest.mark.parametrize(("config", "places"), NAMED)
def test_what_the_configuration_of_git_names_and_starts_is_found(config: str, places: set[str], base: Path) -> None:
    repository(base / "ws", config)
    (base / "ws/dir").mkdir()
    for name in ("run.sh", "other.sh"):
        (base / "ws" / name).touch()
    (base / "ws/attributes").write_text("[core]\nhooksPath = not-read\n")
    assert git(base) - {"commondir", "refs"} == places


def test_a_configuration_in_odd_bytes_is_read_and_without_a_home_a_tilde_is_a_name(base: Path) -> None:
    repository(base / "ws")
    (base / "ws/.git/config").write_bytes(b"[core]\nhooksPath = \xff\nattributesFile = ~/a\n")
    assert git(base, home=False) == {"commondir", "refs", "\udcff", "~/a"}


def test_only_so_many_included_files_are_read(base: Path) -> None:
    repository(base / "ws", "[include]\npath = n0\n")
    for number in range(30):
        (base / f"ws/.git/n{number}").write_text(f"[include]\npath = n{number + 1}\n")
    found = [name for name in git(base) if name.startswith(".git/n")]
    assert len(found) == INCLUDED


def test_files_of_the_user_and_included_ones_count_and_a_circle_ends(base: Path) -> None:
    repository(base / "ws")
    (base / "ws/.git/config.worktree").write_text("[core]\nhooksPath = w\n")
    (base / "ws/run.sh").touch()
    (base / "home/.gitconfig").write_text("[core]\nhooksPath = h\n[include]\npath = more\n")
    (base / "home/more").write_text(
        "[include]\npath = more\npath = .gitconfig\n[core]\nattributesFile = m\neditor=run.sh\n"
    )
    (base / "home/.config/git/config").write_text("[core]\nhooksPath = c\n")
    assert git(base) == {"commondir", "refs", "w", "h", "c", "m", "$BASE/home/more", "$BASE/home/.gitconfig", "run.sh"}
    assert git(base, home=False) == {"commondir", "refs", "w"}


def test_a_link_that_git_is_led_to_counts_where_it_leads(base: Path) -> None:
    repository(base / "ws", "[core]\nhooksPath = hooks\n")
    (base / "ws/hooks").symlink_to("real")
    assert git(base) == {"commondir", "refs", "hooks", "real"}


@pytest.mark.parametrize("name", [".git/HEAD", ".git/config", ".git/commondir", "HEAD", "refs", "objects"])
def test_a_change_of_how_git_is_set_up_is_seen(name: str, base: Path) -> None:
    (base / "ws/.git").mkdir()
    before = git_stamp(str(base / "ws"))
    assert git_stamp(str(base / "ws")) == before
    (base / "ws" / name).write_text("x")
    changed = git_stamp(str(base / "ws"))
    assert changed != before
    (base / "ws" / name).write_text("xy")
    assert git_stamp(str(base / "ws")) != changed


def test_what_comes_into_a_directory_of_git_is_no_change_and_another_directory_is(base: Path) -> None:
    (base / "ws/refs").mkdir()
    before = git_stamp(str(base / "ws"))
    (base / "ws/refs/x").mkdir()
    assert git_stamp(str(base / "ws")) == before
    (base / "ws/.git").mkdir()
    assert git_stamp(str(base / "ws")) != before


def programs(base: Path, *directories: str) -> list[tuple[str, str]]:
    found = list(program_directories(os.pathsep.join(directories), str(base / "ws")))
    assert not any(place.final for place in found)
    return [(each.place.replace(str(base), "$BASE"), each.path.replace(str(base), "$BASE")) for each in found]


def test_a_directory_of_the_path_is_opened_by_its_name_or_by_that_of_the_environment_it_is_part_of(base: Path) -> None:
    for name in ("ws/env/bin", "ws/node_modules/.bin", "ws/tools", "ws/linked"):
        (base / name).mkdir(parents=True)
    (base / "ws/env/pyvenv.cfg").touch()
    (base / "ws/to").symlink_to("linked")
    (base / "pyvenv.cfg").touch()
    ws = str(base / "ws")
    assert programs(base, "/usr/bin", "/usr/bin") == [("/usr/bin", "/usr/bin")]
    assert programs(base, f"{ws}/env/bin") == [("env", "env/bin")]
    assert programs(base, f"{ws}/node_modules/.bin") == [("node_modules", "node_modules/.bin")]
    assert programs(base, f"{ws}/tools/", "tools") == [("tools", "tools"), ("tools", "tools")]
    assert programs(base, f"{ws}/to") == [("to", "to"), ("linked", "linked")]
    assert programs(base, f"{ws}/a/Xtools") == [("a/Xtools", "a/Xtools")]
    assert programs(base, ws, str(base), "/", "") == []
    (base / "ws/pyvenv.cfg").touch()
    assert programs(base, f"{ws}/bin") == [("bin", "bin")]
    assert [place.path for place in program_directories("/usr/bin", "/")] == ["/usr/bin"]
    assert programs(base, f"{base}/bin") == [("$BASE/bin", "$BASE/bin")]


def elsewhere(base: Path, environment: dict[str, str]) -> set[tuple[str, bool]]:
    found = list(places_elsewhere(str(base / "home"), environment, str(base / "ws")))
    assert {each.name for each in found} <= {LED_TO}
    assert all(each.place == each.path for each in found)
    return {(each.path.replace(str(base), "$BASE"), each.final) for each in found}


def test_a_variable_moves_what_is_protected(base: Path) -> None:
    home = str(base / "home")
    assert elsewhere(base, {}) == set()
    assert elsewhere(base, {"GIT_CONFIG_GLOBAL": "/x/y", "OTHER": "/z"}) == {("/x/y", False)}
    assert elsewhere(base, {"ZDOTDIR": home, "XDG_CONFIG_HOME": f"{home}/.config/"}) == set()
    assert elsewhere(base, {"ZDOTDIR": "relative", "ENV": ""}) == set()
    assert elsewhere(base, {"ENV": f"{base}/ws/rc", "BASH_ENV": str(base / "ws"), "INPUTRC": "/i"}) == {
        ("rc", False),
        ("/i", False),
    }
    assert elsewhere(base, {"CODEX_HOME": "/c"}) == {("/c", False), ("/c/config.toml", True), ("/c/hooks.json", True)}
    (base / "ws/led").symlink_to("to")
    assert elsewhere(base, {"ENV": f"{base}/ws/led"}) == {("led", False), ("to", False)}


def test_a_link_with_a_protected_name_is_protected_where_it_leads(base: Path) -> None:
    (base / "home/.bashrc").symlink_to(base / "ws/dotfiles/bashrc")
    (base / "home/plain").symlink_to(base / "ws/plain")
    (base / "home/.zshrc").touch()
    (base / "home/.ssh").symlink_to(base)
    found = elsewhere(base, {})
    assert ("dotfiles/bashrc", False) in found
    assert not {path for path, _final in found} & {"plain", "$BASE", "$BASE/home/.zshrc"}


ODD_VALUES = [
    "ho\\\noks",
    "ho\\\n\toks",
    'a"b c"d',
    '"a # b"; c',
    "a#b",
    "a;b",
    "a\\\\b",
    'a\\"b\\"',
    '"a\\\nb" # c',
    "a\\\\\\\nb",
    'shared/"hooks dir" ; ours',
    '  "a "  ',
    "a \\\n# b",
]


@pytest.mark.parametrize("value", ODD_VALUES)
def test_a_value_is_read_as_git_reads_it(value: str, base: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"[core]\n\thooksPath = {value}\n\tautocrlf = input\n")
    words = ["git", "config", "--file", str(config), "--get", "core.hooksPath"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    name = done.stdout.removesuffix("\n")
    (base / "ws/.git").mkdir()
    repository(base / "ws", config.read_text())
    assert f"$BASE/ws/{name}" in {f"$BASE/ws/{place}" for place in git(base)} | git(base)
