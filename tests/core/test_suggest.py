"""A suggestion is TOML that, added to the policy, allows what was asked, opens nothing else and closes nothing."""

import copy
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.suggest import toml_key, toml_string
from byleave.policy.load import Workspace
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
Tree = dict[str, Any]
ODD = 'o"d\\d \u202e'
FILES = {
    "files": {"x": "", "src/lib.rs": "", "src/sub/f": "", "real/f": "", f"{ODD}/f": "", ".vscode/tasks.json": ""},
    "symlinks": {"link": "real", "out": "$EXT"},
}
PATHS = ["x", "src", "src/lib.rs", "src/sub", "src/sub/f", "link/f", "out/f", f"{ODD}/f", ".git/hooks/x", ".git"]
PATHS += [".vscode", ".vscode/tasks.json", ".byleave/x", "new/f", "caf\u00e9"]
KINDS = {"read": "read", "create": "create", "update": "update", "delete": "delete", "exec": "execute"}
URLS = [
    f"{scheme}://{place}/{path}"
    for scheme in ("https", "http")
    for place in ("h.com", "h.com:8443", "o.com")
    for path in ("", "a", "a/b", "admin", "a;v=1", "a//b", "%2Fa")
]
SINGLE: list[Tree] = [
    *({"kind": kind, "path": path} for kind in KINDS for path in PATHS),
    *({"kind": "env", "name": name} for name in ("A", "AB", "HOME", "odd name", "A*", "", "A=B", "A\0")),
    *({"kind": "url", "url": url} for url in URLS),
    *(
        {"kind": "spawn", "program": program, "args": args}
        for program in ("p", ODD)
        for args in ([], ["a"], ["a", "b"], ["**"])
    ),
]
MOVES: list[Tree] = [{"kind": "move", "path": one, "to": other} for one in PATHS for other in PATHS]

booleans = st.booleans()
access = st.fixed_dictionaries(
    {},
    optional={
        "fs": st.lists(
            st.fixed_dictionaries(
                {
                    "path": st.sampled_from(
                        [".", "src", "src/sub", "src/sub/f", "real", ODD, ".vscode", ".git/hooks", ".git"]
                    )
                },
                optional=dict.fromkeys(("read", "write", "create", "update", "delete", "execute"), booleans),
            ),
            max_size=4,
        ),
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["A", "A*", "*", "HOME"])}, optional={"read": booleans}),
            max_size=3,
        ),
        "net": st.lists(
            st.fixed_dictionaries(
                {"host": st.sampled_from(["h.com", "o.com"])},
                optional={
                    "allow": booleans,
                    "scheme": st.sampled_from(["https", "http"]),
                    "port": st.sampled_from([443, 80, 8443]),
                    "path_prefix": st.sampled_from(["/", "/a", "/a/b", "/admin"]),
                },
            ),
            max_size=4,
        ),
        "commands": st.dictionaries(
            st.sampled_from(["p", ODD]),
            st.fixed_dictionaries({}, optional={"args": st.sampled_from([[], [[]], [["a"]], [["a", "**"]], [["b"]]])}),
            max_size=2,
        ),
    },
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.build(tmp_path_factory.mktemp("scene"), FILES)


def compiled(scene: Stage, tree: Tree) -> byleave.Policy:
    return Workspace(str(scene.root)).compile_tree(tree)


def with_suggestion(tree: Tree, suggestion: str) -> Tree:
    """Return the policy with the suggested TOML added at its end, as a person would add it."""
    grown = copy.deepcopy(tree)
    for tool, added in tomllib.loads(suggestion)["tools"].items():
        own = grown["tools"][tool].setdefault("access", {})
        for kind, rules in added["access"].items():
            if kind != "commands":
                own[kind] = [*own.get(kind, []), *rules]
                continue
            for program, entry in rules.items():
                known = own.setdefault("commands", {}).setdefault(program, {"args": []})
                known["args"] = [*known["args"], *entry["args"]]
    return grown


def needs(action: Tree, canonical: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield each place and capability that an action on files touches; others touch only themselves."""
    if action["kind"] == "move":
        yield "delete", canonical[action["path"]] or ""
        yield from (("create", canonical[action["to"]] or ""), ("update", canonical[action["to"]] or ""))
    elif action["kind"] in KINDS:
        yield KINDS[action["kind"]], canonical[action["path"]] or ""


def is_part(other: Tree, asked: Tree, canonical: dict[str, str | None]) -> bool:
    """Whether allowing `asked` by a rule for its place cannot but allow `other` too."""
    if asked["kind"] == "url" == other["kind"]:
        return bool(other["url"].startswith(asked["url"]))
    places = list(needs(asked, canonical))
    return any(
        one == capability
        and (other_place == place or other_place.startswith(f"{place}/") or holds(one, other_place, place))
        for one, other_place in needs(other, canonical)
        for capability, place in places
    )


def holds(capability: str, outer: str, inner: str) -> bool:
    """Deleting a directory deletes what is in it: what kept it may have been only that."""
    return capability == "delete" and inner.startswith(f"{outer}/")


@pytest.mark.long
@settings(max_examples=amounts.of(150, 50))
@given(
    access,
    st.sampled_from(SINGLE) | st.sampled_from(SINGLE[:75]) | st.sampled_from(MOVES),
    st.sampled_from(["stdio", "vfs", "off"]),
    st.sampled_from(["t", ODD]),
)
def test_a_suggestion_allows_what_was_asked_and_nothing_else(
    scene: Stage, declared: Tree, asked: Tree, runtime: str, tool: str
) -> None:
    settings_of = {"source": "local", "runtime": runtime.replace("off", "stdio"), "access": declared}
    tree: Tree = {"tools": {tool: settings_of}, **({"defaults": {"os_sandbox": "off"}} if runtime == "off" else {})}
    before = compiled(scene, tree)
    verdict = before.decide({**asked, "tool": tool})
    if verdict.suggestion is not None:
        after = compiled(scene, with_suggestion(tree, verdict.suggestion))
        answer = after.decide({**asked, "tool": tool})
        assert answer.allowed, f"{byleave.explain(verdict)}\n{byleave.explain(answer)}"
        assert changed(before, after, asked, tool, minimal=not declared.get("env")) == []


def changed(before: byleave.Policy, after: byleave.Policy, asked: Tree, tool: str, *, minimal: bool) -> list[Tree]:
    """Return the other actions whose answer a suggestion changed, to or from an allow."""
    others = [action for action in SINGLE if action != asked and not (minimal and is_minimal(action))]
    canonical = {path: before.decide({"kind": "read", "path": path, "tool": tool}).canonical for path in PATHS}
    lost_or_won = []
    for action in others:
        old, new = [policy.decide({**action, "tool": tool}).allowed for policy in (before, after)]
        if old != new and (old or not is_part(action, asked, canonical)):
            lost_or_won.append(action)
    return lost_or_won


def is_minimal(action: Tree) -> bool:
    """Whether this is a variable that always reaches a child, whatever is declared (DESIGN.md)."""
    return action.get("name") in MINIMAL_ENVIRONMENT


NO_HELP: list[tuple[str, Tree, Tree]] = [
    ("a guarded place", {}, {"kind": "create", "path": ".byleave/x"}),
    ("a tree that holds a protected place", {}, {"kind": "delete", "path": ".git"}),
    ("a link that leads out", {}, {"kind": "read", "path": "out/f"}),
    ("a path that is none", {}, {"kind": "read", "path": "a\0"}),
    ("a variable that is none", {"env": [{"name": "A"}]}, {"kind": "env", "name": "A=B"}),
    ("a variable that reads as a prefix", {"env": [{"name": "A"}]}, {"kind": "env", "name": "A*"}),
    ("arguments that read as anything", {"commands": {}}, {"kind": "spawn", "program": "p", "args": ["**"]}),
    ("byleave's own commands", {"commands": {}}, {"kind": "spawn", "program": "byleave", "args": ["trust"]}),
    ("a URL with a password", {"net": [{"host": "h.com"}]}, {"kind": "url", "url": "https://a:b@h.com/"}),
    (
        "a tree with a rule of its own below",
        {"fs": [{"path": "src/sub", "read": True}]},
        {"kind": "delete", "path": "src"},
    ),
    ("a move onto itself", {"fs": [{"path": "src", "read": True}]}, {"kind": "move", "path": "x", "to": "x"}),
]


@pytest.mark.parametrize(("declared", "asked"), [row[1:] for row in NO_HELP], ids=[row[0] for row in NO_HELP])
def test_where_no_rule_would_help_none_is_suggested(declared: Tree, asked: Tree, scene: Stage) -> None:
    tree = {"tools": {"t": {"source": "local", "runtime": "stdio", "access": declared}}}
    verdict = compiled(scene, tree).decide({**asked, "tool": "t"})
    assert (verdict.allowed, verdict.suggestion) == (False, None)


KEPT = '[[tools.t.access.fs]]\npath = "."\nread = true\n\n'
LEAVE = '[[tools.t.access.fs]]\npath = "x"\nread = true\ndelete = true\n\n'
HELP: list[tuple[str, str, Tree, Tree, str]] = [
    (
        "a rule keeps what the place already has",
        "stdio",
        {"fs": [{"path": ".", "read": True, "execute": True}]},
        {"kind": "update", "path": "src/lib.rs"},
        '[[tools.t.access.fs]]\npath = "src/lib.rs"\nread = true\nupdate = true\nexecute = true',
    ),
    (
        "the three writes are one word",
        "stdio",
        {"fs": [{"path": ".", "create": True, "update": True}]},
        {"kind": "delete", "path": "x"},
        '[[tools.t.access.fs]]\npath = "x"\nwrite = true',
    ),
    (
        "a protected place is opened for what was asked alone",
        "stdio",
        {"fs": [{"path": ".", "read": True, "write": True}]},
        {"kind": "update", "path": ".vscode/tasks.json"},
        '[[tools.t.access.fs]]\npath = ".vscode/tasks.json"\nread = true\nupdate = true',
    ),
    (
        "a protected place that may not be run is not opened for writing",
        "stdio",
        {"fs": [{"path": ".", "write": True}]},
        {"kind": "exec", "path": ".git/hooks/x"},
        '[[tools.t.access.fs]]\npath = ".git/hooks/x"\nexecute = true',
    ),
    (
        "the first rule of a type keeps what held without it",
        "vfs",
        {},
        {"kind": "update", "path": "x"},
        f'{KEPT}[[tools.t.access.fs]]\npath = "x"\nread = true\nupdate = true',
    ),
    (
        "a vfs tool that declares anything keeps its view of the workspace",
        "vfs",
        {},
        {"kind": "env", "name": "A"},
        f'{KEPT}[[tools.t.access.env]]\nname = "A"\nread = true',
    ),
    (
        "a move is given both of its rules",
        "stdio",
        {"fs": [{"path": ".", "read": True}]},
        {"kind": "move", "path": "x", "to": "y"},
        f'{LEAVE}[[tools.t.access.fs]]\npath = "y"\nread = true\ncreate = true',
    ),
    (
        "a URL is given its scheme, port and path",
        "stdio",
        {},
        {"kind": "url", "url": "https://h.com/a/b?q"},
        '[[tools.t.access.net]]\nhost = "h.com"\nscheme = "https"\nport = 443\npath_prefix = "/a/b"\nallow = true',
    ),
    (
        "a program that may run without arguments still may",
        "stdio",
        {"commands": {"p": {"args": []}}},
        {"kind": "spawn", "program": "p", "args": ["a b"]},
        '[tools.t.access.commands.p]\nargs = [[], ["a b"]]',
    ),
]


@pytest.mark.parametrize(
    ("runtime", "declared", "asked", "expected"), [row[1:] for row in HELP], ids=[row[0] for row in HELP]
)
def test_a_suggestion_is_the_smallest_rule_that_helps(
    runtime: str, declared: Tree, asked: Tree, expected: str, scene: Stage
) -> None:
    tree = {"tools": {"t": {"source": "local", "runtime": runtime, "access": declared}}}
    assert compiled(scene, tree).decide({**asked, "tool": "t"}).suggestion == expected


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_spelled_so_that_toml_reads_it_back(key: str, text: str) -> None:
    line = f"{toml_key(key)} = {toml_string(text)}"
    assert tomllib.loads(line) == {key: text}
    assert line.isprintable()


UNSPOKEN: list[tuple[str, Tree, Tree]] = [
    ("a name that is no text", {"fs": [{"path": "src", "read": True}]}, {"kind": "read", "path": "\udcff"}),
    (
        "a name with a secret",
        {"fs": [{"path": "src", "read": True}]},
        {"kind": "read", "path": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
    ),
]


@pytest.mark.parametrize(("declared", "asked"), [row[1:] for row in UNSPOKEN], ids=[row[0] for row in UNSPOKEN])
def test_a_rule_that_toml_cannot_say_or_that_shows_a_secret_is_not_suggested(
    declared: Tree, asked: Tree, scene: Stage
) -> None:
    tree = {"tools": {"t": {"source": "local", "runtime": "stdio", "access": declared}}}
    verdict = compiled(scene, tree).decide({**asked, "tool": "t"})
    assert (verdict.decision.word, verdict.suggestion) == ("deny", None)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://h.example:8443/a", ["port = 8443"]),
        ("https://h.example/a", ["port = 443"]),
        ("git://h.example/a", []),  # nobody says which port that is
    ],
)
def test_a_rule_for_an_address_names_its_port_where_it_is_known(url: str, port: list[str], scene: Stage) -> None:
    tree = {"tools": {"t": {"source": "local", "access": {"net": [{"host": "x.example", "allow": True}]}}}}
    suggestion = compiled(scene, tree).decide({"kind": "url", "url": url, "tool": "t"}).suggestion or ""
    assert 'host = "h.example"' in suggestion
    assert [line for line in suggestion.splitlines() if line.startswith("port")] == port
