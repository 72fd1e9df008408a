"""How a verdict becomes prose. The words come from the verdict itself, never from a second look at the rules."""

from byleave.core.decision import ALLOW, Verdict
from byleave.text import sentence_list, shown


def explain(verdict: Verdict) -> str:
    """Return the verdict for a person: the decision and its reason, the rules behind it, and what would help."""
    lines = [f"{verdict.decision.word}: {verdict.reason}"]
    lines += _parts(verdict)
    lines += [f"  because: {shown(ref.rule)} ({ref.decision.word}, {shown(ref.source)})" for ref in verdict.because]
    if verdict.sandbox is not None and verdict.sandbox[0]:
        lines.append("  sandbox: it must run confined" if verdict.sandbox[1] else "  sandbox: it runs confined")
    if verdict.grants is not None:
        granted = sentence_list(verdict.grants) if verdict.grants else "nowhere"
        lines.append(f"  granted at: {granted}")
    if verdict.decision is not ALLOW and verdict.suggestion:
        lines.append("  to allow it, add to your configuration:")
        lines += [f"    {line}" for line in verdict.suggestion.splitlines()]
    return "\n".join(lines)


def _parts(verdict: Verdict) -> list[str]:
    """Return a small table of the commands found, each with its decision; one command needs none."""
    if len(verdict.parts) < 2:
        return []
    width = min(48, max(len(part.text) for part in verdict.parts))
    return [
        f"  {part.decision.word:<5}  {_cut(part.text, width):<{width}}  {shown(part.why)}" for part in verdict.parts
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
