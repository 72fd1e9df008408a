"""Charts as SVG that the server draws, each with the same figures as a table for those who do not see it. Pure.

Colours come from the style sheet by class, so that charts follow the light and the dark look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.dashboard.markup import Markup, joined, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT, _FOOT = 1120, 230, 38
_SHARE = 340  # of one bar that is cut into shares
_WORDS = ("deny", "ask", "allow")  # from the top down
_NAMES = {"allow": "allowed", "ask": "needed approval", "deny": "denied"}


def days_chart(days: Sequence[tuple[str, dict[str, int]]]) -> Markup:
    """Return decisions by day: a column each, of allowed, asked and denied ones."""
    most = max([sum(counts.values()) for _day, counts in days], default=0) or 1
    room = _HEIGHT - _FOOT - 8
    step = _WIDTH / max(len(days), 7)
    wide = min(step * 0.7, 48)
    drawn: list[str] = [_line(room + 8)]
    for number, (day, counts) in enumerate(days):
        left, bottom = number * step + (step - wide) / 2, float(room + 8)
        for word in reversed(_WORDS):
            high = counts.get(word, 0) / most * room
            if high:
                bottom -= high
                drawn.append(_bar(left, bottom, wide, high, f"bar-{word}"))
        if len(days) <= 14 or number % (len(days) // 7) == 0:
            at = f"{left + wide / 2:.1f}"
            name = "axis" if number % 4 == 0 else "axis minor"  # on a phone there is room for some
            drawn.append(tag("text", day[5:], x=at, y=str(_HEIGHT - 6), text_anchor="middle", class_=name))
    described = "; ".join(f"{day}: {_described(counts)}" for day, counts in days)
    picture = tag(
        "svg",
        tag("title", f"Decisions by day. {described}"),
        *drawn,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="chart",
        preserveAspectRatio="xMinYMid meet",
    )
    heads = tag("tr", *[tag("th", name, scope="col") for name in ("Day", "Allowed", "Asked", "Denied")])
    rows = [
        tag("tr", tag("th", day, scope="row"), *[tag("td", str(counts.get(word, 0))) for word in reversed(_WORDS)])
        for day, counts in days
    ]
    table = tag("table", tag("thead", heads), tag("tbody", *rows), class_="figures")
    return joined(picture, tag("details", tag("summary", "As a table"), table))


def _described(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts.get(word, 0)} {_NAMES[word]}" for word in reversed(_WORDS))


def share_chart(shares: Sequence[tuple[str, int]], about: str) -> Markup:
    """Return one bar that is cut into shares, and what each is."""
    total = sum(count for _name, count in shares) or 1
    drawn: list[str] = []
    left = 0.0
    for number, (_name, count) in enumerate(shares):
        wide = count / total * _SHARE
        if wide:
            drawn.append(_bar(left, 0, max(wide - 2, 1), 12, f"share-{number}"))
        left += wide
    described = ", ".join(f"{name}: {count}" for name, count in shares)
    picture = tag(
        "svg",
        tag("title", f"{about}. {described}"),
        *drawn,
        viewBox=f"0 0 {_SHARE} 12",
        role="img",
        class_="chart share",
    )
    legend = [
        tag(
            "li",
            tag("span", class_=f"key share-{number}"),
            tag("span", name),
            tag("b", f"{round(count * 100 / total)} %"),
            tag("span", str(count), class_="dim"),
        )
        for number, (name, count) in enumerate(shares)
    ]
    return joined(picture, tag("ul", *legend, class_="legend"))


def bar_list(rows: Sequence[tuple[str, str, int]], empty: str, *, mono: bool = True) -> Markup:
    """Return names with a bar for each: the name, what is said below it, and the number."""
    if not rows:
        return tag("p", empty, class_="dim")
    most = max(count for _name, _note, count in rows) or 1
    items = []
    for name, note, count in rows:
        bar = tag("svg", _bar(0, 0, count / most * 100, 4, "bar"), viewBox="0 0 100 4", aria_hidden="true",
                  preserveAspectRatio="none", class_="meter")  # fmt: skip
        said = tag("span", name, class_="mono name" if mono else "name")
        noted = tag("span", note, class_="dim note") if note else Markup()
        items.append(tag("li", tag("div", said, tag("b", str(count)), class_="line"), noted, bar))
    return tag("ol", *items, class_="bars")


def _bar(left: float, top: float, wide: float, high: float, name: str) -> Markup:
    return tag("rect", x=f"{left:.1f}", y=f"{top:.1f}", width=f"{wide:.1f}", height=f"{high:.1f}", rx="2", class_=name)


def _line(at: int) -> Markup:
    return tag("line", x1="0", x2=str(_WIDTH), y1=str(at), y2=str(at), class_="axis-line")
