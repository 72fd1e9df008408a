"""Whole verdicts: decision, reason, code, rules, place, grants and suggestion of each case in `whole_*.toml`.

A scene has a policy and the places that it is asked about. Without `live`, the paths are given as they were resolved.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core import access as accesses
from byleave.core.access import with_defaults
from byleave.core.action import parse_action
from byleave.core.command_rules import CommandRule, CommandTable
from byleave.core.decide import decide
from byleave.core.decision import verdict_tree
from byleave.core.env_rules import EnvRule, EnvTable
from byleave.core.fs_rules import FsRule, FsTable, FsTarget, RefusedPath
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.policy import CompiledPolicy, PolicyView, ToolPolicy
from byleave.core.protected import Protected, Protection, builtin_places
from byleave.errors import InputError
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
SCENES: list[dict[str, Any]] = [
    scene
    for file in sorted(Path(__file__).parent.glob("whole_*.toml"))
    for scene in tomllib.loads(file.read_text("utf-8"))["scene"]
]

SANDBOX = {(False, False): "plain", (True, False): "confined", (True, True): "confined only", None: "none"}


def access_of(view: dict[str, Any]) -> accesses.Access:
    """Return the access of the tool `t` by the rules that a view writes out, beside the defaults that it names."""
    return with_defaults(
        getattr(accesses, view.get("defaults", "STDIO")),
        fs=FsTable([FsRule(**rule) for rule in view["fs"]]) if "fs" in view else None,
        net=NetTable([NetRule(**rule) for rule in view["net"]]) if "net" in view else None,
        env=EnvTable([EnvRule(**rule) for rule in view["env"]]) if "env" in view else None,
        commands=CommandTable([command_of(rule) for rule in view["commands"]]) if "commands" in view else None,
    )


def command_of(rule: dict[str, Any]) -> CommandRule:
    lists = tuple(tuple(words) for words in rule["args"]) if "args" in rule else None
    return CommandRule(rule["program"], lists)


def policy_of(scene: dict[str, Any], root: str) -> CompiledPolicy:
    views = []
    for number, view in enumerate(scene.get("views", [scene])):
        written = {key: view[key] for key in ("rules", "agents") if key in view}
        compiled = byleave.compile_policy(written, root=root).compiled.policy.views[0]
        enabled = view.get("enabled", True)
        tool = ToolPolicy(view.get("tool", "t"), access_of(view), enabled)
        tools = {} if view.get("no_tools") else {tool.name: tool}
        rules = compiled.rules if "rules" in view else None
        denies_only = view.get("denies_only", False)
        agents = compiled.agents if "agents" in view else None
        views.append(PolicyView(f"view {number}", tools, denies_only, rules, agents))
    found = [Protection(place, path, final=False) for place, path in scene.get("found", {}).items()]
    protected = Protected([*builtin_places(), *found], scene.get("own", ["/home/u/.byleave"]))
    return CompiledPolicy(tuple(views), protected, scene.get("strict_links", False))


def place_of(place: str | dict[str, Any]) -> FsTarget | RefusedPath:
    if isinstance(place, str):
        return FsTarget(f"/ws/{place}".rstrip("/"), place)
    if "problem" in place:
        return RefusedPath(**place)
    if "canonical" not in place:
        return FsTarget(**{"canonical": f"/ws/{place['relative']}".rstrip("/"), **place})
    return FsTarget(**{"relative": None, **place})


def answer(scene: dict[str, Any], case: dict[str, Any], root: str) -> dict[str, Any]:
    """Return the whole verdict as JSON has it, or the text of an input error."""
    try:
        if scene.get("live"):
            policy = byleave.compile_policy(scene["policy"], root=root)
            verdict = policy.decide(case["action"], confines=case.get("confines", False))
        else:
            places = tuple(place_of(each) for each in case.get("places", ()))
            verdict = decide(policy_of(scene, root), parse_action(case["action"]), places)
    except InputError as error:
        return {"error": str(error)}
    tree = verdict_tree(verdict)
    tree["because"] = [" | ".join(ref.values()) for ref in tree["because"]]
    if tree["decision"] != "allow" and tree["suggestion"] is None:
        del tree["suggestion"]  # TOML has no null
    if "grants" in tree:
        tree["grants"] = list(tree["grants"])
    if "sandbox" in tree:
        tree["sandbox"] = SANDBOX[verdict.sandbox]
    for part in tree.get("parts", ()):
        for file in part.get("files", ()):
            file["decision"] = file["decision"] or "silent"
    return tree


@pytest.mark.parametrize("scene", SCENES, ids=[scene["name"] for scene in SCENES])
def test_a_verdict_is_as_the_scene_says_in_every_part(scene: dict[str, Any], stage: Build) -> None:
    built = stage(scene.get("setup"))
    filled = built.fill(scene)
    answers = [answer(filled, case, str(built.root)) for case in filled["case"]]
    assert answers == [case["verdict"] for case in filled["case"]]


def with_rules(scene: dict[str, Any], suggestion: str) -> dict[str, Any]:
    """Return a scene with the suggested rules behind its own, where a person would add them."""
    added = tomllib.loads(suggestion)["rules"]
    if "policy" in scene:
        return {**scene, "policy": {**scene["policy"], "rules": [*scene["policy"].get("rules", []), *added]}}
    return {**scene, "rules": [*scene.get("rules", []), *added]}


@pytest.mark.parametrize(
    "scene",
    [scene for scene in SCENES if "views" not in scene],
    ids=[each["name"] for each in SCENES if "views" not in each],
)
def test_rules_that_are_suggested_allow_what_was_asked_behind_those_that_are_there(
    scene: dict[str, Any], stage: Build
) -> None:
    built = stage(scene.get("setup"))
    filled = built.fill(scene)
    suggested = {n: case["verdict"].get("suggestion", "") for n, case in enumerate(filled["case"])}
    left = [
        filled["case"][n]["action"]
        for n, text in suggested.items()
        if text.startswith(("[[rules]]", "# "))
        and "[[rules]]" in text
        and answer(with_rules(filled, text), filled["case"][n], str(built.root))["decision"] != "allow"
    ]
    assert left == []
