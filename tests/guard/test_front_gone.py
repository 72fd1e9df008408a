"""The front of a request that waits has ended: its question can be answered no more, and shows as expired."""

import socket
from pathlib import Path

import pytest

from byleave.caller import Front, FrontGoneError
from byleave.guard.evaluation import ActionRequest, Pending
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.store.questions import Answer, OpenView, Questions


def test_a_front_that_ends_takes_the_answers_to_its_question_with_it(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / "config.toml").write_text('[[rules]]\nask = { command = "make" }\n')
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("byleave.caller._Answered.front", Front(ours, 1))
    workspace = Workspace(str(tmp_path))
    with guard_for(workspace, "hook", client_approves=None) as guard, OpenView(workspace.homes.state), ours:
        pending = guard.authorize(ActionRequest(({"kind": "command", "command": "make"},)))
        assert isinstance(pending, Pending)
        theirs.close()
        with pytest.raises(FrontGoneError):
            guard.hold(pending, 20)
        store = Questions(guard.approvals.directory)
        (left,) = store.all()
        assert not store.answer(Answer(left.id, "once", "x"))
