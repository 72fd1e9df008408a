"""Arguments of calls are judged as a server will read them: by its schema where that is known, else in every way."""

import json
import time
from typing import Any

import pytest

from byleave.core.action import CallAction, action_tree, parse_action
from byleave.core.calls import decide_call
from byleave.core.input_schema import InputSchema, readings_of_text
from byleave.core.policy import CompiledPolicy
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from fakes.places import PlainRoot

Tree = dict[str, Any]
BOOLEAN, INTEGER, STRING = {"type": "boolean"}, {"type": "integer"}, {"type": "string"}
STRINGS = {"type": "array", "items": STRING}


def policy_of(*rules: Tree) -> CompiledPolicy:
    around = CompileContext(PlainRoot("/ws"))
    tree = {"agents": {"*": {"allow": {"servers": ["*"]}}}, "rules": list(rules)}
    return compile_layers([inline_layer(tree)], around).policy


def answer(word: str, test: Tree, arguments: Any, schema: Any = None, pointer: str = "/v") -> str:
    """Return what one rule makes of a call. Where it does not match, a deny comes to allow, and an allow to ask."""
    rule = {word: {"call": {"server": "s", "tool": "t", "arg": pointer, **test}}}
    rest = {"allow" if word == "deny" else "ask": {"call": {"server": "s"}}}
    call = CallAction("s", "t", arguments, "a", schema)
    return str(decide_call(policy_of(rule, rest), call).decision)


def schema_of(**properties: Any) -> Tree:
    return {"type": "object", "properties": properties}


SPELLINGS: list[tuple[Tree, Any, Any]] = [
    *[({"equals": True}, value, BOOLEAN) for value in (True, "true", "True", "TRUE", "yes", "on", "t", "y", "Y", "1")],
    *[({"equals": True}, value, BOOLEAN) for value in (1, 1.0, " true ")],
    *[({"equals": False}, value, BOOLEAN) for value in (False, "false", "no", "off", "f", "n", "0", 0, 0.0)],
    *[({"equals": 1000}, value, INTEGER) for value in (1000, 1000.0, "1000", " 1000", "+1000", "1000.0", "1_000")],
    *[({"equals": 1000}, value, {"type": "number"}) for value in ("1e3", "1000.", "0x3e8", "00001000")],
    *[({"regex": "^1000$"}, value, INTEGER) for value in (1000.0, "1000.0", "1_000")],
    ({"equals": "/etc/shadow"}, '["/etc/shadow"]', STRINGS),
    ({"equals": "/etc/shadow"}, '\n ["a", "/etc/shadow"] ', STRINGS),
    ({"prefix": "/etc"}, '["/etc/shadow"]', STRINGS),
    ({"glob": "*shadow"}, '["/etc/shadow"]', STRINGS),
    ({"regex": "^/etc"}, '["/etc/shadow"]', STRINGS),
    ({"inside": "/etc"}, '["/etc/shadow"]', STRINGS),
    ({"host": "evil.example"}, '["https://evil.example/"]', STRINGS),
    ({"equals": "x"}, '["\\u0078"]', STRINGS),
    ({"equals": 5}, '["5"]', {"type": "array", "items": INTEGER}),
    ({"equals": 5}, '[["5"]]', {"type": "array", "items": {"type": "array", "items": INTEGER}}),
    ({"equals": "x"}, '"x"', {"type": ["string", "null"]}),
    ({"equals": 2}, "2", {"enum": [1, 2]}),
    ({"equals": True}, "yes", {"anyOf": [BOOLEAN, {"type": "null"}]}),
    ({"equals": True}, "yes", {"type": ["boolean", "null"]}),
    ({"equals": "x"}, "x", STRING),
    ({"equals": "x"}, " x\n", STRING),
]


@pytest.mark.parametrize(("test", "value", "of"), SPELLINGS)
def test_a_deny_holds_for_every_spelling_that_the_schema_reads_as_the_value(test: Tree, value: Any, of: Any) -> None:
    assert answer("deny", test, {"v": value}, schema_of(v=of)) == "deny"


@pytest.mark.parametrize(("test", "value", "of"), SPELLINGS)
def test_without_a_schema_every_reading_counts(test: Tree, value: Any, of: Any) -> None:
    assert of is not None
    assert answer("deny", test, {"v": value}) == "deny"


@pytest.mark.parametrize("schema", [True, [], "no schema", {"$ref": "https://elsewhere.example/s"}, {"type": "any"}])
def test_a_schema_that_cannot_be_read_is_no_schema(schema: Any) -> None:
    assert answer("deny", {"equals": True}, {"v": "yes"}, schema) == "deny"
    assert InputSchema(schema).problem({"v": "yes"}) is None


@pytest.mark.parametrize(
    ("test", "value", "of"),
    [
        ({"equals": True}, "false", STRING),
        ({"regex": "^true$"}, "yes", STRING),
        ({"equals": "/etc/shadow"}, '["/etc/shadow"]', STRING),
        ({"equals": True}, 1, INTEGER),
        ({"equals": True}, False, BOOLEAN),
        ({"equals": True}, "false", BOOLEAN),
        ({"equals": True}, "no", BOOLEAN),
        ({"equals": 1000}, "999", INTEGER),
    ],
)
def test_a_deny_leaves_alone_what_the_schema_does_not_read_as_the_value(test: Tree, value: Any, of: Any) -> None:
    assert answer("deny", test, {"v": value}, schema_of(v=of)) == "allow"


@pytest.mark.parametrize(
    ("test", "value", "of", "wanted"),
    [
        ({"prefix": "docs/"}, "docs/a", STRING, "allow"),
        ({"prefix": "docs/"}, '["docs/a"]', STRINGS, "ask"),  # the text itself does not begin so
        ({"glob": "*docs*"}, '["/etc/shadow", "docs"]', STRINGS, "ask"),
        ({"glob": "*docs*"}, '["/docs/a", "docs"]', STRINGS, "allow"),
        ({"glob": "*docs*"}, '["/etc/shadow", "docs"]', None, "ask"),
        ({"equals": 1}, 1, INTEGER, "allow"),
        ({"equals": 1}, 1, None, "allow"),
        ({"equals": True}, 1, BOOLEAN, "ask"),
        ({"equals": True}, "true", BOOLEAN, "ask"),
        ({"equals": "1000"}, "1000", STRING, "allow"),
        ({"equals": "1000"}, "1000", None, "ask"),
        ({"regex": "^[0-9]+$"}, "1000", None, "allow"),
        ({"prefix": "SELECT "}, "SELECT a, b FROM t", None, "allow"),
    ],
)
def test_an_allow_needs_every_reading_to_match(test: Tree, value: Any, of: Any, wanted: str) -> None:
    assert answer("allow", test, {"v": value}, None if of is None else schema_of(v=of)) == wanted


NESTED: list[tuple[str, Any]] = [
    ("/o/force", {"o": '{"force": true}'}),
    ("/o/force", {"o": '{"force": "yes"}'}),
    ("/o/force", {"o": '{"force": 1}'}),
    ("/o/force", {"o": '[{"force": true}]'}),
    ("/o/force", {"o": {"force": "true"}}),
    ("/o/force", {"o": json.dumps(json.dumps({"force": True}))}),
    ("/o/force", {"o": '{"force": false, "force": true}'}),
    ("/o/force", {"o": '{"force": true, "force": false}'}),
    ("/l/0/force", {"l": '[{"force": true}]'}),
    ("/l/force", {"l": ['{"force": true}']}),
]


@pytest.mark.parametrize(("pointer", "arguments"), NESTED)
def test_a_pointer_leads_through_json_inside_of_a_text(pointer: str, arguments: Any) -> None:
    assert answer("deny", {"equals": True}, arguments, pointer=pointer) == "deny"
    inner = schema_of(force=BOOLEAN)
    known = {
        "type": "object",
        "properties": {"o": {"anyOf": [{"$ref": "#/$defs/O"}, {"type": "array", "items": {"$ref": "#/$defs/O"}}]}},
        "$defs": {"O": inner},
    }
    if "l" not in arguments and not str(arguments["o"]).startswith('"'):
        assert answer("deny", {"equals": True}, arguments, known, pointer) == "deny"


def test_a_rule_that_points_into_a_text_means_the_json_in_it() -> None:
    known = schema_of(o=STRING)
    assert answer("deny", {"equals": True}, {"o": '{"force": "yes"}'}, known, "/o/force") == "deny"
    assert answer("deny", {"equals": True}, {"o": '{"force": "no"}'}, known, "/o/force") == "allow"
    assert answer("allow", {"equals": False}, {"o": '{"force": false}'}, known, "/o/force") == "allow"


def test_arguments_may_nest_deeply_where_the_schema_does() -> None:
    node: Any = {"name": "a"}
    for _ in range(25):
        node = {"name": "a", "below": [node]}
    assert InputSchema(RECURSIVE).problem({"node": node}) is None
    for _ in range(5000):
        node = {"name": "a", "below": [node]}
    assert InputSchema(RECURSIVE).problem({"node": node}) is not None


@pytest.mark.parametrize(("wanted", "value"), [(True, "yes"), (False, "off"), (1000, "1e3"), (0, "0")])
def test_a_rule_about_a_value_holds_where_the_server_reads_it_from_a_text_itself(wanted: Any, value: str) -> None:
    """As `z.stringbool` does: its schema says that it takes a text."""
    assert answer("deny", {"equals": wanted}, {"v": value}, schema_of(v=STRING)) == "deny"
    assert answer("deny", {"equals": wanted}, {"v": value}, schema_of(v=STRINGS)) == "allow"


def test_json_that_the_schema_expects_in_a_text_is_read() -> None:
    contents: list[Tree] = [{"contentSchema": STRINGS}, {"contentSchema": {}}, {}]
    for content in contents:
        known = schema_of(v={**STRING, "contentMediaType": "application/json", **content})
        assert answer("deny", {"inside": "/etc"}, {"v": '["/etc/shadow"]'}, known) == "deny"


@pytest.mark.parametrize("how", [{"format": "base64"}, {"format": "base64url"}, {"contentEncoding": "base64"}])
def test_what_a_text_encodes_is_asked_about(how: Tree) -> None:
    known = schema_of(v={**STRING, **how})
    assert answer("deny", {"prefix": "/etc"}, {"v": "L2V0Yy9zaGFkb3c="}, known) == "ask"
    assert answer("allow", {"glob": "*"}, {"v": "L2V0Yy9zaGFkb3c="}, known) == "ask"


def test_the_prototype_of_an_object_may_hold_what_is_meant() -> None:
    for arguments in ({"__proto__": {"v": "x"}}, {"v": "y", "__proto__": {"v": "x"}}):
        assert answer("deny", {"equals": "x"}, arguments, schema_of(v=STRING)) == "ask"
        assert answer("deny", {"equals": "x"}, arguments) == "ask"


def test_a_rule_that_differs_in_case_from_the_schema_is_asked_about() -> None:
    assert answer("deny", {"equals": "x"}, {"force": "x"}, schema_of(force=STRING), "/Force") == "ask"


def test_every_default_counts_where_the_schema_offers_several() -> None:
    both = [schema_of(force={"type": "boolean", "default": value}) for value in (False, True)]
    known = schema_of(o={"anyOf": both})
    for wanted in (False, True):
        assert answer("deny", {"equals": wanted}, {"o": {}}, known, "/o/force") == "deny"


def test_a_default_behind_a_reference_counts() -> None:
    known = {**schema_of(v={"$ref": "#/$defs/V"}), "$defs": {"V": {"type": "boolean", "default": True}}}
    assert answer("deny", {"equals": True}, {}, known) == "deny"
    nested = schema_of(o={"anyOf": [schema_of(force={"type": "boolean", "default": True}), {"type": "null"}]})
    assert answer("deny", {"equals": True}, {"o": "{}"}, nested, "/o/force") == "deny"


@pytest.mark.parametrize("listed", [["a", {"1": "x"}], ["a", '{"1": "x"}'], '["a", {"1": "x"}]', [{"1": "x"}, "a"]])
def test_a_number_in_a_pointer_is_a_place_in_a_list_and_a_name_in_its_elements(listed: Any) -> None:
    assert answer("deny", {"equals": "x"}, {"l": listed}, pointer="/l/1") == "deny"
    assert answer("deny", {"equals": "a"}, {"l": ["a", "b"]}, pointer="/l/1") == "allow"


def test_json_that_lies_deeper_than_it_is_read_is_asked_about() -> None:
    text: Any = {"force": True}
    for _ in range(7):
        text = json.dumps(text)
    assert answer("deny", {"equals": True}, {"o": text}, pointer="/o/force") == "ask"
    assert answer("deny", {"equals": "x"}, {"v": 5000 * "[" + 5000 * "]"}) == "ask"
    assert answer("allow", {"glob": "*"}, {"v": 5000 * "[" + 5000 * "]"}) == "ask"


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ({"equals": "1"}, 1),
        ({"equals": "/etc/shadow"}, "a,/etc/shadow"),
        ({"prefix": "/etc"}, "a, /etc/shadow"),
        ({"equals": "/etc/shadow"}, {"0": "a", "1": "/etc/shadow"}),
        ({"equals": 10}, 5000 * "1"),
    ],
)
def test_what_only_some_servers_read_so_is_asked_about(test: Tree, value: Any) -> None:
    assert answer("deny", test, {"v": value}) == "ask"
    assert answer("deny", test, {"v": "another"}) == "allow"


UNCLEAR_PATHS = [
    "src/%2e%2e/x",
    "src/..%2Fx",
    "src/a\n../x",
    "src/a,../x",
    "src/..;/x",
    "src/.. /x",
    "src/.\u200b./x",
    "src/{a,../../x}",
    "src/x?../../y",
    "$HOME/src",
    "file:src/a",
]


@pytest.mark.parametrize("path", UNCLEAR_PATHS)
def test_a_path_that_some_servers_take_apart_in_another_way_is_asked_about(path: str) -> None:
    assert answer("allow", {"inside": "src"}, {"v": path}) == "ask"
    assert answer("deny", {"inside": "secrets"}, {"v": path}) == "ask"


@pytest.mark.parametrize(
    "path", ["src/a b.py", "src/100%.txt", "src/[id].ts", "src/a..b", "src/...", "src/é", "src/a,b", "src/*.py"]
)
def test_a_path_with_marks_that_lead_nowhere_is_a_path(path: str) -> None:
    assert answer("allow", {"inside": "src"}, {"v": path}) == "allow"
    assert answer("deny", {"inside": "src"}, {"v": path}) == "deny"
    assert answer("deny", {"inside": "/secrets"}, {"v": f"/{path}"}) == "allow"


@pytest.mark.parametrize("path", ["sec*/a", "*", "**/a", "secret?/a", "secrets/*"])
def test_a_pattern_that_may_match_what_is_denied_is_no_allow(path: str) -> None:
    assert answer("deny", {"inside": "secrets"}, {"v": path}) in ("ask", "deny")
    assert answer("deny", {"inside": "secrets"}, {"v": "src/*"}) == "allow"


@pytest.mark.parametrize(
    "name", ["filePath", "FilePath", "FILE_PATH", "file-path", "filepath", " file_path", "file_path "]
)
def test_a_name_that_forgiving_readers_take_for_the_one_that_is_meant_is_asked_about(name: str) -> None:
    assert answer("deny", {"equals": "x"}, {name: "x"}, pointer="/file_path") == "ask"
    both = schema_of(file_path=STRING, **{name: STRING})
    assert answer("deny", {"equals": "x"}, {name: "x"}, both, "/file_path") == "allow"


def test_true_is_a_number_where_the_schema_wants_one() -> None:
    assert answer("deny", {"equals": 1}, {"v": True}, schema_of(v=INTEGER)) == "deny"
    assert answer("deny", {"equals": 1}, {"v": True}, schema_of(v=BOOLEAN)) == "allow"
    assert answer("deny", {"equals": 1}, {"v": True}, schema_of(v={"anyOf": [INTEGER, {}]})) == "ask"
    assert answer("deny", {"equals": 1}, {"v": True}) == "allow"


def test_what_is_not_given_is_what_the_schema_says_that_it_is_then() -> None:
    known = schema_of(force={"type": "boolean", "default": True}, depth={"type": "integer", "default": 1})
    assert answer("deny", {"equals": True}, {}, known, "/force") == "deny"
    assert answer("deny", {"equals": True}, None, known, "/force") == "deny"
    assert answer("deny", {"equals": True}, {"force": False}, known, "/force") == "allow"
    assert answer("deny", {"equals": 2}, {}, known, "/depth") == "allow"
    assert answer("allow", {"equals": True}, {}, known, "/force") == "ask"  # it was not said


def test_a_text_may_be_true_to_a_javascript_server_whatever_it_says() -> None:
    made_by_zod = {"$schema": "http://json-schema.org/draft-07/schema#", **schema_of(v=BOOLEAN)}
    assert answer("deny", {"equals": True}, {"v": "false"}, made_by_zod) == "ask"
    assert answer("deny", {"equals": True}, {"v": False}, made_by_zod) == "allow"


RECURSIVE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/Node"}},
    "required": ["node"],
    "additionalProperties": False,
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": STRING, "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["name"],
        }
    },
}
FITS: list[tuple[Any, Any]] = [
    ({"type": "object"}, {"anything": [1, {"a": None}]}),
    ({}, {"v": 1}),
    (schema_of(v=STRING), {}),
    (schema_of(v=STRING), None),
    (schema_of(v=STRING), {"v": "x", "undeclared": 1}),
    (schema_of(v=BOOLEAN), {"v": "yes"}),
    (schema_of(v=BOOLEAN), {"v": 1}),
    (schema_of(v=INTEGER), {"v": "12"}),
    (schema_of(v=INTEGER), {"v": 12.0}),
    (schema_of(v=STRINGS), {"v": '["a"]'}),
    (schema_of(v={"type": "object", "additionalProperties": INTEGER}), {"v": {"a": 1, "b": "2"}}),
    (schema_of(v={"type": "string", "nullable": True}), {"v": None}),
    (schema_of(v={"anyOf": [STRING, {"type": "null"}]}), {"v": None}),
    (schema_of(v={"oneOf": [STRING, INTEGER]}), {"v": 3}),
    (schema_of(v={"enum": ["a", 1]}), {"v": "1"}),
    (schema_of(v={"type": "array", "prefixItems": [STRING, INTEGER]}), {"v": ["a", 1, None]}),
    (schema_of(v={"type": "array", "items": [STRING]}), {"v": ["a", 5]}),
    (schema_of(v={"type": "date"}), {"v": {}}),
    (schema_of(v={"type": "string", "pattern": "(a+)+$", "minLength": 99}), {"v": "b"}),
    ({"patternProperties": {"(a+)+$": INTEGER}, "additionalProperties": False}, {"b": "x"}),
    (RECURSIVE, {"node": {"name": "a", "below": [{"name": "b", "below": []}]}}),
]


@pytest.mark.parametrize(("schema", "arguments"), FITS)
def test_arguments_that_fit(schema: Any, arguments: Any) -> None:
    assert InputSchema(schema).problem(arguments) is None


MISFITS: list[tuple[Any, Any, str]] = [
    (schema_of(v=STRING), {"v": 1}, "/v is not a text"),
    (schema_of(v=STRING), {"v": None}, "/v is not a text"),
    (schema_of(v=STRING), {"v": ["x"]}, "/v is not a text"),
    (schema_of(v=BOOLEAN), {"v": "maybe"}, "/v is not true or false"),
    (schema_of(v=BOOLEAN), {"v": 2}, "/v is not true or false"),
    (schema_of(v=INTEGER), {"v": "1.5"}, "/v is not a whole number"),
    (schema_of(v=INTEGER), {"v": 1.5}, "/v is not a whole number"),
    (schema_of(v=INTEGER), {"v": "nan"}, "/v is not a whole number"),
    (schema_of(v=STRINGS), {"v": "/etc/shadow,/etc/passwd"}, "/v is not a list"),
    (schema_of(v=STRINGS), {"v": "['/etc/shadow']"}, "/v is not a list"),
    (schema_of(v=STRINGS), {"v": {"0": "/etc/shadow"}}, "/v is not a list"),
    (schema_of(v=STRINGS), {"v": "[1]"}, "/v is not a list"),
    (schema_of(v=STRINGS), {"v": ["a", 1]}, "/v/1 is not a text"),
    (schema_of(v={"enum": ["a", "b"]}), {"v": "A"}, "/v is none of the values that the tool takes there"),
    (schema_of(v={"const": 1}), {"v": 2}, "/v is not the value that the tool takes there"),
    (schema_of(v={"anyOf": [STRING, INTEGER]}), {"v": []}, "/v is nothing that the tool takes there"),
    (
        schema_of(v={"allOf": [STRING, {"enum": ["a"]}]}),
        {"v": "b"},
        "/v is none of the values that the tool takes there",
    ),
    ({**schema_of(v=STRING), "required": ["v"]}, {}, "/v is missing"),
    ({**schema_of(v=STRING), "required": ["v"]}, None, "/v is missing"),
    ({**schema_of(v=STRING), "required": ["v"]}, {"V": "x"}, "/v is missing"),
    ({**schema_of(v=STRING), "additionalProperties": False}, {"v": "x", "V": 1}, "/V is not expected"),
    (RECURSIVE, {"node": {"name": "a", "below": [{"below": []}]}}, "/node/below/0/name is missing"),
    (RECURSIVE, {"node": {"name": "a", "below": "[{}]"}}, "/node/below is not a list"),
]


@pytest.mark.parametrize(("schema", "arguments", "wanted"), MISFITS)
def test_arguments_that_do_not_fit(schema: Any, arguments: Any, wanted: str) -> None:
    assert InputSchema(schema).problem(arguments) == wanted


@pytest.mark.long
def test_no_schema_makes_the_check_slow() -> None:
    doubling: Any = STRING
    for _ in range(40):
        doubling = {"anyOf": [doubling, doubling]}
    circles = [
        {"properties": {"v": {"$ref": "#/properties/v"}}},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "string"},
        schema_of(v=doubling),
    ]
    started = time.process_time()
    for schema in circles:
        assert InputSchema(schema).problem({"v": 5}) is not None
        assert answer("deny", {"equals": 5}, {"v": "5"}, schema) == "deny"
    assert time.process_time() - started < 10


@pytest.mark.long
def test_no_arguments_make_the_check_slow() -> None:
    many: Any = {"v": ['["5"]'] * 50_000}
    started = time.process_time()
    InputSchema(schema_of(v={"type": "array", "items": STRINGS})).problem(many)
    assert answer("deny", {"host": "evil.example"}, {"v": 500_000 * ","}) in ("ask", "deny")
    assert answer("deny", {"equals": "6"}, many, schema_of(v={"type": "array", "items": STRINGS})) == "ask"
    assert answer("allow", {"glob": "*"}, many) == "ask"  # nobody looks at so many readings
    assert answer("deny", {"equals": "6"}, {"v": ["five"] * 50_000}, schema_of(v=STRINGS)) == "allow"
    assert time.process_time() - started < 10


def test_the_schema_is_no_part_of_what_is_done() -> None:
    call = CallAction("s", "t", {"v": 1}, "a", schema_of(v=STRING))
    assert action_tree(call) == {"kind": "call", "server": "s", "tool": "t", "arguments": {"v": 1}, "agent": "a"}
    assert parse_action({**action_tree(call), "schema": {}}) == CallAction("s", "t", {"v": 1}, "a")


@pytest.mark.parametrize("reference", [7, "#anchor", "other.json#/x", "https://h.example/s", "#/$defs/x", "#/type/x"])
def test_a_reference_that_leads_elsewhere_says_nothing(reference: Any) -> None:
    schema = InputSchema(schema_of(v={"$ref": reference}))
    assert schema.problem({"v": [1]}) is None
    told = schema_of(v={"$ref": reference})
    for value in (1, "1", "yes"):  # as where nothing is known of it
        assert answer("deny", {"equals": 1}, {"v": value}, told) == answer("deny", {"equals": 1}, {"v": value}, {})


def test_a_value_that_is_too_large_to_check_counts_as_one_that_fits() -> None:
    schema = InputSchema({"type": "array", "items": {"type": "array", "items": STRING}})
    assert not schema.admits(schema.top, [[1]])
    assert schema.admits(schema.top, [["x"] * 500] * 400)
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    circular = InputSchema({"type": "array", "items": {"$ref": "#"}})
    assert circular.admits(circular.top, deep)


def test_the_word_null_may_be_read_as_nothing() -> None:
    assert list(readings_of_text(" null ")) == [None]
    assert list(readings_of_text("Null")) == []
