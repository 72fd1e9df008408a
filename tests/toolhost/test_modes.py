"""Does a call run at all? One mode, or conditions on its arguments."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.decision import ALLOW, ASK, DENY
from byleave.errors import ConfigErrors
from byleave.policy.load import Workspace
from byleave.toolhost.authorize import mode_of, mode_verdict

DOCS_UNATTENDED = {"arg": "/path", "prefix": "docs/", "mode": "unattended"}
INSIDE_DOCS = {"arg": "/path", "inside": "docs", "mode": "unattended"}
SECRETS_SKIP = {"arg": "/path", "glob": "*secret*", "mode": "skip"}

CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "one mode is for every call": ("skip", {"path": "x"}, "skip"),
    "the first condition that holds decides": ([SECRETS_SKIP, DOCS_UNATTENDED], {"path": "docs/secret"}, "skip"),
    "a later one decides if the first does not hold": (
        [SECRETS_SKIP, DOCS_UNATTENDED],
        {"path": "docs/a"},
        "unattended",
    ),
    "where none holds the user is asked": ([DOCS_UNATTENDED], {"path": "src/a"}, "ask"),
    "an argument that is not there matches nothing": ([DOCS_UNATTENDED], {}, "ask"),
    "an empty list asks": ([], {"path": "docs/a"}, "ask"),
    "equals compares values, not their spelling": ([{"arg": "/n", "equals": 1, "mode": "edit"}], {"n": 1.0}, "edit"),
    "true is not one": ([{"arg": "/n", "equals": 1, "mode": "edit"}], {"n": True}, "ask"),
    "a pattern is searched for": ([{"arg": "/sql", "regex": "(?i)drop", "mode": "skip"}], {"sql": "DROP it"}, "skip"),
    "a broken pattern loosens nothing": ([{"arg": "/sql", "regex": "(", "mode": "unattended"}], {"sql": "x"}, "ask"),
    "a broken pattern may be what a stricter mode means": (
        [{"arg": "/q", "regex": "(", "mode": "skip"}],
        {"q": "x"},
        "skip",
    ),
    "of a list, any element may ask": (
        [{"arg": "/paths", "prefix": "etc", "mode": "skip"}, {"arg": "/paths", "prefix": "", "mode": "unattended"}],
        {"paths": ["docs/a", "etc/b"]},
        "skip",
    ),
    "of a list, every element must match to run unattended": (
        [{"arg": "/paths", "prefix": "docs/", "mode": "unattended"}],
        {"paths": ["docs/a", "src/b"]},
        "ask",
    ),
    "a list of which every element matches runs": (
        [{"arg": "/paths", "prefix": "docs/", "mode": "unattended"}],
        {"paths": ["docs/a", "docs/b"]},
        "unattended",
    ),
    "a path that climbs out of a prefix is still a text": ([DOCS_UNATTENDED], {"path": "docs/../x"}, "unattended"),
    "a path that climbs out is not inside": ([INSIDE_DOCS], {"path": "docs/../x"}, "ask"),
    "a path inside is inside": ([INSIDE_DOCS], {"path": "./docs/a/../b"}, "unattended"),
    "an object is no text": ([DOCS_UNATTENDED], {"path": {"docs/": 1}}, "ask"),
}


@pytest.mark.parametrize(("run", "arguments", "mode"), CASES.values(), ids=CASES.keys())
def test_a_call_runs_as_its_mode_says(run: Any, arguments: dict[str, Any], mode: str) -> None:
    assert mode_of(run, arguments) == mode


def test_a_mode_is_a_verdict_and_only_unattended_allows() -> None:
    modes = ("unattended", "ask", "edit", "skip")
    assert [mode_verdict(mode, "t").decision for mode in modes] == [ALLOW, ASK, ASK, DENY]


def test_a_condition_that_cannot_be_used_is_a_mistake_in_the_file(tmp_path: Path) -> None:
    run = [{"arg": "path", "prefix": "x", "mode": "skip"}, {"arg": "/a", "regex": "(", "mode": "skip"}]
    with pytest.raises(ConfigErrors) as caught:
        Workspace(str(tmp_path)).compile_tree({"tools": {"t": {"source": "local", "run": run}}})
    assert len(caught.value.exceptions) == 2
