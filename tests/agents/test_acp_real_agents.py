"""Real agents through the real proxy: what the policy allows is done, what it denies is not, and the rest is asked.

The editor is ours, the model is scripted, and everything else is what people run.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.acp_editor import Decide, Editor, always, cancelled, cancelled_in_silence, driving, lay_out, no, yes
from agents.real_agents import AGENTS, PLACE, NotInstalledError, installed
from sandbox.machine import needs_sandbox

NEEDED = ("gemini", "claude")  # the others are driven where they can be installed
POLICY = """
[[rules]]
allow = { command = "touch" }
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
"""


@pytest.fixture(scope="module", params=sorted(AGENTS))
def editor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model_url: str
) -> Iterator[Editor]:
    """An editor that has started one of the agents."""
    agent = AGENTS[request.param]
    try:
        installed(agent)
    except NotInstalledError as error:
        if agent.name in NEEDED:
            raise
        pytest.skip(str(error))
    base = tmp_path_factory.mktemp(agent.name).resolve()
    lay_out(base, POLICY)
    with driving(agent, base, model_url) as started:
        yield started


def is_about(editor: Editor, command: str, decision: str) -> None:
    """Make sure that the last request was judged as this command in the workspace."""
    last = editor.judged()[-1]
    assert last["action"] == {"kind": "command", "command": command, "cwd": str(editor.root)}
    assert (last["understood"], last["verdict"]["decision"]) == (True, decision)


def test_what_is_allowed_is_done_without_a_question(editor: Editor) -> None:
    turn = editor.prompt(editor.open(), editor.agent.runs("touch made"))
    assert (turn.asked, turn.stopped) == ([], "end_turn")
    assert (editor.root / "made").exists()
    is_about(editor, "touch made", "allow")


def test_what_is_denied_is_not_done_and_the_agent_goes_on(editor: Editor) -> None:
    session = editor.open()
    command = f"rm -rf {editor.out}"
    turn = editor.prompt(session, editor.agent.runs(command))
    assert turn.asked == []
    assert (editor.out / "precious").exists()
    is_about(editor, command, "deny")
    turn = editor.prompt(session, editor.agent.runs("touch after"))
    assert (turn.asked, turn.stopped, (editor.root / "after").exists()) == ([], "end_turn", True)


@pytest.mark.parametrize(
    "command", ["rm -rf $OUT\ntrue", "rm -rf $OUT; echo 'x' \"$HOME\"", "true && \\\n  rm -rf $OUT ..."]
)
def test_what_is_denied_is_denied_however_it_is_written(editor: Editor, command: str) -> None:
    turn = editor.prompt(editor.open(), editor.agent.runs(command.replace("$OUT", str(editor.out))))
    assert turn.asked == []
    assert (editor.out / "precious").exists()
    assert editor.judged()[-1]["verdict"]["decision"] == "deny"


def test_a_command_that_runs_elsewhere_is_judged_where_it_runs(editor: Editor) -> None:
    (editor.root / "secret").mkdir(exist_ok=True)
    steps = editor.agent.runs("cd secret"), editor.agent.runs("touch there > touched")
    editor.prompt(editor.open(), *steps, decide=yes)
    assert not (editor.root / "secret" / "touched").exists()


@pytest.mark.parametrize(("decide", "done"), [(yes, True), (no, False)])
def test_what_no_rule_speaks_of_is_asked_and_the_answer_holds(editor: Editor, decide: Decide, *, done: bool) -> None:
    command = f"mkdir asked-{done}"
    turn = editor.prompt(editor.open(), editor.agent.runs(command), decide=decide)
    assert len(turn.asked) == 1
    assert (editor.root / f"asked-{done}").exists() == done
    is_about(editor, command, "ask")


def test_an_agent_that_was_told_always_still_asks_and_we_answer(editor: Editor) -> None:
    session = editor.open()
    before = len(editor.judged())
    for number, asked in ((1, 1), (2, 0)):
        turn = editor.prompt(session, editor.agent.runs("mkdir always"), decide=always)
        assert len(turn.asked) == asked
        is_about(editor, "mkdir always", "ask" if asked else "allow")
        assert len(editor.judged()) == before + number
        (editor.root / "always").rmdir()


@pytest.mark.parametrize("decide", [cancelled, cancelled_in_silence])
def test_a_cancelled_turn_ends(editor: Editor, decide: Decide) -> None:
    turn = editor.prompt(editor.open(), editor.agent.runs("mkdir cancelled"), decide=decide)
    assert (len(turn.asked), turn.stopped) == (1, "cancelled")
    assert not (editor.root / "cancelled").exists()


def test_files_are_written_where_the_policy_lets_them_be(editor: Editor) -> None:
    if editor.agent.write is None:
        pytest.skip(f"{editor.agent.name} writes files by commands and patches only")
    session = editor.open()
    kind = "create" if editor.agent.creates else "update"
    for name, asked, done in (("src/a.txt", 0, True), ("secret/b.txt", 0, False), ("c.txt", 1, True)):
        path = editor.root / name
        path.parent.mkdir(exist_ok=True)
        if kind == "update":
            path.write_text("old\n")
        turn = editor.prompt(session, editor.agent.writes(path, "new\n"))
        assert (name, len(turn.asked), path.exists() and path.read_text() == "new\n") == (name, asked, done)
        kinds = {action["kind"] for each in editor.judged() for action in each["actions"] if action.get("path") == name}
        assert (kind if done or kind == "create" else "read") in kinds  # who replaces a file reads it first


def test_a_question_to_the_user_reaches_the_user(editor: Editor) -> None:
    if editor.agent.name != "qwen":
        pytest.skip("only Qwen puts its questions as requests for permission")
    choices = [{"label": label, "description": label} for label in ("one", "two")]
    question = {"question": "Which?", "header": "Which", "options": choices, "multiSelect": False}
    turn = editor.prompt(editor.open(), {"name": "ask_user_question", "args": {"questions": [question]}})
    assert len(turn.asked) == 1


@needs_sandbox
def test_an_agent_in_a_sandbox_does_not_get_out_even_with_a_yes(tmp_path: Path, model_url: str) -> None:
    base, agent = tmp_path.resolve(), AGENTS["claude"]
    lay_out(base, f'{POLICY}\n[sandbox]\nread = ["{PLACE}"]\n')
    own = {"CLAUDE_CONFIG_DIR": str(base / "ws" / "settings")}  # its home is not there
    names = "".join(f'[[access.env]]\nname = "{name}"\nread = true\n' for name in (*agent.env, *own))
    (base / "access.toml").write_text(ACCESS.format(port=model_url.rpartition(":")[2]) + names)
    with driving(agent, base, model_url, "--sandbox", "--access", str(base / "access.toml"), env=own) as editor:
        steps = agent.runs("touch made"), agent.runs(f"cat {editor.out}/precious > copied")
        turn = editor.prompt(editor.open(), *steps)
        assert (len(turn.asked), turn.stopped) == (1, "end_turn")
    assert (base / "ws" / "made").exists()
    assert (base / "ws" / "copied").read_text() == ""


ACCESS = """
[[access.fs]]
path = "."
read = true
write = true
execute = true

[[access.net]]
host = "127.0.0.1"
port = {port}
allow = true

"""
