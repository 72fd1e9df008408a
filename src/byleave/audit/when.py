"""Points in time as people write them: 90s, 30m, 2h, 7d, or a date and time. Without a zone it is UTC."""

from byleave.errors import InputError
from byleave.text import quoted

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_HINT = "write 90s, 30m, 2h or 7d (that long ago), or a date and time such as 2026-01-31 or 2026-01-31T12:00 (UTC)"


def read_when(text: str, *, now: float) -> str:
    """Return a point in time as records name it; `now` is in seconds since 1970."""
    from datetime import UTC, datetime

    try:
        if text[-1:] in _UNITS and text[:-1].isascii() and text[:-1].isdigit():
            moment = datetime.fromtimestamp(now - int(text[:-1]) * _UNITS[text[-1]], UTC)
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{quoted(text)} is no point in time", hint=_HINT) from None
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
