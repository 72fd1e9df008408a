"""A project file is somebody else's: until its exact content is trusted it can tighten, and nothing else."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import amounts
from byleave.core.decision import Decision
from byleave.errors import ConfigErrors, InputError, StateError
from byleave.policy.layers import LOCAL, MANAGED, PROJECT, SESSION, USER, Layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.parse import parse_tree
from byleave.policy.trust import ProjectTrust
from byleave.store.approvals import UNREAD
from byleave.user_files import digest
from byleave.workspace.resolve import Root
from scene import TOOL, Scene

GRANT = '[[tools.t.access.fs]]\npath = "src"\nread = true\n'
DENY = '[[tools.t.access.fs]]\npath = "src"\n'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def trusted(scene: Scene) -> list[bool]:
    return [layer.trusted for layer in scene.load().compiled.layers if layer.name in (PROJECT, LOCAL)]


# Whatever an untrusted layer says, no answer is looser than without it.

PATHS = [
    ".",
    "src",
    "src/gen",
    "src/gen/deep",
    "link",
    "link/gen",
    "SRC",
    "ext",
    "ext/in",
    ".envrc",
    ".git/hooks",
    "new",
]
HOSTS = ["a.example", "b.example", "127.0.0.1"]
NAMES = ["AWS_KEY", "AWS_*", "*", "PATH", "LC_ALL"]
PROGRAMS = ["git", "make", "./git"]
WORDS = ["status", "push", "-f"]
YES_NO = st.booleans()


def some(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


def listed(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.lists(items, max_size=4)
    strategies = st.sampled_from(["append", "prepend", "replace", "dedup"])
    return plain | st.fixed_dictionaries({"strategy": strategies, "value": plain})


CAPABILITIES = dict.fromkeys(("read", "write", "create", "update", "delete", "execute"), YES_NO)
FS_RULES = st.builds(
    lambda path, rest: {"path": path, **rest, **({"external": True} if path.startswith("ext") else {})},
    st.sampled_from(PATHS),
    some(**CAPABILITIES),
)
NET_RULES = st.builds(
    lambda host, rest: {"host": host, **rest},
    st.sampled_from(HOSTS),
    some(
        scheme=st.sampled_from(["http", "https"]),
        port=st.sampled_from([80, 443, 8443]),
        path_prefix=st.sampled_from(["", "/", "/a", "/a/b"]),
        allow=YES_NO,
        private=YES_NO,
    ),
)
ENV_RULES = st.builds(
    lambda name, rest: {"name": name, **rest}, st.sampled_from(NAMES), some(read=YES_NO, substitute=YES_NO)
)
ARGS = st.lists(
    st.builds(
        lambda words, last: [*words, *last], st.lists(st.sampled_from(WORDS), max_size=2), st.sampled_from([[], ["**"]])
    ),
    max_size=3,
)
COMMANDS = st.dictionaries(
    st.sampled_from(PROGRAMS), some(args=ARGS, envs=st.lists(st.sampled_from(NAMES))), max_size=3
)
ACCESS = some(fs=listed(FS_RULES), net=listed(NET_RULES), env=listed(ENV_RULES), commands=COMMANDS)
SETTINGS = {
    "source": st.sampled_from(["local", "local", "local", "builtin", "mcp.x"]),
    "runtime": st.sampled_from(["stdio", "vfs"]),
    "enable": st.sampled_from([True, True, False]),
    "run": st.sampled_from(["ask", "unattended"]),
    "command": st.sampled_from([["git"], ["./script", "x"]]),
    "options": st.just({"a": 1}),
    "limits": st.just({"memory": "1 GB", "processes": 9}),
}
DEFAULTS = {
    "strict_links": YES_NO,
    "defaults": some(os_sandbox=st.sampled_from(["auto", "require", "off"])),
    "sandbox": some(read=st.just(["/opt"]), write=st.just(["/var/cache"])),
}


def tree(*, named: bool, whole: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Return trees of a file; the tools of a `named` one have a source, so that they are there."""
    extra = {"access": ACCESS, **(SETTINGS if whole else {})}
    if named:
        tool = st.builds(lambda rest: {"source": "local", **rest}, some(**extra))
        return st.builds(
            lambda tools, rest: {"tools": tools, **rest}, st.fixed_dictionaries({"t": tool}), some(**DEFAULTS)
        )
    tools = some(t=some(**extra), u=some(**extra))
    spelled = st.sampled_from([lambda made: {"tools": made}, lambda made: {"conversation": {"tools": made}}])
    return st.builds(
        lambda spell, made, rest: {**spell(made), **rest}, spelled, tools, some(**(DEFAULTS if whole else {}))
    )


def of_tool(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({**fields, "tool": st.just("t")})


TARGETS = st.sampled_from([f"{path}{rest}" for path in PATHS for rest in ("", "/x")] + ["../out", "/abs", "hard"])
ACTIONS = st.one_of(
    of_tool(kind=st.sampled_from(["read", "create", "update", "delete", "exec", "search"]), path=TARGETS),
    of_tool(kind=st.just("move"), path=TARGETS, to=TARGETS),
    of_tool(
        kind=st.just("url"),
        url=st.builds(
            lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
            st.sampled_from(["http", "https"]),
            st.sampled_from(HOSTS),
            st.sampled_from(["", ":8443", ":80"]),
            st.sampled_from(["/", "/a", "/a/b/c", "/%61"]),
        ),
    ),
    of_tool(kind=st.just("env"), name=st.sampled_from(["AWS_KEY", "AWS_X", "PATH", "OTHER", "LC_ALL"])),
    of_tool(
        kind=st.just("spawn"),
        program=st.sampled_from(PROGRAMS),
        args=st.lists(st.sampled_from(WORDS), max_size=3),
    ),
)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A workspace with links inside and outside, an approved mount, and a file with two names."""
    scene = Scene.build(tmp_path_factory.mktemp("furnished"))
    (scene.root / "src/gen/deep").mkdir(parents=True)
    (scene.root / ".git/hooks").mkdir(parents=True)
    (scene.root / "link").symlink_to("src")
    (scene.root.parent / "outside/in").mkdir(parents=True)
    (scene.root / "ext").symlink_to(scene.root.parent / "outside")
    (scene.root / "hard").touch()
    os.link(scene.root / "hard", scene.root / "harder")
    state = Path(scene.homes.workspace(str(scene.root)))
    state.mkdir(parents=True, mode=0o700)
    outside = str(scene.root.parent / "outside")
    mounts = [
        {"rule_path": name, "canonical_target": f"{outside}{rest}"} for name, rest in (("ext", ""), ("ext/in", "/in"))
    ]
    (state / "approvals.json").write_text(json.dumps({"mounts": mounts}))
    (state / "approvals.json").chmod(0o600)
    return scene


def layer(name: str, said: dict[str, Any], *, trusted: bool = True) -> Layer:
    return Layer(name, parse_tree(said), file=f"{name}.toml", content=b"", trusted=trusted)


NO_ANSWER = 3  # a configuration that cannot be used is stricter than any answer


def answers(scene: Scene, layers: list[Layer], actions: list[dict[str, Any]]) -> list[int]:
    """Return how strict each answer is."""
    workspace = scene.workspace
    try:
        compiled = workspace.compile(layers)
    except ConfigErrors:
        return [NO_ANSWER] * len(actions)
    policy = LivePolicy(compiled, workspace.root)
    return [int(policy.decide(action).decision) for action in actions]


def without_unknown_tools(said: dict[str, Any]) -> dict[str, Any]:
    """Leave out a tool that nobody defines: it would be an error of the user's own."""
    said.get("tools", said.get("conversation", {}).get("tools", {})).pop("u", None)
    return said


TRUSTED = st.tuples(
    st.builds(lambda said: [layer(USER, said)], tree(named=True)),
    st.builds(
        lambda session, managed: [layer(SESSION, session), *([layer(MANAGED, managed)] if managed else [])],
        tree(named=False, whole=False).map(without_unknown_tools),
        st.none() | tree(named=False).map(without_unknown_tools),
    ),
)


@pytest.mark.long
@settings(max_examples=amounts.of(400, 60), deadline=None)
@given(
    own=TRUSTED,
    strangers=st.lists(tree(named=False), min_size=1, max_size=2),
    actions=st.lists(ACTIONS, min_size=1, max_size=12),
)
def test_no_untrusted_layer_whatever_it_says_ever_loosens_an_answer(
    furnished: Scene,
    own: tuple[list[Layer], list[Layer]],
    strangers: list[dict[str, Any]],
    actions: list[dict[str, Any]],
) -> None:
    first, last = own
    among = [layer(name, said, trusted=False) for name, said in zip((PROJECT, LOCAL), strangers, strict=False)]
    before = answers(furnished, [*first, *last], actions)
    assume(NO_ANSWER not in before)
    for count in range(1, len(among) + 1):
        after = answers(furnished, [*first, *among[:count], *last], actions)
        assert [one <= other for one, other in zip(before, after, strict=True)] == [True] * len(actions)
        before = after


@pytest.mark.long
@settings(max_examples=amounts.of(200, 50), deadline=None)
@given(own=tree(named=True), stranger=tree(named=False))
def test_no_untrusted_layer_changes_what_runs_or_how(
    furnished: Scene, own: dict[str, Any], stranger: dict[str, Any]
) -> None:
    workspace = furnished.workspace
    layers = [layer(USER, own), layer(PROJECT, stranger, trusted=False)]
    try:
        without, with_ = workspace.compile(layers[:1]), workspace.compile(layers)
    except ConfigErrors:
        assume(condition=False)
    assert {name: tool.settings for name, tool in with_.tools.items()} == {
        name: tool.settings for name, tool in without.tools.items()
    }
    assert (with_.settings, with_.policy.strict_links) == (without.settings, without.policy.strict_links)


# What a managed layer denies stays denied, whatever weaker layers say.

EVERY_GRANT: dict[str, Any] = {
    "fs": [{"path": ".", **dict.fromkeys(CAPABILITIES, True)}, {"path": ".envrc", "write": True}],
    "net": [{"host": host, "private": True, "allow": True, **more} for host in HOSTS for more in ({}, {"port": 8443})],
    "env": [{"name": "*", "read": True}],
    "commands": {program: {} for program in PROGRAMS},
}
DENIALS = some(
    fs=st.lists(st.builds(lambda path: {"path": path}, st.sampled_from(["src", "src/gen", "link", "new"])), max_size=3),
    net=st.lists(NET_RULES.map(lambda rule: {**rule, "allow": False}), max_size=3),
    env=st.lists(ENV_RULES.map(lambda rule: {**rule, "read": False}), max_size=3),
    commands=COMMANDS,
)


ANY_ARGUMENTS = {"args": {"strategy": "replace", "value": [["**"]]}}
WAYS_ROUND = st.fixed_dictionaries(
    {
        "fs": st.lists(FS_RULES.map(lambda rule: {**rule, **dict.fromkeys(CAPABILITIES, True)}), max_size=4),
        "net": st.lists(NET_RULES.map(lambda rule: {**rule, "allow": True, "private": True}), max_size=4),
        "env": st.lists(ENV_RULES.map(lambda rule: {**rule, "read": True}), max_size=4),
        "commands": st.just(dict.fromkeys(PROGRAMS, ANY_ARGUMENTS)),
    }
)


@pytest.mark.long
@settings(max_examples=amounts.of(300, 50), deadline=None)
@given(denials=DENIALS, more=WAYS_ROUND, actions=st.lists(ACTIONS, min_size=1, max_size=12))
def test_no_weaker_layer_whatever_it_says_goes_round_a_managed_deny(
    furnished: Scene, denials: dict[str, Any], more: dict[str, Any], actions: list[dict[str, Any]]
) -> None:
    generous = layer(USER, {"tools": {"t": {"source": "local", "access": EVERY_GRANT}}})
    inventive = layer(SESSION, {"tools": {"t": {"access": more}}})
    managed = layer(MANAGED, {"tools": {"t": {"access": denials}}})
    free, denied, still = [
        answers(furnished, layers, actions)
        for layers in ([generous], [generous, managed], [generous, inventive, managed])
    ]
    for one, other, now in zip(free, denied, still, strict=True):
        assert now >= Decision.DENY or not (one == Decision.ALLOW and other == Decision.DENY)


# What trust is, and when it ends.


def test_an_untrusted_file_tightens_and_a_trusted_one_grants(scene: Scene) -> None:
    scene.say("user", TOOL + '[[tools.t.access.fs]]\npath = "."\nread = true\n')
    scene.say("project", DENY + '[[tools.t.access.fs]]\npath = "out"\nwrite = true\n')
    untrusted = [scene.decision("read", path="src/x"), scene.decision("create", path="out/x")]
    scene.trust()
    assert untrusted == ["deny", "deny"]
    assert [scene.decision("read", path="src/x"), scene.decision("create", path="out/x")] == ["deny", "allow"]


def test_trust_is_remembered_for_exactly_this_content(scene: Scene) -> None:
    scene.say("project", TOOL + GRANT)
    scene.trust()
    states = [trusted(scene)]
    for text in (TOOL + GRANT + " ", TOOL + GRANT):
        scene.say("project", text)
        states.append(trusted(scene))
    assert states == [[True], [False], [True]]


def test_a_file_is_trusted_by_its_place_too(scene: Scene, tmp_path: Path) -> None:
    scene.say("project", TOOL)
    scene.trust()
    scene.say("project-local", TOOL)
    (tmp_path / "other").mkdir()
    other = Scene(tmp_path / "other", scene.home, scene.managed)
    other.say("project", TOOL)
    assert (trusted(scene), trusted(other)) == ([True, False], [False])


def test_trust_can_be_taken_back(scene: Scene) -> None:
    scene.say("project", TOOL)
    scene.trust()
    taken = [scene.workspace.approvals.untrust("byleave.toml") for _ in range(2)]
    assert (taken, trusted(scene)) == ([True, False], [False])


def test_trust_that_was_taken_back_ends_in_a_running_program_at_its_next_compile(scene: Scene) -> None:
    scene.say("project", TOOL + '[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    scene.trust()
    policy = scene.load()
    action = {"kind": "read", "path": "src/x", "tool": "t"}
    before = policy.decide(action).decision.word
    scene.workspace.approvals.untrust("byleave.toml")
    (scene.root / "elsewhere").mkdir()
    (scene.root / "src").symlink_to("elsewhere")
    policy.expire()
    with pytest.raises(InputError, match="no tool named"):
        policy.decide(action)
    assert before == "allow"


COMMANDS_OF_A_SCRIPT = [
    '["./run.sh"]',
    '["sh", "run.sh"]',
    '["sh", "sub/../run.sh"]',
    '"sh run.sh --fast"',
    '["tool", "--script=run.sh"]',
    '["env", "SCRIPT=./run.sh", "tool"]',
    '["bash", "-c", "cd . && exec ./run.sh --x"]',
    '["bash", "-c", "a=$(./run.sh); echo $a"]',
    '["sh", "linked.sh"]',
    '["$ROOT/run.sh"]',
]


@pytest.mark.parametrize("command", COMMANDS_OF_A_SCRIPT)
def test_a_changed_script_ends_the_trust_in_the_file_that_runs_it(command: str, scene: Scene) -> None:
    script = scene.root / "run.sh"
    script.write_text("echo 1")
    (scene.root / "sub").mkdir()
    (scene.root / "linked.sh").symlink_to("run.sh")
    scene.say("project", f"{TOOL}command = {command.replace('$ROOT', str(scene.root))}\n")
    scene.trust()
    before = trusted(scene)
    script.write_text("echo 2")
    assert (before, trusted(scene)) == ([True], [False])


def appears(scene: Scene) -> None:
    (scene.root / "later").write_text("echo")


def vanishes(scene: Scene) -> None:
    (scene.root / "run.sh").unlink()


def leads_elsewhere(scene: Scene) -> None:
    (scene.root / "outside").unlink()
    (scene.root / "outside").symlink_to("/bin/sh")


def becomes_a_link_out(scene: Scene) -> None:
    (scene.root / "run.sh").unlink()
    (scene.root / "run.sh").symlink_to("/bin/sh")


def becomes_a_fifo(scene: Scene) -> None:
    (scene.root / "run.sh").unlink()
    os.mkfifo(scene.root / "run.sh")


@pytest.mark.parametrize("change", [appears, vanishes, leads_elsewhere, becomes_a_link_out, becomes_a_fifo])
def test_trust_ends_when_a_word_of_a_command_means_something_else(
    change: Callable[[Scene], None], scene: Scene
) -> None:
    (scene.root / "run.sh").write_text("echo 1")
    (scene.root / "outside").symlink_to("/bin/true")
    scene.say("project", f'{TOOL}command = ["./run.sh", "outside", "later"]\n')
    scene.trust()
    before = trusted(scene)
    change(scene)
    assert (before, trusted(scene)) == ([True], [False])


def unreadable_name(scene: Scene) -> str:
    (scene.root / "aux.sh").write_text("echo")
    return "aux.sh"


def colon(scene: Scene) -> str:
    (scene.root / "a:b").write_text("echo")
    return "./a:b"


def fifo(scene: Scene) -> str:
    os.mkfifo(scene.root / "fifo")
    return "fifo"


def endless(scene: Scene) -> str:
    with (scene.root / "endless").open("wb") as file:
        file.truncate(1 << 40)
    return "endless"


@pytest.mark.long
@pytest.mark.parametrize("make", [unreadable_name, colon, fifo, endless])
def test_what_cannot_be_read_whole_cannot_be_trusted(make: Callable[[Scene], str], scene: Scene) -> None:
    word = make(scene)
    scene.say("project", f'{TOOL}command = ["sh", "{word}"]\n')
    with pytest.raises(StateError, match="cannot be read whole"):
        scene.trust()
    assert trusted(scene) == [False]


def test_a_stranger_s_file_does_not_make_us_read_what_it_names(scene: Scene) -> None:
    endless(scene)
    scene.say("project", f"{TOOL}command = {json.dumps(['endless'] * 1000)}\n")
    started = time.process_time()
    assert trusted(scene) == [False]
    assert time.process_time() - started < 10


SWAP = """
import os, sys
good, evil, target = sys.argv[1:]
print("ready", flush=True)
while True:
    for source in (good, evil):
        if source == evil:
            os.symlink(source, target + ".new")
        else:
            os.link(source, target + ".new")
        os.replace(target + ".new", target)
"""


@pytest.mark.long
def test_what_is_trusted_is_what_is_used_however_fast_the_file_is_swapped(scene: Scene) -> None:
    scene.say("project", TOOL)
    scene.trust()
    (scene.root / "good").write_text(TOOL)
    (scene.root / "evil").write_text(TOOL.replace("tools.t", "tools.evil"))
    swapper = subprocess.Popen(
        [sys.executable, "-c", SWAP, scene.root / "good", "evil", scene.root / "byleave.toml"], stdout=subprocess.PIPE
    )
    assert swapper.stdout is not None
    swapper.stdout.readline()
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    deadline = time.monotonic() + 60
    loads = 0
    while (loads < 300 or not (seen[True] and seen[False])) and time.monotonic() < deadline:
        loads += 1
        try:
            (layer,) = scene.load().compiled.layers
        except ConfigErrors:  # caught in the act: the link stood there when it was opened
            continue
        seen[layer.trusted] |= set(layer.tree["tools"])
    swapper.kill()
    swapper.communicate()
    assert seen == {True: {"t"}, False: {"evil"}}


# What an untrusted file is told, and what it cannot do.


def test_tools_of_an_untrusted_file_are_not_there(scene: Scene) -> None:
    scene.say("project", TOOL + GRANT)
    with pytest.raises(InputError, match='no tool named "t" is configured'):
        scene.decide("read", path="src/x")


def test_an_untrusted_file_is_warned_about_once_and_clearly(scene: Scene) -> None:
    scene.say("user", TOOL + '[[tools.t.access.net]]\nhost = "a.example"\npath_prefix = "x"\nallow = true\n')
    scene.say("project", "[tools.evil]\nsource = 'local'\n" + DENY)
    scene.say("project-local", "strict_links = true")
    file, ending = "byleave.toml", "is not trusted yet: it can only tighten, and its"
    assert scene.load().warnings == (
        f'{scene.file("user")}:3: path_prefix "x" is read as "/x"',
        f"{file} {ending} tools (evil) and other settings are ignored; see `byleave trust {file}`",
        f".byleave/local.toml {ending} settings are ignored; see `byleave trust .byleave/local.toml`",
    )


def test_a_user_s_grant_for_a_tool_of_an_untrusted_file_waits_for_its_trust(scene: Scene) -> None:
    scene.say("user", GRANT)
    scene.say("project", TOOL)
    warning = "the tool t is not available until its project file is trusted"
    before = scene.load()
    scene.trust()
    assert warning in before.warnings
    assert (list(before.compiled.tools), scene.decision("read", path="src/x")) == ([], "allow")


def test_a_long_name_in_an_untrusted_file_does_not_flood_the_warning(scene: Scene) -> None:
    scene.say("project", f"[tools.{'x' * 100_000}]\nsource = 'local'")
    assert max(map(len, scene.load().warnings)) < 1000


def test_control_characters_of_an_untrusted_file_do_not_reach_the_terminal(scene: Scene) -> None:
    scene.say("user", TOOL)
    scene.say("project", '[tools."\\u001b[2J"]\nsource = "local"\n' + '[[tools.t.access.fs]]\npath = "a\\u202eb"\n')
    policy = scene.load()
    verdict = policy.decide({"kind": "read", "path": "a\u202eb/c", "tool": "t"})
    shown = "".join([*policy.warnings, verdict.reason, *(ref.rule for ref in verdict.because)])
    assert "\x1b" not in shown
    assert "\u202e" not in shown


OWN = TOOL + 'runtime = "vfs"\n[[tools.t.access.fs]]\npath = "."\nread = true\n'
LOOSENING = {
    "replaces the lists": '[tools.t.access]\nfs = {strategy = "replace", value = []}',
    "puts itself in front": '[tools.t.access]\nfs = {strategy = "prepend", value = [{path = ".", write = true}]}',
    "changes the runtime": '[tools.t]\nruntime = "stdio"',
    "redefines the tool": TOOL + "runtime = 'stdio'\ncommand = 'evil'",
    "switches the sandbox off": "[defaults]\nos_sandbox = 'off'",
    "uses the older spelling": '[tools.t.sandbox.filesystem]\nwritable = ["."]',
    "names a longer path": '[[tools.t.access.fs]]\npath = "src/x"\nwrite = true\nread = true',
    "spells conversation": '[[conversation.tools.t.access.fs]]\npath = "src/x"\nwrite = true',
}


@pytest.mark.parametrize("text", LOOSENING.values(), ids=LOOSENING.keys())
def test_an_untrusted_file_gains_nothing_when_it(text: str, scene: Scene) -> None:
    scene.say("user", OWN)
    scene.say("project", text)
    questions: list[tuple[str, dict[str, Any]]] = [
        ("create", {"path": "src/x"}),
        ("url", {"url": "https://a.example/"}),
        ("env", {"name": "PATH"}),
    ]
    for kind, fields in questions:
        try:
            decision = scene.decision(kind, **fields)
        except ConfigErrors:
            continue
        assert decision != "allow"


def test_an_untrusted_file_does_not_switch_a_tool_off_or_on(scene: Scene) -> None:
    scene.say("user", TOOL + "enable = true\n[tools.u]\nsource = 'local'\nenable = false")
    scene.say("project", "[tools.t]\nenable = false\n[tools.u]\nenable = true")
    assert [scene.decision("read", path="x", tool=tool) for tool in "tu"] == ["allow", "deny"]


# What a policy was read from is never a tool's to write.

EVERYTHING = '[[tools.t.access.fs]]\npath = "."\nread = true\nwrite = true\n'


def test_a_project_file_behind_a_link_is_guarded_where_it_really_is(scene: Scene) -> None:
    (scene.root / "conf").mkdir()
    (scene.root / ".byleave").mkdir()
    for name, target in ((".byleave/config.toml", "main"), (".byleave/local.toml", "mine")):
        (scene.root / "conf" / target).write_text(TOOL + EVERYTHING)
        (scene.root / name).symlink_to(f"../conf/{target}")
        scene.trust(name)
    places = ["conf/main", "conf/mine", "conf/other"]
    assert [scene.decision("update", path=place) for place in places] == ["deny", "deny", "allow"]


def test_a_file_given_on_the_command_line_is_guarded(scene: Scene) -> None:
    (scene.root / "policies").mkdir()
    given = scene.root / "policies/dev.toml"
    given.write_text(TOOL + EVERYTHING)
    acts: list[tuple[str, dict[str, Any]]] = [
        ("update", {"path": "policies/dev.toml"}),
        ("delete", {"path": "policies"}),
        ("move", {"path": "policies", "to": "old"}),
        ("update", {"path": "policies/other.toml"}),
    ]
    decisions = [scene.decision(kind, files=(given,), **fields) for kind, fields in acts]
    assert decisions == ["deny", "deny", "deny", "allow"]


def test_what_the_user_s_configuration_links_to_is_guarded(scene: Scene) -> None:
    (scene.root / "dotfile").write_text(TOOL + EVERYTHING)
    (scene.root / "dotfile").chmod(0o600)
    (scene.home / "config.toml").symlink_to(scene.root / "dotfile")
    assert [scene.decision("update", path=path) for path in ("dotfile", "other")] == ["deny", "allow"]


def test_a_script_that_fails_while_it_is_read_counts_as_unread(scene: Scene) -> None:
    """The memory of a process is a plain file, whose first bytes nobody can read."""
    workspace = scene.workspace
    trust = ProjectTrust(Root.at(f"/proc/{os.getpid()}"), workspace.approvals)
    tree = parse_tree({"tools": {"t": {"source": "local", "command": ["./mem", "./comm"]}}})
    scripts = dict(trust.fingerprint("byleave.toml", b"", tree).scripts)
    assert scripts["mem"] == UNREAD
    assert scripts["comm"] == digest(Path(f"/proc/{os.getpid()}/comm").read_bytes())
