"""A tool's context: read strictly, checked by the host's own tables, and never wider than it was written."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.fs_rules import CAPABILITIES
from byleave.errors import InputError
from byleave.sdk import Context, FsAccessError
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
SCENE = {
    "files": {"src/lib.rs": "x", ".git/hooks/x": "x", "$EXT/f": "x", "$EXT/sub/g": "x", "$EVIL/passwd": "x"},
    "symlinks": {"fork": "$EXT", "$EXT/secrets": "$EVIL", "again": "$EXT", "root": "/"},
}
ALL = {"read": True, "write": True, "execute": True}


def answer(context: Context, capability: str, path: str) -> str:
    try:
        getattr(context, f"check_{capability}")(path)
    except FsAccessError as error:
        return error.code
    return "ok"


def context_of(scene: Stage, access: Any) -> Context:
    return Context.from_json(json.dumps(scene.fill({"root": "$ROOT", "action": "run", "access": access})))


MALFORMED = [
    "",
    "null",
    "[]",
    '"text"',
    "{}",
    '{"root": null}',
    '{"root": 5}',
    '{"root": ""}',
    '{"root": "/none/at/all"}',
    '{"root": "a\\u0000b"}',
    '{"root": "\\ud800"}',
    '{"root": "/", "root": "/tmp"}',
    '{"root": "/", "access": {"fs": [], "fs": []}}',
    '{"root": "/", "action": "sudo"}',
    '{"root": "/", "action": null}',
    '{"root": "/", "action": ["run"]}',
    '{"root": "/", "access": NaN}',
    '{"root": "/", "access": -Infinity}',
    '{"root": "/", "access": [], "action": "run"}',
    '{"root": "/", "access": "none"}',
    '{"root": "/", "access": false}',
    '{"root": "/", "access": 0}',
    '{"root": "/"} trailing',
    '{"root": "/", "x": ' + "1" * 5000 + "}",
    "[" * 100_000,
    '{"root": "/", "access": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:50])
def test_a_context_that_cannot_be_read_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        Context.from_json(text)


def test_bytes_that_are_not_text_are_an_input_error() -> None:
    with pytest.raises(InputError):
        Context.from_json(b'{"root": "\xff"}')


WRONG: list[dict[str, Any]] = [
    {"fs": {"path": "."}},
    {"fs": "src"},
    {"fs": ["src"]},
    {"fs": [None]},
    {"fs": [{}]},
    {"fs": [{"read": True}]},
    {"fs": [{"path": None, "read": True}]},
    {"fs": [{"path": 5, "read": True}]},
    {"fs": [{"path": ["src"], "read": True}]},
    {"fs": [{"path": "src", "lexical_path": ".", "read": True}]},
    {"fs": [{"path": "/etc", "read": True}]},
    {"fs": [{"path": "../x", "read": True}]},
    {"fs": [{"path": "a/../../x", "read": True}]},
    {"fs": [{"path": "C:\\x", "read": True}]},
    {"fs": [{"path": "a\u0000b", "read": True}]},
    {"fs": [{"path": "\ud800", "read": True}]},
    {"fs": [{"path": "src", "read": "false"}]},
    {"fs": [{"path": "src", "read": 1}]},
    {"fs": [{"path": "src", "write": "yes"}]},
    {"fs": [{"path": "src", "delete": []}]},
    {"fs": [{"path": "src", "external": "true", "read": True}]},
    {"fs": [{"path": "fork", "external": True, "approved_target": 5, "read": True}]},
    {"fs": [{"path": "fork", "external": True, "approved_target": ["/"], "read": True}]},
    {"env": [{"read": True}]},
    {"env": [{"name": "A*B", "read": False}]},
    {"env": [{"name": "", "read": True}]},
    {"env": [{"name": "A", "read": "yes"}]},
    {"net": [{"allow": True}]},
    {"net": [{"host": "h.com", "allow": "false"}]},
    {"net": [{"host": "h.com", "allow": 1}]},
    {"net": [{"host": "h.com", "private": "no", "allow": True}]},
    {"net": [{"host": "h.com", "port": "443", "allow": True}]},
    {"net": [{"host": "h.com", "port": True, "allow": True}]},
    {"net": [{"host": "h.com", "port": 0, "allow": True}]},
    {"net": [{"host": "h.com", "port": 10**30, "allow": True}]},
    {"net": [{"host": "h.com", "port": 443.0, "allow": True}]},
    {"net": [{"host": "*.com", "allow": True}]},
    {"net": [{"host": 5, "allow": True}]},
    {"net": [{"host": "h.com", "path_prefix": 5, "allow": True}]},
    {"net": [{"host": "h.com", "scheme": 5, "allow": True}]},
    {"commands": []},
    {"commands": "cargo"},
    {"commands": {"cargo": None}},
    {"commands": {"cargo": ["check"]}},
    {"commands": {"cargo": {"args": "check"}}},
    {"commands": {"cargo": {"args": 5}}},
    {"commands": {"cargo": {"args": ["check"]}}},
    {"commands": {"cargo": {"args": [5]}}},
    {"commands": {"cargo": {"args": [["check", 5]]}}},
    {"commands": {"cargo": {"args": [["**", "x"]]}}},
]


@pytest.mark.parametrize("access", WRONG, ids=json.dumps)
def test_an_access_with_a_value_of_the_wrong_kind_is_an_input_error(access: dict[str, Any], stage: Build) -> None:
    with pytest.raises(InputError):
        context_of(stage(None), access)


def mounted(target: object, path: str = "fork") -> dict[str, Any]:
    return {"fs": [{"path": ".", "read": True}, {"path": path, "external": True, "approved_target": target, **ALL}]}


CHECKS: list[tuple[str, Any, str, str, str]] = [
    ("an approved target is open", mounted("$EXT"), "read", "fork/f", "ok"),
    ("a slash at its end is nothing", mounted("$EXT/"), "read", "fork/f", "ok"),
    ("a link inside a target leads out of it", mounted("$EXT"), "read", "fork/secrets/passwd", "escape"),
    ("another link to the target is not the rule's", mounted("$EXT"), "read", "again/f", "escape"),
    ("a target that was replaced is not approved", mounted("$EVIL"), "read", "fork/f", "escape"),
    ("a target deeper than the link opens what it holds", mounted("$EXT/sub"), "read", "fork/sub/g", "ok"),
    ("a target deeper than the link opens no more", mounted("$EXT/sub"), "read", "fork/f", "escape"),
    ("a rule without a target grants nothing", mounted(None), "read", "fork/f", "denied"),
    ("an empty target grants nothing", mounted(""), "read", "fork/f", "denied"),
    ("a relative target grants nothing", mounted("ext"), "read", "fork/f", "denied"),
    ("a target with dots grants nothing", mounted("$EVIL/../ext"), "read", "fork/f", "denied"),
    ("a target that holds the workspace grants nothing", mounted("$ROOT/.."), "read", "fork/f", "denied"),
    ("the root of all as a target grants nothing", mounted("/", "root"), "read", "root/etc/passwd", "denied"),
    ("the root of all spelled oddly grants nothing", mounted("//", "root"), "read", "root/etc/passwd", "denied"),
    ("the workspace as a target grants nothing", mounted("$ROOT"), "read", "fork/f", "denied"),
    ("an external rule for the workspace opens no link", mounted("$EXT", "."), "read", "fork/f", "denied"),
    ("an external rule for the workspace grants nothing", mounted("$EXT", "."), "read", "src/lib.rs", "denied"),
    ("a rule that is not external opens no link", {"fs": [{"path": "fork", **ALL}]}, "read", "fork/f", "escape"),
    ("a path may be spelled with dots", {"fs": [{"path": "./src/../src/", "read": True}]}, "read", "src/lib.rs", "ok"),
    ("the older name of the path is read", {"fs": [{"lexical_path": "src", "read": True}]}, "read", "src/lib.rs", "ok"),
    ("null is absent", {"fs": [{"path": "src", "read": True, "write": None}]}, "update", "src/lib.rs", "denied"),
    ("an unknown word grants nothing", {"fs": [{"path": "src", "all": True}]}, "read", "src/lib.rs", "denied"),
    ("an absent list is unrestricted", {"env": [{"name": "A"}]}, "update", "src/lib.rs", "ok"),
    ("unrestricted ends at a link that leads out", None, "read", "fork/f", "escape"),
    ("unrestricted ends at a protected place", None, "create", ".git/hooks/pre-commit", "denied"),
    ("unrestricted ends at byleave's own files", None, "create", "byleave.toml", "denied"),
    ("a protected place may be read", None, "read", ".git/hooks/x", "ok"),
    ("a tree that holds a protected place stays", None, "delete", ".git", "denied"),
    ("a rule that names a place opens it", {"fs": [{"path": ".git/hooks", **ALL}]}, "create", ".git/hooks/y", "ok"),
    (
        "a rule that names a guarded place does not",
        {"fs": [{"path": ".byleave", **ALL}]},
        "create",
        ".byleave/x",
        "denied",
    ),
    ("a file for a directory is no directory", None, "read", "src/lib.rs/", "not_a_directory"),
    ("an absolute path is refused", None, "read", "$ROOT/src/lib.rs", "absolute"),
]


@pytest.mark.parametrize(
    ("access", "capability", "path", "expected"), [row[1:] for row in CHECKS], ids=[row[0] for row in CHECKS]
)
def test_a_check_answers_as_said(access: Any, capability: str, path: str, expected: str, stage: Build) -> None:
    scene = stage(SCENE)
    assert answer(context_of(scene, access), capability, scene.fill(path)) == expected


def test_a_denial_says_what_was_denied_and_where_it_would_not_be(stage: Build) -> None:
    rules = [{"path": "src", "read": True}, {"path": "out", "read": True, "write": True}]
    with pytest.raises(FsAccessError) as caught:
        context_of(stage(SCENE), {"fs": rules}).check_update("src/lib.rs")
    error = caught.value
    assert (error.code, error.path, error.capability, error.grants) == ("denied", "src/lib.rs", "update", ("out",))
    denied = 'update on "src/lib.rs" is denied: the rule `fs src: read` does not grant it'
    assert str(error) == f"{denied}\n  hint: update is granted at out"


def test_a_check_returns_the_path_that_was_judged(stage: Build) -> None:
    scene = stage(SCENE)
    assert context_of(scene, mounted("$EXT")).check_read("fork/../fork/sub/g") == os.path.join(scene.ext, "sub/g")


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["path", "lexical_path", "external", "approved_target", "write", "name", "host", "allow", "args"]
)
loose_rules = st.lists(
    st.dictionaries(keys | st.sampled_from(CAPABILITIES), json_trees, max_size=5) | json_trees, max_size=3
)
loose_access = st.fixed_dictionaries(
    {}, optional={"fs": loose_rules, "net": loose_rules, "env": loose_rules, "commands": json_trees}
)


@given(json_trees | loose_access, st.text(max_size=12), st.sampled_from(CAPABILITIES))
def test_any_access_is_read_or_refused_and_any_path_answered(access: Any, path: str, capability: str) -> None:
    try:
        context = Context.from_tree({"root": "/usr", "access": access})
    except InputError:
        return
    assert answer(context, capability, path) in (
        "ok",
        "denied",
        "escape",
        "absolute",
        "input_escape",
        "io",
        "not_a_directory",
    )
