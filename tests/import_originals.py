"""What the originals of `policy import` say, written anew from their documentation: small, and without byleave's code.

Each function takes settings as the original reads them and an action, and returns the original's decision. Commands are
split at operators outside of quotes, which is all that the originals promise. `None`: the original has no say about it.
"""

import fnmatch
import re
from typing import Any

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
Action = dict[str, Any]
_SEPARATORS = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*'|\\.|[^;&|\n"'\\]+)|(&&|\|\||\|&|[;&|\n])""")


def parts(line: str) -> list[str]:
    """Split a line at operators outside of quotes."""
    found = [""]
    for match in _SEPARATORS.finditer(line):
        if match[2]:
            found.append("")
        else:
            found[-1] += match[1]
    return [part.strip() for part in found if part.strip()]


def is_plain(line: str) -> bool:
    """Whether a line has no syntax that a split at operators does not see through."""
    return not re.search(r"[$`(){}<>#\\*?\[~]|\b(if|for|while|do|then|case|function|eval|exec|source)\b|^\w+=", line)


def strictest(decisions: list[str]) -> str:
    return max(decisions, key=STRICTNESS.__getitem__)


def _lists(action: Action, deny: list[str], ask: list[str], allow: list[str], matches: Any) -> str:
    """Deny before ask before allow, for each command of a line by itself; silence is a question."""
    units = parts(action["command"]) if action["kind"] == "command" else [action]
    found = []
    for unit in units:
        of = [
            word
            for word, rules in (("deny", deny), ("ask", ask), ("allow", allow))
            if any(matches(rule, unit, word) for rule in rules)
        ]
        found.append(of[0] if of else "ask")
    return strictest(found)


def claude(tree: dict[str, Any], action: Action, root: str, home: str) -> str:
    lists = {word: tree.get(word, []) for word in ("deny", "ask", "allow")}
    return _lists(
        action,
        lists["deny"],
        lists["ask"],
        lists["allow"],
        lambda rule, unit, word: _claude_matches(rule, unit, word, root, home),
    )


def _claude_matches(rule: str, unit: Any, word: str, root: str, home: str) -> bool:
    tool, _, rest = rule.partition("(")
    inner = rest[:-1] if rest else None
    if isinstance(unit, str):
        if word != "allow":
            unit = re.sub(r"^(?:\w+=\S* )+", "", unit) if inner and not re.match(r"\w+=", inner) else unit
        return tool == "Bash" and _bash(inner, unit)
    kind = unit["kind"]
    if kind == "call":
        name = f"mcp__{unit['server']}__{unit['tool']}"
        if word == "allow" and "*" in tool.split("__")[1 if tool.startswith("mcp__") else 0]:
            return False
        return fnmatch.fnmatchcase(name, tool) or name.startswith(f"{tool}__")
    if kind == "url":
        host = re.match(r"https?://([^/:]+)", unit["url"])
        if tool != "WebFetch" or host is None:
            return word != "allow" and "*" in tool and fnmatch.fnmatchcase("WebFetch", tool)
        return inner is None or fnmatch.fnmatchcase(f"domain:{host[1]}", inner)
    if kind in ("read", "create", "update"):
        tools = ["Read"] if kind == "read" else ["Edit", "Read"] if word == "deny" else ["Edit"]
        return (
            tool in tools
            and inner is not None
            and _ignored(inner, unit["path"], root, home, at_any_depth=word != "allow")
        )
    return False


def _bash(pattern: str | None, command: str) -> bool:
    if pattern is None or pattern == "*":
        return True
    if pattern.endswith(":*"):
        pattern = f"{pattern[:-2]} *"
    regex = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    if pattern.endswith(" *"):
        regex = regex.removesuffix(r"\ .*") + r"(?:\ .*)?"
    return re.fullmatch(regex, command, re.DOTALL) is not None


def _ignored(pattern: str, path: str, root: str, home: str, *, at_any_depth: bool) -> bool:
    """As a .gitignore reads it, from the anchor that the pattern names."""
    full = path if path.startswith("/") else path.replace("~", home, 1) if path.startswith("~") else f"{root}/{path}"
    if pattern.startswith("!"):
        return False
    if pattern.startswith("//"):
        base, rest = "", pattern[2:]
    elif pattern.startswith("~/"):
        base, rest = home, pattern[2:]
    elif pattern.startswith("/"):
        return False  # starts where the settings are, which is not in the workspace here
    else:
        base, rest = root, pattern.removeprefix("./")
        rest = rest if "/" in rest.rstrip("/") and not at_any_depth else f"**/{rest}"
    if not full.startswith(f"{base}/"):
        return False
    regex = re.escape(rest).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    regex = regex.replace(r"\[", "[").replace(r"\]", "]")
    return re.fullmatch(f"{regex}(?:/.*)?", full[len(base) + 1 :], re.IGNORECASE) is not None


def codex(rules: list[tuple[list[Any], str]], action: Action) -> str:
    """Words as a prefix; the strictest of all rules that match; silence is a question."""
    words = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
    found = []
    for part in parts(action["command"]):
        argv = part.split()
        hits = [
            words[decision]
            for pattern, decision in rules
            if len(argv) >= len(pattern)
            and all(
                argv[number] == each or (isinstance(each, list) and argv[number] in each)
                for number, each in enumerate(pattern)
            )
        ]
        found.append(strictest(hits) if hits else "ask")
    return strictest(found)


def gemini_policy(rules: list[dict[str, Any]], action: Action) -> str:
    """The highest priority decides, of equals the first; silence is a question."""
    ordered = sorted(rules, key=lambda rule: -rule["priority"])
    if action["kind"] != "command":
        return _gemini_first(ordered, action)
    whole = _gemini_first(ordered, action)
    each = [_gemini_first(ordered, {**action, "command": part}) for part in parts(action["command"])]
    return strictest([whole, *each])


def _gemini_first(ordered: list[dict[str, Any]], action: Action) -> str:
    words = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
    hit = next((rule for rule in ordered if _gemini_matches(rule, action)), None)
    return words[hit["decision"]] if hit else "ask"


def _gemini_matches(rule: dict[str, Any], action: Action) -> bool:
    names = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
    if action["kind"] == "call":
        server = rule.get("mcpName")
        if server == "*" and names != ["*"]:
            return False
        return server in ("*", action["server"]) and (names == ["*"] or action["tool"] in names)
    if "mcpName" in rule:
        return False
    tools = {"command": "run_shell_command", "create": "write_file", "update": "replace", "read": "read_file"}
    if names != ["*"] and tools.get(action["kind"]) not in names:
        return False
    if action["kind"] != "command":
        return True
    text = action["command"]
    if "commandPrefix" in rule:
        given = rule["commandPrefix"] if isinstance(rule["commandPrefix"], list) else [rule["commandPrefix"]]
        return any(text == prefix or re.match(re.escape(prefix) + r'[\s"]', text) for prefix in given)
    return "commandRegex" not in rule or re.match(rule["commandRegex"], text) is not None


def gemini_settings(tree: dict[str, Any], action: Action) -> str:
    """Exclude, then confirmationRequired, then allowed with its narrowing, then core with its."""
    tools = tree["tools"]
    units = (
        [{**action, "command": part} for part in parts(action["command"])] if action["kind"] == "command" else [action]
    )
    return strictest([_gemini_setting(tools, tree, unit) for unit in units])


def _gemini_setting(tools: dict[str, Any], tree: dict[str, Any], action: Action) -> str:
    named = {"read": "read_file", "search": "glob", "create": "write_file", "url": "web_fetch"}.get(action["kind"], "")
    if action["kind"] == "call":
        named = f"mcp_{action['server']}_{action['tool']}"
        servers = tree["mcp"]
        if action["server"] in servers["excluded"] or action["server"] not in servers["allowed"]:
            return "deny"
        if action["tool"] in tree["mcpServers"].get(action["server"], {}).get("excludeTools", []):
            return "deny"

    def lists(key: str) -> bool:
        for entry in tools.get(key, []):
            name, _, inner = entry.partition("(")
            if action["kind"] == "command" and name == "run_shell_command":
                prefix = inner[:-1]
                if not inner or action["command"] == prefix or action["command"].startswith(f"{prefix} "):
                    return True
            elif named and fnmatch.fnmatchcase(named, entry):
                return True
        return False

    if lists("exclude"):
        return "deny"
    if lists("confirmationRequired"):
        return "ask"
    if lists("allowed"):
        return "allow"
    if action["kind"] == "command" and any("(" in entry for entry in tools["allowed"]):
        return "deny"
    return "allow" if lists("core") else "deny"


def cursor(tree: dict[str, Any], action: Action) -> str:
    return _lists(action, tree["deny"], [], tree["allow"], lambda rule, unit, _: _cursor_matches(rule, unit))


def _cursor_matches(rule: str, unit: Any) -> bool:
    tool, _, rest = rule.partition("(")
    inner = rest[:-1]
    if isinstance(unit, str):
        words = unit.split()
        base, colon, arguments = inner.partition(":")
        if tool != "Shell" or not fnmatch.fnmatchcase(words[0], base):
            return False
        return not colon or fnmatch.fnmatchcase(" ".join(words[1:]), arguments)
    kind = unit["kind"]
    if kind == "call":
        return tool == "Mcp" and fnmatch.fnmatchcase(f"{unit['server']}:{unit['tool']}", inner)
    if kind == "url":
        host = re.match(r"https?://([^/:]+)", unit["url"])
        return tool == "WebFetch" and host is not None and fnmatch.fnmatchcase(host[1], inner)
    if tool != {"read": "Read", "create": "Write", "update": "Write"}.get(kind):
        return False
    alternatives = [inner.replace("{a,b}", each) for each in ("a", "b")]
    return any(_globbed(each, unit["path"]) for each in alternatives)


def _globbed(pattern: str, path: str) -> bool:
    regex = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(regex, path) is not None


def opencode(permission: dict[str, Any], action: Action, tools: dict[str, bool]) -> str:
    """The last rule that matches the tool and what it is given decides; a star is anything."""
    rules = [
        (tool, pattern, outcome)
        for tool, value in permission.items()
        for pattern, outcome in ({"*": value} if isinstance(value, str) else value).items()
    ]
    names = {"command": "bash", "read": "read", "create": "edit", "update": "edit", "url": "webfetch", "search": "grep"}
    tool = f"{action['server']}_{action['tool']}" if action["kind"] == "call" else names[action["kind"]]
    if any(not enabled and _starred(tool, name) for name, enabled in tools.items()):
        return "deny"
    given = action.get("path") or action.get("url") or "*"
    found = []
    for target in parts(action["command"]) if tool == "bash" else [given]:
        hits = [word for name, pattern, word in rules if _starred(tool, name) and _starred(target, pattern)]
        found.append(hits[-1] if hits else "ask")
    if str(action.get("path", "")).startswith(("/", "..")):
        found.append([word for name, _, word in rules if _starred("external_directory", name)][-1])
    return strictest(found)


def _starred(text: str, pattern: str) -> bool:
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    if regex.endswith(r"\ .*"):
        regex = regex.removesuffix(r"\ .*") + r"(?:\ .*)?"
    return re.fullmatch(regex, text, re.DOTALL) is not None


def gateway(rules: dict[str, Any], agent: str, server: str, tool: str) -> str:
    """Servers first, denies before allows, a server without a list means all of its tools."""
    found = rules["agents"].get(agent)
    if found is None:
        return "deny" if rules.get("defaults", {}).get("deny_on_missing_agent", True) else "allow"
    allow, deny = found.get("allow", {}), found.get("deny", {})

    def named(names: list[str], name: str) -> bool:
        return name in names or any(fnmatch.fnmatchcase(name, each) for each in names)

    if named(deny.get("servers", []), server) or not named(allow.get("servers", []), server):
        return "deny"
    if any(
        tool == each or ("*" in each and fnmatch.fnmatchcase(tool, each))
        for each in deny.get("tools", {}).get(server, [])
    ):
        return "deny"
    listed = allow.get("tools", {}).get(server, [])
    if not listed:
        return "allow"
    fits = any(tool == each or ("*" in each and fnmatch.fnmatchcase(tool, each)) for each in listed)
    return "allow" if fits else "deny"


def jp_file(rules: list[dict[str, Any]], path: str, op: str) -> str:
    """The rule with the most names that is at or above a path decides alone; of equals the last."""
    best: tuple[int, dict[str, Any]] | None = None
    for rule in rules:
        names = [] if rule["path"] == "." else rule["path"].split("/")
        if path.split("/")[: len(names)] == names and (best is None or len(names) >= best[0]):
            best = (len(names), rule)
    if best is None:
        return "deny"
    writes = best[1].get("write", False)
    granted = best[1].get(op, writes if op in ("create", "update", "delete") else False)
    return "allow" if granted else "deny"
