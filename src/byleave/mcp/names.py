"""What a server's tools and prompts are called here: `server__tool`. Pure.

The first `__` splits, because no server name holds one. A name that is longer than clients take is cut, and a hash of
the whole makes it one of its kind again; the way back is then by looking, not by splitting.
"""

import hashlib

LONGEST = 64  # characters that every client takes
JOINT = "__"
_HASHED = 8


def flat_name(server: str, name: str) -> str:
    """Return the name under which clients see what a server calls `name`."""
    whole = f"{server}{JOINT}{name}"
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    return f"{whole[: LONGEST - _HASHED - 1]}-{digest}"


def split_name(flat: str) -> tuple[str, str] | None:
    """Return server and own name of a flat name as it is written; None if it is none. A cut one is not the own name."""
    server, joint, name = flat.partition(JOINT)
    return (server, name) if joint and server and name else None


def may_be_cut(flat: str) -> bool:
    """Whether a name may stand for a longer one."""
    return len(flat) == LONGEST and flat[-_HASHED - 1] == "-"
