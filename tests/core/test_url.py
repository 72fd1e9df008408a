"""How URLs, and the hosts and path prefixes of rules, are read."""

from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byleave.core.url import (
    LONGEST_URL,
    BadUrl,
    Target,
    default_port,
    normal_host,
    parse_url,
    prefix_readings,
    prefix_segments,
)


def target(url: str) -> Target:
    parsed = parse_url(url)
    assert isinstance(parsed, Target), parsed
    return parsed


def problem(url: str) -> str:
    parsed = parse_url(url)
    assert isinstance(parsed, BadUrl), parsed
    return parsed.problem


def test_an_ordinary_url_is_read_into_its_parts() -> None:
    segments = ("repos", "octo", "hello")
    expected = Target("https", "api.github.com", 443, False, segments, segments)
    assert target("HTTPS://API.GitHub.com/repos/octo/hello?per_page=100#top") == expected


def test_an_odd_path_is_kept_in_every_reading() -> None:
    expected = Target(
        "http",
        "h.com",
        8080,
        False,
        segments=("a%2Fb;v", "", "c"),
        plain=("a", "b", "c"),
        tainted=True,
        readings=(("a", "b;v", "", "c"), ("a", "b", "", "c")),
    )
    assert target("http://h.com:8080/a%2fb;v//c") == expected


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://h.com#@evil.com", "h.com"),
        ("https://h.com?@evil.com", "h.com"),
        ("https://h.com?x#@evil.com/", "h.com"),
        ("https://h.com/@evil.com", "h.com"),
        ("https://h.com/\uff0f@evil.com", "h.com"),
        ("https://h.com@evil.com", "evil.com"),
        ("https://h.com:443@evil.com", "evil.com"),
        ("https://a@h.com@evil.com", "evil.com"),
        ("https://h.com%2f@evil.com", "evil.com"),
        ("https://h.com;@evil.com", "evil.com"),
        ("https://[::1]@evil.com", "evil.com"),
        ("https://h.com:@evil.com", "evil.com"),
        ("https://h.com&evil.com", "h.com&evil.com"),
        ("https://H.COM.", "h.com"),
        ("https://[::1]", "::1"),
        ("https://[0:0::0001]:8443", "::1"),
        ("https://[::ffff:127.0.0.1]", "127.0.0.1"),
        ("https://[::FFFF:7f00:1]", "127.0.0.1"),
        ("https://[::127.0.0.1]", "::7f00:1"),
        ("https://0/", "0.0.0.0"),  # noqa: S104 -- an address to read, not to bind
        ("https://1.1/", "1.0.0.1"),
        ("https://0x/", "0.0.0.0"),  # noqa: S104
        ("https://0X7F.1/", "127.0.0.1"),
        ("https://0x7f000001/", "127.0.0.1"),
        ("https://017700000001/", "127.0.0.1"),
        ("https://127.0.0.1./", "127.0.0.1"),
        ("https://127.0.1/", "127.0.0.1"),
        ("https://127.65535/", "127.0.255.255"),
        ("https://4294967295/", "255.255.255.255"),
        ("https://\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("https://127\u30020\uff0e0\uff611", "127.0.0.1"),
        ("https://\u2460.1.1.1", "1.1.1.1"),
        ("https://1e3/", "1e3"),
        ("https://1.com/", "1.com"),
        ("https://0x7g/", "0x7g"),
        ("https://\uff48.com", "h.com"),
        ("https://\u212a.com", "k.com"),
        ("https://h\u3002com", "h.com"),
        ("https://MÜNCHEN.de", "xn--mnchen-3ya.de"),
        ("https://mu\u0308nchen.de", "xn--mnchen-3ya.de"),
        ("https://XN--MNCHEN-3YA.DE", "xn--mnchen-3ya.de"),
        ("https://\uff58n--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("https://faß.de", "xn--fa-hia.de"),
        ("https://_x.münchen.de", "_x.xn--mnchen-3ya.de"),
        ("https://a-xn--b.com", "a-xn--b.com"),
        (f"https://{'a' * 63}.com", f"{'a' * 63}.com"),
    ],
)
def test_the_host_is_the_one_that_would_be_dialled(url: str, host: str) -> None:
    assert target(url).host == host


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.com",
        "//h.com/",
        "://h.com",
        "https:/h.com",
        "https:h.com",
        "https//h.com",
        "https:\\\\h.com",
        "1https://h.com",
        "ht tps://h.com",
        "ht\ttps://h.com",
        "http\u017f://h.com",
        "ﬁle://h.com",
        "view-source:https://h.com",
        "blob:https://h.com/1",
        "jar:https://h.com!/",
        " https://h.com",
        "https://h.com ",
        "https://h.com\n",
        "https://h.com\x00",
        "https://h.com\x7f",
        "https://h.com/\x85",
        "https://h.com/\xa0",
        "https://h.com/\xad",
        "https://h.com/\u2028",
        "https://h.com/\u202e",
        "https://h.com/\u3000",
        "https://h.com/\ufeff",
        "https://h.com/\ud800",
        "https://h.com?\t",
        "https://h.com#\r\nHost:x",
        "https://h.com\\@evil.com",
        "https://evil.com\\h.com",
        "https://h.com/a\\b",
        "https://h.com?\\",
        "file:///etc/passwd",
        "FILE://h.com/x",
        "data:,x",
        "data://h.com/x",
        "javascript://h.com/%0aalert(1)",
        "https://",
        "https:///",
        "https:///h.com",
        "https:////h.com",
        "https://?h.com",
        "https://#h.com",
        "https://:443",
        "https://user@",
        "https://user@:443",
        "https://.",
        "https://..",
        "https://.h.com",
        "https://h..com",
        "https://h.com..",
        "https://h%2ecom",
        "https://%68.com",
        "https://h.com%00.evil.com",
        "https://h.com%40evil.com",
        "https://h<.com",
        "https://h^.com",
        "https://h|.com",
        "https://h].com",
        "https://h[.com",
        "https://h.com:80:80",
        "https://h.com:80a",
        "https://h.com:+80",
        "https://h.com:-1",
        "https://h.com:8_0",
        "https://h.com:\uff18\uff10",
        "https://h.com:\u0668\u0660",
        "https://h.com:0",
        "https://h.com:000",
        "https://h.com:65536",
        f"https://h.com:{'9' * 5000}",
        "https://256.1.1.1",
        "https://1.2.3.4.5",
        "https://1.2.3.256",
        "https://1.1.65536",
        "https://4294967296",
        "https://08.1.1.1",
        "https://0x7f.h.1",
        "https://h.com.0x1",
        "https://h.1_0.1_0.1",
        "https://1..1",
        "https://::1",
        "https://::1/",
        "https://[::1",
        "https://[::1]x",
        "https://[::1].evil.com",
        "https://[]",
        "https://[h.com]",
        "https://[127.0.0.1]",
        "https://[v1.fe80::a]",
        "https://[::1%25lo]",
        "https://[::1%lo]",
        "https://[::ffff:0x7f.1]",
        "https://[::ffff:127.0.0.01]",
        "https://[1::2::3]",
        "https://[::1]]",
        "https://[[::1]]",
        "https://h.com\uff0fevil.com",
        "https://h.com\uff1aevil.com",
        "https://h.com\uff03evil.com",
        "https://h.com\uff1fevil.com",
        "https://h.com\uff20evil.com",
        "https://h.com\uff3cevil.com",
        "https://h.com\uff052f.evil.com",
        "https://h.com\u2100evil.com",
        "https://\u2474.com\u200b",
        "https://xn--",
        "https://xn--.com",
        "https://xn--a.com",
        "https://xn--abc-.com",
        "https://xn--\u00fc.com",
        "https://\u0300a.com",
        "https://a\u0627.com",
        f"https://{'a' * 64}.com",
        f"https://{'a.' * 126}com",
        f"https://{'ü' * 300}.com",
        f"https://{'ü.' * 2000}com",
        f"https://h.com/{'a' * LONGEST_URL}",
        "https://h.com/..",
        "https://h.com/../a",
        "https://h.com/%2e%2e/a",
        "https://h.com/.%2E/a",
        "https://h.com/a/../..",
        "https://h.com/a%2f..%2f..%2fb",
        "https://h.com/%252e%252e/a",
        "https://h.com/a//../../b",
        "https://h.com/..;/a",
        "https://h.com/%5c..%5c..",
        "https://h.com/x/%c0%ae%c0%ae/%c0%ae%c0%ae/a",
        "https://h.com/%2525252561",
    ],
)
def test_what_parsers_could_read_differently_is_refused(url: str) -> None:
    assert problem(url).isprintable()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://h.com/\u202e", "the URL holds the character U+202E, which parsers read differently"),
        ("https:h.com", "the URL does not start with a scheme and ://"),
        ("data://h.com/", "a data: URL names no place in a network"),
        ("https:///x", "the URL names no host"),
        ("https://h^.com/", 'the host "h^.com" is neither a name nor an address'),
        ("https://u:pw@h^.com/", "the host is neither a name nor an address"),
        ("https://h.com:x/", "the port is not a number from 1 to 65535"),
        ("https://h.com/../", "the path climbs above /"),
        ("https://h.com/%25252561", "the path is percent-encoded more than 3 times over"),
    ],
)
def test_a_refusal_says_why(url: str, told: str) -> None:
    assert problem(url) == told


@pytest.mark.parametrize(
    "url",
    [
        "https://user:SECRET@h^.com/",
        "https://user:SECRET@h.com:x/",
        "https://user:SECRET@h.com/..",
        "https://user:SECRET@",
        "https://user:SECRET\n@h.com/",
        "https://SECRET^/x@h.com/",
        "https://user:SECRET/x@h.com/",
        "https://user:SECRET@h.com/repos",
    ],
)
def test_a_password_is_never_kept_or_shown(url: str) -> None:
    assert "SECRET" not in repr(parse_url(url))


@pytest.mark.parametrize(
    ("url", "userinfo"),
    [
        ("https://h.com/a@b", False),
        ("https://h.com?a@b", False),
        ("https://@h.com/", True),
        ("https://u:p@h.com/", True),
    ],
)
def test_userinfo_is_noticed(url: str, *, userinfo: bool) -> None:
    assert target(url).userinfo is userinfo


@pytest.mark.parametrize(
    ("url", "port", "default"),
    [
        ("http://h.com", 80, True),
        ("ws://h.com", 80, True),
        ("https://h.com", 443, True),
        ("wss://h.com:0443", 443, True),
        ("ftp://h.com:", 21, True),
        ("http://h.com:443", 443, False),
        ("https://h.com:65535", 65535, False),
        ("ssh://h.com", None, True),
        ("git+ssh://h.com:22", 22, False),
    ],
)
def test_the_port_is_the_one_that_would_be_dialled(url: str, port: int | None, *, default: bool) -> None:
    assert (target(url).port, target(url).default_port) == (port, default)


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("", ()),
        ("/", ()),
        ("/a", ("a",)),
        ("/a/", ("a",)),
        ("/a//", ("a", "")),
        ("//a", ("", "a")),
        ("/a/./b/../c", ("a", "c")),
        ("/a/%2e/b/%2E%2e/c", ("a", "c")),
        ("/a/b/..", ("a",)),
        ("/a//../b", ("a", "b")),
        ("/%61%2D%7e%5F", ("a-~_",)),
        ("/%3a%2c%c3%a9", ("%3A%2C%C3%A9",)),
        ("/é{}|^", ("%C3%A9%7B%7D%7C%5E",)),
        ("/a%2fb", ("a%2Fb",)),
        ("/%2561", ("%2561",)),
        ("/100%", ("100%",)),
        ("/%zz%4", ("%zz%4",)),
        ("/a;v=1/b", ("a;v=1", "b")),
        ("/.well-known/...", (".well-known", "...")),
    ],
)
def test_the_literal_form_has_one_spelling(path: str, segments: tuple[str, ...]) -> None:
    assert target(f"https://h.com{path}").segments == segments


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/a/b/", ("a", "b")),
        ("//a///b", ("a", "b")),
        ("/a;v=1/b;w/;x/c", ("a", "b", "c")),
        ("/a%2Fb%5cc", ("a", "b", "c")),
        ("/a%252fb", ("a", "b")),
        ("/%252561", ("a",)),
        ("/%c3%a9", ("é",)),
        ("/é", ("é",)),
        ("/a/..%2fb", ("b",)),
        ("/a/b/..;x/c", ("a", "c")),
        ("/a%3bv=1", ("a",)),
        ("/100%", ("100%",)),
        ("/%ff", ("\udcff",)),
        ("/x%c0%af%c0%ae%c0%ae%c0%afa", ("a",)),
    ],
)
def test_the_plain_form_is_decoded_to_the_end(path: str, plain: tuple[str, ...]) -> None:
    assert target(f"https://h.com{path}").plain == plain


@pytest.mark.parametrize(
    "path", ["/%2F", "/%2f", "/%5C", "/a%5cb", "/%00", "/%", "/%4", "/%zz", "/%%41", "/%u0041", "/%ff"]
)
def test_an_ambiguous_escape_taints_the_path(path: str) -> None:
    assert target(f"https://h.com{path}").tainted


@pytest.mark.parametrize("path", ["", "/a", "/%20", "/%c3%a9", "/%25", "/%252f", "/a;b//c", "/a?%2f", "/a#%00"])
def test_an_ordinary_escape_does_not_taint_the_path(path: str) -> None:
    assert not target(f"https://h.com{path}").tainted


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("h.com", "h.com"),
        ("H.Com.", "h.com"),
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("_x.h.com", "_x.h.com"),
        ("localhost", "localhost"),
        ("0x7f.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("", None),
        (".", None),
        ("*", None),
        ("*.h.com", None),
        ("\uff0a.h.com", None),
        ("h.com:80", None),
        ("h.com/x", None),
        ("https://h.com", None),
        ("user@h.com", None),
        ("h .com", None),
        ("h.com\n", None),
        ("exa\u00admple.com", None),
        ("h..", None),
        ("fe80::1%eth0", None),
        ("[fe80::1%25eth0]", None),
        ("[h.com]", None),
        ("[]", None),
        ("[", None),
        ("256.1.1.1", None),
        ("xn--a.com", None),
        ("\ud800", None),
        ("\U0001f4a9.la", None),
    ],
)
def test_a_host_of_a_rule_is_normal_or_none(text: str, host: str | None) -> None:
    assert normal_host(text) == host


@pytest.mark.parametrize(
    ("prefix", "allowing", "denying"),
    [
        ("", (), ()),
        ("/", (), ()),
        ("/a/", ("a",), ("a",)),
        ("a/b", ("a", "b"), ("a", "b")),
        ("/re%70os", ("repos",), ("repos",)),
        ("/my files", ("my%20files",), ("my files",)),
        ("/caf%c3%a9", ("caf%C3%A9",), ("café",)),
        ("//a//b", ("", "a", "", "b"), ("a", "b")),
        ("/a;v=1", ("a;v=1",), ("a",)),
        ("/a/../b", ("b",), ("b",)),
        ("/%2561", ("%2561",), ("a",)),
        ("/a%2Fb", None, ("a", "b")),
        ("/a%5cb", None, ("a", "b")),
        ("/a\\b", None, ("a", "b")),
        ("/a%00b", None, ("a\0b",)),
        ("/100%", None, ("100%",)),
        ("/a?b", None, ("a",)),
        ("/a#b", None, ("a",)),
        ("/a\n", None, ("a\n",)),
        ("/a\ud800", None, ("a\udced\udca0\udc80",)),
        ("/..", None, None),
        ("/%2e%2e/a", None, None),
        ("/a/..;/..;/b", None, None),
        ("/%2525252561", None, None),
    ],
)
def test_a_path_prefix_has_a_form_for_either_kind_of_rule(
    prefix: str, allowing: tuple[str, ...] | None, denying: tuple[str, ...] | None
) -> None:
    assert (prefix_segments(prefix, allow=True), prefix_segments(prefix, allow=False)) == (allowing, denying)


def test_the_readings_of_a_prefix_start_with_its_plain_form() -> None:
    assert prefix_readings("/a;v=1") == (("a",), ("a;v=1",))
    assert prefix_readings("a") == (("a",),)
    assert prefix_readings("/..") is None


def test_a_path_is_read_with_its_dots_followed_before_slashes_are_merged_and_after() -> None:
    read = target("https://h.com/a//..//b")
    assert (read.segments, read.plain, read.readings) == (("a", "", "b"), ("b",), (("a", "b"),))


@pytest.mark.parametrize(
    ("scheme", "port"), [("http", 80), ("ws", 80), ("https", 443), ("wss", 443), ("ftp", 21), ("gopher", None)]
)
def test_schemes_have_their_default_ports(scheme: str, port: int | None) -> None:
    assert default_port(scheme) == port


FRAGMENTS = (
    "https http :// : / // @ ? # [ ] ::1 % %2e %2F %25 .. . ; h.com 127.1 0x 08 xn-- xn--mnchen-3ya "
    "ü \uff0f \u3002 \\ \ud800 :80 :0"
)
fragments = st.sampled_from([*FRAGMENTS.split(), "\t"])
url_like = st.lists(fragments | st.text(max_size=3), max_size=12).map("".join)


@settings(deadline=None)  # the first host that is not ASCII loads large tables
@given(st.text() | url_like | url_like.map("https://".__add__) | url_like.map("https://h.com/".__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(parse_url(text), Target | BadUrl)


@settings(deadline=None)  # the first host that is not ASCII loads large tables
@given(st.text() | url_like)
def test_any_text_is_a_prefix_or_none(text: str) -> None:
    for segments in (prefix_segments(text, allow=True), prefix_segments(text, allow=False)):
        assert segments is None or ".." not in segments


@settings(deadline=None)  # the first host that is not ASCII loads large tables
@given(url_like.map("https://".__add__))
def test_a_host_that_was_read_stays_the_same_when_read_again(text: str) -> None:
    parsed = parse_url(text)
    if isinstance(parsed, Target) and "*" not in parsed.host:
        assert normal_host(parsed.host) == parsed.host


def named(*readings: tuple[str, ...]) -> set[str]:
    """Return the paths without the slashes at their ends, which name the same place."""
    return {"/".join(reading).rstrip("/") for reading in readings}


@settings(deadline=None)  # the first host that is not ASCII loads large tables
@given(url_like.map("https://h.com/".__add__))
@example("https://h.com/://..")
@example("https://h.com/a//..//b")
def test_a_literal_path_read_again_has_no_reading_that_the_path_had_not(text: str) -> None:
    parsed = parse_url(text)
    if isinstance(parsed, Target) and not parsed.tainted:
        again = target(f"https://h.com/{'/'.join(parsed.segments)}/" if parsed.segments else "https://h.com/")
        assert again.segments == parsed.segments
        assert named(again.plain, *again.readings) <= named(parsed.segments, parsed.plain, *parsed.readings)


@settings(deadline=None)  # the first host that is not ASCII loads large tables
@given(st.text(alphabet="xn-0123456789abcdefghijklmnopqrstuvwxyz.", max_size=20).map("xn--".__add__))
def test_any_punycode_is_a_host_or_none(text: str) -> None:
    assert normal_host(text) in (None, text.removesuffix("."), normal_host(text.removesuffix(".")))


@pytest.mark.parametrize("piece", ["%25", "%2525", "../", "a/../", "/", ";", "%2f", "é", "%", "a;/%2e%2e/"])
def test_the_longest_url_is_read_in_no_time(piece: str) -> None:
    start = process_time()
    parse_url("https://h.com/" + (piece * LONGEST_URL)[: LONGEST_URL - 14])
    assert process_time() - start < 2
