"""Rules about the arguments of calls: what each test makes of odd values, and that none of them takes long."""

import time
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.action import CallAction
from byleave.core.calls import decide_call
from byleave.core.policy import CompiledPolicy
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from fakes.places import PlainRoot

EVERYBODY = {"*": {"allow": {"servers": ["*"]}}}


def policy_of(*rules: dict[str, Any]) -> CompiledPolicy:
    around = CompileContext(PlainRoot("/ws"))
    return compile_layers([inline_layer({"agents": EVERYBODY, "rules": list(rules)})], around).policy


def answer(word: str, test: dict[str, Any], value: Any, pointer: str = "/v") -> str:
    """Return what one rule about one argument makes of a call that everybody may make."""
    rule = {word: {"call": {"server": "s", "tool": "t", "arg": pointer, **test}}}
    arguments = value if pointer == "" else {"v": value}
    verdict = decide_call(policy_of(rule, {"ask": {"call": {"server": "s"}}}), CallAction("s", "t", arguments, "a"))
    return str(verdict.decision)


DENIES: list[tuple[dict[str, Any], Any, str]] = [
    ({"equals": "x"}, "x", "deny"),
    ({"equals": "x"}, ["y", ["x"]], "deny"),
    ({"equals": "1"}, 1, "ask"),
    ({"equals": 1}, 1.0, "deny"),
    ({"equals": 1}, True, "ask"),
    ({"equals": True}, True, "deny"),
    ({"equals": 1}, 10**400, "ask"),
    ({"prefix": "rm"}, "rm -rf", "deny"),
    ({"prefix": "1"}, 12, "deny"),
    ({"prefix": "t"}, True, "deny"),
    ({"prefix": "x"}, {"x": 1}, "ask"),
    ({"prefix": "1"}, 1 << 8000, "ask"),
    ({"glob": "*.pem"}, "a/b.pem", "deny"),
    ({"glob": "[ab]?"}, "ax", "deny"),
    ({"glob": ""}, "", "deny"),
    ({"glob": "a*"}, "a\nb", "deny"),
    ({"glob": "*\n*"}, "a\nb", "deny"),
    ({"regex": "(?i)\\bdrop\\b"}, "x; DROP table", "deny"),
    ({"regex": "^[0-9]+$"}, 12, "deny"),
    ({"regex": "x"}, "\ud800x", "deny"),
    ({"inside": "secrets"}, "secrets", "deny"),
    ({"inside": "secrets"}, "docs/../secrets/a", "deny"),
    ({"inside": "secrets"}, "./secrets//a", "deny"),
    ({"inside": "secrets"}, "Secrets/a", "deny"),
    ({"inside": "secrets"}, "secrets2", "ask"),
    ({"inside": "/etc"}, "/etc/passwd", "deny"),
    ({"inside": "/etc"}, "//etc/./passwd", "deny"),
    ({"inside": "."}, "anything", "deny"),
    ({"host": "evil.example"}, "https://evil.example/x", "deny"),
    ({"host": "evil.example"}, "https://EVIL.example.:8443", "deny"),
    ({"host": "evil.example"}, "https://user:pw@evil.example/", "deny"),
    ({"host": "evil.example"}, "https://evil.example@good.example/", "ask"),
    ({"host": "b\u00fccher.example"}, "https://xn--bcher-kva.example/", "deny"),
    ({"host": "127.0.0.1"}, "http://127.0.0.1:99999/", "ask"),
]


@pytest.mark.parametrize(("test", "value", "wanted"), DENIES)
def test_what_a_deny_matches(test: dict[str, Any], value: Any, wanted: str) -> None:
    assert answer("deny", test, value) == wanted


UNSURE: list[tuple[dict[str, Any], Any]] = [
    ({"prefix": "x"}, {"x": 1}),
    ({"prefix": "1"}, 1 << 8000),
    ({"inside": "secrets"}, "../secrets"),
    ({"inside": "secrets"}, "/ws/secrets/a"),
    ({"inside": "/etc"}, "etc/passwd"),
    ({"inside": "secrets"}, "~/secrets"),
    ({"inside": "secrets"}, "secrets\\a"),
    ({"inside": "secrets"}, "file:///ws/secrets/a"),
    ({"host": "evil.example"}, "evil.example/x"),
    ({"host": "evil.example"}, "https://good.example\\@evil.example/"),
    ({"host": "evil.example"}, ""),
]


@pytest.mark.parametrize(("test", "value"), UNSURE)
def test_what_may_be_meant_by_a_deny_is_asked_about(test: dict[str, Any], value: Any) -> None:
    verdict = decide_call(
        policy_of({"deny": {"call": {"server": "s", "arg": "/v", **test}}}), CallAction("s", "t", {"v": value}, "a")
    )
    assert (str(verdict.decision), verdict.because[0].rule) == ("ask", "deny call s.*")


@pytest.mark.parametrize(("test", "value"), UNSURE)
def test_and_is_not_allowed(test: dict[str, Any], value: Any) -> None:
    assert answer("allow", test, value) == "ask"


@pytest.mark.parametrize(
    ("test", "value", "wanted"),
    [
        ({"prefix": "docs/"}, ["docs/a", "docs/b"], "allow"),
        ({"prefix": "docs/"}, ["docs/a", "etc/b"], "ask"),
        ({"prefix": "docs/"}, [], "ask"),
        ({"prefix": ""}, None, "ask"),
        ({"inside": "docs"}, "Docs/a", "ask"),
        ({"inside": "docs"}, "docs/a", "allow"),
        ({"host": "good.example"}, "https://good.example/", "allow"),
        ({"host": "good.example"}, "https://u@good.example/", "ask"),
    ],
)
def test_an_allow_needs_a_clear_yes_of_every_element(test: dict[str, Any], value: Any, wanted: str) -> None:
    assert answer("allow", test, value) == wanted


@pytest.mark.parametrize("arguments", ["{}", 1, True])
def test_arguments_that_are_no_object_may_be_anything(arguments: Any) -> None:
    policy = policy_of({"deny": {"call": {"server": "s", "arg": "/v", "equals": "x"}}})
    assert str(decide_call(policy, CallAction("s", "t", arguments, "a")).decision) == "ask"


@pytest.mark.parametrize(
    ("pointer", "arguments", "wanted"),
    [
        ("/a~1b/c~0d", {"a/b": {"c~d": "x"}}, "deny"),
        ("/l/1", {"l": ["y", "x"]}, "deny"),
        ("/l/0", {"l": ["y", "x"]}, "allow"),
        ("/l/k", {"l": [{"k": "y"}, [{"k": "x"}]]}, "deny"),
        ("/l/7", {"l": [{"7": "x"}]}, "deny"),
        ("/", {"": "x"}, "deny"),
        ("/__proto__", {"__proto__": "x"}, "deny"),
        ("/v", {"V": "x"}, "ask"),
        ("/v", {"v": "y", "V": "x"}, "ask"),
        ("/v", {"v": "x", "V": "y"}, "deny"),
        ("/v", {}, "allow"),
        ("/v", None, "allow"),
    ],
)
def test_where_a_pointer_leads(pointer: str, arguments: Any, wanted: str) -> None:
    policy = policy_of({"deny": {"call": {"server": "s", "arg": pointer, "equals": "x"}}})
    assert str(decide_call(policy, CallAction("s", "t", arguments, "a")).decision) == wanted


def test_a_call_may_nest_deeper_than_python_does() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert answer("deny", {"equals": "x"}, deep) == "deny"
    while isinstance(deep, list) and deep:  # taken apart by hand: the interpreter would do it by calling itself
        deep = deep.pop()


@pytest.mark.parametrize(
    "test",
    [
        {"glob": "*a*a*a*a*a*a*b"},
        {"glob": "*[a]*[a]*[a]*b"},
        {"glob": "*.pem"},
        {"regex": "(a+)+$b"},
        {"prefix": "b"},
        {"inside": "b"},
        {"host": "b"},
    ],
)
def test_no_text_makes_a_test_slow(test: dict[str, Any]) -> None:
    started = time.process_time()
    assert answer("deny", test, 500_000 * "a") == "ask"
    assert time.process_time() - started < 2


BAD = [
    {"server": ""},
    {"server": "["},
    {"server": "s", "tool": ""},
    {"server": "s", "arg": "v", "equals": "x"},
    {"server": "s", "arg": "/v"},
    {"server": "s", "arg": "/v", "equals": "x", "prefix": "x"},
    {"server": "s", "equals": "x"},
    {"server": "s", "arg": "/v", "regex": "(?=x)"},
    {"server": "s", "arg": "/v", "regex": "(x)\\1"},
    {"server": "s", "arg": "/v", "regex": "("},
    {"server": "s", "arg": "/v", "glob": "["},
    {"server": "s", "arg": "/v", "host": "no host"},
    {"server": "s", "arg": "/v", "hosts": "a"},
]


@pytest.mark.parametrize("call", BAD)
def test_what_cannot_be_tested_is_an_error(call: dict[str, Any]) -> None:
    with pytest.raises(byleave.ConfigErrors):
        policy_of({"deny": {"call": call}})


def test_a_rule_about_an_agent_holds_for_whoever_counts_as_it_by_default(tmp_path: Path) -> None:
    tree = {
        "agents": {"ops": {"allow": {"servers": ["*"]}}},
        "gateway": {"default_agent": "ops"},
        "rules": [{"deny": {"agent": "ops", "call": {"server": "shop", "tool": "close"}}}],
    }
    policy = byleave.compile_policy(tree, root=str(tmp_path))
    for agent in ("ops", None):
        call = {"kind": "call", "server": "shop", "tool": "close"} | ({} if agent is None else {"agent": agent})
        assert policy.decide(call).decision.word == "deny"
        assert not policy.could_call(agent, "shop", "close")
