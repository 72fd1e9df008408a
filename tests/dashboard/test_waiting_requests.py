"""Requests wait for an answer from an open dashboard, up to a limit, and not where none is open."""

import threading
from pathlib import Path

from byleave.core.decision import ALLOW, DENY
from byleave.guard.evaluation import Who
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.store.questions import OpenView, Questions
from fakes.asking import answer_first


def test_a_request_without_a_terminal_waits_for_the_dashboard(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[[rules]]\nask = { command = "make" }\n')
    store = Questions(Workspace(str(tmp_path)).approvals.directory)
    with guard_for(Workspace(str(tmp_path)), "call", client_approves=None, check_holds=True) as guard:
        action = {"kind": "command", "command": "make all"}
        assert guard.check(action, Who("a")).verdict.decision is DENY  # at once
        with OpenView(Workspace(str(tmp_path)).homes.state):
            answering = threading.Thread(target=answer_first, args=(store, "once"))
            answering.start()
            assert guard.check(action, Who("a")).verdict.decision is ALLOW
            answering.join()


def test_no_answer_in_time_is_a_no(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[defaults]\nask_timeout = 0.3\n[[rules]]\nask = { command = "make" }\n')
    with (
        guard_for(Workspace(str(tmp_path)), "call", client_approves=None, check_holds=True) as guard,
        OpenView(Workspace(str(tmp_path)).homes.state),
    ):
        assert guard.check({"kind": "command", "command": "make"}).verdict.decision is DENY
        assert list(Questions(Workspace(str(tmp_path)).approvals.directory).all()) == []


def test_a_question_that_nobody_could_read_is_not_put(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[defaults]\nask_timeout = 5\n[[rules]]\nask = { command = "make" }\n')
    with (
        guard_for(Workspace(str(tmp_path)), "call", client_approves=None, check_holds=True) as guard,
        OpenView(Workspace(str(tmp_path)).homes.state),
    ):
        answer = guard.check({"kind": "command", "command": f"make {'x' * 30_000}"})
        assert "no person can be asked here" in answer.verdict.reason
        assert not (Path(guard.approvals.directory) / "questions").exists()


def test_a_project_file_does_not_say_how_long_requests_wait(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "byleave.toml").write_text("[defaults]\nask_timeout = 3600\n")
    workspace = Workspace(str(tmp_path))
    content = (tmp_path / "byleave.toml").read_bytes()
    workspace.approvals.trust(workspace.print_of("byleave.toml", content, {}), now="2026-01-01T00:00:00Z")
    with guard_for(Workspace(str(tmp_path)), "call", client_approves=None, check_holds=True) as guard:
        assert guard.ask_timeout == 60
        assert any("ask_timeout holds only in your own file" in each for each in guard.warnings)


def test_what_a_proxy_decides_does_not_wait(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[[rules]]\nask = { url = { host = "example.com" } }\n')
    workspace = Workspace(str(tmp_path))
    with guard_for(workspace, "run", client_approves=None) as guard, OpenView(workspace.homes.state):
        assert guard.check({"kind": "url", "url": "https://example.com/"}).verdict.decision is DENY
        assert not (Path(guard.approvals.directory) / "questions").exists()
