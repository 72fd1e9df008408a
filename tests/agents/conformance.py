"""The official conformance suite: installed once, run against a server or a client, with what it says of each scenario.

The suite asks for tools and prompts by names of its own, and the gateway calls them `SERVER__NAME`. So what runs
against the gateway is a copy of the suite in which those names have the prefix, and nothing else is changed.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.real_agents import program_of

VERSION = "0.2.0-alpha.12"
NODE = "22.23.3"
NAME = "everything"  # of the server behind the gateway
SERVER = Path(__file__).with_name("conformance_server.py")
CLIENT = Path(__file__).with_name("conformance_client.py")
LEGACY, MODERN = "2025-11-25", "2026-07-28"
PATIENCE = 600.0  # seconds for all scenarios for servers, or for one for clients
_NAMES = re.compile(r"`(test_[a-z0-9_]+|json_schema_2020_12_tool)`")
_LISTED = re.compile(r"^  - (\S+) \[", re.MULTILINE)
_ROW = re.compile(r"^. (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
_OVERALL = re.compile(r"^Passed: (\d+)/\d+, (\d+) failed(?:.|\n)*OVERALL: (PASSED|FAILED)", re.MULTILINE)


@dataclass(frozen=True)
class Score:
    """What the suite says: how many checks of each scenario passed, and which scenarios did."""

    checks: Mapping[str, int]
    passing: frozenset[str]
    output: str

    def __str__(self) -> str:
        return f"{len(self.passing)} of {len(self.checks)}"


def against_server(url: str, revision: str, *, prefixed: bool = False) -> Score:
    """Run all scenarios for servers of a revision."""
    words = ["server", "--url", url, "--suite", "all", "--spec-version", revision]
    said = _said(words, prefixed=prefixed)
    rows = _ROW.findall(said)
    assert rows, said[-2000:]
    passing = frozenset(name for name, _passed, failed in rows if failed == "0")
    return Score({name: int(passed) for name, passed, _failed in rows}, passing, said)


def against_client(revision: str, *words: str) -> Score:
    """Run all scenarios for clients of a revision, but for those about authorization."""
    command = shlex.join([sys.executable, str(CLIENT), *words])
    listed = _LISTED.findall(_said(["list", "--client", "--spec-version", revision]))
    names = [name for name in listed if not name.startswith("auth/")]
    checks, passing, output = {}, set(), ""
    for name in names:
        said = _said(["client", "--command", command, "--scenario", name, "--spec-version", revision])
        found = _OVERALL.search(said)
        assert found is not None, said[-2000:]
        checks[name], output = int(found[1]), f"{output}{said}\n"
        if found[3] == "PASSED":
            passing.add(name)
    return Score(checks, frozenset(passing), output)


def _said(words: list[str], *, prefixed: bool = False) -> str:
    done = subprocess.run(
        [*_suite(prefixed=prefixed), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


def _suite(*, prefixed: bool) -> list[str]:
    node = program_of("node", NODE, "node")
    program = Path(program_of("@modelcontextprotocol/conformance", VERSION, "conformance")).resolve()
    if prefixed:
        original, program = program, program.with_name("prefixed.js")
        program.write_text(_NAMES.sub(rf"`{NAME}__\1`", original.read_text()))
    return [node, str(program)]


@contextmanager
def reference_server() -> Iterator[str]:
    """Run the server that the scenarios ask for, and yield its address."""
    with subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
