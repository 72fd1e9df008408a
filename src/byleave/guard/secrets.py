"""Which values must never be seen: those of every variable that a tool is granted."""

from byleave.core.access import Default
from byleave.core.env import MINIMAL_ENVIRONMENT, EnvRule, EnvTable
from byleave.core.masking import Mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.core.policy import Policy

# No secrets: masking a home directory or a language wherever it occurs would make every record unreadable.
_COMMON = ("PWD", "OLDPWD", "SHELL", "SHLVL", "LOGNAME", "HOSTNAME", "EDITOR", "PAGER", "COLORTERM", "DISPLAY", "XDG_*")
_KNOWN = EnvTable([EnvRule(name) for name in (*MINIMAL_ENVIRONMENT, *_COMMON)])


def mask_for(policy: "Policy", environment: "Mapping[str, str]") -> Mask:
    """Return the mask for everything this policy hands out of the environment."""
    return Mask(_granted(policy, environment))


def _granted(policy: "Policy", environment: "Mapping[str, str]") -> "Iterator[str]":
    tables = [tool.access.env for voice in policy.voices for tool in voice.tools.values()]
    for table in {id(table): table for table in tables}.values():
        if isinstance(table, Default):
            continue
        for name, value in environment.items():
            rule = table.match(name)
            if rule is not None and (rule.read or rule.substitute) and _KNOWN.match(name) is None:
                yield value
