"""What a tool says of itself reaches whoever lists it; a tool that lies, hangs or floods is listed without it."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from byleave.gateway import local_tools
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.toolhost import description
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.description import NOTHING, SelfDescription, read_description, schema_problem
from byleave.toolhost.host import ToolHost
from fakes.mcp_local import serving
from sandbox.machine import needs_sandbox
from toolhost.hosting import House
from toolhost.workshop import Workshop

PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "a text file"},
        "blank": {"type": "boolean", "default": True},
    },
    "required": ["path"],
    "additionalProperties": False,
}
WORDS = {"name": "count", "description": "Count the lines of a file.", "parameters": PARAMETERS}
SAYS = f"import sys\nif sys.argv[1:] == ['--schema']:\n    print('''{json.dumps(WORDS)}''')\n"
DECORATED = '''
from typing import Annotated
from byleave.sdk.tool import tool
from byleave.sdk.vfs import Host

@tool
def count(host: Host, path: Annotated[str, "a text file"], blank: bool = True) -> str:
    """Count the lines of a file."""
    return "1"

count.run()
'''
ANYTHING = {"type": "object"}


def script(content: str, **more: Any) -> tuple[dict[str, Any], dict[str, str]]:
    return {"runtime": "vfs", "command": ["python3", "t.py"], **more}, {"t.py": content}


def shop_of(tmp_path: Path, content: str, **more: Any) -> Workshop:
    tool, files = script(content, **more)
    return Workshop.build(tmp_path, {"t": tool}, files)


def schema(shop: Workshop, **given: Any) -> dict[str, Any]:
    done = shop.call("t", "--schema", **given)
    assert done.code == 0, done.err
    tree: dict[str, Any] = json.loads(done.out)
    return tree


def own_words(shop: Workshop) -> SelfDescription:
    """Return what the tool prints about itself, asked in this process."""
    workspace = Workspace(str(shop.root))
    policy = str(shop.root.parent / "policy.toml")
    with guard_for(workspace, "call", files=[policy], client_approves=None) as guard:
        host = ToolHost(workspace, guard)
        try:
            said = host.self_description("t", Deadline())
            assert host.self_description("t", Deadline()) is said, "it is asked once"
        finally:
            host.close()
    return said


@needs_sandbox
def test_the_schema_of_a_decorated_function_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "PATIENCE", 60.0)  # our SDK takes long to load where many programs run
    source = os.path.dirname(os.path.dirname(os.path.dirname(description.__file__)))
    tool, files = script(DECORATED, command=[sys.executable, "t.py"])
    shop = Workshop.build(tmp_path, {"t": tool}, files, sandbox={"read": [source, sys.prefix]})
    said = own_words(shop)
    assert (said.parameters, said.description) == (PARAMETERS, "Count the lines of a file.")


@needs_sandbox
def test_the_configuration_has_the_first_word(tmp_path: Path) -> None:
    configured = {"type": "object", "properties": {"x": {"type": "string"}}}
    shop = shop_of(tmp_path, SAYS, parameters=configured, description="Mine.")
    assert schema(shop) == {**configured, "description": "Mine."}


@needs_sandbox
def test_a_tool_that_stays_is_described_by_its_actions(tmp_path: Path) -> None:
    variants = [{"type": "object", "properties": {"action": {"const": "spawn"}, "args": PARAMETERS}}]
    said = json.dumps({**WORDS, "parameters": {"oneOf": variants}})
    found = schema(shop_of(tmp_path, f"print('''{said}''')", stateful=True, actions=["spawn", "fetch"]))
    assert found["oneOf"][0]["properties"]["args"] == PARAMETERS
    assert len(found["oneOf"]) == 2


@needs_sandbox
def test_a_tool_that_is_asked_sees_nothing(tmp_path: Path) -> None:
    """It says what it finds as its description: no other file, no variable that it may read, no input."""
    spying = f"""
import json, os, sys
seen = [os.environ.get("TOKEN"), sys.stdin.read()]
for path, mode in (("t.py", "r"), ("secret", "r"), ("made", "w"), ("t.py", "w")):
    try:
        open(path, mode)
        seen.append("opened")
    except OSError:
        seen.append("refused")
print(json.dumps({{**{WORDS!r}, "description": json.dumps(seen)}}))
"""
    access = {"fs": [{"path": ".", "read": True, "write": True}], "env": [{"name": "TOKEN", "read": True}]}
    shop = shop_of(tmp_path, spying, access=access)
    (shop.root / "secret").write_text("x")
    found = json.loads(schema(shop, env={"TOKEN": "hush"}, feed=b"input")["description"])
    assert found == [None, "", "opened", "refused", "refused", "refused"]
    assert not (shop.root / "made").exists()


# What a tool prints, what is made of it, and whether somebody is warned.
ODD = {
    "nothing": ("", False),
    "no JSON": ("print('usage: t PATH')", False),
    "a message of the protocol": ("""print('{"jsonrpc": "2.0", "method": "result", "parameters": {}}')""", False),
    "a failure": (f"{SAYS}\nraise SystemExit(3)", False),
    "no schema": ("""print('{"parameters": 7}')""", True),
    "a schema of texts": ("""print('{"parameters": {"type": "string"}}')""", True),
    "a reference to elsewhere": ("""print('{"parameters": {"$ref": "https://example.org/x"}}')""", True),
    "what people do not see": ("""print('{"parameters": {}, "description": "a\\\\u202eb"}')""", True),
    "too much": ("import sys\nwhile True: sys.stdout.write('x' * 65536)", True),
    "nothing, for ever": ("import time\ntime.sleep(600)", True),
}


@pytest.mark.sampled(3)
@needs_sandbox
@pytest.mark.parametrize("case", ODD)
def test_a_tool_that_says_something_else_takes_anything(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "PATIENCE", 1.5 if case == "nothing, for ever" else 20.0)
    content, warned = ODD[case]
    shop = shop_of(tmp_path, content)
    said = own_words(shop)
    assert (structs.replace(said, problem=None), said.problem is not None) == (NOTHING, warned), said


@needs_sandbox
def test_a_problem_is_told_at_the_command_line(tmp_path: Path) -> None:
    done = shop_of(tmp_path, ODD["a schema of texts"][0]).call("t", "--schema")
    assert json.loads(done.out) == ANYTHING
    assert "the description that t prints is not used: the schema of its parameters is not one of objects" in done.err


@needs_sandbox
def test_without_a_sandbox_nothing_is_started_to_be_asked(tmp_path: Path) -> None:
    tool, files = script("open('ran', 'w')\n" + SAYS)
    shop = Workshop.build(tmp_path, {"t": tool}, files, defaults={"os_sandbox": "off"})
    assert schema(shop) == ANYTHING
    assert not (shop.root / "ran").exists()


@needs_sandbox
def test_what_a_tool_says_reaches_the_clients_of_the_gateway(tmp_path: Path) -> None:
    tools = {"says": script(SAYS)[0], "odd": {"runtime": "vfs", "command": ["python3", "odd.py"]}}
    local_tools = {name: {"source": "local", "run": "unattended", **tool} for name, tool in tools.items()}
    house = House.build(tmp_path, local_tools)
    (house.root / "t.py").write_text(SAYS)
    (house.root / "odd.py").write_text(ODD["a schema of texts"][0])

    async def list_them() -> None:
        async with serving(house) as gateway:
            listed = {each["name"]: each for each in await gateway.tools.definitions()}
            assert listed["says"] == {"name": "says", "description": WORDS["description"], "inputSchema": PARAMETERS}
            assert listed["odd"] == {"name": "odd", "inputSchema": ANYTHING}
            (note,) = gateway.notes
            assert note.startswith("what the tool odd says of itself is not used: the schema of its parameters")
            assert await gateway.tools.definitions() is await gateway.tools.definitions()
            (house.root / "t.py").write_text(SAYS.replace("Count", "Recount"))
            (again,) = [each for each in await gateway.tools.definitions() if each["name"] == "says"]
            assert again["description"] == "Recount the lines of a file."

    asyncio.run(list_them())


@needs_sandbox
def test_a_tool_that_hangs_keeps_no_list_waiting_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (description, local_tools):
        monkeypatch.setattr(module, "PATIENCE", 0.5)
    house = House.build(tmp_path, {"hangs": {"source": "local", "runtime": "vfs", "command": ["python3", "t.py"]}})
    (house.root / "t.py").write_text(ODD["nothing, for ever"][0])

    async def list_them() -> None:
        async with serving(house) as gateway:
            took = []
            for _ in range(3):
                began = time.monotonic()
                listed = {each["name"]: each for each in await gateway.tools.definitions()}
                took.append(time.monotonic() - began)
                assert listed["hangs"] == {"name": "hangs", "inputSchema": ANYTHING}
            assert max(took) < 5.0, took
            assert max(took[1:]) < 1.0, took

    asyncio.run(list_them())


@needs_sandbox
def test_other_requests_have_their_turn_while_a_tool_is_asked_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (description, local_tools):
        monkeypatch.setattr(module, "PATIENCE", 0.5)
    house = House.build(tmp_path, {"hangs": {"source": "local", "runtime": "vfs", "command": ["python3", "t.py"]}})
    (house.root / "t.py").write_text(ODD["nothing, for ever"][0])

    async def list_them() -> None:
        async with serving(house) as gateway:
            listing = asyncio.create_task(gateway.tools.definitions())
            turns = 0
            while not listing.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert turns > 20
            assert "hangs" in [each["name"] for each in listing.result()]

    asyncio.run(list_them())


GOOD_SCHEMAS: list[Any] = [
    {},
    PARAMETERS,
    {"oneOf": [PARAMETERS, {"type": "object"}]},
    {"properties": {"a": True, "b": {"type": ["string", "null"]}, "c": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}},
    {"properties": {"a": {"type": "array", "items": {"enum": [1, "x"]}}}, "additionalProperties": {"type": "integer"}},
]
DEEP: Any = {}
for _ in range(30):
    DEEP = {"items": DEEP}
BAD_SCHEMAS: list[Any] = [
    *(None, [], "x", True, {"type": "array"}, {"type": 1}, {"type": "object", "properties": []}),
    *({"properties": {"a": 1}}, {"required": "a"}, {"required": [1]}, {"anyOf": []}, {"enum": []}, {"enum": "x"}),
    *({"properties": {"a": {"type": "text"}}}, {"description": 7}, {"properties": {"a\x1b[1m": {}}}),
    *({"$ref": "other.json"}, {"properties": {"a": {"$ref": "file:///etc/passwd"}}}, DEEP),
    {"properties": {str(number): {} for number in range(6000)}},
]


@pytest.mark.parametrize("tree", GOOD_SCHEMAS)
def test_a_schema_of_objects_is_taken(tree: Any) -> None:
    assert schema_problem(tree) is None
    assert read_description(json.dumps({"parameters": tree}).encode()) == SelfDescription("", tree)


@pytest.mark.parametrize("tree", BAD_SCHEMAS, ids=range(len(BAD_SCHEMAS)))
def test_what_is_no_schema_is_not(tree: Any) -> None:
    assert schema_problem(tree) is not None


def test_every_tool_that_comes_with_byleave_has_a_schema_that_would_be_taken() -> None:
    from byleave.tools import NAMES, load

    for name in NAMES:
        said = read_description(json.dumps(load(name).schema).encode())
        assert said == SelfDescription(load(name).description, load(name).parameters), said
