"""The pages of the dashboard as HTML. Pure: values in, text out; `markup.tag` escapes everything.

Questions and live decisions are put in by `assets/app.js`, which sets texts and never HTML. There is no script or style
in a page itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from msgspec import Struct

from byleave.core.command_groups import GROUPS
from byleave.dashboard.charts import bar_list, days_chart, share_chart
from byleave.dashboard.markup import Markup, cut, joined, tag
from byleave.dashboard.question_view import because_of, difference, facts_of, parts_of
from byleave.dashboard.records import DECISIONS, LONGEST_ROW, local_time, row_of
from byleave.policy.layers import ENCLOSING
from byleave.store.audit.wording import part
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from byleave.dashboard.records import Activity, Figures
    from byleave.policy.compile import Compiled
    from byleave.policy.layers import Layer
    from byleave.store.audit.table import StoredRecord

PATHS = {
    "/": "Overview",
    "/approvals": "Approvals",
    "/live": "Live",
    "/activity": "Activity",
    "/policy": "Policy",
    "/try": "Try",
}
_LONGEST_FIELD = 20_000  # characters of one field of a record; the audit log has the rest
_LONGEST_RULE = 1000  # characters
_MOST_RULES = 1000  # in the table of a policy


class Frame(Struct, frozen=True):
    """What is around every page. `keep`: later pages have no token, so that the browser has to keep this one."""

    token: str
    path: str
    query: Mapping[str, str]
    workspaces: Sequence[tuple[str, str]]
    chosen: str
    keep: bool = False


def page(frame: Frame, title: str, body: Markup) -> Markup:
    """Return a whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", f"{title} · byleave"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="byleave-token", content=frame.token, data_keep=frame.keep),
        tag("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/style.css"),
        tag("script", src="/app.js", defer=True),
    )
    own = "?" + urlencode({"workspace": frame.query["workspace"]}) if frame.query.get("workspace") else ""
    links = [
        tag(
            "a",
            tag("span", name),
            tag("span", class_="count", id="waiting", hidden=True) if path == "/approvals" else Markup(),
            href=path + own,
            aria_current="page" if path == frame.path else None,
        )
        for path, name in PATHS.items()
    ]
    header = tag(
        "header",
        tag("a", Markup(_MARK), tag("span", "byleave"), class_="brand", href=f"/{own}"),
        tag("nav", *links, aria_label="Pages"),
        class_="top",
    )
    main = tag("main", tag("div", tag("h1", title), _choice(frame), class_="head"), body, id="main", tabindex="-1")
    banner = tag("div", id="banner", role="status", class_="banner", hidden=True)
    skip = tag("a", "Skip to content", class_="skip", href="#main")
    whole = tag("html", head, tag("body", skip, header, banner, main), lang="en")
    return Markup(f"<!doctype html>{whole}")


_MARK = (
    '<svg viewBox="0 0 24 24" aria-hidden="true" class="mark">'
    '<path d="M12 2 4 5v6c0 5 3.4 9.3 8 11 4.6-1.7 8-6 8-11V5z" class="shield"/>'
    '<path d="m8.5 12 2.5 2.5 4.5-5" class="tick"/></svg>'
)


def _choice(frame: Frame) -> Markup:
    """Return the list of workspaces, for pages that are about one of them."""
    if frame.path == "/approvals":
        return Markup()
    options = [
        tag("option", cut(_short(root), 80), value=id_, selected=id_ == frame.chosen) for id_, root in frame.workspaces
    ]
    select = tag("select", *options, name="workspace", id="workspace")
    button = tag("button", "Show", class_="quiet")
    return tag(
        "form", tag("label", "Workspace", for_="workspace"), select, button, class_="choice", action=frame.path,
        method="get",
    )  # fmt: skip


def _short(root: str) -> str:
    return root if len(root) <= 60 else f"…{root[-59:]}"


def signed_out(problem: str) -> Markup:
    """Return what a browser gets that has neither a cookie nor a token."""
    said = (
        problem or "Open the address that `byleave dashboard` prints in your terminal. It works once, for ten minutes."
    )
    body = tag("body", tag("h1", "Not signed in"), tag("p", said))
    return Markup(f"<!doctype html>{tag('html', tag('head', tag('title', 'byleave')), body, lang='en')}")


# ---- Overview --------------------------------------------------------------------------------------------------------


def overview(figures: Figures) -> Markup:
    """Return how much was decided, by whom, and what would save questions."""
    total = sum(figures.decisions.values())
    if not total:
        hint = "Once an agent works here, this page shows what it did. `byleave setup` installs the hooks."
        return tag("section", tag("h2", "Nothing was decided here yet"), tag("p", hint), class_="card empty")
    asked = round(figures.decisions["ask"] * 100 / total, 1)
    tiles = [
        _tile("Allowed", figures.decisions["allow"], "allow"),
        _tile("Needed approval", figures.decisions["ask"], "ask", f"{asked} % of all"),
        _tile("Denied", figures.decisions["deny"], "deny"),
    ]
    deciders = [("Rules", "rule"), ("Earlier approvals", "approval"), ("You", "person"), ("No answer", "nobody")]
    shares = [(name, figures.deciders.get(key, 0)) for name, key in deciders]
    agents = [
        (
            name or "without a name",
            f"{counts.get('ask', 0)} asked, {counts.get('deny', 0)} denied",
            sum(counts.values()),
        )
        for name, counts in figures.agents
    ]
    return joined(
        tag("div", *tiles, class_="tiles"),
        _card("Decisions by day", days_chart(figures.days), wide=True),
        tag(
            "div",
            _card("Who decides", share_chart(shares, "Who decides")),
            _card("Agents", bar_list(agents, "No agent yet.", mono=False)),
            _card(
                "Most denied", bar_list([(name, "", count) for name, count in figures.denied], "Nothing was denied.")
            ),
            _card("Rules that save most questions", bar_list(list(figures.rules), "No rule has allowed anything yet.")),
            _card("Hosts", bar_list([(name, "", count) for name, count in figures.hosts], "No host was reached.")),
            class_="grid",
        ),
    )


def _tile(name: str, number: int, kind: str, note: str = "") -> Markup:
    return tag(
        "section",
        tag("h2", name),
        tag("p", f"{number:,}".replace(",", "\u202f") if number > 9999 else str(number), class_="big"),
        tag("p", note, class_="dim") if note else Markup(),
        class_=f"tile {kind}",
    )


def _card(title: str, *children: str, wide: bool = False) -> Markup:
    return tag("section", tag("h2", title), *children, class_="card wide" if wide else "card")


# ---- Approvals, Live and Try: the page's own script fills them -------------------------------------------------------


def approvals() -> Markup:
    """Return the frame of the questions."""
    keys = [
        ("a", "allow once"),
        ("s", "for this session"),
        ("w", "always"),
        ("d", "deny"),
        ("j", "next"),
        ("k", "back"),
    ]
    legend = [tag("span", tag("kbd", key), f" {name}") for key, name in keys]
    empty = tag(
        "section",
        tag("h2", "Nothing waits for you"),
        tag("p", "Questions of your agents appear here by themselves, within two seconds."),
        class_="card empty",
        id="no-questions",
        hidden=True,
    )
    notify = tag("button", "Notify me", type="button", class_="quiet", id="notify", hidden=True)
    return joined(
        tag("p", *legend, notify, class_="keys"),
        tag("div", id="together"),
        tag("div", id="questions", data_view="approvals", aria_live="polite", aria_label="Questions", role="list"),
        empty,
        tag("p", class_="dim", id="more-questions", role="status", hidden=True),
        _without_script(),
    )


def live(workspace: str, agents: Sequence[str]) -> Markup:
    """Return the frame of the live decisions."""
    filters = tag(
        "form",
        _field("Search", tag("input", type="search", id="search", autocomplete="off", placeholder="Text")),
        _field("Decision", _select("decision", ["", *DECISIONS], "", "any")),
        _field("Agent", _select("agent", ["", *agents], "", "any")),
        _field("Source", _select("door", ["", "hook", "acp", "mcp", "call", "run"], "", "any")),
        tag("button", "Pause", type="button", id="pause", aria_pressed="false"),
        tag("span", class_="dim", id="shown", aria_live="off"),
        class_="filters",
        id="live-filters",
    )
    heads = [tag("th", name, scope="col") for name in ("Time", "Decision", "Agent", "Source", "What", "Why")]
    body = tag("tbody", id="rows", data_view="live", data_workspace=workspace)
    table = tag("table", tag("thead", tag("tr", *heads)), body, class_="records")
    empty = tag("p", "No decision yet. They appear as they are made.", class_="dim", id="no-rows")
    region = tag("div", table, class_="scroll", tabindex="0", aria_label="Decisions", role="region")
    return joined(filters, region, empty, _without_script())


def try_page(workspace: str) -> Markup:
    """Return the frame in which actions are tried."""
    examples = ["git push --force", "read .env", "https://example.com/", 'call github create_issue {"title": "x"}']
    tags = [tag("button", each, type="button", class_="quiet mono example") for each in examples]
    form = tag(
        "form",
        tag("label", "Action to try", for_="action"),
        tag("textarea", id="action", rows="2", autocomplete="off", spellcheck="false",
            placeholder="git push --force origin main"),
        tag("div", tag("button", "Try", class_="primary"), class_="buttons"),
        tag("p", "A command, a URL, ", tag("code", "read PATH"), ", ", tag("code", "call SERVER TOOL {…}"),
            " or an action as JSON. Nothing runs, and nothing is recorded.", class_="dim"),
        tag("p", *tags, class_="tags"),
        id="try-form",
        data_view="try",
        data_workspace=workspace,
        class_="card",
    )  # fmt: skip
    return joined(form, tag("div", id="verdict", aria_live="polite"), _without_script())


def _without_script() -> Markup:
    return tag("noscript", tag("p", "This page needs JavaScript; the others do not."))


def _field(name: str, control: Markup) -> Markup:
    return tag("label", tag("span", name), control, class_="field")


def _select(id_: str, values: Sequence[str], chosen: str, empty: str) -> Markup:
    options = [tag("option", cut(each, 60) or empty, value=each, selected=each == chosen) for each in values]
    return tag("select", *options, id=id_, name=id_)


# ---- Activity --------------------------------------------------------------------------------------------------------


def activity(found: Activity, query: Mapping[str, str], agents: Sequence[str]) -> Markup:
    """Return one page of records as a time line."""
    kept = {name: query[name] for name in ("workspace", "search", "decision", "agent", "session") if query.get(name)}
    hidden = [
        tag("input", type="hidden", name=name, value=kept[name]) for name in ("workspace", "session") if name in kept
    ]
    form = tag(
        "form",
        *hidden,
        _field("Search", tag("input", type="search", name="search", value=query.get("search", ""), id="search")),
        _field("Decision", _select("decision", ["", *DECISIONS], query.get("decision", ""), "any")),
        _field("Agent", _select("agent", ["", *agents], query.get("agent", ""), "any")),
        tag("button", "Find", class_="primary"),
        method="get",
        action="/activity",
        class_="filters",
        id="activity-filters",
    )
    items: list[str] = []
    day = ""
    for record in found.records:
        row = row_of(record.tree)
        if row["local"][:10] != day:
            day = row["local"][:10]
            items.append(tag("li", tag("h2", day), class_="day"))
        items.append(_record_item(record.tree, row, kept))
    listed = tag("ol", *items, class_="timeline") if items else tag("p", "No record matches.", class_="dim")
    return joined(form, listed, _pager(found, kept))


def _record_item(tree: dict[str, Any], row: dict[str, Any], kept: Mapping[str, str]) -> Markup:
    own = {name: kept[name] for name in ("workspace",) if name in kept}
    link = "/activity?" + urlencode({**own, "record": str(row["sequence"])})
    session = str(tree.get("session") or "")
    parts = [
        tag("li", _badge(each["decision"]), tag("code", cut(each["text"], 300)), *_files(each["files"]))
        for each in parts_of(part(tree, "verdict"))
    ]
    more = tag("ul", *parts, class_="parts") if len(parts) > 1 or any("<small" in each for each in parts) else Markup()
    named = f"session {session}" if session != "default" else ""
    facts = [each for each in (row["agent"], row["door"], named, _ANSWERS.get(row["answer"], "")) if each]
    return tag(
        "li",
        tag("time", row["local"][11:19], datetime=row["time"]),
        tag(
            "div",
            tag(
                "p", _badge(row["decision"] or row["said"]), tag("a", row["what"] or "record", href=link, class_="mono")
            ),
            tag("p", cut(row["reason"], 200), class_="dim") if row["reason"] else Markup(),
            more,
            tag("p", " · ".join(facts), class_="dim small") if facts else Markup(),
        ),
        class_=f"entry {row['decision']}",
    )


_ANSWERS = {
    "once": "you allowed it once",
    "session": "you allowed it for the session",
    "always": "you allowed it for good",
    "before": "approved before",
    "no": "you said no",
    "never": "you said no",
}


def _files(files: Sequence[str]) -> list[Markup]:
    return [tag("small", "; ".join(files), class_="dim")] if files else []


def _pager(found: Activity, kept: Mapping[str, str]) -> Markup:
    links = []
    if found.newer is not None:
        links.append(tag("a", "Newer", href="/activity?" + urlencode({**kept, "after": str(found.newer)}), rel="prev"))
    if found.older is not None:
        links.append(tag("a", "Older", href="/activity?" + urlencode({**kept, "before": str(found.older)}), rel="next"))
    return tag("nav", *links, class_="pager", aria_label="Pages of records")


def one_record(kept: StoredRecord | None, number: int, workspace: str) -> Markup:
    """Return everything about one record of a workspace."""
    if kept is None:
        return tag("section", tag("p", f"There is no record {number}: it may have been removed by age."), class_="card")
    tree = kept.tree
    verdict = part(tree, "verdict")
    row = row_of(tree)
    plain = {name: value for name, value in tree.items() if name not in ("action", "verdict", "sequence")}
    because = [
        tag("li", _badge(each["decision"]), tag("code", each["rule"]), tag("span", each["source"], class_="dim"))
        for each in because_of(verdict)
    ]
    parts = [
        tag("li", _badge(each["decision"]), tag("code", each["text"]), tag("span", each["why"], class_="dim"),
            *_files(each["files"]))
        for each in parts_of(verdict)
    ]  # fmt: skip
    return joined(
        tag(
            "section",
            tag("p", _badge(row["decision"] or row["said"]), tag("span", row["reason"])),
            _facts(facts_of(part(tree, "action"))),
            class_="card",
        ),
        _card("Parts of the command", tag("ul", *parts, class_="parts")) if parts else Markup(),
        _card("Why", tag("ul", *because, class_="parts")) if because else Markup(),
        _card("Record", _facts([[name, _written(value)] for name, value in {**plain, "hash": kept.hash}.items()])),
        tag("p", tag("a", "Back to the activity", href="/activity?" + urlencode({"workspace": workspace}))),
    )


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(facts: Sequence[Sequence[str]]) -> Markup:
    rows = [joined(tag("dt", name), tag("dd", tag("pre", cut(value, _LONGEST_FIELD)))) for name, value in facts]
    return tag("dl", *rows, class_="facts")


def _badge(word: str) -> Markup:
    return tag("span", word or "·", class_=f"badge {word if word in DECISIONS else ''}".strip())


# ---- Policy ----------------------------------------------------------------------------------------------------------


def no_policy(root: str) -> Markup:
    """Return what to do about a workspace whose policy cannot be read."""
    said = (
        f"The policy of {root or 'this workspace'} cannot be used now: its directory is gone, or a file has an error."
    )
    return tag("section", tag("p", said), tag("p", "`byleave policy show` says what is wrong."), class_="card")


def policy(
    compiled: Compiled,
    uses: Mapping[tuple[str, str], tuple[int, str]],
    trusted: Mapping[str, str],
    workspace: str = "",
) -> Markup:
    """Return the rules in their order, the layers they come from, and what the groups contain.

    `uses` are hits and the last use by rule and source; `trusted` is the trusted content of files that have changed.
    What lint finds is put in by the page's own script.
    """
    table = compiled.policy.views[0].rules
    rules = table.rules if table is not None else ()
    rows = []
    for number, rule in enumerate(rules[:_MOST_RULES], 1):
        count, last = uses.get((cut(rule.text, LONGEST_ROW), rule.source), (0, ""))
        rows.append(
            tag(
                "tr",
                tag("td", str(number), class_="number"),
                tag("td", _badge(rule.outcome.word)),
                tag("td", tag("code", cut(rule.text, _LONGEST_RULE))),
                tag("td", cut(rule.source, 200), class_="dim"),
                tag("td", str(count), class_="number", data_label="hits"),
                tag("td", local_time(last)[:16] or "never", class_="dim", data_label="last use"),
                data_rule=shown(rule.text) if len(rule.text) <= _LONGEST_RULE else None,
                data_source=shown(rule.source),
            )
        )
    heads = [tag("th", name, scope="col") for name in ("#", "Answer", "Rule", "From", "Hits", "Last use")]
    listed: Markup = tag("p", "There are no rules: everything is asked.", class_="dim")
    if rows:
        whole = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="records")
        listed = tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label="Rules")
    if len(rules) > _MOST_RULES:
        more = f"And {len(rules) - _MOST_RULES} more rules: `byleave policy show` lists them."
        listed = joined(listed, tag("p", more, class_="dim"))
    layers = [_layer(layer, trusted.get(layer.file or "")) for layer in reversed(compiled.layers)]
    groups = [
        tag("details", tag("summary", tag("code", name)), tag("pre", _group_text(content)))
        for name, content in GROUPS.items()
    ]
    warnings = [tag("li", each) for each in compiled.warnings]
    return joined(
        _card("Warnings", tag("ul", *warnings, class_="parts")) if warnings else Markup(),
        _card("Rules, the first that matches decides", listed, wide=True),
        tag(
            "section",
            tag("h2", "Findings"),
            tag("p", "Looking through the rules …", class_="dim"),
            class_="card",
            id="findings",
            aria_live="polite",
            data_view="policy",
            data_workspace=workspace,
        ),
        _card("Layers, strongest first", tag("ul", *layers, class_="layers") if layers else tag("p", "None.")),
        _card("Groups", *groups),
    )


def _layer(layer: Layer, before: str | None) -> Markup:
    name = layer.file or "given on the command line"
    standing = "" if layer.trusted else "only tightens" if layer.name == ENCLOSING else "not trusted yet"
    content = layer.content.decode("utf-8", "replace")
    inner = [tag("pre", cut(content, _LONGEST_FIELD))] if content else []
    if not layer.trusted and layer.name != ENCLOSING:
        changed = difference(before or "", content)
        inner = [tag("p", "Read it, then run `byleave trust` in the workspace."), diff_lines(_bounded(changed))]
    head = joined(
        tag("span", layer.name, class_="badge"),
        tag("code", name),
        tag("span", standing, class_="badge ask") if standing else Markup(),
    )
    if not inner:
        return tag("li", head)
    return tag("li", tag("details", tag("summary", head), *inner))


def _bounded(lines: Sequence[str]) -> list[str]:
    """Return the lines of a difference up to a number of characters; what is left out is said."""
    kept: list[str] = []
    room = _LONGEST_FIELD
    for number, line in enumerate(lines):
        if room <= 0:
            return [*kept, f"@@ and {len(lines) - number} more lines, which are not shown @@"]
        kept.append(cut(line, room))
        room -= len(line) + 1
    return kept


def diff_lines(lines: Sequence[str]) -> Markup:
    """Return the lines of a difference, coloured by what they begin with."""
    kinds = {"+": "plus", "-": "minus", "@": "hunk"}
    return tag("pre", *[tag("span", f"{line}\n", class_=kinds.get(line[:1])) for line in lines], class_="diff")


def _group_text(content: Any) -> str:
    members = content.get("any", [content]) if isinstance(content, dict) else [content]
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in members)
