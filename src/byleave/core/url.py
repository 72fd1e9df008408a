"""Read a URL in the one way on which all parsers agree, or not at all.

Pure: text in, a `Target` or a `BadUrl` out. It knows no rules (core.net_rules matches them) and resolves no names.
Whatever two parsers could read differently in the authority is refused. A path that servers could read
differently is kept in every reading, so that each of them can be matched.

Start at `parse_url`. For rules: `normal_host`, `prefix_segments`, `prefix_readings`.

A URI of a resource: is it written plainly, and which forms may stand for it (`forms`)?
`file:///pub/../key`, `FILE:///key` and `file:///%6bey` are three other ways to write `file:///key`, and no rule about
that would match them. So a URI that its server does not list in these very letters is taken in a plain form only, and
it is matched in every form that is left: escaped or not, with a slash at its end or without.
"""

from __future__ import annotations

from unicodedata import normalize

from byleave.record import Record
from byleave.text import is_seen, shown

DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
PLACELESS = frozenset({"about", "blob", "data", "file", "javascript"})  # schemes without a network place
LONGEST_URL = 1 << 16
LONGEST_HOST = 253  # RFC 1035, section 2.3.4, without the root's dot
LONGEST_LABEL = 63  # the same
DEEPEST_ENCODING = 3  # no program encodes a path more often than that

_HEX = "0123456789abcdefABCDEF"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UNRESERVED = f"{_LOWER}{_LOWER.upper()}0123456789-._~"  # RFC 3986, section 2.3
_PATH_LITERALS = _UNRESERVED + "!$&'()*+,;=:@"  # RFC 3986, section 3.3: pchar
_SIMPLE_PATH = _PATH_LITERALS.replace(";", "/")
_SCHEME = f"{_LOWER}0123456789+-."  # RFC 3986, section 3.1
_HOST = f"{_LOWER}0123456789-._!\"$&'()*+,;=`{{}}~"  # all that WHATWG URL does not forbid in a domain
_TAINTS = ("2F", "5C", "00")  # a slash, a backslash and NUL, percent-encoded
_OVERLONG = ((b"\xc0\xaf", b"/"), (b"\xc0\xae", b"."), (b"\xc1\x9c", b"\\"))  # old servers decode these


class Target(Record):
    """The place a URL names. `port` is the effective one; user name and password are not kept.

    `segments` is the path in its literal form. `plain` is the form that denying rules look at: decoded to the
    end, backslashes read as slashes, parameters and empty segments dropped. `readings` are all others that a
    server may have. `tainted`: the path holds `%2F`, `%5C`, `%00` or a `%` that encodes no text; no prefix
    grants it.
    """

    scheme: str
    host: str
    port: int | None
    userinfo: bool
    segments: tuple[str, ...]
    plain: tuple[str, ...]
    tainted: bool = False
    readings: tuple[tuple[str, ...], ...] = ()

    @property
    def default_port(self) -> bool:
        """Whether a rule without a port can mean this place."""
        return self.port == DEFAULT_PORTS.get(self.scheme)

    @property
    def shown_port(self) -> str:
        """The port as a URL shows it: nothing, if it is the usual one."""
        return "" if self.default_port or self.port is None else f":{self.port}"


class BadUrl(Record):
    """Why a text is no URL that can be decided on: one sentence, safe to show, without user name and password."""

    problem: str


class _RefusedError(Exception):
    """Carries the problem from the place that finds it to the function that answers."""


def parse_url(text: str) -> Target | BadUrl:
    """Return the place that `text` names, or why it cannot be read. Never raises."""
    try:
        return _read_url(text)
    except _RefusedError as refusal:
        return BadUrl(str(refusal))


def default_port(scheme: str) -> int | None:
    """Return the port that the scheme implies, None if we know none."""
    return DEFAULT_PORTS.get(scheme)


def normal_host(text: str) -> str | None:
    """Return a rule's host in the form of `Target.host`, None if it is no host. `*` is none."""
    bracketed = text.startswith("[") and text.endswith("]")
    host = _ipv6(text[1:-1] if bracketed else text) if bracketed or ":" in text else _name_or_ipv4(text)
    return None if host is None or "*" in host else host


def prefix_segments(path_prefix: str, *, allow: bool) -> tuple[str, ...] | None:
    """Return the segments of a rule's `path_prefix`, None if it cannot be matched.

    For an allowing rule the literal form; it must be free of what taints a target, of `?` and of `#`, and no
    reading of it may climb above /. For a denying rule the plain form of what stands before `?` or `#`.
    """
    path = _rooted(path_prefix)
    if _is_simple(path):
        return _split(path)
    try:
        return _literal_prefix(path) if allow else _read_variously(_before_end(path))[0]
    except _RefusedError:
        return None


def prefix_readings(path_prefix: str) -> tuple[tuple[str, ...], ...] | None:
    """Return all readings of a rule's `path_prefix`, the plain form first; None if one climbs above /."""
    path = _rooted(path_prefix)
    if _is_simple(path):
        return (_split(path),)
    try:
        return _read_variously(path)
    except _RefusedError:
        return None


def _read_url(text: str) -> Target:
    _check_characters(text)
    scheme, rest = _split_scheme(text)
    authority, path = _split_authority(rest)
    _user, at, place = authority.rpartition("@")
    host_text, port_text = _split_place(place)
    host = _ipv6(host_text[1:-1]) if host_text.startswith("[") else _name_or_ipv4(host_text)
    if host is None:
        raise _RefusedError(_host_problem(host_text, whole=text))
    port = _port_number(port_text) if port_text else DEFAULT_PORTS.get(scheme)
    if _is_simple(path):
        segments = _split(path)
        return Target(scheme, host, port, at == "@", segments, segments)
    plain, *others = _read_variously(path)
    literal = _literal(path)
    readings = tuple([reading for reading in others if reading != literal])
    return Target(scheme, host, port, at == "@", literal, plain, _is_tainted(path), readings)


def _check_characters(text: str) -> None:
    if len(text) > LONGEST_URL:
        raise _RefusedError(f"the URL has {len(text)} characters, more than {LONGEST_URL}")
    if text.isprintable() and " " not in text and "\\" not in text:
        return
    culprit = next(char for char in text if char in " \\" or not char.isprintable())
    raise _RefusedError(f"the URL holds the character U+{ord(culprit):04X}, which parsers read differently")


def _split_scheme(text: str) -> tuple[str, str]:
    written, mark, rest = text.partition("://")
    scheme = written.lower() if written.isascii() else ""
    if scheme in DEFAULT_PORTS and mark:
        return scheme, rest
    if not mark or scheme[:1] not in _LOWER or not scheme or scheme.strip(_SCHEME):
        raise _RefusedError("the URL does not start with a scheme and ://")
    if scheme in PLACELESS:
        raise _RefusedError(f"a {scheme}: URL names no place in a network")
    return scheme, rest


def _split_authority(rest: str) -> tuple[str, str]:
    """Return authority and path; the query and the fragment end either and have no say."""
    authority, slash, path = rest.partition("/")
    if "?" in authority or "#" in authority:
        return authority.partition("?")[0].partition("#")[0], ""
    if "?" in path or "#" in path:
        path = path.partition("?")[0].partition("#")[0]
    return authority, slash + path


def _split_place(place: str) -> tuple[str, str]:
    if not place.startswith("["):
        host, _colon, port = place.partition(":")
        return host, port
    host, bracket, rest = place.partition("]")
    if not bracket or rest[:1] not in ("", ":"):
        raise _RefusedError("the host is not an IPv6 address in brackets")
    return host + bracket, rest[1:]


def _port_number(text: str) -> int:
    digits = text.lstrip("0")
    if text.isascii() and text.isdigit() and 0 < len(digits) <= 5 and int(digits) <= 65535:
        return int(digits)
    raise _RefusedError("the port is not a number from 1 to 65535")


def _host_problem(host: str, *, whole: str) -> str:
    if not host:
        return "the URL names no host"
    if "@" in whole:  # a password with a slash in it may have been taken for the host
        return "the host is neither a name nor an address"
    return f'the host "{shown(host[:LONGEST_HOST])}" is neither a name nor an address'


def _name_or_ipv4(text: str) -> str | None:
    host: str | None = text.lower()
    if not text.isascii() or "xn--" in text.lower():
        host = _punycode(text)
    if host is None or not _is_name(host := host.removesuffix(".")):
        return None
    return _ipv4(host) if _ends_in_number(host) else host


def _is_name(host: str) -> bool:
    if not host or host.strip(_HOST) or host[0] == "." or host[-1] == "." or ".." in host:
        return False
    return len(host) <= LONGEST_LABEL or (
        len(host) <= LONGEST_HOST and all(len(label) <= LONGEST_LABEL for label in host.split("."))
    )


def _punycode(text: str) -> str | None:
    """Return the host mapped by UTS 46, in ASCII; an `xn--` label must be what its Unicode form encodes."""
    if len(text) > 4 * LONGEST_HOST or not text.isprintable():
        return None
    from idna import alabel, uts46_remap  # rare, and its tables are large

    try:
        labels = uts46_remap(text, std3_rules=False).split(".")
        coded = [alabel(label).decode() if _needs_idna(label) else label for label in labels]
    except UnicodeError:
        return None
    return ".".join(coded)


def _needs_idna(label: str) -> bool:
    return not label.isascii() or label.startswith("xn--")


def _ends_in_number(host: str) -> bool:
    """Whether WHATWG URL takes the host for an IPv4 address, well formed or not."""
    last = host[host.rfind(".") + 1 :]
    return last.isdigit() or (last.startswith("0x") and not last[2:].strip(_HEX))


def _ipv4(host: str) -> str | None:
    """Return the address as four decimal numbers; it may have fewer, octal or hex ones (WHATWG URL)."""
    parts = host.split(".")
    numbers = [number for part in parts if (number := _ipv4_number(part)) is not None]
    if len(parts) > 4 or len(numbers) < len(parts):
        return None
    *front, last = numbers
    if any(number > 255 for number in front) or last >= 256 ** (5 - len(numbers)):
        return None
    value = last + sum(number << (24 - 8 * place) for place, number in enumerate(front))
    return ".".join([str(value >> shift & 255) for shift in (24, 16, 8, 0)])


def _ipv4_number(part: str) -> int | None:
    digits, base = part, 10
    if part.startswith("0x"):
        digits, base = part[2:] or "0", 16
    elif part.startswith("0"):
        base = 8
    return None if digits.strip("0123456789abcdef"[:base]) else int(digits, base)


def _ipv6(text: str) -> str | None:
    """Return the address compressed, or as IPv4 if it only wraps one. A zone id makes it no address."""
    if "%" in text:
        return None
    from ipaddress import IPv6Address  # rare, and dear to load

    try:
        address = IPv6Address(text)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)


def _rooted(path_prefix: str) -> str:
    return path_prefix if path_prefix.startswith("/") else f"/{path_prefix}"


def _is_simple(path: str) -> bool:
    """Whether all readings of the path are the same."""
    return not path.strip(_SIMPLE_PATH) and "//" not in path and not ("/." in path and _has_dots(path))


def _has_dots(path: str) -> bool:
    return "/./" in path or "/../" in path or path.endswith(("/.", "/.."))


def _split(path: str) -> tuple[str, ...]:
    """Return what stands after each slash; one at the end does not count."""
    parts = path.split("/")
    return tuple(parts[1:-1] if parts[-1] == "" else parts[1:])


def _collapsed(parts: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and not kept:
            raise _RefusedError("the path climbs above /")
        if part == "..":
            kept.pop()
        elif part != ".":
            kept.append(part)
    return tuple(kept)


def _literal_prefix(path: str) -> tuple[str, ...]:
    if not path.isprintable() or "\\" in path or _before_end(path) != path or _is_tainted(path):
        raise _RefusedError("the path prefix can be read in several ways")
    _read_variously(path)
    return _literal(path)


def _literal(path: str) -> tuple[str, ...]:
    return _collapsed([_spelled(segment) for segment in _split(path)])


def _spelled(segment: str) -> str:
    """Return the segment in its one spelling: unreserved characters as they are, upper-case escapes."""
    first, *rest = segment.split("%")
    return _escaped(first) + "".join([_escape_spelled(part[:2]) + _escaped(part[2:]) for part in rest])


def _escape_spelled(code: str) -> str:
    if not _is_hex(code):
        return f"%{code}"
    char = chr(int(code, 16))
    return char if char in _UNRESERVED else f"%{code.upper()}"


def _escaped(text: str) -> str:
    if not text.strip(_PATH_LITERALS):
        return text
    return "".join([char if char in _PATH_LITERALS else _percent(char) for char in text])


def _percent(char: str) -> str:
    return "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")])


def _is_hex(code: str) -> bool:
    return len(code) == 2 and not code.strip(_HEX)


def _is_tainted(path: str) -> bool:
    codes = [part[:2].upper() for part in path.split("%")[1:]]
    if any(code in _TAINTS or not _is_hex(code) for code in codes):
        return True
    try:
        _decoded(path.encode("utf-8", "surrogatepass")).decode()
    except UnicodeDecodeError:  # the escapes are well formed, but what they encode is no text
        return True
    return False


def _read_variously(path: str) -> tuple[tuple[str, ...], ...]:
    """Return every reading of the path, the plain form first: of what is written, and of what clients make of it.

    Most clients follow the dots themselves, and send the literal form: `/a//b` for `/a//..//b`, which a server that
    merges slashes reads as `/a/b`. A server that gets the dots, and merges first, reads `/b`.
    """
    readings, literal = _server_readings(path), _literal(path)
    if len(literal) < len(_split(path)):
        readings |= _server_readings("/" + "/".join(literal))
    return tuple(readings)


def _server_readings(path: str) -> dict[tuple[str, ...], None]:
    """Return what servers read in the path that they get, the plain form first.

    Servers differ in how often they decode, whether they cut `;parameters` before or after that, whether they
    merge slashes, and whether an encoded NUL, `?` or `#` ends the path.
    """
    texts = _decodings(path)
    plain = _merged(texts[-1])
    if ";" in path:
        texts += _decodings("/".join([part.partition(";")[0] for part in path.split("/")]))
    forms = {plain: None}
    for text in texts:
        for ended in (text, _before_end(text)):
            forms[_merged(ended)] = forms[_collapsed(_split(ended))] = None
    return forms


def _merged(text: str) -> tuple[str, ...]:
    parts = [part.partition(";")[0] for part in text.split("/")]
    return _collapsed([part for part in parts if part])


def _before_end(text: str) -> str:
    for end in "\0?#":
        text = text.partition(end)[0]
    return text


def _decodings(path: str) -> list[str]:
    """Return the path decoded once, twice and so on until nothing changes; itself if nothing is encoded."""
    stages = [path.encode("utf-8", "surrogatepass")]
    while (following := _decoded(stages[-1])) != stages[-1]:
        if len(stages) > DEEPEST_ENCODING:
            raise _RefusedError(f"the path is percent-encoded more than {DEEPEST_ENCODING} times over")
        stages.append(following)
    texts = stages[1:] or stages
    return [text.decode("utf-8", "surrogateescape").replace("\\", "/") for text in texts]


def _decoded(raw: bytes) -> bytes:
    first, *rest = raw.split(b"%")
    decoded = first + b"".join([_escape_decoded(part) for part in rest])
    for overlong, plain in _OVERLONG:
        decoded = decoded.replace(overlong, plain)
    return decoded


def _escape_decoded(part: bytes) -> bytes:
    code = part[:2].decode("latin-1")
    return bytes([int(code, 16)]) + part[2:] if _is_hex(code) else b"%" + part


_URIS_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+.-")
_URIS_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URIS_HEX = frozenset("0123456789ABCDEF")
_NEVER = frozenset("/\\\0%")  # what an escape must not stand for
_FILE = "file"
_KNOWN = {"file": "", "http": "80", "https": "443", "ws": "80", "wss": "443"}  # with the port that need not be said
_STANDING = "/:?#[]@!$&'()*+,;=~%"


def oddity(uri: str) -> str:
    """Return what is not plain about a URI, for people; empty if nothing is."""
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme or not scheme[0].isalpha() or not _URIS_SCHEME.issuperset(scheme):
        return "its scheme is missing, or not written in small letters"
    if "\\" in uri or any(char.isspace() or not is_seen(char) for char in uri):
        return "it holds blanks, backslashes or invisible letters"
    if "#" in rest:
        return "it has a fragment"
    return _odd_escapes(rest) or _odd_place(scheme, rest)


def _odd_escapes(text: str) -> str:
    for piece in text.split("%")[1:]:
        digits = piece[:2]
        if len(digits) < 2 or not _URIS_HEX.issuperset(digits):
            return "it has an escape that is not written as %2F"
        char = chr(int(digits, 16))
        if char in _URIS_UNRESERVED or char in _NEVER:
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
    meant = normalize("NFC", _unescaped(uri))
    found = [uri, meant, _uris_escaped(meant)]
    return tuple(dict.fromkeys([*found, *(each.rstrip("/") for each in found)]))


def _unescaped(uri: str) -> str:
    """Return a URI with every escape as the letter that it stands for; one that stands for none stays."""
    if "%" not in uri:
        return uri
    first, *pieces = uri.encode("utf-8", "surrogatepass").split(b"%")
    return (first + b"".join([_escape_decoded(piece) for piece in pieces])).decode("utf-8", "replace")


def _uris_escaped(text: str) -> str:
    """Return a text as a URI has it: everything escaped that does not stand there plainly."""
    plain = _URIS_UNRESERVED | frozenset(_STANDING)
    return "".join(
        char if char in plain else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace")) for char in text
    )
