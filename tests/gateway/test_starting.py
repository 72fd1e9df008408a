"""What a confined server sees, keeps and is told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from byleave.gateway.interfaces import DownError
from byleave.gateway.links import LinkContext, make_link
from byleave.gateway.spawn import UNCONFINED
from byleave.policy.load import Workspace
from fakes.mcp_servers import SCRIPT, Ear, behaving, far, linked, reached, request, run, surroundings
from sandbox.machine import PYTHON, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    (own_home / "secret.txt").write_text("the user's own")
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "a.txt").write_text("hello")
    return tmp_path / "ws"


async def ask(link: Any, ear: Ear, method: str, value: str = "") -> Any:
    count = len(ear.told) + 1
    await link.send(request(str(count), method, json.dumps(value)))
    return json.loads(await ear.answer(count))["result"]


def environment(own_home: Path, **more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(own_home), "LANG": "C.UTF-8", "TOKEN": "hidden", **more}


def test_a_server_neither_reads_the_home_nor_writes_the_workspace(root: Path, own_home: Path) -> None:
    async def scenario() -> None:
        shared = surroundings(root, environment=environment(own_home))
        async with linked(root, far(), behaving("answers"), shared) as (link, ear):
            assert await ask(link, ear, "look", str(own_home / "secret.txt")) == "FileNotFoundError"
            assert await ask(link, ear, "look", "a.txt") == "hello"
            assert (await ask(link, ear, "put", "a.txt")).startswith("OSError")
            assert (await ask(link, ear, "put", "b.txt")).startswith("OSError")
            assert await ask(link, ear, "put", str(own_home / "new.txt")) == "written"  # in an empty home of its own
        assert not (own_home / "new.txt").exists()
        assert (root / "a.txt").read_text() == "hello"

    run(scenario())


def test_a_server_does_what_its_access_says(root: Path, own_home: Path) -> None:
    access = {"fs": [{"path": "sub", "read": True, "write": True}], "env": [{"name": "TOK*", "read": True}]}

    async def scenario() -> None:
        shared = surroundings(root, access, environment=environment(own_home))
        async with linked(root, far(has_access=True), behaving("answers"), shared) as (link, ear):
            assert await ask(link, ear, "put", "sub/new.txt") == "written"
            assert await ask(link, ear, "look", "a.txt") in ("FileNotFoundError", "PermissionError")
            variables = await ask(link, ear, "variables")
            assert (variables["TOKEN"], "XDG_CACHE_HOME" in variables) == ("hidden", False)
        assert (root / "sub" / "new.txt").read_text() == "x"

    run(scenario())


def test_a_server_gets_few_variables_and_a_cache_of_its_own(root: Path, own_home: Path) -> None:
    async def scenario() -> None:
        shared = surroundings(root, environment=environment(own_home))
        expanded = behaving("answers", env={"GIVEN": "by the user", "LANG": "C"})
        async with linked(root, far(), expanded, shared) as (link, ear):
            variables = await ask(link, ear, "variables")
            cache = variables["XDG_CACHE_HOME"]
            assert variables["npm_config_cache"] == f"{cache}/npm"
            assert {"GIVEN": "by the user", "LANG": "C", "HOME": str(own_home)}.items() <= variables.items()
            assert "TOKEN" not in variables
            assert await ask(link, ear, "put", f"{cache}/kept") == "written"
            assert await ask(link, ear, "look", os.path.dirname(cache)) == f"directory {os.path.basename(cache)}"
            assert await ask(link, ear, "look", f"{cache}/kept") == "x"
            assert cache.startswith(f"{own_home}/cache/servers/")
        assert shared.starter.cache_of("other") != shared.starter.cache_of("far") == cache
        assert surroundings(root / "sub").starter.cache_of("far") != cache  # nor is it that of another workspace

    run(scenario())


def test_a_server_starts_where_it_is_told_to(root: Path, own_home: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(cwd="sub"), behaving("answers")) as (link, ear):
            assert await ask(link, ear, "directory") == str(root / "sub")
        for missing in ("none", str(own_home)):
            with pytest.raises(DownError, match=r"no directory|not in the workspace"):
                async with linked(root, far(cwd=missing), behaving("answers")):
                    pass

    run(scenario())


def test_a_link_in_the_workspace_does_not_choose_what_a_server_sees(root: Path, own_home: Path) -> None:
    (root / "config").symlink_to(own_home / "secret.txt")
    known = behaving("answers")

    async def scenario() -> None:
        for word in ("config", str(root / "config")):
            expanded = structs.replace(known, command=(*(known.command or ()), word))
            shared = surroundings(root, environment=environment(own_home))
            async with linked(root, far(), expanded, shared) as (link, ear):
                assert await ask(link, ear, "look", str(own_home / "secret.txt")) == "FileNotFoundError"

    run(scenario())


def test_a_server_reads_its_own_program_wherever_that_is(root: Path, own_home: Path) -> None:
    access = {"fs": [{"path": "sub", "read": True}]}
    (root / "server.py").write_bytes(SCRIPT.read_bytes())
    (root / "env" / "bin").mkdir(parents=True)
    (root / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (root / "env" / "bin" / "python").symlink_to(PYTHON)

    async def scenario() -> None:
        shared = surroundings(root, access, environment=environment(own_home))
        expanded = reached(command=("env/bin/python", "-IS", "server.py", "answers"))
        async with linked(root, far(has_access=True), expanded, shared) as (link, ear):
            assert await ask(link, ear, "look", "env/pyvenv.cfg") == "home = /usr/bin\n"
            assert await ask(link, ear, "look", "a.txt") in ("FileNotFoundError", "PermissionError")
            assert (await ask(link, ear, "put", "server.py")).startswith(("OSError", "PermissionError"))

    run(scenario())


def test_byleaves_own_files_are_not_shown_though_a_command_names_them(root: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text("# the user's rules\n")
    known = behaving("answers")

    async def scenario() -> None:
        expanded = structs.replace(known, command=(*(known.command or ()), str(own_home / "config.toml")))
        shared = surroundings(root, environment=environment(own_home))
        async with linked(root, far(), expanded, shared) as (link, ear):
            assert await ask(link, ear, "look", str(own_home / "config.toml")) == "FileNotFoundError"

    run(scenario())


def test_each_call_of_a_stateless_server_is_held_to_the_access_of_its_tool(root: Path) -> None:
    writes = {"fs": [{"path": "sub", "read": True, "write": True}]}
    server = {"command": ["x"], "stateful": False, "tools": {"put": {"access": writes}}}
    workspace = Workspace(str(root))
    policy = workspace.compile_tree({"servers": {"far": server}})
    known = policy.compiled.servers["far"]

    async def scenario() -> None:
        shared = LinkContext(workspace, policy, {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}, decide=policy.decide)
        for tool, outcome in (("put", "written"), ("look", "OSError 30")):
            ear = Ear()
            link = make_link(known, behaving("answers"), ear, shared, known.tool_of(tool))
            await link.open()
            assert await ask(link, ear, "put", f"sub/{tool}") == outcome
            await link.close()
        await shared.close()

    run(scenario())


def test_without_a_sandbox_it_is_said_that_nothing_holds_the_server(root: Path, own_home: Path) -> None:
    async def scenario() -> None:
        shared = surroundings(root, os_sandbox="off", environment=environment(own_home))
        async with linked(root, far(), behaving("answers", env={"GIVEN": "1"}), shared) as (link, ear):
            assert link.warnings == [UNCONFINED]
            assert await ask(link, ear, "put", "b.txt") == "written"
            variables = await ask(link, ear, "variables")
            assert (variables["GIVEN"], "TOKEN" in variables) == ("1", False)

    run(scenario())


def test_a_server_that_is_reached_by_nothing_we_know_is_down(root: Path) -> None:
    with pytest.raises(DownError, match='the server far is reached by "pigeon", which is unknown'):
        make_link(far("pigeon"), behaving("answers"), Ear(), surroundings(root))
