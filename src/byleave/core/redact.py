"""Take secrets out of text: known values in every usual spelling, and what has the form of a secret. Pure.

`Redactor` is made of the values that must not be seen; records go through it. It also knows the forms that secrets have
everywhere. Those an agent can imitate to hide what it does, so where a person decides, only the known values are
redacted (`values`). `SecretFilter` learns its values one by one: what a tool's server or program was given may come
back in its answer. `gateway.redact` does the same to JSON messages without decoding them.

It is the second line of defence. A program that wants to betray a value finds a spelling that is not known here.
"""

from __future__ import annotations

import json
import re
from _thread import allocate_lock  # the lock alone: `threading` is for programs that start threads
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from re import Match, Pattern

REDACTED = "[REDACTED]"
SHORTEST = 4  # a shorter value occurs everywhere by chance, and masking it would hide the record
# Values that give nothing away, though a granted variable may hold them.
PLAIN = frozenset({"true", "false", "none", "null", "always", "never", "auto", "default", "production", "development"})

_SHORTEST_ENCODED = 2 * SHORTEST  # characters of hex and base64; shorter ones occur by chance
_SHORTEST_LINE = 8  # characters of one line of a value; shorter lines, and rulers, give little away
_TO_URL_SAFE = str.maketrans("+/", "-_")
_UNSEEN = "\ufeff\u200b\u2060\0"  # no blanks, and yet nothing to see

# Names whose values are secret, and among them those that never hold a harmless number.
_HARD_NAMES = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "credential")
_SECRET_NAMES = (
    *_HARD_NAMES,
    *("token", "api_key", "apikey", "access_key", "private_key", "auth_key", "authorization", "cookie"),
)
# Every form below holds one of these, or a name and a password before a host.
_MARKS = (
    *("auth", "bearer", "pass", "token", "secret", "key", "pwd", "credential", "cookie", " -u", "--user", "mysql"),
    *("sk-", "sk_", "xox", "akia", "asia", "aiza", "npm_", "pypi-", "eyj", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "glpat-", "hf_", "sg.", "dapi"),
)

# What a secret looks like wherever it stands; `keep` is what may be seen before it. Every repetition is bounded, and
# every form begins where a word does: no text takes longer than its length.
_HEADER = r"""
  (?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z0-9-]{0,40}(?:key|token|secret))\s{0,8}:\s{0,8}
  (?:(?:bearer|basic|token|digest)\s{1,8})?
"""
_NAME = r"""
  (?:(?<![a-z])pass(?![a-z])|passw(?:or)?d|passphrase|passcode|pwd|secret|token|credential
    |(?:api|access|private|auth)[-_]?key)
"""
_ASSIGNED = rf"""(?<![\w.-])[\w.-]{{0,64}}?{_NAME}[\w-]{{0,32}}\\?["']?\s{{0,8}}[=:]\s{{0,8}}"""
_FORMS = rf"""
  (?P<header1>(?<='){_HEADER})[^\r\n']+
| (?P<header2>(?<="){_HEADER})[^\r\n"]+
| (?P<header3>(?<![\w"'-]){_HEADER})[^\r\n"']+
| (?P<bearer>(?<!\w)bearer\s{{1,8}})[^\s"']+
| (?P<url>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{{0,30}}://(?:[^\s/?\#"'@:]{{0,256}}:)?)[^\s/?\#"']{{1,512}}(?=@)
| (?P<user>(?<!\S)(?:-u|--user)[=\s]\s{{0,8}}["']?[^\s:"']{{1,256}}:)[^\s"']{{1,512}}
| (?P<sshpass>(?<![\w-])sshpass\s{{1,8}}-p\s{{0,8}}["']?)[^\s"']{{1,512}}
| (?P<mysql>(?<![\w-])mysql(?:dump|admin)?(?=\s)[^|;&\r\n]{{0,200}}?\s-p["']?)[^\s"']{{1,512}}
| (?P<assigned1>{_ASSIGNED}\\?")(?:\\[^"]|[^"\\])+
| (?P<assigned2>{_ASSIGNED}')[^']+
| (?P<assigned3>{_ASSIGNED})[^\s"'&;|<>\\]+
| (?P<set>(?<!\S)(?:aws_)?(?:secret_access_key|session_token)\s{{1,8}}["']?)[^\s"']+
| (?P<option>(?<!\S)--?[a-z-]{{0,32}}{_NAME}\s{{1,8}}["']?)(?!-)[^\s"']+
| (?<![a-z0-9])(?:gh[pousr]_[a-z0-9]{{20,255}}|github_pat_[a-z0-9_]{{20,255}}|glpat-[\w-]{{16,255}}
    |sk-[\w-]{{16,255}}|[sr]k_(?:live|test)_[a-z0-9]{{8,255}}|xox[abprs]-[a-z0-9-]{{10,255}}|a[ks]ia[a-z0-9]{{16}}
    |aiza[\w-]{{30,255}}|npm_[a-z0-9]{{30,255}}|pypi-[\w-]{{40,255}}|hf_[a-z0-9]{{20,255}}|dapi[0-9a-f]{{32}}
    |sg\.[\w-]{{16,255}}\.[\w-]{{16,255}})
| (?<![\w-])eyJ[\w-]{{8,4096}}\.eyJ[\w-]{{8,8192}}\.[\w-]{{0,4096}}
| -----BEGIN[ ][A-Z ]{{0,32}}PRIVATE[ ]KEY-----(?:\s{{0,8}}[A-Za-z0-9+/=]{{16,128}}){{0,400}}
    (?:\s{{0,8}}[A-Za-z0-9+/=]{{1,128}})?(?:\s{{0,8}}-----END[ ][A-Z ]{{0,32}}PRIVATE[ ]KEY-----)?
"""


class Redactor:
    """Hides the given values, in every spelling that JSON and URLs have for them, and whatever has a secret's form.

    `encoded`: hex, and base64 of something longer that holds the value (`user:value`), are spellings, too.
    """

    def __init__(self, values: Iterable[str] = (), *, encoded: bool = False) -> None:
        secret = {core for value in values for core in cores_of(value) if is_secret(core)}
        if encoded:
            secret |= {form for value in secret for form in _encodings(value)}
        # The longest first: a value may begin with another.
        self._values = tuple(sorted({form for value in secret for form in _spellings(value)}, key=len, reverse=True))
        self._forms: Pattern[str] | None = None
        self._marks: Pattern[bytes] | None = None

    def prepare(self) -> None:
        """Make ready for many records: all marks are looked for at once, which takes some milliseconds to set up."""
        import re2  # type: ignore[import-untyped]

        # Of bytes: from a text, re2 would first count where each of its letters begins.
        self._marks = re2.compile(("(?i)" + "|".join(re2.escape(mark) for mark in _MARKS)).encode())

    def touches(self, text: str) -> bool:
        """Whether a record, as ASCII JSON, may hold something to mask; this settles nearly every one."""
        for value in self._values:
            if value in text:
                return True
        if self._marks is None:
            return _may_hold_a_secret(text)
        return self._marks.search(text.encode()) is not None or ("@" in text and "://" in text)

    def text(self, text: str) -> str:
        """Return `text` without the secrets."""
        text = self.values(text)
        return self._pattern().sub(_hidden, text) if _may_hold_a_secret(text) else text

    def values(self, text: str) -> str:
        """Return `text` without the known values, and otherwise as it is: for a person who has to see what it says."""
        found = [value for value in self._values if value in text]
        return _without(text, found) if found else text

    @property
    def forms(self) -> tuple[str, ...]:
        """Every spelling of the values that is hidden, the longest first."""
        return self._values

    def tree(self, tree: Any) -> Any:
        """Return a JSON tree without the secrets, in keys as well as in values."""
        return _mapped(tree, self.text, names=True)

    def values_tree(self, tree: Any) -> Any:
        """Return a JSON tree without the known values."""
        return _mapped(tree, self.values, names=False)

    def _pattern(self) -> Pattern[str]:
        if self._forms is None:
            self._forms = re.compile(_FORMS, re.IGNORECASE | re.VERBOSE)
        return self._forms


class SecretFilter:
    """The values that were given away for one tool or server so far. Any thread may use it and add to it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._values: frozenset[str] = frozenset()
        self._redactor: Redactor | None = None

    def uses(self, value: str) -> None:
        """Hide `value` from now on. One that is too short, or gives nothing away, is not hidden."""
        cores = {core for core in cores_of(value) if is_secret(core)}
        if cores <= self._values:
            return
        with self._lock:
            self._values |= {*cores, *_lines_of(value)}
            self._redactor = Redactor(self._values, encoded=True)

    @property
    def forms(self) -> tuple[str, ...]:
        """Every spelling that is hidden by now."""
        return () if self._redactor is None else self._redactor.forms

    def text(self, text: str) -> str:
        """Return `text` without the values."""
        return text if self._redactor is None else self._redactor.values(text)

    def data(self, data: bytes) -> bytes:
        """Return `data` without the values, whatever else it holds."""
        if self._redactor is None:
            return data
        return self._redactor.values(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def tree(self, tree: Any) -> Any:
        """Return a JSON tree without the values."""
        return tree if self._redactor is None else self._redactor.values_tree(tree)


def _lines_of(value: str) -> list[str]:
    """Return the lines of a value that has several: a search, or a program that numbers lines, shows one by one."""
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if len(line) >= _SHORTEST_LINE] if len(lines) > 1 else []


def is_secret(value: str) -> bool:
    """Whether a value is to be hidden: it is not too short, and gives something away."""
    return len(value) >= SHORTEST and value.lower() not in PLAIN


# The option of a program whose value is a password, where nothing else says so.
_PASSWORD_OPTIONS = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "mongo", "mongosh", "mongodump", "cqlsh"), "-p"),
    **dict.fromkeys(("sshpass", "docker", "podman", "nerdctl", "helm", "az", "oc", "cf", "7z", "7za"), "-p"),
    **dict.fromkeys(("zip", "unzip", "sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub"), "-P"),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"), "-w"),
    **dict.fromkeys(("smbclient", "rpcclient"), "-U"),
    "redis-cli": "-a",
    "htpasswd": "-b",
}
_SETS_VARIABLES = frozenset({"env", "export", "declare", "typeset", "setenv", "docker", "podman", "nerdctl", "heroku"})
_LONG_VALUE = 8  # characters of a variable's value, from which on it may be a key
_LONG_WORD, _FEW_DIGITS = 20, 3  # of letters and digits that no person has made up
_HEX = 32


def shows_secret(words: Sequence[str]) -> bool:
    """Whether the words of a command, or of a name, may hold a secret: by its form, its place, or its randomness.

    It says yes too often rather than too seldom: it decides what is not written down for good.
    """
    text = " ".join(words)
    if Redactor().text(text) != text:
        return True
    program = words[0].rpartition("/")[2] if words else ""
    option = _PASSWORD_OPTIONS.get(program)
    for number, word in enumerate(words[1:], start=2):
        following = words[number] if number < len(words) else ""
        value = (word[2:] or following) if option is not None and word.startswith(option) else ""
        if value and not value.replace(":", "").isdigit():
            return True
    return any(_sets_variable(word, program) or _is_random(word) for word in words)


def _sets_variable(word: str, program: str) -> bool:
    name, mark, value = word.partition("=")
    plain = name.replace("_", "A")
    is_name = bool(mark and value) and plain.isascii() and plain.isalnum() and plain.isupper()
    return is_name and (program in _SETS_VARIABLES or len(value) >= _LONG_VALUE)


def _is_random(word: str) -> bool:
    """Whether a piece of the word looks as if a program had chosen its letters."""
    pieces = "".join(char if char.isalnum() or char in "-_+" else " " for char in word).split()
    return any(_is_random_piece(piece) for piece in pieces if len(piece) >= _LONG_WORD)


def _is_random_piece(piece: str) -> bool:
    digits = sum(char.isdigit() for char in piece)
    letters = piece.replace("-", "")
    is_hex = len(letters) >= _HEX and not letters.lower().strip("0123456789abcdef")
    mixed = piece != piece.lower() and piece != piece.upper()
    return digits >= _FEW_DIGITS and (mixed or is_hex)


def cores_of(value: str) -> Iterator[str]:
    """Yield a value as it is, and without what programs take off: blanks and line ends around it, then quotes."""
    yield value
    core = value.strip().strip(_UNSEEN).strip()
    if core != value:
        yield core
    if core[:1] in ("'", '"') and core[-1:] == core[:1] and (inner := core[1:-1].strip()):
        yield inner


def _without(text: str, values: list[str]) -> str:
    """Return `text` with all that the values cover hidden: where two of them overlap, no rest of either is left."""
    kept, done = [], 0
    for start, end in sorted(span for value in values for span in _spans(text, value)):
        if end <= done:
            continue
        if start >= done:
            kept += [text[done:start], REDACTED]
        done = end
    return "".join([*kept, text[done:]])


def _spans(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield where a value stands; where it overlaps itself, all of that at once."""
    start = text.find(value)
    while start >= 0:
        end, following = start + len(value), text.find(value, start + 1)
        while 0 <= following < end:
            end, following = following + len(value), text.find(value, following + 1)
        yield start, end
        start = following


def _mapped(tree: Any, mask: Callable[[str], str], *, names: bool) -> Any:
    if isinstance(tree, str):
        return mask(tree)
    if isinstance(tree, dict):
        return {
            mask(str(key)): _hide_all(value, str(key))
            if names and is_secret_name(str(key))
            else _mapped(value, mask, names=names)
            for key, value in tree.items()
        }
    if isinstance(tree, list | tuple):
        return [_mapped(value, mask, names=names) for value in tree]
    if isinstance(tree, int | float) and not isinstance(tree, bool):
        return tree if mask(str(tree)) == str(tree) else REDACTED
    return tree


def _hide_all(tree: Any, name: str) -> Any:
    """Hide everything below a name that alone says what it is; a number of tokens is no secret."""
    if isinstance(tree, dict):
        return {key: _hide_all(value, name) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_hide_all(value, name) for value in tree]
    if tree is None or isinstance(tree, bool) or tree == "":
        return tree
    if isinstance(tree, int | float) and not any(hard in _plain_name(name) for hard in (*_HARD_NAMES, "pass")):
        return tree
    return REDACTED


def _may_hold_a_secret(text: str) -> bool:
    lowered = text.lower()
    for mark in _MARKS:
        if mark in lowered:
            return True
    return "@" in text and "://" in text


def is_secret_name(key: str) -> bool:
    """Whether what is kept under this name is a secret by the look of the name."""
    plain = _plain_name(key)
    return any(name in plain for name in _SECRET_NAMES) or "pass" in plain.split("_")


def _plain_name(key: str) -> str:
    return key.lower().replace("-", "_")


def _hidden(found: Match[str]) -> str:
    return f"{found[found.lastgroup] if found.lastgroup else ''}{REDACTED}"


def _spellings(value: str) -> set[str]:
    """Return the value as it is, as JSON writes it with and without ASCII escapes, and as URLs, pages and base64 do."""
    plain = value.encode("utf-8", "surrogatepass")
    encoded = b2a_base64(plain, newline=False).decode().rstrip("=")
    forms = {value, *_in_pages(value)}
    written = list(forms)
    for _ in range(3):  # JSON inside of JSON is written with more backslashes each time
        written = [json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in written for ascii_only in (True, False)]
        forms.update(written)
    for hexes in ("%02X", "%02x"):
        whole = _percent(plain, "", hexes)
        forms |= {whole, _percent(plain, "/", hexes), whole.replace("%20", "+")}
    return forms | ({encoded} if len(encoded) >= 2 * SHORTEST else set())


def _in_pages(value: str) -> Iterator[str]:
    """Yield a value as HTML and XML write it, with the usual names and numbers for quotes."""
    marked = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double, single in (('"', "'"), ("&quot;", "'"), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&#34;", "&#39;")):
        yield marked.replace('"', double).replace("'", single)


def _percent(plain: bytes, safe: str, hexes: str) -> str:
    kept = f"-._~{safe}"
    return "".join(
        [
            chr(byte) if (byte < 0x80 and chr(byte).isalnum()) or chr(byte) in kept else f"%{hexes % byte}"
            for byte in plain
        ]
    )


def _encodings(value: str) -> Iterator[str]:
    """Yield what a value looks like inside of something that was encoded as a whole: `user:value`, for one."""
    plain = value.encode("utf-8", "surrogateescape")
    forms = [plain.hex(), plain.hex().upper()]
    for before in range(3):  # base64 takes three bytes at a time; what they share with their neighbours differs
        whole = b2a_base64(b"\0" * before + plain, newline=False).decode()
        forms.append(whole[(8 * before + 5) // 6 : 8 * (before + len(plain)) // 6])
    for form in forms:
        if len(form) >= _SHORTEST_ENCODED:
            yield form
            yield form.translate(_TO_URL_SAFE)
