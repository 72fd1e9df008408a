"""Is a URI written plainly, and in which ways may it be meant? Rules look at its text, servers at its meaning. Pure.

`file:///pub/../key`, `FILE:///key` and `file:///%6bey` are three other ways to write `file:///key`, and no rule about
that would match them. So a URI that its server does not list in these very letters is taken in a plain form only, and
it is judged in every form that is left: escaped or not, with a slash at its end or without.
"""

from byleave.text import is_seen

_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+.-")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = frozenset("0123456789ABCDEF")
_NEVER = frozenset("/\\\0%")  # what an escape must not stand for
_FILE = "file"
_KNOWN = {"file": "", "http": "80", "https": "443", "ws": "80", "wss": "443"}  # with the port that need not be said
_STANDING = "/:?#[]@!$&'()*+,;=~%"


def oddity(uri: str) -> str:
    """Return what is not plain about a URI, for people; empty if nothing is."""
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme or not scheme[0].isalpha() or not _SCHEME.issuperset(scheme):
        return "its scheme is missing, or not written in small letters"
    if "\\" in uri or any(char.isspace() or not is_seen(char) for char in uri):
        return "it holds blanks, backslashes or letters that nobody sees"
    if "#" in rest:
        return "it has a fragment"
    return _odd_escapes(rest) or _odd_place(scheme, rest)


def _odd_escapes(text: str) -> str:
    for piece in text.split("%")[1:]:
        digits = piece[:2]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            return "it has an escape that is not written as %2F"
        char = chr(int(digits, 16))
        if char in _UNRESERVED or char in _NEVER:
            return "it has an escape for what is written plainly, or must not be hidden"
    return ""


def _odd_place(scheme: str, rest: str) -> str:
    path, mark, _query = rest.partition("?")
    if scheme in _KNOWN:
        if not rest.startswith("//") or "//" in path[2:] or ";" in path:
            return "it has empty names, parameters, or too few slashes"
        if scheme == _FILE and (mark or not rest.startswith("///")):
            return "a file is written file:///path, without a query"
    if path.startswith("//"):
        authority = path[2:].partition("/")[0]
        host, colon, port = authority.partition(":")
        if authority != authority.lower() or "@" in authority or host.endswith("."):
            return "its host is not written in small letters, or not plainly"
        if colon and (not port or port == _KNOWN.get(scheme)):
            return "its port is empty, or the usual one"
    if any(name in (".", "..") for name in path.split("/")):
        return "it has dots that lead elsewhere"
    return ""


def forms(uri: str) -> tuple[str, ...]:
    """Return every way in which a plainly written URI may stand in a rule: what denies one of them denies it."""
    from unicodedata import normalize

    meant = normalize("NFC", _unescaped(uri))
    found = [uri, meant, _escaped(meant)]
    return tuple(dict.fromkeys([*found, *(each.rstrip("/") for each in found)]))


def _unescaped(uri: str) -> str:
    """Return a URI with every escape as the letter that it stands for; one that stands for none stays."""
    if "%" not in uri:
        return uri
    first, *pieces = uri.encode("utf-8", "surrogatepass").split(b"%")
    made = bytearray(first)
    for piece in pieces:
        try:
            made += bytes([int(piece[:2], 16)]) + piece[2:] if len(piece[:2].strip()) == 2 else b"%" + piece
        except ValueError:
            made += b"%" + piece
    return made.decode("utf-8", "replace")


def _escaped(text: str) -> str:
    """Return a text as a URI has it: everything escaped that does not stand there plainly."""
    plain = _UNRESERVED | frozenset(_STANDING)
    return "".join(
        char if char in plain else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace")) for char in text
    )
