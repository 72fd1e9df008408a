"""Whatever goes wrong in a hook blocks the call: exit code 2, a reason on standard error, and no answer."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from byleave.hooks.agents import AGENTS
from byleave.hooks.event_reader import LARGEST
from command import at_terminal, byleave
from hooks.hook_scene import ENTRY, PATIENCE, SOURCE, HookScene, claude


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path)


def good_event(root: Path) -> bytes:
    return json.dumps(claude("Bash", {"command": "touch allowed"}, root)).encode()


UNREADABLE = {
    "nothing": (b"", "there is no event on standard input"),
    "blanks": (b" \n\t ", "there is no event on standard input"),
    "no JSON": (b"rm -rf /", "the event is not JSON"),
    "half of it": (b'{"hook_event_name": "PreToolUse", "tool_', "the event is not JSON"),
    "a list": (b"[1]", "the event is not one JSON object"),
    "two objects": (b"{} {}", "the event is not one JSON object"),
    "not UTF-8": (b'{"a": "\xff"}', "the event is not UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "the event is not JSON"),
    "a control character": (b'{"a": "\x01"}', "the event is not JSON"),
    "NaN": (b'{"hook_event_name": NaN}', "the event holds NaN, which is no JSON"),
    "too deep": (b'{"a":' + b"[" * 100_000, "the event is nested too deeply"),
    "a name twice": (b'{"hook_event_name": "PreToolUse", "hook_event_name": "Stop"}', "the event gives a name twice"),
    "a name twice, deep inside": (
        b'{"hook_event_name": "PreToolUse", "tool_input": {"command": "ls", "command": "rm"}}',
        "the event gives a name twice",
    ),
    "no event name": (b"{}", "the event has no hook_event_name"),
    "an event name of another type": (b'{"hook_event_name": 1}', "the event has no hook_event_name"),
    "nearly the name": (b'{"hook_event_name": "pretooluse"}', "is nearly one that byleave decides"),
    "no tool": (b'{"hook_event_name": "PreToolUse", "tool_input": {}}', "the event has no tool_name"),
    "no input": (b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}', "has no tool_input"),
    "an input that is text": (
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": "ls"}',
        "has no tool_input, or it is no object",
    ),
    "a directory that is gone": (
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "cwd": "/no/where"}',
        "the agent's directory is not there",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", UNREADABLE)
def test_an_event_that_cannot_be_read_blocks(case: str, scene: HookScene) -> None:
    feed, reason = UNREADABLE[case]
    done = scene.runs("claude-code", feed=feed)
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_a_person_who_starts_the_hook_at_a_terminal_learns_at_once_how_it_is_installed(tmp_path: Path) -> None:
    with at_terminal("hook", "claude-code", cwd=tmp_path) as terminal:
        assert terminal.ends() == 2
    assert "the call is blocked: standard input is a terminal" in terminal.seen
    assert "byleave hook --install AGENT" in terminal.seen


@pytest.mark.sampled(2)
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_is_blocked_in_the_same_way(agent: str, scene: HookScene) -> None:
    done = scene.runs(agent, feed=b"nonsense")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"byleave: the call is blocked: the event is not JSON\n"


def test_an_event_that_is_too_large_blocks(scene: HookScene) -> None:
    done = scene.runs("claude-code", feed=b'{"a": "' + b"x" * LARGEST + b'"}')
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"larger than 32 MB" in done.stderr


def test_a_configuration_that_cannot_be_used_blocks(scene: HookScene) -> None:
    (scene.home / ".config/byleave/config.toml").write_text("[[rules]]\nmaybe = 1\n")
    done = scene.runs("claude-code", feed=good_event(scene.root))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the configuration cannot be used" in done.stderr


def test_state_that_others_can_write_blocks(scene: HookScene) -> None:
    (scene.home / ".config/byleave").chmod(0o777)
    done = scene.runs("claude-code", feed=good_event(scene.root))
    assert (done.returncode, done.stdout) == (2, b"")


def test_what_cannot_be_recorded_is_not_allowed(scene: HookScene) -> None:
    assert scene.runs("claude-code", feed=good_event(scene.root)).returncode == 0
    (place,) = (scene.home / ".local/state/byleave/workspaces").iterdir()
    (place / "audit.journal").unlink(missing_ok=True)
    (place / "audit.journal").mkdir()
    done = scene.runs("claude-code", feed=good_event(scene.root))
    assert b'"allow"' not in done.stdout


WRONG_WORDS = (
    ("claude-code", "--home"),
    ("claude-code", "--unknown", "x"),
    ("claude-code", "--home", "relative"),
    ("nobody",),
    (),
)


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_a_command_line_that_is_not_ours_blocks(words: tuple[str, ...], scene: HookScene) -> None:
    done = scene.runs(*words, feed=good_event(scene.root), home=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"byleave: the call is blocked")


@pytest.mark.parametrize("words", [("nobody",), ("claude-code", "--frob"), ("claude-code", "codex"), ()])
def test_the_command_for_people_blocks_as_well(words: tuple[str, ...], scene: HookScene) -> None:
    done = byleave("hook", *words, feed=good_event(scene.root))
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_the_command_for_people_answers_like_the_installed_one(scene: HookScene) -> None:
    done = byleave("hook", "claude-code", "--home", str(scene.home), feed=good_event(scene.root))
    assert (done.code, done.err) == (0, "")
    assert done.out.encode() == scene.runs("claude-code", feed=good_event(scene.root)).stdout


def run_code(
    code: str, scene: HookScene, *, feed: bytes | None = None, stdin: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run some code in place of the entrance; `HOOK` in it is our hook."""
    made = f"Hook('claude-code', {str(scene.home)!r})"
    before = (
        f"import sys; sys.path[:0] = [{str(SOURCE)!r}]; from byleave.hooks.hook import *; import byleave.hooks.hook"
    )
    return subprocess.run(
        [sys.executable, "-I", "-c", f"{before}\n{code.replace('HOOK', made)}"],
        input=feed,
        stdin=stdin,
        capture_output=True,
        timeout=PATIENCE,
        cwd=scene.root,
        check=False,
    )


@pytest.mark.parametrize("error", ["ZeroDivisionError()", "KeyboardInterrupt()", "SystemExit(0)", "MemoryError()"])
def test_a_defect_of_ours_blocks(error: str, scene: HookScene) -> None:
    code = f"def fail(*_): raise {error}\nbyleave.hooks.hook.respond = fail\nserve(HOOK)"
    done = run_code(code, scene, feed=good_event(scene.root))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the call is blocked by an internal error" in done.stderr


def test_input_that_never_ends_blocks_when_the_time_is_up(scene: HookScene) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, good_event(scene.root))
        done = run_code("serve(HOOK, limit=0.3)", scene, stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"byleave: the call is blocked: no answer within 0.3 seconds\n"


def test_a_lock_that_somebody_holds_blocks_when_the_time_is_up(scene: HookScene) -> None:
    import fcntl

    scene.runs("claude-code", feed=good_event(scene.root))
    (place,) = (scene.home / ".local/state/byleave/workspaces").iterdir()
    with open(place / "audit.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_code("serve(HOOK, limit=1.0)", scene, feed=good_event(scene.root))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no answer within 1 seconds" in done.stderr


def test_our_time_is_up_before_that_of_the_agents() -> None:
    from byleave.hooks.hook import TIME_LIMIT
    from byleave.hooks.snippets import PATIENCE as WAITED

    assert TIME_LIMIT * 2 < WAITED


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("start", [("-I", str(ENTRY)), ("-m", "byleave")], ids=["installed", "for people"])
def test_a_closed_stream_never_makes_a_yes(closed: int, start: tuple[str, ...], scene: HookScene) -> None:
    argv = [sys.executable, *start, "hook", "claude-code", "--home", str(scene.home)]
    script = 'exec "$@" ' + f"{closed}{'<' if closed == 0 else '>'}&-"
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *argv],
        input=good_event(scene.root),
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        cwd=scene.root,
    )
    expected = {0: (2, b""), 1: (2, b""), 2: (0, None)}[closed]
    assert done.returncode == expected[0]
    if expected[1] is not None:
        assert done.stdout == expected[1]
    for record in scene.records():  # and nothing that was meant for a stream went into a file of ours
        assert record["door"] == "hook"


def test_an_answer_that_nobody_takes_blocks(scene: HookScene) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-I", str(ENTRY), "hook", "claude-code", "--home", str(scene.home)]
    done = subprocess.run(
        argv, input=good_event(scene.root), stdout=writing, stderr=subprocess.PIPE, check=False, timeout=PATIENCE
    )
    os.close(writing)
    assert done.returncode == 2


def moments() -> Iterator[float]:
    yield from (number / 400 for number in range(0, 40, 3))


def test_killed_at_any_point_it_never_makes_a_yes_and_the_records_stay_whole(scene: HookScene) -> None:
    scene.runs("claude-code", feed=good_event(scene.root))
    argv = [sys.executable, "-I", str(ENTRY), "hook", "claude-code", "--home", str(scene.home)]
    answered = 0
    for moment in moments():
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=scene.root)
        assert process.stdin is not None
        process.stdin.write(good_event(scene.root))
        process.stdin.close()
        time.sleep(moment)  # the point is to be killed while at work, wherever that is
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        out = process.stdout.read()
        process.wait(timeout=PATIENCE)
        process.stdout.close()
        answered += process.returncode == 0
        assert out == b"" or json.loads(out)["hookSpecificOutput"]["permissionDecision"] == "allow"
    done = byleave("audit", "verify", "--root", str(scene.root), env={"HOME": str(scene.home), "BYLEAVE_HOME": None})
    assert done.code == 0, done.out + done.err
    allowed = [record for record in scene.records() if record["verdict"]["decision"] == "allow"]
    assert len(allowed) > answered


def test_two_hooks_at_once_both_answer_and_both_record(scene: HookScene) -> None:
    argv = [sys.executable, "-I", str(ENTRY), "hook", "claude-code", "--home", str(scene.home)]
    started = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=scene.root)
        for _ in range(4)
    ]
    outs = [process.communicate(good_event(scene.root), timeout=PATIENCE) for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert all(b'"allow"' in out and not err for out, err in outs)
    assert len(scene.records()) == 4


# What the shell makes of a hook that cannot even say that it failed.
FALLBACKS = {
    "no such program": "/no/such/python -I x",
    "killed": "/bin/sh -c 'kill -9 $$'",
    "failed": "/bin/sh -c 'exit 1'",
    "a signal it did not expect": "/bin/sh -c 'kill -USR1 $$'",
}


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("case", FALLBACKS)
def test_the_shell_that_starts_the_hook_turns_every_failure_into_a_block(case: str, shell: str, tmp_path: Path) -> None:
    from byleave.hooks.snippets import item

    command = item("claude-code", ["XYZ"])["hooks"][0]["command"]
    assert command.startswith("XYZ || ")
    wrapped = FALLBACKS[case] + command.removeprefix("XYZ")
    done = subprocess.run([shell, "-c", wrapped], capture_output=True, check=False, timeout=PATIENCE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"byleave blocks this call: its hook failed." in done.stderr
    assert b"Run byleave doctor, or take the hook out of the settings" in done.stderr
