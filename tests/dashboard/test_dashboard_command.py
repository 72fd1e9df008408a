"""`byleave dashboard` as a process: what it prints, what it starts on a desktop, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dashboard.dashboard_scene import RULES, Room


def write_program(file: Path, log: Path) -> None:
    file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\n')
    file.chmod(0o755)


def test_it_opens_the_browser_notifies_without_secrets_and_ends_on_a_signal(tmp_path: Path, own_home: Path) -> None:
    root, programs = tmp_path / "ws", tmp_path / "bin"
    for directory in (root, programs):
        directory.mkdir()
    (root / "byleave.toml").touch()
    (own_home / "config.toml").write_text(RULES)
    opened, notified = tmp_path / "opened", tmp_path / "notified"
    write_program(programs / "xdg-open", opened)
    write_program(programs / "notify-send", notified)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "DISPLAY": ":9"}
    words = [sys.executable, "-m", "byleave", "dashboard", "--root", str(root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as serving:
        assert serving.stdout is not None
        lines = [serving.stdout.readline().decode() for _ in range(3)]
        assert lines[2].strip().startswith("http://127.")
        end = time.monotonic() + 20
        while not opened.exists() or not opened.read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert opened.read_text() != lines[2].strip()  # each address is good for one browser
        room = Room(root, own_home, "", None)  # type: ignore[arg-type]  # only its hook is used
        room.command("npm install very-secret-name")
        while not notified.exists() or not notified.read_text():
            assert time.monotonic() < end + 20
            time.sleep(0.05)
        assert notified.read_text() == "--app-name=byleave -- byleave codex wants to run a command\n"
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(timeout=20) == 0
        assert serving.stderr is not None
        assert serving.stderr.read() == b""


def test_json_is_one_line_and_no_browser_is_opened(tmp_path: Path, own_home: Path) -> None:
    words = [sys.executable, "-m", "byleave", "dashboard", "--json", "--no-open", "--root", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        line = json.loads(serving.stdout.readline())
        assert set(line) == {"url", "port", "pid"}
        assert (line["pid"], f":{line['port']}/?token=" in line["url"]) == (serving.pid, True)
        serving.terminate()
        assert serving.stdout.read() == b""
