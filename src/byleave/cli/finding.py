"""What the doctor finds: one thing, and whether it is well."""

from byleave.record import Record

GOOD, NOTE, BAD = "ok", "note", "bad"


class Finding(Record):
    """One thing the doctor looked at."""

    state: str
    what: str
    text: str
