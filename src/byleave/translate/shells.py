"""Which shell an agent gives its commands to. Pure: the variables of its environment are handed in."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# These run every command with bash, whatever the user's own shell is.
_ALWAYS_BASH = frozenset(["gemini"])
# These run it with the user's own shell, even one of another language than bash's.
_ANY_SHELL = frozenset(["cursor"])
_FOLLOWED = frozenset(["bash", "zsh", "ksh", "mksh"])
_OTHERS = frozenset(["fish", "nu", "csh", "tcsh", "pwsh", "xonsh"])
_OWN_VARIABLES = {"claude-code": "CLAUDE_CODE_SHELL"}


def shell_of_agent(agent: str, variables: "Mapping[str, str]") -> str | None:
    """Return the name of the shell; None where it may be bash or sh."""
    if agent in _ALWAYS_BASH:
        return "bash"
    chosen = variables.get(_OWN_VARIABLES.get(agent, ""), "") or variables.get("SHELL", "")
    name = chosen.rpartition("/")[2]
    if name in _FOLLOWED or (agent in _ANY_SHELL and name in _OTHERS):
        return name
    return None
