"""Agents that go by several names: that of the hook, of the program, of the product. Pure, and data.

What is denied to an agent under one of its names is denied under the others; an allow is for the name that it has.
"""

_SAME_AGENT = (
    ("claude-code", "claude"),
    ("codex", "codex-cli"),
    ("gemini", "gemini-cli"),
    ("cursor", "cursor-agent"),
)


def other_names(agent: str) -> tuple[str, ...]:
    """Return what an agent is called besides; nothing for one that is not known by several names."""
    return tuple(name for names in _SAME_AGENT if agent in names for name in names if name != agent)
