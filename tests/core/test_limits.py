"""What a tool's processes may use at most: how sizes are written, and which layer's word counts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.access import LARGEST, ProcessLimits, limits_of, parse_size
from byleave.errors import ConfigErrors
from scene import TOOL, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


SIZES: list[tuple[int | str, int | None]] = [
    (1, 1),
    (4096, 4096),
    (LARGEST, LARGEST),
    (0, None),
    (-1, None),
    (LARGEST + 1, None),
    ("1 B", 1),
    ("512 MB", 512 << 20),
    ("512MB", 512 << 20),
    ("2 GB", 2 << 30),
    ("2 gb", 2 << 30),
    ("2 GiB", 2 << 30),
    ("2   GB", 2 << 30),
    ("1.5 GB", 3 << 29),
    ("0.5 KB", 512),
    ("0.0001 KB", None),
    ("007 KB", 7 << 10),
    ("3 TB", 3 << 40),
    ("8388607 TB", 8388607 << 40),
    ("8388608 TB", None),
    ("0 GB", None),
    ("", None),
    (" ", None),
    ("GB", None),
    (".5 GB", None),
    ("1. GB", None),
    ("1.2.3 GB", None),
    ("1_000 KB", None),
    ("1e3 KB", None),
    ("-1 GB", None),
    ("+1 GB", None),
    ("1", None),  # of what?
    ("2 G", None),
    ("2 GBB", None),
    ("2 PB", None),
    (" 2 GB", None),
    ("2 GB\n", None),
    ("٢ GB", None),
    ("2\u00a0GB", None),
    ("nan GB", None),
    ("9" * 5000 + " GB", None),
    ("0." + "9" * 5000 + " GB", None),
]


@pytest.mark.parametrize(("size", "expect"), SIZES, ids=lambda value: str(value)[:20])
def test_a_size_is_a_number_of_bytes_or_has_a_unit(size: int | str, expect: int | None) -> None:
    assert parse_size(size) == expect


@given(st.text(max_size=12) | st.text("0123456789. KMGTBi", max_size=24))
def test_any_text_is_a_size_in_range_or_none(text: str) -> None:
    size = parse_size(text)
    assert size is None or 1 <= size <= LARGEST


@given(st.integers(1, LARGEST))
def test_a_size_in_bytes_stays_exact_in_either_form(size: int) -> None:
    assert parse_size(f"{size} B") == parse_size(size) == size


def test_limits_are_the_same_from_the_configured_and_from_the_normal_form() -> None:
    configured = {"processes": 4, "memory": "1 GB", "file_size": "1 KB", "open_files": 8, "wall_time": 5}
    normal = {**configured, "memory": 1 << 30, "file_size": 1024}
    assert limits_of(configured) == limits_of(normal) == ProcessLimits(4, 1 << 30, 1024, 8, 5.0)


def test_the_strongest_layer_that_sets_a_limit_wins_one_by_one(scene: Scene) -> None:
    scene.say("user", TOOL + '[tools.t.limits]\nmemory = "1 GB"\nprocesses = 64\nwall_time = 2.5')
    scene.say("project", "[tools.t.limits]\nprocesses = 32\nopen_files = 64")
    scene.trust()
    scene.say("managed", "[tools.t.limits]\nprocesses = 8")
    tool = scene.load().compiled.tools["t"]
    assert tool.limits == ProcessLimits(processes=8, memory=1 << 30, open_files=64, wall_time=2.5)
    assert tool.settings["limits"] == {"memory": 1 << 30, "processes": 8, "wall_time": 2.5, "open_files": 64}


def test_an_untrusted_file_limits_nothing_and_loosens_no_limit(scene: Scene) -> None:
    scene.say("user", TOOL + "[tools.t.limits]\nprocesses = 8")
    scene.say("project", "[tools.t.limits]\nprocesses = 4000\nwall_time = 1")
    assert scene.load().compiled.tools["t"].limits == ProcessLimits(processes=8)


def test_a_tool_without_limits_has_none_and_says_none(scene: Scene) -> None:
    scene.say("user", TOOL)
    tool = scene.load().compiled.tools["t"]
    assert (tool.limits, "limits" in tool.settings) == (ProcessLimits(), False)


def test_the_seeds_name_for_tools_has_limits_too(scene: Scene) -> None:
    scene.say("user", '[conversation.tools.t]\nsource = "local"\nlimits = {memory = "1 KB"}')
    assert scene.load().compiled.tools["t"].limits == ProcessLimits(memory=1024)


def test_a_size_that_is_none_is_told_with_its_place(scene: Scene) -> None:
    scene.say("user", TOOL + "[tools.t.limits]\nprocesses = 4\nmemory = '2 bananas'")
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value) == (
        f'{scene.file("user")}:5: "2 bananas" is no size\n'
        "    memory = '2 bananas'\n             ^^^^^^^^^^^\n"
        '  hint: write a number of bytes, or text such as "512 MB" or "2 GB"'
    )


def test_a_size_that_goes_on_for_ever_is_not_repeated_whole(scene: Scene) -> None:
    with pytest.raises(ConfigErrors) as caught:
        scene.workspace.compile_tree({"tools": {"t": {"source": "local", "limits": {"memory": "\x1b" * 9000}}}})
    assert len(str(caught.value)) < 500
    assert "\x1b" not in str(caught.value)


def test_limits_of_a_tool_that_is_not_ours_to_start_are_pointed_out(scene: Scene) -> None:
    scene.say("user", '[tools.t]\nsource = "mcp.github"\nlimits = {processes = 4}')
    assert scene.load().warnings == ('tools.t: limits mean nothing for source "mcp.github"',)


def test_a_remembered_file_says_the_same(scene: Scene) -> None:
    scene.say("user", TOOL + 'limits = {memory = "1.5 KB", wall_time = 1}')
    assert [scene.load().compiled.tools["t"].limits for _ in range(2)] == [
        ProcessLimits(memory=1536, wall_time=1.0)
    ] * 2
