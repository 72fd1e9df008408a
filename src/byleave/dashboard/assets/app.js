// Shows questions and decisions as they come, and sends answers. Texts are set as text, never as HTML.
"use strict";

// The token that answers need. Where the server cannot tell the browser's process from others, it is in the first page
// only: it is kept for the pages of this very address and port, which no other server can read.
const KEPT = "byleave-token";
function readToken() {
  const meta = document.querySelector('meta[name="byleave-token"]');
  if (!meta.hasAttribute("data-keep")) return meta.content;
  try {
    if (meta.content) localStorage.setItem(KEPT, meta.content);
    return meta.content || localStorage.getItem(KEPT) || "";
  } catch { return meta.content; }
}
const token = readToken();
const SIGN_IN = "Run `byleave dashboard` and open the address that it prints.";
const MOST_ROWS = 1000;
const PERIOD = 1000; // milliseconds between two looks

// A word of thousands of letters takes a browser seconds to lay out, unless it is said where it may be broken.
const WORD = 200;
function write(element, text) {
  if (!/\S{400}/.test(text)) { element.textContent = text; return; }
  for (const piece of text.match(/\S{1,200}|\s+/gu)) {
    element.append(piece);
    if (piece.length >= WORD) element.append(document.createElement("wbr"));
  }
}

function make(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") write(element, String(value));
    else if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function badge(word) {
  const known = ["allow", "ask", "deny"].includes(word);
  return make("span", { class: known ? `badge ${word}` : "badge", text: word });
}

async function call(path, body) {
  if (body !== undefined && !token) throw new Error(`this page may look, but not answer. ${SIGN_IN}`);
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Byleave-Token": token },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, { ...options, cache: "no-store", credentials: "same-origin" });
  let tree = {};
  try { tree = await response.json(); } catch { tree = { error: "the answer was not understood" }; }
  if (!response.ok) throw Object.assign(new Error(tree.error || `error ${response.status}`), { status: response.status });
  return tree;
}

const banner = document.getElementById("banner");
function connected(error) {
  if (!error) {
    banner.hidden = Boolean(token);
    if (!token) banner.textContent = `This page may look, but not answer. ${SIGN_IN}`;
    return;
  }
  banner.hidden = false;
  banner.textContent = error.status === 401
    ? `You are not signed in any more. ${SIGN_IN}`
    : error.status ? `The dashboard says: ${error.message}` : "The dashboard does not answer. It may have been ended.";
}

function repeatedly(work) {
  const turn = async () => {
    try { await work(); connected(null); } catch (error) { connected(error); }
    setTimeout(turn, PERIOD);
  };
  turn();
}

function ago(written, now) {
  const seconds = Math.max(0, Math.round((now - Date.parse(written)) / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// ---- Approvals ------------------------------------------------------------------------------------------------------

const list = document.querySelector('[data-view="approvals"]');
const SETTLING = 400; // milliseconds for which a question must have been in its place before it can be answered
const LONG = 2000; // characters of a text that is scrolled in its place
const shown = new Map(); // by `seen`, the hash of all that a card shows: the question, its card, since when it is there
let current = null;
let deafUntil = 0; // milliseconds
let settledAt = 0; // when the cards have been in their places for long enough
let leftOut = 0; // questions that can be answered, and are too many for the page
let announced = new Set();
let first = true;

const BUTTONS = [
  ["once", "Allow once", "a", "primary"],
  ["session", "Allow for this session", "s", ""],
  ["always", "Always allow", "w", ""],
  ["deny", "Deny", "d", "danger"],
];

function facts(rows) {
  const dl = make("dl", { class: "facts" });
  for (const [name, value] of rows) dl.append(make("dt", { text: name }), make("dd", {}, make("pre", { text: value, tabindex: "0" })));
  return dl;
}

function difference(lines) {
  const kinds = { "+": "plus", "-": "minus", "@": "hunk" };
  const pre = make("pre", { class: "diff", tabindex: "0", "aria-label": "What would change" });
  for (const line of lines) pre.append(make("span", { class: kinds[line[0]] || "", text: line }));
  return pre;
}

function partList(parts) {
  const ul = make("ul", { class: "parts" });
  for (const part of parts) {
    ul.append(make("li", {}, badge(part.decision), make("code", { text: part.text }),
      make("span", { class: "dim", text: part.why }),
      part.files.length ? make("small", { class: "dim", text: part.files.join("; ") }) : null));
  }
  return ul;
}

function reasons(because) {
  const ul = make("ul", { class: "parts" });
  for (const ref of because) ul.append(make("li", {}, badge(ref.decision), make("code", { text: ref.rule }), make("span", { class: "dim", text: ref.source })));
  return ul;
}

function actionRows(action, question) {
  const rows = [];
  if (action.parts.length > 1 || action.parts.some((part) => part.files.length)) rows.push(partList(action.parts));
  const said = { cwd: question.workspace, agent: question.view.agent }; // which the card says already, as it says the kind
  for (const name of ["command", "path", "url", "name", "program"]) said[name] = action.subject;
  const rest = action.facts.filter(([name, value]) => name !== "kind" && said[name] !== value);
  if (rest.length) rows.push(facts(rest));
  if (action.leads_to.length) {
    rows.push(make("p", { class: "meta places" }, "leads to", ...action.leads_to.map((place) => make("code", { text: place }))));
  }
  return rows;
}

// What a yes covers beside the actions themselves.
function given(view) {
  const rows = [];
  if (view.input && view.input.length) rows.push(make("h3", { text: "What the tool would be given" }), facts(view.input));
  if (view.change && view.change.length) rows.push(make("h3", { text: "What would change" }), difference(view.change));
  return rows;
}

function subject(text) {
  return make("div", { class: "subject", text, tabindex: "0" });
}

// Of several actions each has its kind, its target, and what the policy says of it alone.
function actionSection(action, number, question) {
  return make("section", { class: "action" },
    make("h3", {}, badge(action.decision), `${number}. ${action.kind}`), subject(action.subject), ...actionRows(action, question),
    action.reason && action.reason !== question.why ? make("p", { class: "dim", text: action.reason }) : null,
    action.because.length ? reasons(action.because) : null);
}

function card(question) {
  const view = question.view;
  const pending = question.status === "pending";
  const root = make("article", {
    class: `card question ${question.status}`, role: "listitem", tabindex: "-1", "data-id": question.id, "data-seen": question.seen,
    "aria-label": `${view.agent} ${view.title}`,
  });
  const when = make("span", { class: "when" });
  const who = view.definition ? make("b", { text: view.subject }) : make("b", { text: view.agent });
  root.append(make("header", {}, make("h2", {}, who, ` ${view.title}`), pending ? null : badge("expired"), when));
  const by = [`by the ${view.door}`, view.identity === "claimed" ? "claimed name" : "", view.workspace,
    question.session === "default" ? "" : `session ${view.session}`].filter(Boolean);
  root.append(make("p", { class: "meta", text: by.join(" · ") }));
  const [only, ...others] = view.actions;
  if (others.length) root.append(...view.actions.map((action, at) => actionSection(action, at + 1, question)));
  else {
    if (view.subject && !view.definition) root.append(subject(view.subject));
    if (only) root.append(...actionRows(only, question));
  }
  root.append(...given(view));
  if (view.definition) {
    const { old, new: fresh, diff } = view.definition;
    root.append(make("div", { class: "definition" },
      make("div", {}, make("h3", { text: "Approved" }), make("pre", { text: old || "none", tabindex: "0" })),
      make("div", {}, make("h3", { text: "Now" }), make("pre", { text: fresh, tabindex: "0" }))));
    root.append(difference(diff));
  }
  root.append(make("p", { class: "why", text: question.why }));
  if (only && !others.length && only.because.length) root.append(reasons(only.because));
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  if (pending) root.append(buttons(question));
  else root.append(make("p", { class: "dim", text: "Whoever asked has ended, or its time is over: it cannot be answered any more." }));
  root.append(problem);
  scrollLong(root);
  return { question, root, when, problem, since: performance.now(), sending: false, focused: false };
}

// What is very long is scrolled in its place, so that the buttons stay near.
function scrollLong(root) {
  for (const element of root.querySelectorAll("h2, .meta, .why, .parts, .dim, summary")) {
    if (element.textContent.length > LONG) { element.classList.add("long"); if (element.tagName !== "SUMMARY") element.tabIndex = 0; }
  }
  return root;
}

function buttons(question) {
  const row = make("div", { class: "buttons" });
  for (const [answer, name, key, kind] of BUTTONS) {
    if (!question.answers.includes(answer)) continue;
    const label = question.view.definition && answer === "always" ? "Approve this definition" : name;
    row.append(make("button", { type: "button", class: kind, "data-answer": answer, "aria-keyshortcuts": key, disabled: true,
      onclick: () => choose(question.seen, answer), text: label }));
  }
  if (question.held) {
    row.append(make("button", { type: "button", class: "danger", "data-answer": "reason", text: "Deny and tell the agent why", disabled: true,
      onclick: () => askWhy(question.seen) }));
  }
  return row;
}

// A key typed ahead, or a click on a card that has just moved there, is not for what the person sees by now.
function isReady(known) {
  return !known.sending && performance.now() >= Math.max(settledAt, known.since + SETTLING);
}

function enable() {
  const focused = document.activeElement;
  for (const known of shown.values()) {
    const off = !isReady(known);
    known.root.classList.toggle("sending", known.sending);
    for (const button of known.root.querySelectorAll("button")) if (button.disabled !== off) button.disabled = off;
  }
  for (const button of document.querySelectorAll("#together button")) button.disabled = !button.group.every(isReadyBySeen);
  return focused;
}

function isReadyBySeen(seen) {
  return shown.has(seen) && isReady(shown.get(seen));
}

function settle(moved = true) {
  if (moved) settledAt = performance.now() + SETTLING;
  const focused = enable();
  setTimeout(() => {
    enable();
    if (focused && focused.isConnected && document.activeElement === document.body) focused.focus({ preventScroll: true });
  }, SETTLING + 5);
}

function choose(seen, answer) {
  const known = shown.get(seen);
  if (!known || !known.question.answers.includes(answer) || !isReady(known)) return;
  if (answer === "always" && known.question.rule) showRule(known);
  else send(seen, { answer });
}

// Leaves a rule or a reason without an answer; who uses the keyboard goes on at the question.
function close(known) {
  known.root.querySelector(".rulebox")?.remove();
  known.root.focus({ preventScroll: true });
}

function extra(known, ...children) {
  known.root.querySelector(".rulebox")?.remove();
  const box = make("div", { class: "rulebox", onkeydown: (event) => { if (event.key === "Escape") close(known); } }, ...children);
  known.root.insertBefore(box, known.problem);
  return box;
}

function showRule(known) {
  const rule = known.question.rule;
  const box = extra(known,
    make("p", { text: "This rule would be added to your own file. It holds for every agent, in all your workspaces:" }),
    make("pre", { class: "rule", text: rule, tabindex: "0" }),
    make("p", { class: "dim reach", role: "status", text: "Trying what else it would allow …" }),
    make("div", { class: "buttons" },
      make("button", { type: "button", class: "primary", text: "Write this rule", onclick: () => { if (isReady(known)) send(known.question.seen, { answer: "always", rule }); } }),
      make("button", { type: "button", text: "Cancel", onclick: () => close(known) })));
  box.querySelector("button").focus();
  known.since = performance.now(); // the rule has to be seen as well
  settle(false);
  showReach(known, box.querySelector(".reach"));
}

async function showReach(known, place) {
  try {
    const { over_grant: found } = await call(`/api/reach?id=${encodeURIComponent(known.question.id)}&seen=${known.question.seen}`);
    place.textContent = found.also_allowed
      ? `It would also allow ${found.also_allowed} of ${found.tried} other actions that were tried, such as:`
      : `Of ${found.tried} other actions that were tried it would allow none.`;
    if (found.also_allowed) place.after(make("ul", { class: "parts" }, ...found.examples.map((text) => make("li", {}, make("code", { text })))));
  } catch (error) { place.textContent = `What else it would allow is not known: ${error.message}`; }
}

function askWhy(seen) {
  const known = shown.get(seen);
  if (!known || !isReady(known)) return;
  const id = `why-${known.question.id}`;
  const field = make("input", { type: "text", id, maxlength: "1000", autocomplete: "off" });
  const form = make("form", { onsubmit: (event) => { event.preventDefault(); if (isReady(known)) send(seen, { answer: "deny", reason: field.value }); } },
    make("label", { for: id, text: "What the agent is to know" }), make("br"), field,
    make("div", { class: "buttons" }, make("button", { class: "danger", text: "Deny with this reason" }),
      make("button", { type: "button", text: "Cancel", onclick: () => close(known) })));
  extra(known, form);
  field.focus();
}

async function send(seen, body) {
  const known = shown.get(seen);
  if (!known || known.sending) return;
  known.sending = true;
  known.focused = known.root.contains(document.activeElement);
  enable();
  try {
    await call(`/api/pending/${encodeURIComponent(known.question.id)}`, { ...body, seen });
    remove(seen, true);
    countWaiting();
  } catch (error) {
    known.sending = false;
    enable();
    known.problem.hidden = false;
    known.problem.textContent = `Not answered: ${error.message}`;
  }
}

function remove(seen, answered = false) {
  const known = shown.get(seen);
  if (!known) return;
  const next = known.root.nextElementSibling || known.root.previousElementSibling;
  known.root.remove();
  shown.delete(seen);
  settle();
  if (current !== seen) return;
  const lost = known.focused && document.activeElement === document.body; // what was focused has gone
  select(next ? next.dataset.seen : null, lost);
  if (!next && lost) document.getElementById("main").focus({ preventScroll: true });
  if (!answered) deafUntil = performance.now() + 1000; // it went by itself: a key that was meant for it is not for the next one
}

function select(seen, focus = true) {
  if (current && shown.has(current)) shown.get(current).root.classList.remove("current");
  current = seen && shown.has(seen) ? seen : null;
  if (!current) return;
  const root = shown.get(current).root;
  root.classList.add("current");
  if (focus) { root.focus({ preventScroll: true }); root.scrollIntoView({ block: "nearest" }); }
}

function countWaiting() {
  const number = [...shown.values()].filter((known) => known.question.status === "pending").length;
  showCount(number + leftOut);
  const more = document.getElementById("more-questions");
  more.hidden = leftOut === 0;
  more.textContent = `${leftOut} more wait. They appear here once some of these are answered.`;
  document.getElementById("no-questions").hidden = shown.size > 0;
  together();
}

function showCount(number) {
  const mark = document.getElementById("waiting");
  mark.hidden = number === 0;
  mark.textContent = String(number);
  mark.setAttribute("aria-label", `${number} waiting`);
  const name = document.title.replace(/^\(\d+\) /, "");
  document.title = number ? `(${number}) ${name}` : name;
}

// Questions of one kind, by one agent in one session of a workspace, can be denied or allowed once together; each is listed.
function together() {
  const place = document.getElementById("together");
  const groups = new Map();
  for (const { question } of shown.values()) {
    if (question.status !== "pending" || !question.answers.includes("once")) continue;
    const kinds = question.view.actions.map((action) => action.kind);
    const { agent, workspace, session, view } = question;
    const key = JSON.stringify([agent, workspace, session, view.door, view.identity, ...kinds]);
    groups.set(key, [...(groups.get(key) || []), question]);
  }
  const many = [...groups.values()].filter((group) => group.length > 1);
  const key = JSON.stringify(many.map((group) => group.map((question) => question.seen)));
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...many.map((group) => {
    const kinds = [...new Set(group[0].view.actions.map((action) => action.kind))].join(", ");
    const name = `Answer ${group.length} questions of ${group[0].view.agent} together: ${kinds}`;
    const seen = group.map((question) => question.seen);
    const button = (answer, kind, text) => {
      const made = make("button", { type: "button", class: kind, text, disabled: true, onclick: () => {
        if (seen.every(isReadyBySeen)) for (const each of seen) send(each, { answer });
      } });
      made.group = seen;
      return made;
    };
    const items = make("ul", { class: "parts" }, ...group.map((question) => make("li", {},
      ...question.view.actions.flatMap((action) => [badge(action.decision), make("span", { class: "dim", text: action.kind }),
        make("code", { text: action.subject }), ...actionRows(action, question)]), ...given(question.view))));
    return scrollLong(make("details", { class: "card" }, make("summary", { text: name }), items,
      make("div", { class: "buttons" }, button("once", "", `Allow these ${group.length} once`), button("deny", "danger", `Deny these ${group.length}`))));
  }));
  settle();
}

function update(pending, now, more) {
  const listed = new Set(pending.map((question) => question.seen));
  const gone = [...shown.keys()].filter((seen) => !listed.has(seen) && !shown.get(seen).sending);
  let changed = leftOut !== more;
  leftOut = more;
  for (const question of pending) {
    if (shown.has(question.seen)) continue;
    const fresh = card(question);
    const before = gone.find((seen) => shown.get(seen)?.question.id === question.id); // the same question, as it is now
    shown.set(question.seen, fresh);
    if (before) {
      shown.get(before).root.replaceWith(fresh.root);
      shown.delete(before);
      if (current === before) select(question.seen, false);
    } else list.append(fresh.root);
    settle(Boolean(before));
    changed = true;
  }
  for (const seen of gone) if (shown.has(seen)) { remove(seen); changed = true; }
  for (const { question, when } of shown.values()) {
    const left = question.expires ? Math.round((Date.parse(question.expires) - now) / 1000) : null;
    const lapse = question.status === "pending" && left !== null ? `, lapses in ${ago(new Date(now - left * 1000).toISOString(), now)}` : "";
    when.textContent = `waits for ${ago(question.created, now)}${lapse}`;
  }
  if (!current && list.firstElementChild) select(list.firstElementChild.dataset.seen, false);
  if (changed || !pending.length) countWaiting();
  enable();
}

function notify(pending) {
  const waiting = pending.filter((question) => question.status === "pending");
  const fresh = waiting.filter((question) => !announced.has(question.id));
  announced = new Set(waiting.map((question) => question.id));
  if (first || !fresh.length || !("Notification" in window) || Notification.permission !== "granted" || document.hasFocus()) { first = false; return; }
  new Notification("byleave", { body: fresh.length === 1 ? fresh[0].view.notice : `${fresh.length} questions wait for you`, tag: "byleave" });
}

if (list) {
  repeatedly(async () => {
    const { pending, left_out: more } = await call("/api/pending");
    update(pending, Date.now(), more);
    notify(pending);
  });
  const button = document.getElementById("notify");
  if ("Notification" in window && Notification.permission === "default") {
    button.hidden = false;
    button.addEventListener("click", async () => { await Notification.requestPermission(); button.hidden = true; });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const ids = [...list.children].map((child) => child.dataset.seen);
    const at = ids.indexOf(current);
    if (event.key === "j") select(ids[Math.min(at + 1, ids.length - 1)]);
    else if (event.key === "k") select(ids[Math.max(at - 1, 0)]);
    else {
      const found = BUTTONS.find(([, , key]) => key === event.key);
      if (!found || !current || performance.now() < deafUntil) return;
      choose(current, found[0]);
    }
    event.preventDefault();
  });
  list.addEventListener("focusin", (event) => {
    const root = event.target.closest(".question");
    if (root && root.dataset.seen !== current) select(root.dataset.seen, false);
  });
  // A key that is held down presses the button that has the focus by now, again and again.
  document.addEventListener("keydown", (event) => { if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault(); }, true);
  document.addEventListener("visibilitychange", () => { // what came while the page was hidden has not been seen yet
    if (document.hidden) return;
    for (const known of shown.values()) known.since = performance.now();
    settle(false);
  });
} else {
  repeatedly(async () => {
    const { pending, left_out: more } = await call("/api/pending");
    showCount(pending.filter((question) => question.status === "pending").length + more);
    notify(pending);
  });
}

// ---- Live -----------------------------------------------------------------------------------------------------------

const rows = document.querySelector('[data-view="live"]');
if (rows) {
  const workspace = encodeURIComponent(rows.dataset.workspace);
  const control = (id) => document.getElementById(id);
  let last = 0;
  let paused = false;
  let held = [];
  const matches = (row) => {
    const text = control("search").value.toLowerCase();
    return (!control("decision").value || row.decision === control("decision").value)
      && (!control("agent").value || row.agent === control("agent").value)
      && (!control("door").value || row.door === control("door").value)
      && (!text || `${row.what} ${row.reason} ${row.rule}`.toLowerCase().includes(text));
  };
  const draw = (row) => {
    const link = `/activity?workspace=${workspace}&record=${row.sequence}`;
    const line = make("tr", { class: `fresh ${row.decision}`, "data-sequence": row.sequence },
      make("td", {}, make("time", { datetime: row.time, text: new Date(row.time).toLocaleTimeString() })),
      make("td", {}, badge(row.decision || row.said)), make("td", { text: row.agent }), make("td", { class: "dim", text: row.door }),
      make("td", { class: "what" }, make("a", { class: "mono", href: link, text: row.what })), make("td", { class: "dim", text: row.reason }));
    line.hidden = !matches(row);
    line.row = row;
    return line;
  };
  const count = () => {
    const visible = [...rows.children].filter((line) => !line.hidden).length;
    control("shown").textContent = paused ? `paused, ${held.length} new` : `${visible} shown`;
    control("no-rows").hidden = rows.children.length > 0;
  };
  const add = (fresh) => {
    const batch = document.createDocumentFragment();
    for (const row of fresh.slice(-MOST_ROWS).reverse()) batch.append(draw(row));
    rows.prepend(batch);
    while (rows.children.length > MOST_ROWS) rows.lastElementChild.remove();
  };
  const options = (fresh) => {
    const select = control("agent");
    const known = new Set([...select.options].map((option) => option.value));
    for (const { agent } of fresh) if (agent && !known.has(agent) && known.size < 100) { known.add(agent); select.append(make("option", { value: agent, text: agent })); }
  };
  repeatedly(async () => {
    const found = await call(`/api/decisions?after=${last}&workspace=${workspace}`);
    last = found.last;
    options(found.rows);
    if (paused) held = [...held, ...found.rows].slice(-MOST_ROWS); else if (found.rows.length) add(found.rows);
    count();
  });
  control("live-filters").addEventListener("submit", (event) => event.preventDefault());
  control("live-filters").addEventListener("input", () => {
    for (const line of rows.children) line.hidden = !matches(line.row);
    count();
  });
  control("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.target.setAttribute("aria-pressed", String(paused));
    event.target.textContent = paused ? "Go on" : "Pause";
    if (!paused) { add(held); held = []; }
    count();
  });
}

// ---- Try ------------------------------------------------------------------------------------------------------------

const trial = document.querySelector('[data-view="try"]');
if (trial) {
  const field = document.getElementById("action");
  const place = document.getElementById("verdict");
  const names = { fs: "files", net: "network", env: "variables", commands: "commands" };
  const planTable = (plan) => make("ul", { class: "parts" }, ...plan.map((row) => make("li", {},
    make("span", { class: "badge", text: names[row.family] || row.family }), make("code", { text: row.rule }), make("span", { class: "dim", text: row.source }))));
  const attempt = async () => {
    try {
      const { verdict, view } = await call(`/api/try?workspace=${encodeURIComponent(trial.dataset.workspace)}`, { text: field.value });
      const parts = view.parts.length ? [make("h2", { text: "Parts of the command" }), partList(view.parts)] : [];
      const help = verdict.decision === "allow" ? [] : [make("h2", { text: "What would allow it?" }),
        view.nearest ? make("p", { text: `The nearest rule: ${view.nearest}.` }) : null,
        view.suggestion ? make("pre", { class: "rule", text: view.suggestion, tabindex: "0" }) : null,
        view.nearest || view.suggestion ? null : make("p", { class: "dim", text: "No single rule of yours would." })];
      const plan = view.plan.length ? [make("h2", { text: "The sandbox that it would run in" }), make("p", { class: "dim", text: view.sandbox }), planTable(view.plan)]
        : view.sandbox ? [make("p", { class: "dim", text: view.sandbox })] : [];
      place.replaceChildren(make("section", { class: "card" },
        make("p", {}, badge(verdict.decision), view.reason),
        ...parts, make("h2", { text: "Why" }), reasons(view.because), ...help, ...plan));
    } catch (error) {
      place.replaceChildren(make("section", { class: "card" }, make("p", { class: "problem", text: error.message })));
    }
  };
  trial.addEventListener("submit", (event) => { event.preventDefault(); attempt(); });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); attempt(); } });
  for (const example of trial.querySelectorAll(".example")) example.addEventListener("click", () => { field.value = example.textContent; attempt(); });
}

// ---- Policy ---------------------------------------------------------------------------------------------------------

const findings = document.querySelector('[data-view="policy"]');
if (findings) {
  const NEVER_DECIDES = ["shadowed", "duplicate", "no_effect"];
  const colours = { error: "deny", warning: "ask" };
  call(`/api/lint?workspace=${encodeURIComponent(findings.dataset.workspace)}`).then(({ findings: found, left_out: more, problem }) => {
    const rows = [...document.querySelectorAll("tr[data-rule]")];
    for (const { code, rule, source } of found) {
      if (!NEVER_DECIDES.includes(code)) continue;
      for (const row of rows) if (row.dataset.rule === rule && row.dataset.source === source && !row.classList.contains("shadowed")) {
        row.classList.add("shadowed");
        row.cells[2].append(make("span", { class: "badge", text: code.replaceAll("_", " ") }));
      }
    }
    const items = found.map((each) => make("li", {},
      make("p", {}, make("span", { class: `badge ${colours[each.severity] || ""}`, text: each.severity }), make("b", { text: each.code.replaceAll("_", " ") }),
        make("code", { text: each.rule }), make("span", { class: "dim", text: each.source })),
      make("p", { text: each.message }), make("p", { class: "dim", text: each.fix })));
    findings.replaceChildren(make("h2", { text: "Findings" }),
      items.length ? make("ul", { class: "parts findings" }, ...items) : make("p", { class: "dim", text: problem || "Nothing was found." }),
      more ? make("p", { class: "dim", text: `And ${more} more: \`byleave policy lint\` lists them.` }) : "");
  }, (error) => findings.replaceChildren(make("h2", { text: "Findings" }), make("p", { class: "problem", text: error.message })));
}

const filters = document.getElementById("activity-filters");
if (filters) for (const select of filters.querySelectorAll("select")) select.addEventListener("change", () => filters.submit());

const choice = document.querySelector(".choice");
if (choice) {
  choice.querySelector("button").hidden = true;
  choice.querySelector("select").addEventListener("change", () => choice.submit());
}
