"""What to put into an editor's settings so that it starts an agent through byleave. Pure text.

Each editor has its own place and form; everything else is the same command line. The forms are those of the editors'
own documentation; docs/acp.md says which of them were tried.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXAMPLE = ("npx", "-y", "@agentclientprotocol/claude-agent-acp")  # where no agent is named
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "sh", "bash"})
_SCRIPTS = frozenset({".py", ".js", ".mjs", ".ts", ".sh"})


class KnownAgent(Struct, frozen=True):
    """An agent that plug-ins know by names of their own."""

    word: str  # in its command line
    codecompanion: str
    agent_shell: str


KNOWN = (
    KnownAgent("claude", "claude_code", "agent-shell-anthropic-claude-acp-command"),
    KnownAgent("gemini", "gemini_cli", "agent-shell-google-gemini-acp-command"),
    KnownAgent("codex", "codex", "agent-shell-openai-codex-acp-command"),
    KnownAgent("opencode", "opencode", "agent-shell-opencode-acp-command"),
    KnownAgent("goose", "goose", "agent-shell-goose-acp-command"),
    KnownAgent("vibe", "mistral_vibe", "agent-shell-mistral-acp-command"),
)


class AgentCommand(Struct, frozen=True):
    """The command line of byleave with its agent, and what that agent is called."""

    command: tuple[str, ...]
    name: str

    @property
    def known(self) -> KnownAgent:
        """What plug-ins call this agent; of one they do not know, what stands in for it."""
        line = " ".join(self.command)
        return next((each for each in KNOWN if each.word in line), KNOWN[0])


class EditorSetup(Struct, frozen=True):
    """Where something belongs, and what that is. `advice` is what is left for the user to do, or to know."""

    place: str
    text: str
    advice: str = ""


def setup_for(editor: str, byleave: Sequence[str], agent: Sequence[str]) -> EditorSetup:
    """Return what this editor needs to start `agent` by the command line `byleave`."""
    words = tuple(agent) or EXAMPLE
    return structs.replace(
        EDITORS[editor](AgentCommand((*byleave, "--", *words), agent_name(words))), advice=_advice(words)
    )


# What a command line of an agent says, and what the hook of that agent is called.
_HOOKED = (
    ("claude", "claude-code"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("opencode", "opencode"),
    ("qwen", "qwen"),
    ("copilot", "copilot"),
    ("cline", "cline"),
    ("cursor", "cursor"),
)


def hook_of(agent: Sequence[str]) -> str | None:
    """Return the agent with a hook that a command line starts, as far as its words show."""
    names = " ".join([os.path.basename(word).lower() for word in agent if not word.startswith("-")] + [*agent[:3]])
    return next((hook for name, hook in _HOOKED if name in names), None)


def _advice(agent: Sequence[str]) -> str:
    """Say what a proxy does not see or confine of an agent that acts by itself, and what does."""
    hook = hook_of(agent)
    if hook is None:
        return ""
    seen = "reads and searches files" if hook == "claude-code" else "runs commands"
    return f"{hook} {seen} without its editor, so byleave acp does not see or confine that; its own hook does: use both"


def agent_name(words: Sequence[str]) -> str:
    """Return what a person would call the agent of a command line, whatever runs it."""
    named = [word for word in words if not word.startswith("-")]
    if len(named) > 1 and os.path.basename(named[0]) in _RUNNERS:
        named = named[1:]
    name, suffix = os.path.splitext(os.path.basename((named or list(words))[0]))
    name = name if suffix in _SCRIPTS else name + suffix
    return name.partition("@")[0] or "agent"


def _zed(agent: AgentCommand) -> EditorSetup:
    entry = {"type": "custom", **_entry(agent), "env": {}}
    return EditorSetup("settings.json of Zed (in the command palette: zed: open settings file)", _servers(agent, entry))


def _jetbrains(agent: AgentCommand) -> EditorSetup:
    entry = {**_entry(agent), "env": {}}
    return EditorSetup("~/.jetbrains/acp.json (in the menu of AI Chat: Add Custom Agent)", _servers(agent, entry))


def _acpx(agent: AgentCommand) -> EditorSetup:
    text = _json({"agents": {agent.name: _entry(agent)}})
    return EditorSetup(f"~/.acpx/config.json; then run: acpx {shlex.quote(agent.name)} exec 'hello'", text)


def _neovim(agent: AgentCommand) -> EditorSetup:
    words = ", ".join([_lua(word) for word in agent.command])
    arguments = ", ".join([_lua(word) for word in agent.command[1:]])
    name = _lua(agent.known.codecompanion)
    text = f"""\
-- CodeCompanion, whose own adapter for the agent knows how to log in
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      [{name}] = function()
        return require("codecompanion.adapters").extend({name}, {{
          commands = {{ default = {{ {words} }} }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = {name} }} }},
}})

-- avante
require("avante").setup({{
  provider = {_lua(agent.name)},
  acp_providers = {{
    [{_lua(agent.name)}] = {{
      command = {_lua(agent.command[0])},
      args = {{ {arguments} }},
    }},
  }},
}})"""
    return EditorSetup("init.lua of Neovim: the part for the plug-in that you use", text)


def _emacs(agent: AgentCommand) -> EditorSetup:
    words = " ".join([_lisp(word) for word in agent.command])
    text = f"(setq {agent.known.agent_shell}\n      '({words}))"
    return EditorSetup("the init file of Emacs, for agent-shell", text)


def _toad(agent: AgentCommand) -> EditorSetup:
    return EditorSetup(
        "a shell, in the directory of the project", f"toad acp {shlex.quote(shlex.join(agent.command))} ."
    )


EDITORS: dict[str, Callable[[AgentCommand], EditorSetup]] = {
    "zed": _zed,
    "jetbrains": _jetbrains,
    "neovim": _neovim,
    "emacs": _emacs,
    "toad": _toad,
    "acpx": _acpx,
}


def _entry(agent: AgentCommand) -> dict[str, object]:
    return {"command": agent.command[0], "args": list(agent.command[1:])}


def _servers(agent: AgentCommand, entry: dict[str, object]) -> str:
    return _json({"agent_servers": {f"{agent.name} (byleave)": entry}})


def _json(tree: object) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False)


def _lua(word: str) -> str:
    """Return a string of Lua, which writes bytes as decimal numbers."""
    return f'"{_escaped(word, lambda char: f"{chr(92)}{ord(char):03d}")}"'


def _lisp(word: str) -> str:
    return f'"{_escaped(word, lambda char: f"{chr(92)}{ord(char):03o}")}"'


def _escaped(word: str, numbered: Callable[[str], str]) -> str:
    plain = word.replace("\\", "\\\\").replace('"', '\\"')
    return "".join([numbered(char) if ord(char) < 32 else char for char in plain])
