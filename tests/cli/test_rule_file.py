"""Files that `policy learn`, `import` and `lint --fix` change: what was shown is written, or nothing is."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from byleave.cli.rule_file import RuleFile
from byleave.errors import StateError
from byleave.guard.persist_rule import appended
from byleave.policy.layers import LARGEST_FILE
from byleave.user_files import Lock
from command import Done, at_terminal, byleave

RULE = 'allow = { command = "make", args = ["test"]'


def settings(root: Path, *allowed: str) -> str:
    file = root / "theirs.json"
    file.write_text(json.dumps({"permissions": {"allow": list(allowed or ("Bash(make test)",))}}))
    return str(file)


def imports(root: Path, target: str, *words: str, allowed: str = "Bash(make test)") -> Done:
    return byleave("policy", "import", "claude-code", settings(root, allowed), "--write", target, *words, cwd=root)


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.parametrize("mode", [0o644, 0o664, 0o600])
def test_a_file_keeps_its_mode(mode: int, root: Path) -> None:
    file = root / "rules.toml"
    file.write_text("# ours\n")
    file.chmod(mode)
    assert imports(root, "rules.toml", "--yes").code == 0
    assert (stat.S_IMODE(file.stat().st_mode), RULE in file.read_text()) == (mode, True)


def test_a_hard_link_to_it_stays_one(root: Path) -> None:
    (root / "rules.toml").write_text("# ours\n")
    os.link(root / "rules.toml", root / "same.toml")
    assert imports(root, "rules.toml", "--yes").code == 0
    assert RULE in (root / "same.toml").read_text()


def test_line_ends_of_other_systems_are_kept(root: Path) -> None:
    file = root / "rules.toml"
    file.write_bytes(b'# ours\r\n[defaults]\r\nos_sandbox = "auto"\r\n')
    assert imports(root, "rules.toml", "--yes").code == 0
    content = file.read_bytes()
    assert content.startswith(b"# ours\r\n[defaults]\r\n")
    assert b"\n" not in content.replace(b"\r\n", b"")
    assert imports(root, "rules.toml", "--yes").code == 0
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "after"),
    [
        (b"", b"x\n"),
        (b"a", b"a\n\nx\n"),
        (b"a\r\nb", b"a\r\nb\r\n\r\nx\r\n"),
        (b"a\r\nb\n", b"a\r\nb\n\nx\n"),
    ],
)
def test_what_is_added_stands_behind_an_empty_line(content: bytes, after: bytes) -> None:
    assert appended(content, "x\n") == after


def test_a_rule_added_by_check_has_the_line_ends_of_the_file(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_bytes(b"# mine\r\n")
    assert byleave("check", "command", "make test", "--add", "--yes", cwd=tmp_path).code == 0
    content = (own_home / "config.toml").read_bytes()
    assert (RULE.encode() in content, b"\n" in content.replace(b"\r\n", b"")) == (True, False)


def test_of_a_file_that_is_too_large_nothing_is_lost(root: Path) -> None:
    file = root / "rules.toml"
    content = b"# ours\n" * (LARGEST_FILE // 7 + 1)
    file.write_bytes(content)
    done = imports(root, "rules.toml", "--yes")
    assert (done.code, file.read_bytes() == content) == (2, True)
    assert "is larger than" in done.err


def test_a_pipe_is_not_replaced_by_a_file(root: Path) -> None:
    os.mkfifo(root / "rules.toml")
    done = imports(root, "rules.toml", "--yes")
    assert (done.code, "is not a plain file" in done.err) == (2, True)
    assert stat.S_ISFIFO((root / "rules.toml").stat().st_mode)


def test_a_file_that_is_not_text_is_left_alone(root: Path) -> None:
    (root / "rules.toml").write_bytes(b"# \xff\n")
    assert imports(root, "rules.toml", "--yes").code == 2
    assert (root / "rules.toml").read_bytes() == b"# \xff\n"


def test_a_link_is_shown_with_where_it_leads_and_stays(root: Path, own_home: Path) -> None:
    """A link that an agent lays in a project may lead to the user's own file, which needs no trust."""
    (root / "rules.toml").symlink_to(own_home / "config.toml")
    done = imports(root, "rules.toml")
    assert f"{root}/rules.toml (which is {own_home}/config.toml) would get:" in done.out
    assert (done.code, (own_home / "config.toml").exists()) == (10, False)
    (root / "rules.toml").unlink()
    (root / "shared.toml").write_text("# ours\n")
    (root / "rules.toml").symlink_to("shared.toml")
    assert imports(root, "rules.toml", "--yes").code == 0
    assert ((root / "rules.toml").is_symlink(), RULE in (root / "shared.toml").read_text()) == (True, True)


def test_a_link_laid_while_the_user_reads_is_refused(root: Path, own_home: Path) -> None:
    words = ("policy", "import", "claude-code", settings(root), "--write", "rules.toml")
    with at_terminal(*words, cwd=root) as terminal:
        terminal.wait_for("Write this? [y/N]")
        (root / "rules.toml").symlink_to(own_home / "config.toml")
        terminal.type(b"y\n")
        assert terminal.ends() == 2
    assert not (own_home / "config.toml").exists()


def test_a_file_that_changes_while_the_user_reads_is_refused(root: Path) -> None:
    (root / "rules.toml").write_text("# ours\n")
    words = ("policy", "import", "claude-code", settings(root), "--write", "rules.toml")
    with at_terminal(*words, cwd=root) as terminal:
        terminal.wait_for("Write this? [y/N]")
        (root / "rules.toml").write_text("# theirs\n")
        terminal.type(b"y\n")
        assert terminal.ends() == 2
    assert (root / "rules.toml").read_text() == "# theirs\n"


def test_another_directory_in_its_place_is_refused(root: Path) -> None:
    (root / "conf").mkdir()
    file = RuleFile(str(root / "conf/rules.toml"))
    (root / "conf").rename(root / "old")
    (root / "conf").mkdir()
    with pytest.raises(StateError, match="has changed meanwhile"):
        file.write(b"x = 1\n")
    assert not (root / "conf/rules.toml").exists()


def test_a_file_that_appears_meanwhile_is_refused(root: Path) -> None:
    file = RuleFile(str(root / "rules.toml"))
    (root / "rules.toml").write_text("")
    with pytest.raises(StateError, match="has changed meanwhile"):
        file.write(b"x = 1\n")
    assert (root / "rules.toml").read_text() == ""


def test_of_several_writers_none_is_lost_unnoticed(root: Path) -> None:
    target = root / "rules.toml"
    target.write_text("")
    written: list[int] = []

    def add(number: int) -> None:
        for _ in range(100):
            file = RuleFile(str(target))
            try:
                file.write(appended(file.content, f"# {number}\n"))
            except StateError:
                continue
            written.append(number)
            return

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = target.read_text().split("\n")
    assert written
    assert all(f"# {number}" in lines for number in written)


def test_the_users_own_file_is_written_under_its_lock(root: Path, own_home: Path) -> None:
    """A yes for good at a question takes the same lock: neither writes over the other."""
    own_home.mkdir(exist_ok=True)
    (own_home / "config.toml").write_text("# mine\n")
    words = ("policy", "import", "claude-code", settings(root), "--write", str(own_home / "config.toml"))
    with at_terminal(*words, cwd=root) as terminal:
        terminal.wait_for("Write this? [y/N]")
        with Lock(str(own_home / "config.lock")):
            terminal.type(b"y\n")
            (own_home / "config.toml").write_text("# mine, and a yes for good\n")
        assert terminal.ends() == 2
    assert (own_home / "config.toml").read_text() == "# mine, and a yes for good\n"


def test_what_cannot_be_seen_is_not_agreed_to(root: Path) -> None:
    done = imports(root, "rules.toml", "--yes", allowed="Bash(make te\u202est)")
    assert (done.code in (0, 2), "\u202e" in done.out) == (True, False)
    written = (root / "rules.toml").read_text() if (root / "rules.toml").exists() else ""
    assert "\u202e" not in written


def test_what_is_lost_is_not_shown_as_part_of_the_file(root: Path) -> None:
    file = root / "theirs.json"
    file.write_text(json.dumps({"permissions": {"allow": ["Bash(make test)", "WebSearch"]}}))
    words = ("policy", "import", "claude-code", str(file), "--write", "rules.toml", "--yes")
    out = byleave(*words, cwd=root).out
    written = (root / "rules.toml").read_text()
    shown = out.split("would get:\n", 1)[1].split("\n\n# Not carried over", 1)[0]
    assert "\n".join(line[2:] for line in shown.split("\n")).rstrip() == written.rstrip()
