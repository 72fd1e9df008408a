"""What the pages of the dashboard cost on a long audit log.

.venv/bin/python bench/dashboard.py [RECORDS]

A client asks for each page over loopback, signed in as a browser is; the log is the one of bench/policy_tools.py.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from policy_tools import make_log

RECORDS = 20_000
PAGES = (
    ("overview, the first time", "/"),
    ("overview, again", "/"),
    ("activity", "/activity"),
    ("activity, by decision", "/activity?decision=deny"),
    ("activity, a search that finds nothing", "/activity?search=nowhere-to-be-found"),
    ("policy", "/policy"),
    ("the newest 1,000 decisions as JSON", "/api/decisions?after=0"),
)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    for what, figure, ratio in dashboard_figures(records):
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def dashboard_figures(records: int = RECORDS) -> Iterator[tuple[str, str, str]]:
    """Yield how long each page takes, and how large it is, with so many records."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch).resolve()
        root, home = base / "workspace", base / "home"
        root.mkdir()
        before = os.environ.get("BYLEAVE_HOME")
        make_log(root, home, records)
        yield from _figures(root, {**os.environ, "BYLEAVE_HOME": str(home)}, records)
        if before is not None:
            os.environ["BYLEAVE_HOME"] = before


def _figures(root: Path, variables: dict[str, str], records: int) -> Iterator[tuple[str, str, str]]:
    words = [sys.executable, "-m", "byleave", "dashboard", "--no-open", "--json"]
    started = time.perf_counter()
    board = subprocess.Popen(words, cwd=root, env=variables, stdout=subprocess.PIPE)
    try:
        assert board.stdout is not None
        address = urlsplit(json.loads(board.stdout.readline())["url"])
        yield "from the start of the command to its address", f"{time.perf_counter() - started:.2f} s", ""
        line = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        cookie = _sign_in(line, address)
        for what, path in PAGES:
            started = time.perf_counter()
            line.request("GET", path, headers={"Cookie": cookie})
            size = len(line.getresponse().read())
            took = time.perf_counter() - started
            yield f"{what}, {records:,} records", f"{took * 1e3:.0f} ms", f"{size / 1000:.0f} kB"
    finally:
        board.terminate()
        board.wait()


def _sign_in(line: http.client.HTTPConnection, address: SplitResult) -> str:
    line.request("GET", f"/?{address.query}")
    answer = line.getresponse()
    answer.read()
    return (answer.getheader("Set-Cookie") or "").partition(";")[0]


if __name__ == "__main__":
    main()
