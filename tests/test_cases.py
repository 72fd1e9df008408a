"""The case files are the specification: each question, put to the library, to the batch command and to the SDK."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import verdict_tree
from byleave.sdk import Context, FsAccessError
from stage import Stage, load_cases

Build = Callable[[dict[str, Any] | None], Stage]
ACCESS = load_cases("access.jsonl") + load_cases("access_more.jsonl")


def expected(answer: dict[str, Any], expect: dict[str, Any]) -> bool:
    """Whether an answer is what the case asks for."""
    if "error" in expect:
        return bool(answer.get("error", {}).get("code") == expect["error"])
    verdict = answer["verdict"]
    decisions = ("ask", "deny") if expect["decision"] == "not_allow" else (expect["decision"],)
    fields = {key: verdict.get(key) for key in ("code", "canonical") if key in expect}
    wanted = {key: expect[key] for key in fields}
    grants = sorted(verdict.get("grants", ())) == sorted(expect["grants"]) if "grants" in expect else True
    shaped = bool(verdict["because"] and verdict["reason"]) and ("suggestion" in verdict) == (
        verdict["decision"] != "allow"
    )
    return verdict["decision"] in decisions and fields == wanted and grants and shaped


def ask_library(root: Path, case: dict[str, Any]) -> dict[str, Any]:
    try:
        policy = byleave.compile_policy(case["policy"], root=str(root))
        return {"verdict": verdict_tree(policy.decide(case["action"]))}
    except (byleave.ConfigErrors, byleave.InputError) as error:
        return {"error": {"code": error.code}}


@pytest.mark.parametrize("case", ACCESS, ids=lambda case: case["id"])
def test_the_library_answers_as_the_case_says(case: dict[str, Any], stage: Build) -> None:
    scene = stage(case.get("root_setup"))
    case = scene.fill(case)
    answer = ask_library(scene.root, case)
    assert expected(answer, case["expect"]), answer


def test_the_batch_command_answers_every_case_in_order(tmp_path: Path) -> None:
    scenes = []
    for number, case in enumerate(ACCESS):
        (tmp_path / str(number)).mkdir()
        scenes.append(Stage.build(tmp_path / str(number), case.get("root_setup") or {}))
    cases = [scene.fill(case) for scene, case in zip(scenes, ACCESS, strict=True)]
    lines = [
        json.dumps({"id": case["id"], "root": str(scene.root), "policy": case["policy"], "action": case["action"]})
        for scene, case in zip(scenes, cases, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "byleave", "check", "--batch"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [case["id"] for case in cases]
    wrong = [answer for answer, case in zip(answers, cases, strict=True) if not expected(answer, case["expect"])]
    assert wrong == []


@pytest.mark.parametrize("case", load_cases("context.jsonl"), ids=lambda case: case["id"])
def test_the_sdk_answers_as_the_case_says(case: dict[str, Any], stage: Build) -> None:
    scene = stage(case.get("root_setup"))
    case = scene.fill(case)
    context = Context.from_json(json.dumps({**case["context"], "root": str(scene.root)}))
    answer: dict[str, str] = {}
    try:
        answer = {"decision": "allow", "canonical": getattr(context, f"check_{case['check']}")(case["path"])}
    except FsAccessError as error:
        answer = {"decision": "deny", "code": error.code}
    assert {key: answer.get(key) for key in case["expect"]} == case["expect"]
