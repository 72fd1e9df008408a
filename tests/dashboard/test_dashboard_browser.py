"""The dashboard in a real browser: every page, button and key; hostile names; two windows; a restart.

One browser serves all tests. Pictures of the pages are kept where BYLEAVE_PICTURES says.
"""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

import amounts
from browser import MISSING, PROGRAM, Browser, Page, browser
from byleave.policy.load import Workspace
from byleave.store.audit.log import AuditLog
from byleave.store.questions import AskedAction, Questions
from dashboard.dashboard_scene import Room, ask_about, ask_to_write, room

if PROGRAM is None:
    pytest.skip(MISSING, allow_module_level=True)

AXE = os.environ.get("BYLEAVE_AXE")
READY = {"/approvals": ".question:nth-child(3)", "/live": "#rows tr", "/policy": "#findings li"}
HOSTILE = "<img src=x onerror='window.hit=1'><script>window.hit=1</script> \u202egnp\x1b[2J"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(served: Room, chromium: Browser) -> Iterator[Page]:
    """Return a page that opened the one-time address, in a profile of its own."""
    opened = chromium.open(served.url, alone=True)
    opened.until("location.href.endsWith('/')")
    yield opened
    assert opened.complaints() == []
    opened.close()


def visit(page: Page, served: Room, path: str) -> None:
    page.go(f"{served.origin}{path}")


def seen(page: Page) -> list[str]:
    """Return what each question on the page is about."""
    found: list[str] = page.evaluate("[...document.querySelectorAll('.question .subject')].map(e => e.innerText)")
    return found


def answer_by_key(page: Page, key: str) -> None:
    """Press a key once the question has been there for long enough to be answered."""
    page.until("document.querySelector('.question.current button')?.disabled === false")
    page.key(key)


def waiting(served: Room) -> list[dict[str, Any]]:
    """Return the questions that can still be answered, as another sign-in sees them."""
    other = Room(served.root, served.home, served.dashboard.access.new_address(), served.dashboard).sign_in()
    return [each for each in other.pending() if each["status"] == "pending"]


def kept(page: Page, name: str) -> None:
    place = os.environ.get("BYLEAVE_PICTURES")
    if place:
        page.picture(Path(place) / f"{name}.png")


def log_of(served: Room) -> AuditLog:
    workspace = Workspace(str(served.root))
    workspace.remember_root()
    return AuditLog(workspace.approvals.directory)


def decided(number: int, **more: Any) -> dict[str, Any]:
    ref = {"rule": "allow make", "source": "byleave.toml:1", "decision": "allow"}
    return {
        "event": "decision",
        "session": "default",
        "door": "hook",
        "agent": "codex",
        "identity": "default",
        "action": {"kind": "command", "command": f"make n{number}."},
        "verdict": {"decision": "allow", "reason": "the rule matches it", "code": "ok", "because": [ref]},
        **more,
    }


def test_the_address_signs_in_and_leaves_no_token_behind(page: Page, served: Room, chromium: Browser) -> None:
    assert page.evaluate("location.href") == f"{served.origin}/"
    assert page.evaluate("document.cookie") == ""  # no script sees it
    assert page.evaluate("document.querySelectorAll('script:not([src]), style, [style]').length") == 0
    other = chromium.open(served.url, alone=True)
    other.until("document.body.innerText.includes('Not signed in')")
    other.close()


def test_questions_appear_by_themselves_and_keys_answer_them(page: Page, served: Room) -> None:
    visit(page, served, "/approvals")
    page.until("document.body.innerText.includes('Nothing waits for you')")
    for text in ("npm one", "npm two", "npm three", "npm four"):
        served.command(text)
    page.until("document.querySelectorAll('.question').length === 4")
    kept(page, "approvals")
    order = seen(page)
    current = "document.querySelector('.question.current .subject').innerText"
    assert page.evaluate(current) == order[0]
    page.key("j")
    assert page.evaluate(current) == order[1]
    page.key("k")
    assert page.evaluate(current) == order[0]
    answer_by_key(page, "a")
    page.until("document.querySelectorAll('.question').length === 3")
    answer_by_key(page, "s")
    page.until("document.querySelectorAll('.question').length === 2")
    answer_by_key(page, "d")
    page.until("document.querySelectorAll('.question').length === 1")
    assert seen(page) == order[3:]
    assert "count" in page.evaluate("document.getElementById('waiting').className")
    page.click("Deny")
    page.until("document.body.innerText.includes('Nothing waits for you')")
    approvals = {each.subject.split('"')[1]: each.status for each in Workspace(str(served.root)).approvals.all()}
    assert approvals == {order[0]: "approved", order[1]: "approved", order[2]: "revoked", order[3]: "revoked"}


def test_letters_that_are_read_from_right_to_left_do_not_change_the_order_of_what_is_asked(
    page: Page, served: Room
) -> None:
    visit(page, served, "/approvals")
    served.command("npm \u05d0\u05d1 1 > 2 \u05d2\u05d3")
    page.until("document.querySelector('.question .why') !== null")
    for place in (".subject", ".why"):
        lefts = page.evaluate(
            "((place) => { const node = document.querySelector('.question ' + place).firstChild;"
            "const range = new Range(), found = [];"
            "const start = node.data.indexOf('npm'); for (let at = start; at < start + 15; at++) {"
            "range.setStart(node, at); range.setEnd(node, at + 1);"
            "found.push(range.getBoundingClientRect().left); } return found; })" + f"({place!r})"
        )
        assert lefts == sorted(lefts)


def test_a_key_typed_ahead_answers_no_question_that_has_just_come_up(page: Page, served: Room) -> None:
    visit(page, served, "/approvals")
    for text in ("npm one", "npm two", "npm three"):
        served.command(text)
    # Presses keys and buttons in the very moment in which a card is put in, or another one takes its place.
    press = (
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'a'}));"
        "document.querySelector('.question button[data-answer=once]')?.click();"
    )
    page.evaluate(f"new MutationObserver(() => {{ {press} }}).observe(list, {{childList: true}}), 1")
    page.until("document.querySelectorAll('.question').length === 3")
    page.until("document.querySelector('.question.current button').disabled === false")
    assert len(waiting(served)) == 3
    hold = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'd', repeat: true})), 1"
    page.evaluate(hold)
    answer_by_key(page, "d")  # and the next card is in its place, for which the keys above are pressed again
    page.until("document.querySelectorAll('.question').length === 2")
    page.evaluate(hold)
    page.until("document.querySelector('.question.current button').disabled === false")
    assert len(waiting(served)) == 2


def test_a_question_that_changed_in_the_page_is_not_answered(page: Page, served: Room) -> None:
    (served.root / "a.txt").write_text("one\n")
    ask_to_write(served, "a.txt", "two\n")
    visit(page, served, "/approvals")
    page.until("document.querySelector('.diff')?.innerText.includes('-one')")
    page.until("document.querySelector('.question button').disabled === false")
    page.evaluate("window.held = fetch, window.fetch = (path, ...rest) => path === '/api/pending' "
                  "? new Promise(() => 0) : held(path, ...rest), 1")  # fmt: skip
    (served.root / "a.txt").write_text("three\n")
    page.click("Allow once")
    page.until("document.querySelector('.problem').innerText.includes('has changed since it was shown')")
    assert len(waiting(served)) == 1
    page.send("Page.reload")
    page.until("document.querySelector('.diff')?.innerText.includes('-three')")
    (refused,) = page.complaints()
    assert "409" in refused
    page.browser.events.clear()


def test_every_action_of_a_question_has_its_kind_its_target_and_its_verdict(page: Page, served: Room) -> None:
    ref = {"rule": "deny path b.txt", "source": "byleave.toml:9", "decision": "ask"}
    ask_about(
        served,
        AskedAction("k" * 64, {"kind": "read", "path": "a.txt"}, {"decision": "allow", "because": []}),
        AskedAction("l" * 64, {"kind": "delete", "path": "a.txt"}, {"decision": "ask", "because": [ref]}),
    )
    visit(page, served, "/approvals")
    page.until("document.querySelectorAll('.question .action').length === 2")
    first, second = page.evaluate("[...document.querySelectorAll('.question .action')].map(e => e.innerText)")
    assert [word in first for word in ("1. read a file", "a.txt", "allow")] == [True] * 3
    assert [word in second for word in ("2. delete a file", "a.txt", "ask", "deny path b.txt")] == [True] * 4
    kept(page, "several")


def test_every_button_is_there_and_the_rule_is_shown_before_it_is_written(page: Page, served: Room) -> None:
    hook = served.start_hook("cargo publish")
    visit(page, served, "/approvals")
    page.until("document.querySelectorAll('.question').length === 1")
    names = page.evaluate("[...document.querySelectorAll('.question button')].map(e => e.innerText)")
    assert names == ["Allow once", "Allow for this session", "Always allow", "Deny", "Deny and tell the agent why"]
    before = (served.home / "config.toml").read_text()
    answer_by_key(page, "w")
    page.until("document.querySelector('.rule')?.innerText.includes('cargo')")
    assert (served.home / "config.toml").read_text() == before
    page.until("/[0-9]+ other actions that were tried/.test(document.querySelector('.rulebox').innerText)")
    kept(page, "rule")
    page.click("Write this rule")
    assert served.said_by(hook)["decision"] == "allow"
    assert 'command = "cargo"' in (served.home / "config.toml").read_text()


def test_a_reason_typed_into_the_page_reaches_the_agent(page: Page, served: Room) -> None:
    hook = served.start_hook("npm ci")
    visit(page, served, "/approvals")
    page.click("Deny and tell the agent why")
    page.fill("What the agent is to know", "use pnpm")
    page.key("d")  # in a field, a key is a letter
    page.click("Deny with this reason")
    assert "you said no: use pnpm" in served.said_by(hook)["reason"]


def test_who_uses_the_keyboard_goes_on_where_they_were(page: Page, served: Room) -> None:
    visit(page, served, "/approvals")
    for text in ("npm one", "npm two"):
        served.command(text)
    page.until("document.querySelectorAll('.question').length === 2")
    focused = "document.activeElement"
    for left in (1, 0):
        page.until("document.querySelector('.question.current [data-answer=deny]')?.disabled === false")
        page.evaluate("document.querySelector('.question.current [data-answer=deny]').focus()")
        page.key("Enter")
        page.until(f"document.querySelectorAll('.question').length === {left}")
        page.until(f"{focused}.id === 'main'" if left == 0 else f"{focused}.matches('.question.current')")


def test_a_reason_can_be_left_without_an_answer(page: Page, served: Room) -> None:
    ask_about(served, AskedAction("k" * 64, {"kind": "command", "command": "npm ci"}, {"decision": "ask"}))
    visit(page, served, "/approvals")
    for by_key in (False, True):
        page.click("Deny and tell the agent why")
        page.until("document.activeElement.tagName === 'INPUT'")
        if by_key:
            page.key("Escape")
        else:
            page.click("Cancel")
        page.until("!document.querySelector('.rulebox') && document.activeElement.matches('.question')")
    assert len(waiting(served)) == 1


def test_answers_to_several_questions_are_given_where_all_is_shown_that_they_cover(page: Page, served: Room) -> None:
    visit(page, served, "/approvals")
    for number in (1, 2):
        asked = AskedAction(str(number) * 64, {"kind": "read", "path": f"f{number}"}, {}, leads_to=(f"/etc/f{number}",))
        ask_about(served, asked, given={"file_path": f"f{number}", "note": f"as well {number}"})
    page.until("document.querySelector('#together summary')")
    page.evaluate("document.querySelector('#together details').open = true")
    text = page.evaluate("document.getElementById('together').innerText")
    for each in ("f1", "/etc/f1", "as well 1", "f2", "/etc/f2", "as well 2"):
        assert each in text


def test_questions_of_one_kind_are_answered_together(page: Page, served: Room) -> None:
    for text in ("npm one", "npm two", "npm three"):
        served.command(text)
    visit(page, served, "/approvals")
    page.until("document.querySelector('#together summary')")
    page.evaluate("document.querySelector('#together details').open = true")
    assert page.evaluate("[...document.querySelectorAll('#together code')].length") == 3
    page.click("Deny these 3")
    page.until("document.body.innerText.includes('Nothing waits for you')")


def test_two_windows_show_the_same_and_the_first_answer_counts(page: Page, served: Room, chromium: Browser) -> None:
    address = served.dashboard.access.new_address()
    other = chromium.open(address, alone=True)
    served.command("npm ci")
    for each in (page, other):
        each.until("location.href.endsWith('/')")
        visit(each, served, "/approvals")
        each.until("document.querySelectorAll('.question').length === 1")
    page.click("Allow once")
    other.until("document.querySelectorAll('.question').length === 0")
    other.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("known", [True, False], ids=["known process", "unknown process"])
def test_answering_works_after_a_reload_and_in_two_windows(
    served: Room, chromium: Browser, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    if not known:
        monkeypatch.setattr("byleave.dashboard.server.holders_of", lambda _inode: frozenset())
    first = chromium.open(served.url)
    first.until("location.href.endsWith('/')")
    second = chromium.open(f"{served.origin}/approvals")
    for text in ("npm one", "npm two"):
        served.command(text)
    visit(first, served, "/approvals")
    for each in (first, second):
        each.send("Page.reload")
        each.until("document.querySelectorAll('.question').length === 2")
    assert bool(first.evaluate("document.querySelector('meta[name=byleave-token]').content")) is known
    assert bool(first.evaluate("localStorage.length")) is not known
    first.click("Allow once")
    second.until("document.querySelectorAll('.question').length === 1")
    second.click("Deny")
    first.until("document.body.innerText.includes('Nothing waits for you')")
    if not known:
        first.evaluate("localStorage.clear()")
        visit(first, served, "/try")
        first.until("document.getElementById('banner').innerText.includes('byleave dashboard')")
    for each in (first, second):
        assert each.complaints() == []
        each.close()


def test_a_server_at_another_port_that_learns_the_cookie_cannot_use_it(served: Room, chromium: Browser) -> None:
    """A development server that listens at every address is also at the dashboard's, and cookies know no ports."""
    where = urlsplit(served.url)
    learned: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            learned.extend(value for value in [self.headers.get("Cookie")] if value)
            script = f"fetch('{served.origin}/approvals', {{credentials: 'include'}})"
            body = f"<script>{script}.catch(() => 0).then(() => document.title = 'done')</script>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    page = chromium.open(served.url, alone=True)
    page.until("location.href.endsWith('/')")
    with ThreadingHTTPServer((str(where.hostname), 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        page.go(f"http://{where.hostname}:{server.server_port}/")
        page.until("document.title === 'done'")
        page.close()
        server.shutdown()
        thread.join()
    assert learned
    served.cookie = learned[0]
    reply = served.ask("GET", "/approvals")  # this process is not the browser
    assert (reply.status, b"byleave-token" in reply.body) == (401, False)
    assert b"byleave dashboard" in reply.body


def test_a_page_says_when_its_dashboard_was_started_again(chromium: Browser, tmp_path: Path, own_home: Path) -> None:
    with room(tmp_path, own_home) as first:
        page = chromium.open(first.url, alone=True)
        page.until("location.href.endsWith('/')")
        page.go(f"{first.origin}/approvals")
        first.dashboard.access.sign_out_all()  # as a new process at the same address knows no cookie
        page.until("document.getElementById('banner').innerText.includes('not signed in any more')")
    page.until("document.getElementById('banner').innerText.includes('does not answer')")
    page.close()


def test_hostile_names_do_nothing_in_any_page(page: Page, served: Room) -> None:
    served.command(f"npm {json.dumps(HOSTILE)}")
    served.command("npm " + "b" * 3000)
    log_of(served).append(
        decided(1, agent=HOSTILE, action={"kind": "command", "command": HOSTILE + "a" * amounts.of(100_000, 20_000)})
    )
    for path in ("/approvals", "/live", "/activity", "/", "/policy"):
        visit(page, served, path)
        page.until("document.body.innerText.includes('onerror') || location.pathname === '/policy'")
        assert page.evaluate("[window.hit, document.querySelectorAll('img').length]") == [None, 0]
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        assert "\u202e" not in page.text()
        assert "\x1b" not in page.text()


def test_a_word_of_thousands_of_letters_may_be_broken_anywhere(page: Page, served: Room) -> None:
    """Laying it out in one piece froze the page for seconds."""
    long = "é" * 15_000
    ask_about(served, AskedAction("k" * 64, {"kind": "command", "command": long}, {"decision": "ask"}, exact=True))
    visit(page, served, "/approvals")
    page.until("document.querySelector('.question')")
    assert page.evaluate("document.querySelectorAll('.question wbr').length") >= 15_000 // 200
    assert page.evaluate(f"document.querySelector('.question').textContent.includes('é'.repeat({len(long)}))")


def test_long_names_leave_every_page_in_its_place(page: Page, served: Room) -> None:
    long = "A" * 3_000
    part = {"text": long, "decision": "ask", "why": "w", "files": []}
    verdict = {"decision": "ask", "reason": long, "because": [{"rule": long, "source": long}], "parts": [part, part]}
    asked = AskedAction("k" * 64, {"kind": "command", "command": long}, verdict, exact=True, leads_to=(long,))
    question = ask_about(served, asked)
    store = Questions(Workspace(str(served.root)).approvals.directory)
    for session in (long, "other"):
        store.put(msgspec.structs.replace(question, agent=long, session=session, why=long))
    log = log_of(served)
    log.append(decided(1, agent=long, door=long, session=long))
    log.close()
    page.look(width=390, height=844)
    for path in ("/approvals", "/live", "/activity", "/activity?record=1", "/"):
        visit(page, served, path)
        page.until(f"document.querySelector({READY.get(path, 'main')!r})")
        page.until("document.querySelector('#agent option:nth-child(2)')" if path == "/live" else "true")
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
        heights = "[...document.querySelectorAll('.question, #together')].map(each => each.offsetHeight)"
        assert max(page.evaluate(heights), default=0) < 3000
    page.look()


def test_decisions_appear_live_and_can_be_filtered_and_held(page: Page, served: Room) -> None:
    log = log_of(served)
    visit(page, served, "/live")
    page.until("document.body.innerText.includes('No decision yet')")
    log.append(decided(1))
    page.until("document.querySelectorAll('#rows tr').length === 1")
    for number in range(2, 1102):
        log.append(decided(number))
    page.until("document.querySelector('#rows tr').innerText.includes('n1101.')")
    assert page.evaluate("document.querySelectorAll('#rows tr').length") == 1000
    visible = "[...document.querySelectorAll('#rows tr')].filter(e => e.checkVisibility()).length"
    page.fill("Search", "n1101.")
    page.until(f"{visible} === 1")
    page.fill("Search", "")
    page.fill("Decision", "deny")
    page.until(f"{visible} === 0")
    page.fill("Decision", "")
    page.fill("Agent", "codex")
    page.until(f"{visible} === 1000")
    page.click("Pause")
    log.append(decided(3000))
    page.until("document.getElementById('shown').innerText === 'paused, 1 new'")
    page.click("Go on")
    page.until("document.querySelector('#rows tr').innerText.includes('n3000.')")
    kept(page, "live")


def test_an_action_is_tried(page: Page, served: Room) -> None:
    visit(page, served, "/try")
    page.fill("Action to try", "git status && git push")
    page.click("Try")
    page.until("document.querySelector('#verdict .badge')?.innerText === 'deny'")
    assert "publishing is for people" in page.text("#verdict")
    page.fill("Action to try", "cargo publish")
    page.click("Try")
    page.until("document.getElementById('verdict').innerText.includes('What would allow it?')")
    kept(page, "try")


def test_findings_appear_on_the_policy_page_and_rules_that_never_decide_are_grey(page: Page, served: Room) -> None:
    with (served.home / "config.toml").open("a") as rules:
        rules.write('\n[[rules]]\nallow = { command = "npm", args = ["ci"] }\n')
    visit(page, served, "/policy")
    page.until("document.querySelector('#findings li')")
    assert "allow npm ci" in page.text("#findings")
    grey = page.evaluate("[...document.querySelectorAll('tr.shadowed')].map(e => e.dataset.rule)")
    assert grey == ["allow npm ci"]
    kept(page, "policy")


def test_activity_is_searched_and_leads_to_one_record(page: Page, served: Room) -> None:
    log = log_of(served)
    for number in range(60):
        log.append(decided(number))
    visit(page, served, "/activity")
    page.click("Older")
    page.until("document.body.innerText.includes('make n0.')")
    page.click("Newer")
    page.until("document.body.innerText.includes('make n59.')")
    page.fill("Search", "n17.")
    page.click("Find")
    page.until("document.querySelectorAll('.entry').length === 1")
    page.click("command make n17.")
    page.until("location.search.includes('record=') && document.body.innerText.includes('byleave.toml:1')")


@pytest.mark.skipif(AXE is None, reason="axe-core is not installed (BYLEAVE_AXE is the path of its axe.min.js)")
def test_axe_finds_nothing_serious_on_any_page(page: Page, served: Room) -> None:
    with (served.home / "config.toml").open("a") as rules:
        rules.write('\n[[rules]]\nallow = { command = "npm", args = ["ci"] }\n')  # which never decides
    served.command("npm ci && rm -rf build")
    served.command("cargo publish")
    ask_about(
        served,
        AskedAction("k" * 64, {"kind": "read", "path": "a.txt"}, {"decision": "allow"}),
        AskedAction("l" * 64, {"kind": "delete", "path": "a.txt"}, {"decision": "ask"}),
        given={"file_path": "a.txt", "content": "x"},
    )
    for number in range(3):
        log_of(served).append(decided(number))
    script = Path(str(AXE)).read_text()
    for dark in (False, True):
        page.look(width=1280, height=900, dark=dark)
        for path in ("/", "/live", "/approvals", "/activity", "/activity?record=1", "/policy", "/try"):
            visit(page, served, path)
            page.until(f"document.querySelector('{READY.get(path, 'h1')}')")
            if path == "/try":
                page.fill("Action to try", "git push")
                page.click("Try")
                page.until("document.querySelector('#verdict .badge')")
            page.evaluate(f"{script}; 1")
            found = page.evaluate(
                "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
                ".map(v => `${v.id}: ${v.nodes.map(n => n.html + ' ' + n.failureSummary).join(' | ')}`))"
            )
            assert found == [], (path, dark)


def test_every_page_fits_a_phone_and_has_names_for_its_controls(page: Page, served: Room) -> None:
    served.command("npm ci && rm -rf build")
    for number in range(3):
        log_of(served).append(decided(number))
    unnamed = (
        "[...document.querySelectorAll('button, a, input, select, textarea, svg[role=img]')].filter(e => "
        "e.checkVisibility() && !(e.innerText || e.textContent || '').trim() && !e.labels?.length"
        " && !e.ariaLabel).map(e => e.outerHTML)"
    )
    for width, dark in amounts.some([(390, False), (390, True), (1280, False), (1280, True)], every=3):
        page.look(width=width, height=844, dark=dark)
        for path in ("/", "/live", "/approvals", "/activity", "/policy", "/try"):
            visit(page, served, path)
            page.until("document.querySelector('h1')")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
            assert page.evaluate(unnamed) == [], path
            kept(page, f"{path.strip('/') or 'overview'}-{width}-{'dark' if dark else 'light'}")
