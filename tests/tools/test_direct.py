"""A plain tool's host: the same methods, done directly, checked against the context, and refused in the same words."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from byleave.sdk import vfs
from byleave.sdk.context import Context
from byleave.sdk.testing import Harness
from byleave.sdk.vfs import Host
from byleave.tools.direct import DirectHost

RULES: list[dict[str, Any]] = [
    {"path": ".", "read": True, "write": True},
    {"path": "secret"},
    {"path": "ro", "read": True},
]
FILES: dict[str, str | bytes] = {"a.txt": "a\n", "d/b.txt": "b\n", "secret/k": "k\n", "ro/r": "r\n", "bin": b"\xff"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "outside").write_text("outside")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    return root


def direct(place: Path, rules: list[dict[str, Any]] | None = None, **tool: Any) -> DirectHost:
    return DirectHost(Context.from_tree({"root": str(place), "access": rules and {"fs": rules}}), tool)


WISHES: dict[str, Any] = {
    "read": lambda host: host.read("a.txt"),
    "read what is no text": lambda host: host.read("bin"),
    "read bytes": lambda host: host.read_bytes("bin"),
    "read what is not there": lambda host: host.read("none"),
    "read a directory": lambda host: host.read("d"),
    "read below a file": lambda host: host.read("a.txt/x"),
    "read what is denied": lambda host: host.read("secret/k"),
    "read outside": lambda host: host.read("../outside"),
    "read an absolute path": lambda host: host.read("/etc/hostname"),
    "exists": lambda host: host.exists("a.txt"),
    "exists not": lambda host: host.exists("none"),
    "exists below a file": lambda host: host.exists("a.txt/x"),
    "exists what is denied": lambda host: host.exists("secret/k"),
    "list": lambda host: host.list_dir("d"),
    "list what is not there": lambda host: host.list_dir("none"),
    "list a file": lambda host: host.list_dir("a.txt"),
    "metadata": lambda host: host.metadata("a.txt").size,
    "metadata of a directory": lambda host: host.metadata("d").kind,
    "write": lambda host: host.write("new/x", "y"),
    "write over a file": lambda host: host.write("a.txt", b"\xff"),
    "write a file that is there, exclusively": lambda host: host.write("a.txt", "", exclusive=True),
    "write over a directory": lambda host: host.write("d", "x"),
    "write what is denied": lambda host: host.write("ro/new", "x"),
    "write a protected place": lambda host: host.write(".git/hooks/x", "x"),
    "delete": lambda host: host.delete("a.txt"),
    "delete a directory": lambda host: host.delete("d"),
    "delete what is not there": lambda host: host.delete("none"),
    "rename": lambda host: host.rename("a.txt", "x/y"),
    "rename over a file": lambda host: host.rename("a.txt", "d/b.txt"),
    "rename over a directory": lambda host: host.rename("a.txt", "d"),
    "rename a directory over a directory": lambda host: host.rename("d", "ro"),
    "rename what is not there": lambda host: host.rename("none", "x"),
    "grep": lambda host: host.grep(".", ["d", "a.txt"]),
    "grep everywhere": lambda host: host.grep("k"),
    "grep with a broken pattern": lambda host: host.grep("("),
    "grep where nothing is": lambda host: host.grep("x", ["none"]),
    "grep what is denied": lambda host: host.grep("x", ["secret"]),
}


def outcome(call: Any, host: Any) -> Any:
    try:
        return call(host)
    except vfs.VfsError as error:
        return type(error)


@pytest.mark.parametrize("call", WISHES.values(), ids=WISHES.keys())
def test_a_plain_tool_gets_what_a_mediated_one_gets(call: Any, place: Path) -> None:
    mediated: list[Any] = []

    def tool(host: Host) -> str:
        mediated.append(outcome(call, host))
        return ""

    harness = Harness(FILES, access={"fs": RULES})
    harness.call(tool)
    assert [outcome(call, direct(place, RULES))] == mediated
    on_disk = {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    kept = {name: text.encode() if isinstance(text, str) else text for name, text in harness.files.items()}
    assert on_disk == kept


@pytest.mark.parametrize("name", ["out", "dangling"])
def test_a_link_that_leads_out_is_followed_by_nobody(name: str, place: Path) -> None:
    host = direct(place)
    for call in (
        lambda: host.read(name),
        lambda: host.write(name, "x"),
        lambda: host.delete(name),
        lambda: host.rename("a.txt", name),
        lambda: host.grep("x", [name]),
    ):
        with pytest.raises(vfs.AccessDenied):
            call()
    assert (place.parent / "outside").read_text() == "outside"
    assert not (place.parent / "nowhere").exists()
    assert host.list_dir(".").hidden == 2


def test_a_file_that_is_too_large_says_what_would_do(place: Path) -> None:
    with open(place / "large", "wb") as file:
        file.truncate((10 << 20) + 1)
    with pytest.raises(vfs.TooLarge) as caught:
        direct(place).read_bytes("large")
    assert caught.value.limit == 10 << 20


def test_a_program_runs_in_the_root_with_little_around_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    host = direct(place)
    assert host.run("pwd").stdout == f"{os.path.realpath(place)}\n"
    assert "SECRET_TOKEN" not in str(host.run("env").stdout)
    assert "SECRET_TOKEN=x" in str(host.run("env", envs=["SECRET_TOKEN"]).stdout)
    assert host.run("cat").stdout == ""
    assert host.run("false").exit_code == 1
    with pytest.raises(vfs.NotFound):
        host.run("no-such-program-at-all")
    with pytest.raises(vfs.AccessDenied):
        host.run("/bin/true")


def test_what_needs_a_real_host_says_so(place: Path) -> None:
    host = direct(place)
    calls: list[Any] = [lambda: host.http, lambda: host.waiting({}), host.next_input, lambda: host.running("x")]
    for call in calls:
        with pytest.raises(vfs.MethodNotFound, match='use runtime = "vfs"'):
            call()


def test_a_question_is_printed_and_ends_the_program(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(vfs.QuestionAsked):
        direct(place).ask("sure", "Sure?", options=("yes", "no"))
    block = {"type": "question", "id": "sure", "text": "Sure?", "options": ["yes", "no"]}
    assert json.loads(capfdbinary.readouterr().out) == {"content": [block]}
    assert direct(place, answers={"sure": "no"}).ask("sure", "Sure?") == "no"
