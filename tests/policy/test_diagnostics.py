"""What people are told about a configuration file that cannot be used."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import msgspec
import msgspec.inspect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.errors import ConfigErrors
from byleave.policy.diagnostics import MOST_PROBLEMS, check_tree, walk
from byleave.policy.schema_types import ConfigFile
from byleave.policy.toml_spans import locate
from byleave.policy.toml_text import parse_toml


def told(text: str) -> str:
    errors = check_tree(parse_toml(text, "byleave.toml"), file="byleave.toml", places=locate(text))
    return "\n".join(str(error) for error in errors)


GOOD = [
    "",
    "strict_links = true\ndefaults.os_sandbox = 'require'",
    "tools.t.access.commands.make.envs = {strategy = 'dedup', value = ['x']}",
    "[conversation.tools.t]\nsource = 'mcp.github'",
    "[tools.t]\nsource = 'local'\ncommand = 'a b'\nruntime = 'wasm'\nrun = 'edit'\nenable = false",
    "[tools.t]\ncommand = ['a']\ndescription = 'd'\n[tools.t.options]\nfree = [1, {when = 2024-01-01}]",
    "tools.t.run = [{arg = '/a', mode = 'skip', equals = 1}, {arg = '/b', mode = 'ask', glob = '*'}]",
    "[[tools.t.access.fs]]\npath = '.'\nexternal = true\nread = true\nwrite = false\nexecute = true",
    "[[tools.t.access.net]]\nhost = 'h'\nscheme = 'https'\nport = 65535\npath_prefix = '/'\nallow = true",
    "[[tools.t.access.env]]\nname = 'A*'\nsubstitute = true",
    "[tools.t.access]\nfs = []\nnet = {strategy = 'replace', value = [{host = 'h', private = true}]}",
    "[tools.t.access.commands.cargo]\nargs = [['check', '**'], []]\nenvs = {strategy = 'append', value = []}",
    "[tools.t.sandbox]\nfilesystem = {allow = ['a'], writable = ['b']}\nnetwork = {allow = [], envs = ['E']}",
    "tools.t.sandbox.commands.make = {args = [['all']], envs = []}",
    "[sandbox]\nread = ['/opt', '~/.cargo']\nwrite = {strategy = 'dedup', value = ['/var/cache']}",
    "[tools.t.limits]\nprocesses = 1\nmemory = '2 GB'\nfile_size = 1\nopen_files = 8\nwall_time = 0.5",
    "[tools.t.limits]\nmemory = 9223372036854775807\nwall_time = 60",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_good_file_has_no_problems(text: str) -> None:
    assert told(text) == ""


BAD: dict[str, tuple[str, str]] = {
    "a misspelt key names the nearest": (
        '[tools.t]\n[[tools.t.access.fs]]\npth = "src"\n',
        """\
byleave.toml:3: unknown key "pth" in tools.t.access.fs[0]
    pth = "src"
    ^^^
  hint: did you mean "path"?""",
    ),
    "a key in capitals is that key": (
        "tools.t.Enable = true",
        """\
byleave.toml:1: unknown key "Enable" in tools.t
    tools.t.Enable = true
            ^^^^^^
  hint: did you mean "enable"?""",
    ),
    "a key with the wrong dash is that key": (
        "strict-links = true",
        """\
byleave.toml:1: unknown key "strict-links" at the top of the file
    strict-links = true
    ^^^^^^^^^^^^
  hint: did you mean "strict_links"?""",
    ),
    "the beginning of a key is that key": (
        "tools.t.access.net = [{host = 'h', path = '/'}]",
        """\
byleave.toml:1: unknown key "path" in tools.t.access.net[0]
    tools.t.access.net = [{host = 'h', path = '/'}]
                                       ^^^^
  hint: did you mean "path_prefix"? "path" is a key of tools.*.access.fs[], \
rules[].allow, rules[].ask, rules[].deny or shell.access.fs[]""",
    ),
    "a key that belongs elsewhere is sent there": (
        "[tools.t]\nread = true",
        """\
byleave.toml:2: unknown key "read" in tools.t
    read = true
    ^^^^
  hint: "read" is a key of tools.*.access.fs[], tools.*.access.env[], shell.access.fs[], shell.access.env[] \
or sandbox""",
    ),
    "a key of the top level is sent there": (
        "[defaults]\nstrict_links = true",
        """\
byleave.toml:2: unknown key "strict_links" in defaults
    strict_links = true
    ^^^^^^^^^^^^
  hint: "strict_links" is a key of the top level""",
    ),
    "a key like no other gets the list": (
        "[defaults]\nzzz = 1",
        """\
byleave.toml:2: unknown key "zzz" in defaults
    zzz = 1
    ^^^
  hint: the keys here are os_sandbox, deny_on_missing_agent, mode and ask_timeout""",
    ),
    "a value that is not enforced is refused": (
        '[store]\non_failure = "allow"\n',
        """\
byleave.toml:2: store.on_failure: unknown value "allow"
    on_failure = "allow"
                 ^^^^^^^
  hint: write "deny" or "spool\"""",
    ),
    "a boolean in quotes": (
        'strict_links = "yes"',
        """\
byleave.toml:1: strict_links: expected true or false, got the string "yes"
    strict_links = "yes"
                   ^^^^^
  hint: write true or false, without quotes""",
    ),
    "a number for a string": (
        "tools.t.access.env = [{name = 5}]",
        """\
byleave.toml:1: tools.t.access.env[0].name: expected a string, got the number 5
    tools.t.access.env = [{name = 5}]
                                  ^
  hint: put it between quotes: "5\"""",
    ),
    "one item instead of a list": (
        "tools.t.access.commands.make.envs = 'CC'",
        """\
byleave.toml:1: tools.t.access.commands.make.envs: expected a list of strings or a table, got the string "CC"
    tools.t.access.commands.make.envs = 'CC'
                                        ^^^^
  hint: put it in a list: ["CC"]""",
    ),
    "a date where a table belongs": (
        "tools = 2024-01-01",
        """\
byleave.toml:1: tools: expected a table, got a date
    tools = 2024-01-01
            ^^^^^^^^^^
  hint: write a table, such as {grep = {source = "builtin"}}""",
    ),
    "a lone run rule": (
        "tools.t.run = {}",
        """\
byleave.toml:1: tools.t.run: expected "ask", "edit", "skip", "unattended" or a list of tables, got a table
    tools.t.run = {}
                  ^^
  hint: put it in a list: [{...}]""",
    ),
    "single brackets for a list of rules": (
        "[tools.t.access.fs]\npath = 'x'\nread = true",
        """\
byleave.toml:1: tools.t.access.fs: expected a list, got a table
    [tools.t.access.fs]
                    ^^
  hint: write [[tools.t.access.fs]], with double brackets, once for each rule""",
    ),
    "a table for a list of strings": (
        "tools.t.access.commands.make.envs = {}",
        """\
byleave.toml:1: tools.t.access.commands.make.envs: expected a list, got a table
    tools.t.access.commands.make.envs = {}
                                        ^^
  hint: write [...], or {strategy = ..., value = [...]}""",
    ),
    "a missing key": (
        "[[tools.t.access.fs]]\nread = true",
        """\
byleave.toml:1: missing key "path" in tools.t.access.fs[0]
    [[tools.t.access.fs]]
                     ^^
  hint: add path = "src\"""",
    ),
    "a missing key in a list written out": (
        "tools.t.access.net = [\n  {host = 'h'},\n  {port = 1},\n]",
        """\
byleave.toml:3: missing key "host" in tools.t.access.net[1]
      {port = 1},
      ^^^^^^^^^^
  hint: add host = "api.example.com\"""",
    ),
    "a misspelt word": (
        '[tools.t]\nruntime = "vsf"',
        """\
byleave.toml:2: tools.t.runtime: unknown value "vsf"
    runtime = "vsf"
              ^^^^^
  hint: did you mean "vfs"? If not, write "stdio", "vfs" or "wasm\"""",
    ),
    "a source that is none": (
        "tools.t.source = 'remote'",
        """\
byleave.toml:1: tools.t.source: unknown value "remote"
    tools.t.source = 'remote'
                     ^^^^^^^^
  hint: write "local", "builtin" or "mcp.<server>\"""",
    ),
    "a source with a line end after it": (
        'tools.t.source = "local\\n"',
        """\
byleave.toml:1: tools.t.source: unknown value "local\\n"
    tools.t.source = "local\\n"
                     ^^^^^^^^^
  hint: write "local", "builtin" or "mcp.<server>\"""",
    ),
    "a port out of range": (
        "tools.t.access.net = [{host = 'h', port = 0}]",
        """\
byleave.toml:1: tools.t.access.net[0].port: 0 is out of range
    tools.t.access.net = [{host = 'h', port = 0}]
                                              ^
  hint: write a whole number from 1 to 65535""",
    ),
    "a number that is not worth writing out": (
        "tools.t.access.net = [{host = 'h', port = 0x" + "f" * 20 + "}]",
        """\
byleave.toml:1: tools.t.access.net[0].port: a very large number is out of range
    tools.t.access.net = [{host = 'h', port = 0xffffffffffffffffffff}]
                                              ^^^^^^^^^^^^^^^^^^^^^^
  hint: write a whole number from 1 to 65535""",
    ),
    "a run rule without a condition": (
        "tools.t.run = [{arg = '/a', mode = 'ask'}]",
        """\
byleave.toml:1: tools.t.run[0] needs one of prefix, equals, glob, regex or inside
    tools.t.run = [{arg = '/a', mode = 'ask'}]
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: add one of prefix, equals, glob, regex or inside""",
    ),
    "a run rule with two conditions": (
        "tools.t.run = [{arg = '/a', mode = 'ask', glob = 'a', regex = 'b'}]",
        """\
byleave.toml:1: tools.t.run[0] has glob and regex
    tools.t.run = [{arg = '/a', mode = 'ask', glob = 'a', regex = 'b'}]
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep one of them and remove the others""",
    ),
    "names from the file cannot act on the terminal": (
        '[tools."a b\\u001b[31m"]\n"\\u202e" = 1',
        """\
byleave.toml:2: unknown key "\\u202e" in tools."a b\\x1b[31m"
    "\\u202e" = 1
    ^^^^^^^^
  hint: the keys here are source, command, runtime, run, enable, description, options, access, sandbox, limits, \
request_timeout, cancel_timeout, max_file_size, parameters, stateful, actions and format_arguments""",
    ),
    "a number that only has a smallest value": (
        "audit.keep_days = 0",
        """\
byleave.toml:1: audit.keep_days: 0 is out of range
    audit.keep_days = 0
                      ^
  hint: write a whole number, 1 or more""",
    ),
    "a time that is over at once": (
        "tools.t.limits.wall_time = 0",
        """\
byleave.toml:1: tools.t.limits.wall_time: 0 is out of range
    tools.t.limits.wall_time = 0
                               ^
  hint: write a number above 0 and up to 31536000""",
    ),
    "a time that is no number": (
        "tools.t.limits.wall_time = nan",
        """\
byleave.toml:1: tools.t.limits.wall_time: nan is out of range
    tools.t.limits.wall_time = nan
                               ^^^
  hint: write a number above 0 and up to 31536000""",
    ),
    "a time in quotes": (
        "tools.t.limits.wall_time = '10'",
        """\
byleave.toml:1: tools.t.limits.wall_time: expected a number, got the string "10"
    tools.t.limits.wall_time = '10'
                               ^^^^
  hint: write a number, without quotes""",
    ),
    "a size with a fraction of a byte": (
        "tools.t.limits.memory = 1.5",
        """\
byleave.toml:1: tools.t.limits.memory: expected a whole number or a string, got the number 1.5
    tools.t.limits.memory = 1.5
                            ^^^
  hint: write a whole number or a string, such as "2 GB\"""",
    ),
    "too few open files": (
        "tools.t.limits.open_files = 7",
        """\
byleave.toml:1: tools.t.limits.open_files: 7 is out of range
    tools.t.limits.open_files = 7
                                ^
  hint: write a whole number from 8 to 1073741824""",
    ),
    "a misspelt limit": (
        "tools.t.limits.procceses = 7",
        """\
byleave.toml:1: unknown key "procceses" in tools.t.limits
    tools.t.limits.procceses = 7
                   ^^^^^^^^^
  hint: did you mean "processes"?""",
    ),
    "a path of the machine that is no list": (
        "sandbox.read = '/opt'",
        """\
byleave.toml:1: sandbox.read: expected a list of strings or a table, got the string "/opt"
    sandbox.read = '/opt'
                   ^^^^^^
  hint: put it in a list: ["/opt"]""",
    ),
    "a sandbox list takes no strategy": (
        "tools.t.sandbox.network.allow = {strategy = 'append', value = []}",
        """\
byleave.toml:1: tools.t.sandbox.network.allow: expected a list of strings, got a table
    tools.t.sandbox.network.allow = {strategy = 'append', value = []}
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write a list of strings, such as ["api.example.com"]""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD.keys())
def test_a_problem_is_told_with_its_place_and_a_hint(text: str, expected: str) -> None:
    assert told(text) == expected


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "[tools.b]\nrun = 1\n[tools.a]\nrun = 2\n[tools.b.options]\n[defaults]\nx = 1\n[tools.b.access]\ny = 1\n"
    errors = check_tree(parse_toml(text, "f"), file="f", places=locate(text))
    assert [error.at.line for error in errors if error.at] == [2, 4, 7, 9]


TREES: list[tuple[object, list[str]]] = [
    ({"tools": {"t": {"access": {"fs": [{"path": 1}]}}}}, ["tools.t.access.fs[0].path: expected a string"]),
    ({"tools": {"a b": {"x": 1}}, "y": 2}, ['unknown key "x" in tools."a b"', 'unknown key "y" at the top']),
    ([], ["the file: expected a table, got a list"]),
    (None, ["the file: expected a table, got null"]),
    ({"strict_links": None}, ["strict_links: expected true or false, got null"]),
    ({"strict_links": 1}, ["strict_links: expected true or false, got the number 1"]),
    ({"tools": {1: {}}}, ["tools has a key that is not a string: the number 1"]),
    ({1: {}}, ["the file has a key that is not a string: the number 1"]),
    ({"\ud800": 1}, ['unknown key "\\ud800" at the top']),
    ({"tools": {"t": {"run": "\ud800"}}}, ['tools.t.run: unknown value "\\ud800"']),
    ({"tools": {"t": {"source": "x" * 99}}}, [f'tools.t.source: unknown value "{"x" * 60}..."']),
]


@pytest.mark.parametrize(("tree", "expected"), TREES)
def test_without_text_the_path_says_where(tree: object, expected: list[str]) -> None:
    errors = check_tree(tree)
    assert [str(error)[: len(start)] for error, start in zip(errors, expected, strict=True)] == expected


def test_without_text_the_file_is_still_named() -> None:
    assert check_tree({"x": 1}, file="p.json")[0].problem == 'p.json: unknown key "x" at the top of the file'


def test_a_refusal_that_the_walk_does_not_understand_still_counts() -> None:
    class Name(str):
        __slots__ = ()

    tree: dict[str, object] = {Name("tools"): {}}  # msgspec takes no subclass of str for the key of a table
    assert (list(walk(tree)), [error.problem for error in check_tree(tree)]) == (
        [],
        ["Expected `str` - at `key` in `$`"],
    )


def test_a_file_with_too_many_problems_is_not_told_whole() -> None:
    errors = check_tree({f"key{number}": 1 for number in range(10_000)})
    assert (len(errors), errors[-1].problem) == (MOST_PROBLEMS + 1, "there are more than 200 problems")


SYNTAX: dict[str, tuple[bytes, str]] = {
    "no value": (b"a = 1\nb = \n", "2: TOML knows no such value\n    b = \n        ^"),
    "capitals": (b"a = True # x", "1: TOML knows no such value\n    a = True # x\n        ^^^^"),
    "twice": (b"a = 1\r\n a = 2 # x\r\n", "2: this key is set twice\n     a = 2 # x\n     ^^^^^"),
    "twice at the end": (b"a = 1\na = 2", "2: this key is set twice\n    a = 2\n    ^^^^^"),
    "table twice": (b"[a]\n[a]\n", "2: this table is declared twice\n    [a]\n    ^^^"),
    "two on a line": (b"a = 1 b = 2", "1: the line should end here\n    a = 1 b = 2\n          ^"),
    "inline": (b"a = {}\na.b = 1\n", "2: this adds to a table that is complete\n    a.b = 1\n    ^^^^^^^"),
    "string": (b'a = "x\n', '1: a string is not closed\n    a = "x\n          ^'),
    "literal": (b"a = 'x\n", "1: a string is not closed\n    a = 'x\n          ^"),
    "list": (b"a = [1\nb = 2", "2: this list is not closed\n    b = 2\n    ^"),
    "escape": (b'a = "C:\\d"', '1: no such escape in double quotes\n    a = "C:\\d"\n             ^'),
    "header": (b"[a\n", "1: the brackets of this table are not closed\n    [a\n      ^"),
    "prose": (b"\n# x\n= 1", "3: this is no TOML\n    = 1\n    ^"),
    "date": (b"a = 2023-02-30", "1: there is no such date\n    a = 2023-02-30\n        ^^^^^^^^^^"),
    "control": (b"a = '\x01'", "1: a control character stands here\n    a = '\\x01'\n         ^^^^^"),
    "nul": (b"# \x00", "1: a NUL byte stands here\n    # \\x00\n      ^^^^"),
    "bom": (b"\xef\xbb\xbfa = 1", "1: the file begins with a byte order mark\n    \\ufeffa = 1\n    ^^^^^^"),
    "latin-1": (b"a = 1\nb = '\xc3\xa4\xe4'", "2: this is not UTF-8\n    b = 'ä\\xe4'\n          ^^^^"),
    "utf-16": (b"\xff\xfea\x00", "1: this is not UTF-8\n    \\xff\\xfea\\x00\n    ^^^^^^^^"),
    "long key": (b"a" + b".a" * 32 + b"=1", f"1: this key has too many names\n    a{'.a' * 32}=1\n    {'^' * 65}"),
    "nesting": (
        b"a = [\n" + b"[" * 5000 + b"]" * 5001,
        f"2: values are nested too deep\n    {'[' * 300}\n    {' ' * 99}^",
    ),
    "number": (b"a = " + b"1" * 5000, f"1: this number is too long\n    a = {'1' * 296}\n        {'^' * 296}"),
}


@pytest.mark.parametrize(("data", "expected"), SYNTAX.values(), ids=SYNTAX.keys())
def test_text_that_is_no_toml_is_told_with_its_place(data: bytes, expected: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        parse_toml(data, "f")
    assert str(raised.value).rpartition("\n  hint: ")[0] == f"f:{expected}"


@given(st.binary(max_size=40) | st.text("ab=.[]{}\"'\\#,\n\r\t 1\ufeff\0", max_size=40))
def test_any_bytes_become_a_tree_or_an_error_with_a_place(data: bytes | str) -> None:
    try:
        parse_toml(data, "f")
    except ConfigErrors as errors:
        told = str(errors)
    else:
        told = ""
    assert not told or re.match(r"f:[1-9]\d*: ", told)


JUNK: list[Any] = [None, True, 0, 70000, 2**70, 1.5, "", "ask", "local", "x", [], ["a"], [[]], {}, {"a": 1}]
JUNK += [{"strategy": "append", "value": []}, {"value": ["x"]}, dt.date(2024, 1, 1), {1: 2}, [None], "\ud800"]
NAMES = ["t", "path", "host", "fs", "rules", "Read", "prefix", "\ud800"]


def fitting(draw: Callable[[Any], Any], kind: Any) -> Any:
    """Draw a value of a kind that msgspec.inspect describes, and now and then something else."""
    if draw(st.integers(0, 14)) == 0:
        return draw(st.sampled_from(JUNK))
    match kind:
        case msgspec.inspect.Metadata():
            return fitting(draw, kind.type)
        case msgspec.inspect.UnionType():
            return fitting(draw, draw(st.sampled_from(kind.types)))
        case msgspec.inspect.StructType():
            return fitting_table(draw, kind)
        case msgspec.inspect.DictType():
            names = draw(st.lists(st.sampled_from(NAMES), max_size=2))
            return {name: fitting(draw, kind.value_type) for name in names}
        case msgspec.inspect.ListType():
            return [fitting(draw, kind.item_type) for _ in range(draw(st.integers(0, 2)))]
        case msgspec.inspect.LiteralType():
            return draw(st.sampled_from(kind.values))
        case msgspec.inspect.BoolType():
            return draw(st.booleans())
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return draw(st.sampled_from([1, 80, 65535]))
        case _:
            return draw(st.sampled_from(["local", "builtin", "mcp.x"]))


def fitting_table(draw: Callable[[Any], Any], kind: Any) -> dict[str, Any]:
    likely = draw(st.sampled_from([1, 3, 9]))
    chosen = [field for field in kind.fields if field.required or draw(st.integers(0, 9)) < likely]
    table = {field.encode_name: fitting(draw, field.type) for field in chosen}
    if draw(st.integers(0, 19)) == 0:
        table[draw(st.sampled_from(NAMES))] = draw(st.sampled_from(JUNK))
    if table and draw(st.integers(0, 19)) == 0:
        del table[draw(st.sampled_from(sorted(table)))]
    return table


@st.composite
def nearly_files(draw: Callable[[Any], Any]) -> Any:
    return fitting(draw, msgspec.inspect.type_info(ConfigFile))


def fits(tree: object) -> bool:
    try:
        msgspec.convert(tree, ConfigFile, strict=True)
    except ValueError:
        return False
    return True


@pytest.mark.long
@settings(max_examples=amounts.of(300, 80), deadline=None)
@given(nearly_files())
def test_the_walk_finds_a_problem_exactly_when_msgspec_refuses(tree: object) -> None:
    assert bool(list(walk(tree))) == (not fits(tree)) == bool(check_tree(tree))
