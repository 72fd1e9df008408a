"""From a policy to places: what the kernel is told is what `check` answers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byleave.core.fs_rules import CAPABILITIES
from byleave.policy.load import Workspace
from byleave.sandbox.host import files_below, follow, look
from byleave.sandbox.plan.filesystem_view import Eyes, FilesystemView, find_places
from byleave.sandbox.plan.plan import DIRECTORY, FILE, SandboxPlan, in_order

ALL = {"read": True, "write": True, "execute": True}


def found(root: Path, *fs: dict[str, object], rules: "list[dict[str, object]] | None" = None) -> FilesystemView:
    tool = {"source": "local", "runtime": "stdio", "access": {"fs": list(fs)}}
    tree: dict[str, object] = {"tools": {"t": tool}}
    if rules is not None:
        tree["rules"] = rules
    workspace = Workspace(str(root))
    policy = workspace.compile_tree(tree).compiled.policy
    return find_places(policy, "t", workspace.root.path, Eyes(look, files_below, follow))


def given_at(root: Path, view: FilesystemView, name: str) -> set[str]:
    place = SandboxPlan(str(root), in_order(view.places)).at(f"{root}/{name}" if name else str(root))
    return set() if place is None else set(place.capabilities)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    base = tmp_path.resolve() / "ws"
    for name in ("src/deep", ".git/hooks", "docs"):
        (base / name).mkdir(parents=True)
    for name in ("src/a", ".env", ".git/config", "docs/x"):
        (base / name).write_text("x")
    return base


def test_a_rule_is_a_place(root: Path) -> None:
    view = found(root, {"path": "src", "read": True})
    assert given_at(root, view, "src/a") == {"read"}
    assert given_at(root, view, "docs/x") == set()


def test_protected_places_are_read_only(root: Path) -> None:
    view = found(root, {"path": ".", **ALL})
    assert given_at(root, view, ".git/hooks/x") == {"read", "execute"}
    assert given_at(root, view, ".git/config") == {"read", "execute"}
    assert given_at(root, view, ".git/index") == set(CAPABILITIES)


def test_a_rule_that_names_a_protected_place_opens_it(root: Path) -> None:
    view = found(root, {"path": ".", **ALL}, {"path": ".git/hooks", **ALL})
    assert given_at(root, view, ".git/hooks/x") == set(CAPABILITIES)


def test_missing_names_that_must_not_come_are_held(root: Path) -> None:
    view = found(root, {"path": ".", **ALL}, {"path": "secret/deep"})
    held = {each.path[len(str(root)) + 1 :]: each.content for each in view.held}
    assert held[".claude"] is None
    assert held[".git/commondir"] == b".\n"
    assert held["secret"] is None
    assert held["secret/deep"] is None
    assert "byleave.toml" in held


def test_nothing_is_held_where_nothing_can_be_created(root: Path) -> None:
    assert not found(root, {"path": ".", "read": True}).held


def test_a_missing_directory_that_may_be_created_is_made_ready(root: Path) -> None:
    view = found(root, {"path": ".", "read": True}, {"path": "out", **ALL})
    assert [each.path for each in view.held] == [f"{root}/out"]
    assert [(each.path, each.op) for each in view.approximate] == [("**", "create"), ("out", "create")]


def test_a_missing_file_that_may_be_created_is_said_to_be_missing(root: Path) -> None:
    view = found(root, {"path": ".", "read": True}, {"path": "out.txt", **ALL})
    assert not view.held
    assert {each.op for each in view.approximate} == {"read", "create", "update", "delete", "exec"}


def test_where_files_may_only_be_added_those_that_exist_are_pinned(root: Path) -> None:
    view = found(root, {"path": "docs", "read": True, "create": True})
    pinned = [place for place in view.places if place.kind == FILE and place.path.endswith("docs/x")]
    assert [place.capabilities for place in pinned] == [frozenset({"read"})]


def test_a_place_behind_a_link_is_held_where_it_is(root: Path) -> None:
    (root / "real").mkdir()
    (root / "alias").symlink_to("real")
    view = found(root, {"path": ".", **ALL}, {"path": "alias"})
    assert given_at(root, view, "real/x") == set()


def test_a_pattern_of_the_rules_that_names_a_place_is_one(root: Path) -> None:
    rules: list[dict[str, object]] = [{"deny": {"path": "docs/**", "ops": ["update"]}}]
    view = found(root, {"path": ".", **ALL}, rules=rules)
    assert "update" not in given_at(root, view, "docs/x")


def test_a_pattern_that_names_no_place_is_said_to_be_held_by_others(root: Path) -> None:
    rules: list[dict[str, object]] = [{"deny": {"path": "**/*.pem"}}]
    view = found(root, {"path": ".", **ALL}, rules=rules)
    assert ("**/*.pem", True) in [(each.path, each.laxer) for each in view.approximate]


NAMES = st.sampled_from(["src", "src/deep", "docs", ".git", ".git/hooks", ".env", "src/a", "."])
RULES = st.lists(
    st.fixed_dictionaries({"path": NAMES}, optional={name: st.booleans() for name in CAPABILITIES}),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(RULES)
def test_places_say_what_check_says(tmp_path_factory: pytest.TempPathFactory, rules: list[dict[str, object]]) -> None:
    base = tmp_path_factory.mktemp("ws").resolve()
    for name in ("src/deep", ".git/hooks", "docs"):
        (base / name).mkdir(parents=True)
    for name in ("src/a", ".env", ".git/config", "src/deep/z"):
        (base / name).write_text("x")
    view = found(base, *rules)
    tool = {"source": "local", "runtime": "stdio", "access": {"fs": rules}}
    policy = Workspace(str(base)).compile_tree({"tools": {"t": tool}})
    pinned = {place.path for place in view.places if place.kind == FILE}
    for name in ("src/a", "src/new", "src/deep/z", ".env", ".git/config", ".git/hooks/x", ".git/index", "docs/n"):
        allowed = {
            capability
            for capability in CAPABILITIES
            if policy.decide(
                {"kind": "exec" if capability == "execute" else capability, "path": name, "tool": "t"}
            ).decision.word
            == "allow"
        }
        if f"{base}/{name}" in pinned:
            assert given_at(base, view, name) <= allowed
        else:
            assert given_at(base, view, name) == allowed, name


def test_directories_are_directories(root: Path) -> None:
    view = found(root, {"path": ".", **ALL})
    assert view.places[0].kind == DIRECTORY


def test_nothing_is_held_in_what_is_mounted(root: Path) -> None:
    """A placeholder there would be a file in somebody else's directory; it is said instead."""
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (root / "fork").symlink_to(elsewhere)
    workspace = Workspace(str(root))
    workspace.approvals.approve_mount("fork", str(elsewhere), now="2026-01-01T00:00:00Z")
    view = found(root, {"path": "fork", "external": True, **ALL}, {"path": "fork/.env", "external": True})
    assert not [each for each in view.held if not each.path.startswith(f"{root}/")]
    assert (f"{elsewhere}/.env", True) in [(each.path, each.laxer) for each in view.approximate]
    assert given_at(elsewhere, view, "x") == set(CAPABILITIES)
