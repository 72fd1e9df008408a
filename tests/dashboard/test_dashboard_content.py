"""What the dashboard says about decisions, records and the policy, whatever agents, files and servers are called."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.dashboard.charts import bar_list, days_chart, share_chart
from byleave.dashboard.markup import tag
from byleave.dashboard.question_view import change_in, difference, facts_of, input_beside, notice_of
from byleave.dashboard.records import FigureCounter, _local_day
from byleave.dashboard.try_text import read_action
from byleave.errors import InputError
from byleave.policy.load import Workspace
from byleave.store.approvals import PENDING, now
from byleave.store.audit.log import AuditLog
from byleave.store.questions import AskedAction, Questions
from byleave.text import shown, shown_lines
from dashboard.dashboard_scene import Room, ask_about, ask_to_write

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE records; --",
    "\x1b[2J\x07\x00 control",
    "\u202egnp.exe \u2066bidi\u2069",
    "a" * 100_000,
    "</textarea></select></title><h1>x</h1>",
)


def log_of(board: Room) -> AuditLog:
    workspace = Workspace(str(board.root))
    workspace.remember_root()
    return AuditLog(workspace.approvals.directory)


def decided(name: str, **more: Any) -> dict[str, Any]:
    ref = {"rule": f"allow {name}", "source": f"{name}:1", "decision": "allow"}
    return {
        "event": "decision",
        "session": "default",
        "door": "hook",
        "agent": name,
        "identity": "default",
        "action": {"kind": "command", "command": name},
        "verdict": {"decision": "allow", "reason": f"{name} is allowed", "code": "ok", "because": [ref]},
        **more,
    }


class Elements(HTMLParser):
    """Collects the names of elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _value in attrs)


def test_hostile_names_are_text_on_every_page(board: Room) -> None:
    log = log_of(board)
    for name in HOSTILE:
        log.append(decided(name))
    log.append(decided("x", verdict={"decision": "deny", "reason": HOSTILE[0], "code": "x", "because": []}))
    for path in (
        "/",
        "/live",
        "/activity",
        "/activity?record=1",
        "/activity?record=6",
        "/activity?search=%3Cscript%3E",
    ):
        page = board.ask("GET", path).body.decode()
        found = Elements(page)
        assert page.count("<script") == 1, path
        assert not found.names & {"img", "h3", "iframe"}, path
        assert not {name for name in found.attributes if name.startswith("on") or name == "style"}, path
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page), path
        assert len(page) < 2_000_000
    assert board.ask("GET", "/activity?record=4").body.decode().count("\\x1b[2J") >= 1


def test_decisions_come_after_a_sequence_and_are_cut_in_rows_only(board: Room) -> None:
    log = log_of(board)
    numbers = [log.append(decided(name)) for name in ("a", "b", "c" * 5000)]
    found = board.ask("GET", f"/api/decisions?after={numbers[0]}").tree
    assert [each["sequence"] for each in found["decisions"]] == numbers[1:]
    assert (found["last"], len(found["rows"][1]["what"])) == (numbers[-1], 300)
    assert found["decisions"][1]["action"]["command"] == "c" * 5000
    assert board.ask("GET", f"/api/decisions?after={numbers[-1]}").tree["decisions"] == []
    assert board.ask("GET", "/api/decisions?after=x").status == 400


def test_the_summary_counts_decisions(board: Room) -> None:
    board.command("npm ci")
    board.command("git push")
    log_of(board).append(decided("a"))
    assert board.ask("GET", "/api/summary").tree == {"allow": 1, "ask": 0, "deny": 2, "records": 3, "pending": 1}


def test_an_action_is_tried_as_check_would_answer_and_nothing_is_recorded(board: Room) -> None:
    found = board.ask("POST", "/api/try", {"kind": "command", "command": "git push"})
    assert found.tree["verdict"]["decision"] == "deny"
    assert board.ask("POST", "/api/try", {"text": "npm ci"}).tree["verdict"]["decision"] == "ask"
    for body in ({"kind": "nonsense"}, {}, {"text": ""}, {"kind": "command", "command": 5}, b"[]", b"{"):
        refused = board.ask("POST", "/api/try", body)
        assert (refused.status, set(refused.tree)) == (400, {"error"}), body
    assert log_of(board).head().sequence == 0


READ = {
    "git push": {"kind": "command", "command": "git push"},
    "read src/a b.py": {"kind": "read", "path": "src/a b.py"},
    "https://example.com/a": {"kind": "url", "url": "https://example.com/a"},
    "env HOME": {"kind": "env", "name": "HOME"},
    "env A=1 make": {"kind": "command", "command": "env A=1 make"},
    'call gh make {"a": 1}': {"kind": "call", "server": "gh", "tool": "make", "arguments": {"a": 1}},
    '{"kind": "env", "name": "A"}': {"kind": "env", "name": "A"},
}


@pytest.mark.parametrize("text", READ)
def test_what_a_person_types_is_read_as_an_action(text: str) -> None:
    assert read_action(text) == READ[text]


@pytest.mark.parametrize("text", ["", "  ", "{", "[1]x{", "call gh make {"])
def test_what_is_neither_is_an_error_or_a_command(text: str) -> None:
    if text.startswith("["):
        assert read_action(text)["kind"] == "command"
    else:
        with pytest.raises(InputError):
            read_action(text)


def test_pages_of_records_go_back_and_forth(board: Room) -> None:
    log = log_of(board)
    for number in range(120):
        log.append(decided(f"agent{number % 2}", action={"kind": "command", "command": f"make n{number}."}))
    first = board.ask("GET", "/activity").body.decode()
    assert ("make n119." in first, "make n70." in first, "make n69." in first) == (True, True, False)
    assert "Newer" not in first
    older = re.search(r'href="(/activity\?before=\d+)"[^>]*>Older', first)
    assert older is not None
    second = board.ask("GET", older[1]).body.decode()
    assert ("make n69." in second, "make n20." in second, "make n19." in second) == (True, True, False)
    newer = re.search(r'href="(/activity\?after=\d+)"[^>]*>Newer', second)
    assert newer is not None
    assert "make n119." in board.ask("GET", newer[1]).body.decode()
    chosen = board.ask("GET", "/activity?agent=agent1&search=n11").body.decode()
    assert set(re.findall(r"make n(\d+)\.", chosen)) == {"11", "111", "113", "115", "117", "119"}


def test_the_policy_page_has_rules_layers_and_groups(board: Room) -> None:
    (board.root / "byleave.toml").write_text('[[rules]]\nallow = { command = "<b>" }\n')
    board.command("git push")
    page = board.ask("GET", "/policy").body.decode()
    for text in ("deny git push", "allow git status", "not trusted yet", "&lt;b&gt;", "read_only_git"):
        assert text in page, text
    assert "<b>" not in page


def test_lint_findings_come_after_the_page_and_once_for_one_policy(board: Room) -> None:
    (board.home / "config.toml").write_text('[[rules]]\nallow = { command = "<b>" }\n' * 2)
    begin = time.process_time()
    assert board.ask("GET", "/policy").status == 200
    assert time.process_time() - begin < 1
    found = board.ask("GET", "/api/lint")
    assert found.status == 200
    assert "duplicate" in [each["code"] for each in found.tree["findings"]]
    begin = time.process_time()
    assert board.ask("GET", "/api/lint").tree == found.tree
    assert time.process_time() - begin < 1


def test_a_policy_of_too_many_rules_is_left_to_the_command_line(board: Room) -> None:
    (board.home / "config.toml").write_text('[[rules]]\nallow = { command = "a" }\n' * 501)
    found = board.ask("GET", "/api/lint").tree
    assert (found["findings"], "byleave policy lint" in found["problem"]) == ([], True)


def test_pages_are_served_while_lint_is_at_work(board: Room) -> None:
    (board.home / "config.toml").write_text(
        "".join(f'[[rules]]\nallow = {{ command = "p{number}", args = ["a", "**"] }}\n' for number in range(60))
    )
    slow = threading.Thread(target=board.ask, args=("GET", "/api/lint"))
    slow.start()
    assert board.ask("GET", "/approvals").status == 200
    assert slow.is_alive()
    slow.join()


def test_what_else_a_rule_would_allow_is_counted_as_learning_does(board: Room) -> None:
    board.command("cargo publish --dry-run")
    (question,) = board.pending()
    found = board.ask("GET", f"/api/reach?id={question['id']}&seen={question['seen']}").tree["over_grant"]
    assert set(found) == {"tried", "also_allowed", "examples"}
    assert found["tried"] > 100
    assert "cargo publish --dry-run" not in found["examples"]
    assert board.ask("GET", f"/api/reach?id={question['id']}&seen=x").status == 400


def test_trying_names_the_nearest_rule_and_the_plan_of_the_sandbox(board: Room) -> None:
    (board.root / "byleave.toml").unlink()
    (board.home / "config.toml").write_text(
        '[shell]\nconfine = "auto"\n[[shell.access.net]]\nhost = "crates.example.org"\nallow = true\n'
        '[[rules]]\nallow = { command = "git", subcommand = "log" }\n[[rules]]\nallow = { command = "make" }\n'
    )
    near = board.ask("POST", "/api/try", {"text": "git log --output=x"}).tree
    assert near["verdict"]["nearest"]["rule"] == "allow git log"
    assert "would allow it, but" in near["view"]["nearest"]
    plan = board.ask("POST", "/api/try", {"text": "make"}).tree["view"]["plan"]
    assert any("crates.example.org" in each["rule"] and each["family"] == "net" for each in plan)


def test_the_change_of_a_file_is_a_difference() -> None:
    edit = {"file_path": "a", "old_string": "one\ntwo", "new_string": "one\n\x1bthree"}
    assert change_in(edit, {}) == ["@@ -1,2 +1,2 @@", " one", "-two", "+\\x1bthree"]
    assert change_in({"file_path": "a", "content": "x\n"}, {"a": "y\n"})[1:] == ["-y", "+x"]
    assert change_in({"file_path": "a"}, {}) == change_in(None, {}) == []


def test_a_fact_keeps_every_character_that_a_yes_covers() -> None:
    facts = dict(facts_of({"kind": "call", "server": "s", "arguments": {"b": "x" * 9000}, "agent": "a"}))
    assert "x" * 9000 in facts["arguments"]


def test_no_field_of_a_tools_input_is_left_out() -> None:
    given = {"kind": "x", "agent": "y", "schema": "DROP", "respelled": True, "data_b64": "ZQ==", "none": None, "no": ""}
    assert [name for name, _value in facts_of(given)] == list(given)


@pytest.mark.parametrize("line", ["++x; evil()", "-- evil", "--- a", "+++ b", "@@ -1 +1 @@", "\x0cnext"])
def test_no_line_of_a_change_is_left_out_whatever_it_begins_with(line: str) -> None:
    safe = "let x = 0;"
    assert difference(f"{safe}\n", f"{safe}\n{line}\n")[1:] == [f" {safe}", f"+{shown(line)}"]
    assert difference(f"{safe}\n{line}\n", f"{safe}\n")[1:] == [f" {safe}", f"-{shown(line)}"]


def test_ends_of_lines_are_part_of_a_change() -> None:
    assert difference("a\r\n", "a\n")[1:] == ["-a\\r", "+a"]
    assert difference("a\n", "a")[1:] == [" a", "-"]


def test_a_change_in_a_long_file_is_compared_and_a_long_change_says_what_is_not_shown() -> None:
    lines = [f"line {number}" for number in range(5000)]
    changed = [*lines[:4000], "new", *lines[4001:]]
    found = difference("\n".join(lines), "\n".join(changed))
    assert found[1:] == [" line 3998", " line 3999", "-line 4000", "+new", " line 4001", " line 4002"]
    found = difference("", "\n".join(lines))
    assert len(found) == 503
    assert found[-1] == "@@ and 4500 more lines then, which are not shown @@"


@given(st.text(alphabet="ab\n+-@ "), st.text(alphabet="ab\n+-@ "))
def test_a_difference_leads_from_one_text_to_the_other(old: str, new: str) -> None:
    lines = [line for line in difference(old, new) if not line.startswith("@@ ")]
    for mark, text in (("-", old), ("+", new)):
        changed = [line[1:] for line in lines if line.startswith(mark)]
        rest = text.split("\n")
        for line in changed:
            assert line in rest
            rest.remove(line)


HEAVY = {
    "100,000 lines": (
        "\n".join(f"{number * 7 % 120}" for number in range(60_000)),
        "\n".join(map(str, range(100_000))),
    ),
    "few different lines": ("\n".join("ab" * 100 + "a"), "\n".join("ba" * 249)),
    "lines that repeat": (
        "\n".join(f"{number % 120}" for number in range(480)),
        "\n".join(f"{(number * 7 + number // 119) % 120}" for number in range(480)),
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_no_change_of_a_file_keeps_the_dashboard_busy(board: Room, name: str) -> None:
    old, new = HEAVY[name]
    (board.root / "a.txt").write_text(old)
    ask_to_write(board, "a.txt", new)
    begin = time.process_time()
    (found,) = board.pending()
    assert board.ask("GET", "/approvals").status == 200
    assert time.process_time() - begin < 1
    assert found["view"]["change"]


def test_many_edits_are_bounded_and_say_so() -> None:
    edits = [{"old_string": f"{number}", "new_string": f"{number}a"} for number in range(20_000)]
    begin = time.process_time()
    lines = change_in({"file_path": "a", "edits": edits}, {})
    assert time.process_time() - begin < 1
    assert lines[-1].endswith("more edits, which are not shown @@")


@given(st.text(), st.text())
def test_no_text_becomes_markup(name: str, value: str) -> None:
    made = tag("p", value, title=name)
    found = Elements(made)
    assert (found.names, found.attributes) == ({"p"}, {"title"})


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, 10**6)), max_size=5))
def test_charts_have_their_figures_as_text(rows: list[tuple[str, int]]) -> None:
    days = [(f"2026-01-{number + 1:02}", {"allow": count, "deny": 1}) for number, (_name, count) in enumerate(rows)]
    for made in (days_chart(days), share_chart(rows, "x"), bar_list([(name, "", n) for name, n in rows], "none")):
        assert all(str(count) in made for _name, count in rows)
        assert "<script" not in made


def test_no_question_of_an_agent_keeps_the_others_from_being_shown(board: Room) -> None:
    board.command("npm ci")
    approvals = Workspace(str(board.root)).approvals
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    odd: list[dict[str, Any]] = [
        {"action": {"kind": "read", "path": "a\ud800b"}, "verdict": {"reason": "\ud800"}, "exact": True},
        {"action": {"kind": "call", "server": "s", "arguments": deep}, "verdict": {"because": "x", "parts": [1]}},
        {"action": {"kind": 5}, "verdict": [], "agent": ["x"], "door": 7},
        {"action": "x"},
    ]
    for number, asked in enumerate(odd):
        key = f"{number:064}"
        stamp = "2026-01-01T00:00:00Z" if number == 3 else now()
        words = {"kind": "action", "subject": "s\ud800", "session": "default", "status": PENDING, "now": stamp}
        approvals.remember(key, asked=asked, **words)
    found = board.ask("GET", "/api/pending")
    assert found.status == 200
    assert "npm ci" in [each["view"]["subject"] for each in found.tree["pending"]]
    assert board.ask("GET", "/").status == 200


def test_a_notification_says_nothing_that_may_be_secret(board: Room) -> None:
    def said(agent: str) -> str:
        return notice_of(agent, (AskedAction("k", {"kind": "call", "server": "s3cret"}, {}),))

    assert said("claude-code") == "claude-code wants to call a tool"
    for name in ("sk-abc123", "a" * 200, "x\nlook: a=b", "<b>", ""):
        assert said(name) == "an agent wants to call a tool"
    ask_about(board, AskedAction("k" * 64, {"kind": "my-token-9", "x": 1}, {}))
    assert board.pending()[0]["view"]["notice"] == "codex wants to do something"


@pytest.mark.parametrize("path", [".", "/dev/zero", "/proc/self/mem", "none", "src/\x00x", "x" * 5000])
def test_a_question_about_any_path_is_shown(board: Room, path: str) -> None:
    ask_to_write(board, path, "x")
    (found,) = board.pending()
    assert found["status"] == "pending"


@pytest.mark.parametrize(
    "query", ["agent=%5B", "agent=%2A%5B%5D", "search=%00%ff%5B", "decision=x", "before=0", "session=%3C"]
)
def test_any_filter_is_answered(board: Room, query: str) -> None:
    log_of(board).append(decided("[x"))
    assert board.ask("GET", f"/activity?{query}").status == 200


@pytest.mark.parametrize(
    "text", ["read a\x00b", "read " + "x" * 100_000, "https://[::1", "call", "\x1b", "a" * 100_000, "read ../../etc"]
)
def test_anything_can_be_tried(board: Room, text: str) -> None:
    found = board.ask("POST", "/api/try", {"text": text})
    assert found.status in (200, 400), found.body


def test_large_records_do_not_make_an_answer_large(board: Room) -> None:
    log = log_of(board)
    for number in range(250):
        log.append(decided("make", action={"kind": "command", "command": f"{number} " + "x" * 60_000}))
    log.close()
    found = board.ask("GET", "/api/decisions?after=0")
    assert len(found.body) < 2_000_000
    assert len(found.tree["decisions"]) > 10
    assert [each["sequence"] for each in found.tree["decisions"]][-1] == found.tree["last"] == 250


def test_a_record_that_is_larger_than_an_answer_is_served_alone(board: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.dashboard.records._LARGEST_ANSWER", 10)
    with closing(log_of(board)) as log:
        for _ in range(2):
            log.append(decided("make"))
    found = board.ask("GET", "/api/decisions?after=0").tree
    assert ([each["sequence"] for each in found["decisions"]], found["last"]) == ([2], 2)


def test_a_long_project_file_does_not_make_the_policy_page_large(board: Room) -> None:
    (board.root / "byleave.toml").write_text(f"# {'<' * 900_000}\n")
    found = board.ask("GET", "/policy")
    assert found.status == 200
    assert len(found.body) < 2_000_000
    assert "&lt;…" in found.body.decode()


def test_many_rules_do_not_make_the_policy_page_large(board: Room) -> None:
    rules = [f'[[rules]]\ndeny = {{ command = "x{each}" }}\n' for each in range(1200)]
    (board.home / "config.toml").write_text("".join(rules))
    found = board.ask("GET", "/policy").body.decode()
    assert found.count("data-rule=") == 1000
    assert "And 200 more rules" in found


def test_a_file_that_is_not_trusted_any_more_is_shown_as_what_has_changed(board: Room) -> None:
    file = board.root / "byleave.toml"
    rule = '[[rules]]\nallow = { command = "make" }\n'
    file.write_text(rule)
    workspace = Workspace(str(board.root))
    layer = workspace.files.parse_project_file("byleave.toml", rule.encode())
    workspace.approvals.trust(workspace.print_of("byleave.toml", rule.encode(), layer.tree), now=now())
    workspace.trusted_texts.keep("byleave.toml", rule.encode())
    file.write_text(f'{rule}\n[[rules]]\nallow = {{ command = "curl" }}\n')
    found = board.ask("GET", "/policy").body.decode()
    changed = found.partition('<pre class="diff">')[2].partition("</pre>")[0]
    assert re.search(r'class="plus">\+allow = .* &quot;curl&quot;', changed)
    assert not re.search(r'class="plus">.*&quot;make&quot;', changed)


def test_a_record_leads_back_to_the_activity_of_its_workspace(board: Room) -> None:
    with closing(log_of(board)) as log:
        log.append(decided("make"))
    here = os.path.basename(Workspace(str(board.root)).approvals.directory)
    found = board.ask("GET", f"/activity?workspace={here}&record=1").body.decode()
    assert f'<a href="/activity?workspace={here}">Back to the activity</a>' in found


@pytest.mark.parametrize("text", [None, 5, ["ls"], {}], ids=str)
def test_what_is_no_text_is_not_tried(board: Room, text: Any) -> None:
    assert board.ask("POST", "/api/try", {"text": text}).status == 400


def test_a_query_of_too_many_fields_is_refused_and_not_taken_for_another_one(board: Room) -> None:
    assert board.ask("GET", f"/api/summary?{'a=1&' * 40}workspace=nope").status == 400


def test_every_text_of_a_question_has_its_control_characters_written_out(board: Room) -> None:
    odd = "<b>\u202e\x00\x1b\u2066"
    file = {"op": odd, "path": odd, "decision": odd}
    ref = {"rule": odd, "source": odd, "decision": odd}
    verdict = {"decision": odd, "reason": odd, "because": [ref]}
    verdict["parts"] = [{"text": odd, "decision": odd, "why": odd, "source": odd, "files": [file]}]
    action = {"kind": odd, "command": odd, odd: {odd: [odd]}}
    asked = AskedAction("k" * 64, action, verdict, exact=True, leads_to=(odd,))
    put = ask_about(board, asked, given={odd: odd, "file_path": odd, "content": odd}, once=True)
    Questions(Workspace(str(board.root)).approvals.directory).put(
        msgspec.structs.replace(put, agent=odd, identity=odd, session=odd, door=odd, why=odd, once=False)
    )
    for number, door in enumerate(("hook", odd)):
        words = {"kind": "action", "subject": odd, "session": odd, "status": PENDING, "now": now()}
        tree = {"action": action, "verdict": verdict, "agent": odd, "identity": odd, "door": door, "leads_to": [odd]}
        Workspace(str(board.root)).approvals.remember(f"{number:064}", asked=tree, **words)
    found = board.pending()
    assert len(found) == 4
    texts = list(strings([[each["view"], each["why"]] for each in found]))
    assert [text for text in texts if text != shown_lines(text)] == []


def strings(tree: Any) -> Iterator[str]:
    """Yield every text of a tree, names too."""
    if isinstance(tree, str):
        yield tree
    for each in [*tree, *tree.values()] if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from strings(each)


@pytest.mark.parametrize("created", ["9999-12-31T23:59:59Z", "2026-01-01T00:00:00", "2026-01-01"])
def test_no_time_of_a_question_keeps_the_others_from_being_shown(board: Room, created: str) -> None:
    board.command("npm ci")
    words = {"kind": "action", "subject": "s", "session": "default", "status": PENDING, "now": created}
    Workspace(str(board.root)).approvals.remember("f" * 64, asked={"action": {"kind": "command"}}, **words)
    assert [each["view"]["subject"] for each in board.pending()] == ["npm ci"]


def test_days_of_the_overview_are_those_of_the_users_clock(board: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-12")  # twelve hours ahead of UTC
    time.tzset()
    try:
        _local_day.cache_clear()
        late = datetime(2026, 5, 1, 20, 0, tzinfo=UTC).timestamp()
        workspace = Workspace(str(board.root))
        with closing(AuditLog(workspace.approvals.directory, now=lambda: int(late * 1e9))) as log:
            log.append(decided("make"))
        found = FigureCounter(AuditLog(workspace.approvals.directory)).figures()
        assert [day for day, _counts in found.days] == ["2026-05-02"]
    finally:
        monkeypatch.undo()
        time.tzset()
        _local_day.cache_clear()


def beside(given: dict[str, Any], change: list[str] | None = None) -> dict[str, str]:
    return dict(input_beside(given, [], change_in(given, {}) if change is None else change))


def test_what_the_difference_of_a_file_does_not_show_is_shown_beside_it() -> None:
    edit = {"old_string": "a", "new_string": "b"}
    assert beside({"file_path": "f", **edit}) == {"file_path": "f"}
    assert beside({"file_path": "f", **edit, "replace_all": True}).keys() == {"file_path", "replace_all"}
    assert beside({"file_path": "f", "edits": [edit], **edit}).keys() == {"file_path", "old_string", "new_string"}
    assert "edits" in beside({"file_path": "f", "edits": [{**edit, "more": "x"}]})
    assert "old_string" in beside({"file_path": "f", "old_string": "a"})


def test_a_text_that_is_too_long_to_be_compared_is_shown_whole() -> None:
    content = "x\n" * 3000
    change = change_in({"file_path": "f", "content": content}, {})
    assert any("not shown" in line for line in change)
    assert beside({"file_path": "f", "content": content}, change)["content"] == content
