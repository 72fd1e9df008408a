"""The guard's own verdicts, beyond the policy's: a person's yes or no, silence, a record that failed. Pure."""

from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict
from byleave.errors import ByleaveError
from byleave.guard.asking import CANCELLED, CHANGED, CLIENTS, NEVER, NO, NOBODY, SILENCE
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.guard.asking import Reply
    from byleave.policy.live_policy import ResolvedAction


BEFORE = "you approved this before, for this session"


BEFORE_BY_CLIENT = "the client that calls approved this before, for this session"


def approved(resolved: "ResolvedAction", asker: str, *, before: bool = False) -> "ResolvedAction":
    """Return the action with the allow that a yes makes of an ask; `asker` is the name of the asker that got it."""
    verdict = resolved.verdict
    by_client = asker in CLIENTS
    why = _YES[before, by_client]
    because = (RuleRef("its client's answer" if by_client else "your approval", "approval", ALLOW), *verdict.because)
    allowed = Verdict(ALLOW, f"{verdict.reason}; {why}", "ok", because, None, verdict.canonical)
    return resolved.replace(verdict=allowed)


_YES = {
    (False, False): "you allowed it",
    (False, True): "the client that calls allowed it",
    (True, False): BEFORE,
    (True, True): BEFORE_BY_CLIENT,
}
_BY_CLIENT = {NO: "the client that calls said no"}
_WHYS = {
    NO: "you said no",
    NEVER: "you said no to it for this session",
    CANCELLED: "it was cancelled before anybody answered",
    CHANGED: "it changed while you were asked about it",
    SILENCE: "nobody answered in time",
    NOBODY: "nobody can be asked here",
}


def refused(verdict: Verdict, reply: "Reply") -> Verdict:
    """Return the deny that an ask becomes without a yes; an unknown choice is none."""
    why = _WHYS.get(reply.choice, "the answer was not understood")
    if reply.by in CLIENTS:
        why = _BY_CLIENT.get(reply.choice, why)
    ref = RuleRef(why, "approval", DENY)
    because = (ref, *verdict.because)
    # The place is kept: whoever shares this verdict has to know what its suggestion must not give away.
    return Verdict(DENY, f"{verdict.reason}; {why}", "denied", because, verdict.suggestion, verdict.canonical)


def unclear_verdict(verdict: Verdict, why: str) -> Verdict:
    """Return what a verdict becomes where it cannot be told what would be done: a deny stays, everything else asks."""
    if verdict.decision is DENY:
        return verdict
    ref = RuleRef("what cannot be understood is asked", BUILT_IN, ASK)
    reason = why if verdict.decision is ALLOW else f"{verdict.reason}; {why}"
    return Verdict(ASK, reason, "unparsed", (ref, *verdict.because), None, verdict.canonical)


def changed_meanwhile(verdict: Verdict) -> Verdict:
    """Return the deny for what is not what the person was asked about any more."""
    ref = RuleRef("what was shown is what is allowed", BUILT_IN, DENY)
    reason = "it is not what you were asked about any more: something changed while the question was open"
    return Verdict(DENY, reason, "denied", (ref, *verdict.because))


def happened(verdict: Verdict) -> Verdict:
    """Return what the policy says of something that was done by the time it was judged: nothing was denied."""
    if verdict.decision is not DENY:
        return verdict
    reason = f"it was done without a question; asked before, byleave would have said: {verdict.reason}"
    return verdict.replace(reason=reason)


UNUSABLE = Verdict(
    DENY,
    "the policy cannot be used now; byleave tells its user why",
    "io",
    (RuleRef("a policy that cannot be used denies", BUILT_IN, DENY),),
)


UNKEPT = Verdict(
    DENY,
    "the decision could not be recorded; byleave tells its user why",
    "io",
    (RuleRef("nothing is let through that cannot be recorded", BUILT_IN, DENY),),
)


def unrecorded(verdict: Verdict, error: ByleaveError) -> Verdict:
    """Return the deny that an allow becomes if its record could not be written."""
    if verdict.decision is not ALLOW:
        return verdict
    ref = RuleRef("nothing is allowed that cannot be recorded", BUILT_IN, DENY)
    reason = f"the decision could not be recorded: {error.problem}"
    return Verdict(DENY, reason, "io", (ref, *verdict.because))


def named_error(error: BaseException) -> str:
    """Return what kind of error it was: its text may say where a mount leads, which is nobody's affair."""
    reason = error.strerror if isinstance(error, OSError) else error.code if isinstance(error, ByleaveError) else None
    return f"{type(error).__name__}: {shown(str(reason))}" if reason else type(error).__name__
