"""Tools of JP that cannot be carried over as they are: each is named, and none may touch more than there."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.import_jp import import_jp

LOCAL = '[conversation.tools.x]\nsource = "local"\ncommand = "true"\n'


def imported(tmp_path: Path, *texts: str) -> tuple[dict[str, Any], str]:
    files = []
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        files.append(str(file))
    found = import_jp(files)
    assert found.unreadable == ()
    return tomllib.loads(found.toml).get("tools", {}), "\n".join(each.why for each in found.lost)


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ('access.fs = [{ path = "/etc", read = true }]', {"fs": [{"path": "."}]}),
        ('access.fs = [{ path = "a/../..", read = true }]', {"fs": [{"path": "."}]}),
        (
            'access.fs = [{ path = "~/x", read = true }, { path = "src", read = true }]',
            {"fs": [{"path": "src", "read": True}]},
        ),
        ('access.env = [{ name = "A*B", read = true }]', {"env": [{"name": "*"}]}),
        ('access.net = [{ host = "example.com", port = 8443 }]', {"net": [{"host": "example.com", "port": 8443}]}),
    ],
)
def test_a_rule_that_jp_refuses_grants_nothing(tmp_path: Path, text: str, access: dict[str, Any]) -> None:
    tools, lost = imported(tmp_path, LOCAL + text)
    assert tools["x"]["access"] == access
    assert ("JP refuses" in lost) == ("net" not in text)


def test_a_list_that_replaces_takes_the_earlier_one_away(tmp_path: Path) -> None:
    first = LOCAL + 'access.fs = [{ path = ".", read = true }]'
    second = '[conversation.tools.x.access.fs]\nstrategy = "replace"\nvalue = [{ path = "src", read = true }]'
    tools, _lost = imported(tmp_path, first, second)
    assert tools["x"]["access"]["fs"] == [{"path": "src", "read": True}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[conversation.tools.x]\nrun = "ask"', "no file says where the tool comes from"),
        ('[conversation.tools.x]\nsource = "cloud"', "byleave does not know where it comes from"),
        ('[conversation.tools.x]\nsource = "mcp"', "byleave does not know where it comes from"),
    ],
)
def test_a_tool_of_unknown_source_is_left_out(tmp_path: Path, text: str, why: str) -> None:
    assert imported(tmp_path, text) == ({}, why)


def test_what_is_not_known_asks_or_is_off(tmp_path: Path) -> None:
    tools, lost = imported(tmp_path, LOCAL + 'run = "sometimes"\nenable = 7\nquestions = {}')
    assert (tools["x"]["run"], tools["x"]["enable"]) == ("ask", False)
    assert "it needs approval" in lost
    assert "it is off" in lost
    assert "nothing of what the tool may touch" in lost


def test_access_of_a_tool_of_a_server_is_not_carried(tmp_path: Path) -> None:
    text = '[conversation.tools.x]\nsource = "mcp.s"\naccess.fs = [{ path = ".", write = true }]'
    tools, lost = imported(tmp_path, text)
    assert "access" not in tools["x"]
    assert "JP refuses access of a tool that is not local" in lost


def test_a_program_with_its_arguments_is_a_list_of_words(tmp_path: Path) -> None:
    text = '[conversation.tools.x]\nsource = "local"\ncommand = { program = "make", args = ["a b"] }'
    assert imported(tmp_path, text)[0]["x"]["command"] == ["make", "a b"]


@pytest.mark.parametrize(("name", "text"), [("a.yaml", "x: 1"), ("a.toml", "conversation = 1"), ("a.json", "[]")])
def test_a_file_of_another_form_is_unreadable(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = import_jp([str(tmp_path / name)])
    assert len(found.unreadable) == 1
    assert found.toml == ""
