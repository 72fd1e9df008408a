"""What changed in a text, as a unified diff."""

from byleave.tools.texts import lines_of

_MOST_LINES = 20_000  # of both texts together; difflib's time grows with their product
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified(path: str, before: str, after: str) -> str:
    """Return the diff of one file, as `diff -u` and `git` write it; of a very large one, only that it changed."""
    from difflib import unified_diff

    old, new = lines_of(before), lines_of(after)
    if len(old) + len(new) > _MOST_LINES:
        return f"--- {path}\n+++ {path}\n(too large to show what changed: {len(old)} lines before, {len(new)} now)\n"
    lines = unified_diff(old, new, path, path)
    return "".join(line if line.endswith("\n") else f"{line}{_NO_NEWLINE}" for line in lines)
