"""How places become mounts and Landlock rules."""

from msgspec import structs

from byleave.core.access import ProcessLimits
from byleave.sandbox.linux.steps import NOEXEC, RDONLY, MachineFacts, arrange, view_steps
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    NOTHING,
    PRIVATE,
    READING,
    Held,
    PathGrant,
    SandboxPlan,
    in_order,
)

WRITING = EVERYTHING - {"execute"}
HOST = MachineFacts("x86_64", 7, namespaces=True, uid=1000, gid=1000, release=(6, 18))


def plan(*places: PathGrant, **more: object) -> SandboxPlan:
    return SandboxPlan("/w", in_order(places), **more)  # type: ignore[arg-type]


def place(path: str, *capabilities: str, kind: str = DIRECTORY) -> PathGrant:
    return PathGrant(path, frozenset(capabilities), kind, "a rule")


def whole(path: str = "/w") -> PathGrant:
    return PathGrant(path, EVERYTHING, DIRECTORY, "a rule")


def test_a_denied_place_inside_a_granted_one_is_covered() -> None:
    held = arrange(plan(whole(), PathGrant("/w/.env", NOTHING, FILE, "a rule")))
    assert held.covered == ("/w/.env",)
    assert not held.approximate


def test_what_lies_above_a_mount_cannot_be_renamed_away() -> None:
    held = arrange(plan(whole(), place("/w/a/b/c", "read", "execute")))
    assert [mount.path for mount in held.mounts] == ["/w", "/w/a", "/w/a/b", "/w/a/b/c"]
    assert held.mounts[-1].attributes & RDONLY
    assert not held.mounts[1].attributes & RDONLY


def test_below_a_read_only_mount_nothing_needs_to_be_pinned() -> None:
    held = arrange(plan(place("/w", "read"), place("/w/a/b", *EVERYTHING)))
    assert [mount.path for mount in held.mounts] == ["/w", "/w/a/b"]


def test_no_execute_is_noexec() -> None:
    (mount,) = arrange(plan(PathGrant("/w", WRITING, DIRECTORY, "a rule"))).mounts
    assert mount.attributes & NOEXEC


def test_programs_run_in_private_places_only_where_some_rule_gives_execute() -> None:
    private = PathGrant("/tmp", EVERYTHING, PRIVATE, "private")
    assert arrange(plan(private, whole())).executes
    assert not arrange(plan(private, PathGrant("/w", WRITING, DIRECTORY, "a rule"))).executes
    assert not arrange(plan(private, PathGrant("/usr", READING, DIRECTORY, "system"))).executes


def test_less_writing_inside_more_is_no_writing_and_says_so() -> None:
    held = arrange(plan(whole(), place("/w/log", "read", "create", "execute")))
    assert held.mounts[-1].attributes & RDONLY
    assert [(each.path, each.op, each.laxer) for each in held.approximate] == [("log", "create", False)]


def test_each_capability_alone_is_held_exactly_at_the_top() -> None:
    for capability in ("read", "update"):
        assert not arrange(plan(place("/w", capability))).approximate


def test_what_may_not_be_read_is_not_executed_either() -> None:
    (entry,) = arrange(plan(place("/w", "execute"))).approximate
    assert (entry.path, entry.op, entry.laxer) == (".", "exec", False)


def test_writing_without_reading_is_covered_where_reading_is_granted_around_it() -> None:
    held = arrange(plan(whole(), place("/w/drop", "create", "update")))
    assert held.covered == ("/w/drop",)
    assert {each.op for each in held.approximate} == {"create", "update"}


def test_a_private_place_grants_nothing_where_landlock_alone_can_hold_what_lies_in_it() -> None:
    private = PathGrant("/tmp", EVERYTHING, PRIVATE, "private")
    partial = PathGrant("/tmp/w", frozenset({"read", "update"}), DIRECTORY, "a rule")
    held = arrange(SandboxPlan("/tmp/w", in_order([private, partial])))
    assert {path for path, _rights, _kind in held.grants} == {"/tmp/w"}
    assert not held.approximate


def test_a_place_in_a_covered_one_is_shown_in_a_hollow() -> None:
    held = arrange(plan(whole(), PathGrant("/w/a", NOTHING, DIRECTORY, "a rule"), place("/w/a/b", "read")))
    assert [mount.hollow for mount in held.mounts] == [False, True, False]


def test_held_names_show_an_empty_directory() -> None:
    held = plan(whole(), place("/w/.claude", "read", "execute"), held=(Held("/w/.claude"),))
    mount = arrange(held).mounts[-1]
    assert mount.cover is not None
    assert not mount.is_mask


def steps(made: SandboxPlan, host: MachineFacts = HOST) -> list[tuple[str, tuple[object, ...]]]:
    return list(view_steps(made, arrange(made), host, b""))


def test_steps_are_in_the_order_that_gives_nothing_away() -> None:
    names = [name for name, _fields in steps(plan(whole()))]
    assert names[:3] == ["namespaces", "fork", "root"]
    order = ["pivot", "spawn", "drop", "landlock", "restrict", "seccomp"]
    assert [name for name in names if name in order] == order
    assert names[-1] == "seccomp"


def test_without_landlock_the_mounts_still_hold() -> None:
    names = [name for name, _fields in steps(plan(whole()), structs.replace(HOST, landlock=0))]
    assert "landlock" not in names
    assert "pivot" in names


def test_the_machine_s_own_number_of_processes_is_never_changed() -> None:
    made = plan(whole(), limits=ProcessLimits(processes=5))
    assert "setting" in [name for name, _fields in steps(made)]
    assert "setting" not in [name for name, _fields in steps(made, structs.replace(HOST, release=(6, 13)))]


def test_rights_that_a_version_of_landlock_does_not_know_are_not_asked_for() -> None:
    for version, bits in ((1, 13), (2, 14), (3, 15), (5, 16), (7, 16)):
        made = steps(plan(whole()), structs.replace(HOST, landlock=version))
        fields = next(fields for name, fields in made if name == "landlock")
        assert fields[0] == (1 << bits) - 1


def test_the_view_is_not_built_on_something_it_shows() -> None:
    host = structs.replace(HOST, directories=("/mnt", "/srv"))
    made = plan(whole(), PathGrant("/mnt/x", READING, DIRECTORY, "[sandbox] read"))
    assert next(fields for name, fields in steps(made, host) if name == "root")[0] == b"/srv"
