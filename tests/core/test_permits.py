"""A permit is for the action that was allowed: it is not made without an allow, changed, copied or sent."""

import copy
import pickle

import pytest

from byleave.core.action import FileAction
from byleave.core.decision import ALLOW, ASK, DENY, Decision, Verdict
from byleave.core.permit import Permit

ACTION = FileAction("read", "src")


@pytest.mark.parametrize("decision", [ASK, DENY])
def test_there_is_no_permit_without_an_allow(decision: Decision) -> None:
    with pytest.raises(PermissionError, match="no permit without an allowed verdict: it is secret"):
        Permit(ACTION, (), Verdict(decision, "it is secret", "denied", ()))


def test_a_permit_is_not_changed_copied_or_sent() -> None:
    permit = Permit(ACTION, (), Verdict(ALLOW, "yes", "ok", ()))
    with pytest.raises(PermissionError, match="ask again"):
        permit.replace(action=FileAction("delete", "src"))
    for send in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PermissionError, match="ask again"):
            send(permit)
