"""The small languages that programs take as an argument: does a sed or awk script run or write anything?

Both readers answer with what they found (`executes`, `writes`) or None for a harmless script. What they cannot read
counts as executing.
"""

TYPE_CHECKING = False

EXECUTES = "executes"
WRITES = "writes"

# sed commands that take nothing, and those whose text runs to the end of the line.
SED_PLAIN = frozenset("=dDgGhHnNpPxzlqQF{}")
SED_LINE = frozenset("aicbtT:#rRyv")
AWK_WORDS = ("system", "getline", "@load", "@include", "close(", "fflush(", "|&")


def sed_danger(script: str) -> str | None:
    """Return what a sed script does beyond reading: `w` and `s///w` write, `e` and `s///e` run commands."""
    at, end = 0, len(script)
    while at < end:
        char = script[at]
        if char in " \t\n;{}!" or char.isdecimal() or char in "$,+~":
            at += 1
        elif char in "/\\":
            at = _sed_address(script, at)
            if at < 0:
                return EXECUTES
        elif char in "wW":
            return WRITES
        elif char == "s":
            at, danger = _sed_substitute(script, at + 1)
            if danger is not None:
                return danger
        elif char == "y":
            at = _sed_parts(script, at + 1)
            if at < 0:
                return EXECUTES
        elif char in SED_PLAIN:
            at += 1
        elif char in SED_LINE:
            stop = script.find("\n", at)
            while stop > 0 and script[stop - 1] == "\\":
                stop = script.find("\n", stop + 1)
            at = end if stop < 0 else stop
        elif char == "I" and at and script[at - 1] in "/|,":
            at += 1
        else:
            return EXECUTES
    return None


def _sed_address(script: str, at: int) -> int:
    """Return where `/regex/`, or one with another delimiter behind a backslash, ends; -1 if it does not."""
    if script[at] == "\\":
        at += 1
        if at >= len(script):
            return -1
    end = _sed_delimited(script, at + 1, script[at])
    if end > 0 and script[end : end + 1] in ("I", "M"):
        end += 1
    return end


def _sed_delimited(script: str, at: int, delimiter: str) -> int:
    """Return where the text up to the next unescaped delimiter outside brackets ends; -1 if there is none."""
    bracket = False
    while at < len(script):
        char = script[at]
        if char == "\\" and not bracket:
            at += 2
            continue
        if char == "[" and not bracket:
            bracket = True
            at += 2 if script[at + 1 : at + 2] != "^" else 3  # a ] right behind it is an ordinary one
            continue
        if char == "]":
            bracket = False
        elif char == delimiter and not bracket:
            return at + 1
        at += 1
    return -1


def _sed_parts(script: str, at: int) -> int:
    """Return where the two delimited parts of `s` or `y` end."""
    if at >= len(script) or script[at] in "\n\\":
        return -1
    delimiter = script[at]
    at = _sed_delimited(script, at + 1, delimiter)
    if at < 0:
        return -1
    while at < len(script):
        if script[at] == "\\":
            at += 2
        elif script[at] == delimiter:
            return at + 1
        else:
            at += 1
    return -1


def _sed_substitute(script: str, at: int) -> tuple[int, str | None]:
    at = _sed_parts(script, at)
    if at < 0:
        return len(script), EXECUTES
    while at < len(script) and script[at] not in ";\n} ":
        flag = script[at]
        if flag == "e":
            return at, EXECUTES
        if flag == "w":
            return at, WRITES
        if flag not in "gpiImM0123456789":
            return at, EXECUTES
        at += 1
    return at, None


def awk_danger(script: str) -> str | None:
    """Return what an awk script does beyond reading: `system`, pipes and `getline` run, `print > file` writes."""
    bare = _without_strings(script)
    if bare is None:
        return EXECUTES
    for word in AWK_WORDS:
        if word in bare:
            return EXECUTES
    if "|" in bare.replace("||", ""):
        return EXECUTES
    for statement in bare.replace("}", ";").replace("{", ";").replace("\n", ";").split(";"):
        if "print" in statement and ">" in statement[statement.index("print") :]:
            return WRITES
    return None


def _without_strings(script: str) -> str | None:
    """Return the script with strings and regular expressions left out; None if that cannot be told."""
    kept: list[str] = []
    at = 0
    while at < len(script):
        char = script[at]
        if char == '"':
            at = _string_end(script, at + 1, '"')
            kept.append('"')
        elif char == "#":
            at = script.find("\n", at)
            at = len(script) if at < 0 else at
            continue
        elif char == "/" and _starts_regex(kept):
            at = _string_end(script, at + 1, "/")
            kept.append('"')
        else:
            kept.append(char)
            at += 1
            continue
        if at < 0:
            return None
    return "".join(kept)


def _starts_regex(kept: list[str]) -> bool:
    """Whether a slash here begins a regular expression: not behind a value."""
    before = "".join(kept[-16:]).rstrip()
    return not before or before[-1] in "({,~!&|;=\n}?:<>+-*%^"


def _string_end(script: str, at: int, delimiter: str) -> int:
    while at < len(script) and script[at] != "\n":
        if script[at] == "\\":
            at += 2
        elif script[at] == delimiter:
            return at + 1
        else:
            at += 1
    return -1
