"""What `byleave acp --setup` prints: what an editor needs, and nothing else."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.acp.editor_setup import EDITORS, EXAMPLE, agent_name, hook_of, setup_for
from byleave.cli import commands
from command import byleave
from fakes.acp_conversation import conversation

BYLEAVE = ["/opt/byleave", "acp"]
ODD = ["/opt/my agent/run", 'quo"te', "back\\slash", "new\nline", "$HOME", "päper"]
COMMAND = [*BYLEAVE, "--", *ODD]


def text_for(editor: str, agent: list[str]) -> str:
    return setup_for(editor, BYLEAVE, agent).text


def entry_in(text: str) -> Any:
    """Return the only entry of the only table, as editors with JSON settings have them."""
    ((_table, entries),) = json.loads(text).items()
    ((_name, entry),) = entries.items()
    return entry


def test_the_command_line_knows_every_editor() -> None:
    assert tuple(EDITORS) == commands.EDITORS


@pytest.mark.parametrize("editor", ["zed", "jetbrains", "acpx"])
def test_settings_in_json_name_the_command_and_its_arguments(editor: str) -> None:
    entry = entry_in(text_for(editor, ODD))
    assert [entry["command"], *entry["args"]] == COMMAND
    assert ("type" in entry) == (editor == "zed")


def test_a_shell_and_then_toad_find_the_command_as_it_is() -> None:
    program, verb, command, place = shlex.split(text_for("toad", ODD))
    assert (program, verb, place) == ("toad", "acp", ".")
    assert shlex.split(command) == COMMAND


def test_lua_and_lisp_hold_every_word_as_a_string() -> None:
    lua = text_for("neovim", ODD)
    assert '"quo\\"te", "back\\\\slash", "new\\010line", "$HOME", "päper" }' in lua
    assert lua.count("{") == lua.count("}")
    assert lua.count("(") == lua.count(")")
    lisp = text_for("emacs", ODD)
    assert lisp.endswith('"--" "/opt/my agent/run" "quo\\"te" "back\\\\slash" "new\\012line" "$HOME" "päper"))')


PLUG_INS = {
    "claude-agent-acp": ("claude_code", "agent-shell-anthropic-claude-acp-command"),
    "gemini": ("gemini_cli", "agent-shell-google-gemini-acp-command"),
    "codex-acp": ("codex", "agent-shell-openai-codex-acp-command"),
    "opencode": ("opencode", "agent-shell-opencode-acp-command"),
    "something-else": ("claude_code", "agent-shell-anthropic-claude-acp-command"),
}


@pytest.mark.parametrize(("agent", "names"), PLUG_INS.items(), ids=PLUG_INS.keys())
def test_plug_ins_that_know_an_agent_are_told_by_the_name_they_have_for_it(agent: str, names: tuple[str, str]) -> None:
    assert f'.extend("{names[0]}", ' in text_for("neovim", [agent, "acp"])
    assert f"(setq {names[1]}\n" in text_for("emacs", [agent, "acp"])


NAMES = {
    "gemini --experimental-acp": "gemini",
    "npx -y @agentclientprotocol/claude-agent-acp@1.2.3": "claude-agent-acp",
    "/usr/bin/python3 -I /opt/agents/mine.py --x": "mine",
    "node": "node",
    "vibe-acp": "vibe-acp",
    "--odd": "--odd",
    "@": "agent",
}


@pytest.mark.parametrize(("line", "name"), NAMES.items(), ids=NAMES.keys())
def test_an_agent_is_called_what_people_call_it(line: str, name: str) -> None:
    assert agent_name(line.split()) == name


def test_without_an_agent_there_is_an_example() -> None:
    assert entry_in(text_for("zed", []))["args"][-len(EXAMPLE) :] == list(EXAMPLE)


def test_what_is_printed_starts_this_byleave_with_the_same_flags(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("")
    flags = ["--strict", "--agent-profile", "bot", "--policy", "p.toml", "--log", "l"]
    done = byleave("acp", "-q", *flags, "--setup", "zed", "--", "cat", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    entry = entry_in(done.out)
    command = [entry["command"], *entry["args"]]
    files = ["--policy", f"{tmp_path}/p.toml", "--log", f"{tmp_path}/l"]
    assert command == [
        *(sys.executable, "-P", "-m", "byleave", "acp"),
        *("--strict", "--agent-profile", "bot", *files, "--", "cat"),
    ]
    with conversation(command, tmp_path, through=()) as talk:
        talk.send(b"hello\n")
        assert talk.ends() == (0, b"hello\n", b"")


def test_where_it_belongs_is_said_apart() -> None:
    done = byleave("acp", "--setup", "jetbrains", "--", "goose", "acp")
    assert done.err == "byleave: for ~/.jetbrains/acp.json (in the menu of AI Chat: Add Custom Agent)\n"
    assert entry_in(done.out)["args"][-3:] == ["--", "goose", "acp"]


def test_an_unknown_editor_is_an_error_that_lists_those_there_are() -> None:
    done = byleave("acp", "--setup", "ed")
    assert (done.code, done.out) == (2, "")
    assert "zed, jetbrains, neovim, emacs, toad and acpx" in done.err


def test_no_module_of_the_workspace_is_loaded(tmp_path: Path) -> None:
    for name in ("msgspec", "select", "byleave_evil"):
        (tmp_path / f"{name}.py").write_text("print('the workspace runs in byleave')\n")
    done = byleave("acp", "--", "cat", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_home_is_not_taken_for_the_workspace_of_a_sandbox(tmp_path: Path) -> None:
    for place in (tmp_path / "home", tmp_path):
        (tmp_path / "home").mkdir(exist_ok=True)
        done = byleave("acp", "--sandbox", "--", "cat", cwd=place, env={"HOME": str(tmp_path / "home")})
        assert (done.code, done.out) == (2, "")
        assert "--root DIR" in done.err


@pytest.mark.parametrize(
    ("words", "hook"),
    [
        (["claude-agent-acp"], "claude-code"),
        (["npx", "-y", "@agentclientprotocol/claude-agent-acp@1"], "claude-code"),
        (["/opt/bin/codex-acp"], "codex"),
        (["gemini", "--acp"], "gemini"),
        (["opencode", "acp"], "opencode"),
        (["qwen", "--acp"], "qwen"),
        (["goose", "acp"], None),
        (["sh", "-c", "agent"], None),
    ],
)
def test_the_hook_that_belongs_beside_the_proxy_is_known_by_the_agents_command(
    words: list[str], hook: str | None
) -> None:
    assert hook_of(words) == hook
    advice = setup_for("zed", BYLEAVE, words).advice
    assert (f"{hook} " in advice and "its own hook does: use both" in advice) is (hook is not None)


def test_with_yes_the_hook_is_installed_beside_what_is_printed_and_the_second_time_it_is_there(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "BYLEAVE_HOME": str(tmp_path / "state")}
    words = ("acp", "--root", str(tmp_path), "--setup", "zed", "--", "gemini", "--acp")
    plain = byleave(*words, env=home)
    assert (plain.code, "agent_servers" in plain.out) == (0, True)
    assert not (tmp_path / ".gemini").exists()
    done = byleave(*words[:5], "--yes", *words[5:], env=home)
    assert (done.code, done.out) == (0, plain.out)
    assert "byleave/hooks/__main__.py" in (tmp_path / ".gemini" / "settings.json").read_text()
    again = byleave(*words, env=home)
    assert (again.out, "the hook of gemini is installed" in again.err) == (plain.out, True)


def test_the_hook_is_recommended_once_and_not_where_it_is_installed(tmp_path: Path, own_home: Path) -> None:
    words = ("acp", "--setup", "zed", "--", "claude-agent-acp")
    assert byleave(*words, cwd=tmp_path).err.count("byleave hook --install claude-code") == 1
    assert byleave("hook", "--install", "claude-code", "--yes", cwd=tmp_path).code == 0
    said = byleave(*words, cwd=tmp_path).err
    assert "the hook of claude-code is installed in" in said
    assert "hook --install" not in said
