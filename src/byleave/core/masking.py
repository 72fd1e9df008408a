"""Secrets are masked before anything is written or shown: what the environment gave, and what looks like one.

Pure. A `Mask` is made of the values that must not be seen. It also knows a few forms that secrets have everywhere.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Match, Pattern
    from typing import Any

REDACTED = "[REDACTED]"
SHORTEST = 4  # a shorter value occurs everywhere by chance, and masking it would hide the record
# Values that give nothing away, though a granted variable may hold them.
_PLAIN = frozenset({"true", "false", "none", "null", "always", "never", "auto", "default", "production", "development"})

_SECRET_NAMES = (
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "authorization",
)
# Every form below holds one of these, or a name and a password before a host.
_MARKS = (
    "auth",
    "bearer",
    "pass",
    "token",
    "secret",
    "key",
    "sk-",
    "xox",
    "akia",
    "asia",
    "aiza",
    "npm_",
    "pypi-",
    "eyj",
)

# What a secret looks like wherever it stands; `keep` is what may be seen before it.
_FORMS = r"""
  (?P<keep>
      \bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?
    | \bbearer\s+
    | [a-z][a-z0-9+.-]*://(?:[^\s/:@"'?\#]*:)?(?=[^\s/@"'?\#]*@)
    | --?(?:pass|password|passwd|token|secret|api-?key|access-?key|auth-?token)[=\s]\s*["']?
    | \b[a-z0-9_]*(?:password|passwd|secret|token|api_?key|access_?key|private_?key)[a-z0-9_]*["']?\s*[=:]\s*["']?
  )
  (?!\[REDACTED\])[^\s"'@&;,}\])]+
| \b(?:gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | glpat-[A-Za-z0-9_-]{16,}
    | sk-[A-Za-z0-9_-]{16,} | xox[abprs]-[A-Za-z0-9-]{10,} | A(?:K|S)IA[A-Z0-9]{16}
    | AIza[A-Za-z0-9_-]{30,} | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{40,}
    | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)
| -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
"""


class Mask:
    """Hides the given values, in every spelling that JSON and URLs have for them, and whatever has a secret's form."""

    def __init__(self, values: "Iterable[str]" = ()) -> None:
        secret = {value for value in values if len(value) >= SHORTEST and value.lower() not in _PLAIN}
        # The longest first: a value may begin with another.
        spellings = sorted({form for value in secret for form in _spellings(value)}, key=len, reverse=True)
        self._values = tuple(spellings)
        self._forms: Pattern[str] | None = None

    def touches(self, text: str) -> bool:
        """Whether `text`, plain or as JSON, holds something that has to be masked."""
        for value in self._values:
            if value in text:
                return True
        return _may_hold_a_secret(text) and self._pattern().search(text) is not None

    def text(self, text: str) -> str:
        """Return `text` without the secrets."""
        for value in self._values:
            if value in text:
                text = text.replace(value, REDACTED)
        return self._pattern().sub(_hidden, text) if _may_hold_a_secret(text) else text

    def tree(self, tree: "Any") -> "Any":
        """Return a JSON tree without the secrets, in keys as well as in values."""
        if isinstance(tree, str):
            return self.text(tree)
        if isinstance(tree, dict):
            return {self.text(key): self._member(key, value) for key, value in tree.items()}
        return [self.tree(value) for value in tree] if isinstance(tree, list | tuple) else tree

    def _member(self, key: str, value: "Any") -> "Any":
        """Mask a value whose name alone says that it is secret."""
        if isinstance(value, str) and value and _is_secret_name(key):
            return REDACTED
        return self.tree(value)

    def _pattern(self) -> "Pattern[str]":
        if self._forms is None:
            import re  # a third of an interpreter's start: only where records are written

            self._forms = re.compile(_FORMS, re.IGNORECASE | re.VERBOSE | re.DOTALL)
        return self._forms


def _may_hold_a_secret(text: str) -> bool:
    """Whether the forms are worth a search: nearly every text is told apart by these words alone, at a hundredth."""
    lowered = text.lower()
    for mark in _MARKS:
        if mark in lowered:
            return True
    return ("@" in text and "://" in text) or ("gh" in lowered or "glpat-" in lowered)


def _is_secret_name(key: str) -> bool:
    plain = key.lower().replace("-", "_")
    return any(name in plain for name in _SECRET_NAMES)


def _hidden(found: "Match[str]") -> str:
    return f"{found['keep'] or ''}{REDACTED}"


def _spellings(value: str) -> "set[str]":
    """Return the value as it is, as JSON writes it with and without ASCII escapes, and as URLs and base64 do."""
    import json
    from binascii import b2a_base64

    plain = value.encode("utf-8", "surrogatepass")
    encoded = b2a_base64(plain, newline=False).decode().rstrip("=")
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {_percent(plain, ""), _percent(plain, "/"), _percent(plain, "").replace("%20", "+")}
    return forms | ({encoded} if len(encoded) >= 2 * SHORTEST else set())


def _percent(plain: bytes, safe: str) -> str:
    kept = f"-._~{safe}"
    return "".join(
        [chr(byte) if (byte < 0x80 and chr(byte).isalnum()) or chr(byte) in kept else f"%{byte:02X}" for byte in plain]
    )
