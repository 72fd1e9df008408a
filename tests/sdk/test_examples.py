"""The examples of the documentation run, and say what the documentation says they do."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.protocol.vfs import METHODS, Failed, Finished, HostSide, ToolRequest
from sdk.driving import Answer, drive, serving_files

DOCS = Path(byleave.__file__).parent.parent.parent / "docs"
EXAMPLES = {
    "bash": ["bash", str(DOCS / "examples" / "count_lines.sh")],
    "node": ["node", str(DOCS / "examples" / "count_lines.mjs")],
}
EACH = pytest.mark.parametrize("language", EXAMPLES)
FILES = {
    "three.txt": "one\ntwo\nthree\n",
    "bare.txt": "one\ntwo",
    "empty.txt": "",
    "odd.txt": 'a "quoted" \\n and \\\\ \\"\n"error":, "content":"x"\n\u2028\t{}\n',
    'a "b" \\ c.txt': "x\n",
}
COUNTS = {"three.txt": 3, "bare.txt": 2, "empty.txt": 0, "odd.txt": 3, 'a "b" \\ c.txt': 1}


def run_example(language: str, answer: Answer, arguments: dict[str, Any]) -> Any:
    if shutil.which(language) is None:
        pytest.skip(f"there is no {language} here")
    driven = drive(EXAMPLES[language], answer, told={"arguments": arguments}, env={**os.environ})
    assert driven.stderr == ""
    return driven.last


@pytest.mark.sampled(2)
@EACH
@pytest.mark.parametrize(("path", "count"), COUNTS.items())
def test_an_example_counts_lines(language: str, path: str, count: int) -> None:
    last = run_example(language, serving_files(FILES), {"path": path})
    assert last == Finished([{"type": "text", "text": f"{count} lines"}])


@EACH
def test_an_example_passes_a_refusal_on(language: str) -> None:
    last = run_example(language, serving_files(FILES), {"path": "none"})
    assert isinstance(last, Failed)
    assert last.failure.message == "none does not exist"


@EACH
def test_an_example_waits_while_somebody_is_asked(language: str) -> None:
    serve = serving_files(FILES)

    def answer(side: HostSide, wish: ToolRequest) -> bytes:
        return side.pending(wish.id, "somebody is asked") + serve(side, wish)

    assert isinstance(run_example(language, answer, {"path": "three.txt"}), Finished)


@EACH
def test_an_example_stops_when_it_is_cancelled(language: str) -> None:
    def answer(side: HostSide, _wish: ToolRequest) -> bytes:
        return side.cancel()

    assert run_example(language, answer, {"path": "three.txt"}) is None


@EACH
def test_an_example_says_when_a_file_is_no_text(language: str) -> None:
    def answer(side: HostSide, wish: ToolRequest) -> bytes:
        return side.answer(wish.id, {"content": "/w==", "encoding": "base64", "size": 1})

    last = run_example(language, answer, {"path": "x"})
    assert isinstance(last, Failed)
    assert last.failure.message == "this is not a text"


def blocks(document: str, language: str) -> list[str]:
    text = (DOCS / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", ["count_lines.sh", "count_lines.mjs"])
def test_the_examples_in_the_protocol_are_the_files_that_are_run(name: str) -> None:
    language = {"sh": "bash", "mjs": "js"}[name.rpartition(".")[2]]
    assert blocks("protocol.md", language) == [(DOCS / "examples" / name).read_text()]


def test_the_messages_in_the_protocol_are_json() -> None:
    found = blocks("protocol.md", "json")
    messages = [json.loads(line) for block in found for line in block.splitlines() if line]
    assert len(messages) > 30
    assert all(message["jsonrpc"] == "2.0" for message in messages if "jsonrpc" in message)


def test_the_protocol_describes_every_method() -> None:
    text = (DOCS / "protocol.md").read_text()
    assert [method for method in METHODS if f"`{method}`" not in text] == []


def test_the_protocol_describes_every_code() -> None:
    from byleave.protocol import jsonrpc

    text = (DOCS / "protocol.md").read_text()
    numbers = [value for value in vars(jsonrpc).values() if type(value) is int and value < 0]
    assert [number for number in numbers if str(number) not in text] == []


def python_blocks() -> list[str]:
    return [block for block in blocks("sdk.md", "python") if "# not run" not in block]


@pytest.mark.parametrize("number", range(len(python_blocks())))
def test_the_python_in_the_documentation_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block may use the names of those before it, as a reader would."""
    space: dict[str, Any] = {"__name__": "documentation", "text": context_text(tmp_path)}
    for block in python_blocks()[: number + 1]:
        exec(compile(block, "sdk.md", "exec"), space)  # noqa: S102 -- our own documentation
    assert len(space) > 2, "a block defines something"
    for name, value in list(space.items()):
        if name.startswith("test_") and isinstance(value, Callable):  # type: ignore[arg-type]
            value()


def context_text(place: Path) -> str:
    (place / "src").mkdir()
    (place / "src" / "lib.rs").write_text("x")
    return json.dumps({"root": str(place), "action": "run", "access": {"fs": [{"path": "src", "read": True}]}})


def test_the_program_in_the_documentation_is_a_tool(tmp_path: Path) -> None:
    (program,) = [block for block in blocks("sdk.md", "python") if "vfs.connect()" in block]
    script = tmp_path / "tool.py"
    script.write_text(program)
    files = {"src/main.rs": "fn main() {}\n"}
    written: dict[str, str] = {}

    def answer(side: HostSide, wish: ToolRequest) -> bytes:
        if wish.method == "fs.write":
            written[wish.params["path"]] = wish.params["content"]
            return side.answer(wish.id, {})
        return serving_files(files)(side, wish)

    driven = drive([sys.executable, str(script)], answer, told={"arguments": {"path": "src/main.rs"}})
    assert driven.text == "Modified src/main.rs."
    assert written == {"src/main.rs": "// checked\nfn main() {}\n"}
