"""Write docs/reference from the code: configuration, commands, exit codes, JSON, metrics, groups, programs.

Each page is made from the table that the program itself uses, so it says what the program does. The shapes of JSON
are those of real answers: the commands run in a scratch project with a home of its own.

`make reference` writes the pages; `--check` only says which are out of date. tests/docs/test_reference.py uses both.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from byleave import errors
from byleave.cli.arguments import CommandSpec, OptionSpec, PositionalSpec, usage
from byleave.cli.commands import COMMON, EXIT_CODES, ROOT, VERSION
from byleave.cli.policy_groups_command import ABOUT, described
from byleave.core.access import LARGEST
from byleave.core.action import KINDS, fields_of
from byleave.core.command_groups import GROUPS
from byleave.gateway.metrics import ASKED, DECISIONS, OUTCOMES, REFUSALS, Family, Metrics
from byleave.policy.gateway_settings import GatewaySettings
from byleave.policy.schema_types import json_schema
from byleave.shell.knowledge.harmless import FAMILIES
from byleave.shell.knowledge.program_files import FILES
from byleave.shell.knowledge.program_options_table import PROGRAMS

CHECKOUT = Path(__file__).resolve().parents[1]
PLACE = CHECKOUT / "docs" / "reference"
MADE = "<!-- Made by tools/reference.py from the code: run `make reference`. -->\n"
WIDTH = 120  # of lines that are wrapped
Run = Callable[[Sequence[str], Path, Mapping[str, str]], str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def filled(text: str, *, indent: str = "") -> str:
    """Return prose in lines that are not too wide; a word with a dash in it stays whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


# -- configuration --

# Where the tables stand in a file, in the order of the page. Tables that several places use are named after them.
TABLES = {
    "ToolTable": "[tools.NAME]",
    "AccessTable": "[tools.NAME.access], [servers.NAME.access], [shell.access], [access]",
    "FsRuleTable": "[[tools.NAME.access.fs]]",
    "NetRuleTable": "[[tools.NAME.access.net]]",
    "EnvRuleTable": "[[tools.NAME.access.env]]",
    "CommandRuleTable": "[tools.NAME.access.commands.PROGRAM]",
    "LimitsTable": "[tools.NAME.limits]",
    "RunRule": "an entry of run in [tools.NAME]",
    "RuleDefinition": "[[rules]]",
    "MatchTable": "allow, ask or deny in [[rules]]",
    "UrlMatch": "url in a matcher",
    "CallMatch": "call in a matcher",
    "Shell": "[shell]",
    "HooksTable": "[hooks]",
    "Defaults": "[defaults]",
    "HostPathsTable": "[sandbox]",
    "Audit": "[audit]",
    "StoreTable": "[store]",
    "AgentTable": "[agents.NAME]",
    "ReachTable": "allow or deny in [agents.NAME]",
    "ServerTable": "[servers.NAME]",
    "ServerTool": "[servers.NAME.tools.TOOL]",
    "GatewayTable": "[gateway]",
    "LimitTable": "[[gateway.limits]]",
    "IssuerTable": "[gateway.jwt], [[gateway.issuers]]",
    "IdentityTable": "[[gateway.identities]]",
    "ScopeTable": "[gateway.scopes.SCOPE]",
    "TelemetryTable": "[gateway.telemetry]",
    "ConversationTable": "[conversation], the older name of the table that holds tools",
    "SandboxTable": "[tools.NAME.sandbox], the older spelling of access",
    "SandboxFilesystem": "[tools.NAME.sandbox.filesystem]",
    "SandboxNetwork": "[tools.NAME.sandbox.network]",
    "SandboxCommand": "[tools.NAME.sandbox.commands.PROGRAM]",
}
MATCHERS = ("MatchTable", "UrlMatch", "CallMatch")  # a key that is left out is not looked at
DEFAULT = re.compile(r" \(default: ((?:[^()]|\([^()]*\))+)\)")
ABSENT = re.compile(r" ?Absent: ([^.]+)\.")  # the same, where it is a sentence


def titles(definitions: Iterable[str]) -> dict[str, str]:
    """Return the titles of all tables: those of TABLES, then those that it does not know yet."""
    known = {name: title for name, title in TABLES.items() if name in definitions}
    return known | {name: name for name in definitions if name not in known and not name.startswith("Merge")}


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def type_of(schema: Mapping[str, Any]) -> str:
    """Return what a value may be, in the words of TOML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "" if name.startswith("Merge") else f"[table](#{anchor(TABLES.get(name, name))})"
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(filter(None, map(type_of, schema[several]))))
    match schema.get("type"):
        case "array":
            return f"list of {type_of(schema['items'])}" if schema.get("items") else "list"
        case "object":
            inner = schema.get("additionalProperties")
            return f"table of {type_of(inner)}" if isinstance(inner, dict) and inner else "table"
        case "boolean":
            return "true or false"
        case "integer" | "number" as kind:
            low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum", LARGEST)
            limits = f", {low} to {high}" if low is not None and high != LARGEST else ""
            return f"{'number' if kind == 'number' else 'whole number'}{limits}"
        case "string":
            return "text"
        case _:
            return "anything"


def default_of(owner: str, key: str, value: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what holds where the key is left out; a word of a closed set as it is written in the file."""
    if found := DEFAULT.search(value.get("description", "")) or ABSENT.search(value.get("description", "")):
        written = code(json.dumps(found[1]))
        return written if written in type_of(value) else found[1]
    if owner == "GatewayTable" and settings.get(key) not in (None, ()):
        return code(json.dumps(settings[key]))
    return ""


def keys(owner: str, schema: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = []
    for key, value in schema["properties"].items():
        description = value.get("description", "")
        default = "needed" if key in required else default_of(owner, key, value, settings)
        text = ABSENT.sub("", DEFAULT.sub("", description)).strip().replace("<", "&lt;")
        rows.append((code(key), type_of(value), default, text))
    if owner in MATCHERS:
        return table(("key", "type", "holds for"), [(name, kind, text) for name, kind, _default, text in rows])
    return table(("key", "type", "default", "meaning"), rows)


def configuration() -> str:
    schema = json_schema()
    settings = {name: getattr(GatewaySettings(), name) for name in GatewaySettings.__struct_fields__}
    definitions = schema["$defs"]
    text = (
        f"{MADE}\n# Configuration keys\n\n"
        "Every key of `byleave.toml` and of the other [configuration files](../configuration.md), with its type and\n"
        "what holds where you leave it out. `byleave schema` prints the same as a JSON Schema. An unknown key is an\n"
        "error.\n\n"
        "Some keys count only in your own file (`~/.config/byleave/config.toml`) and in the managed one\n"
        "(`/etc/byleave/config.toml`).\n\n"
        "A list can also be written as a table that says how it joins the lists of weaker layers:\n"
        f"`{{ strategy = ..., value = [...] }}`, see [how layers join](../configuration.md#how-layers-join).\n\n"
        f"## The top of the file\n\n{keys('ConfigFile', schema, settings)}"
    )
    for name, title in titles(definitions).items():
        heading = re.sub(r"\[+[^]]+\]+", lambda found: code(found[0]), title)
        text += f"\n## {heading}\n\n{filled(definitions[name]['description'])}\n\n"
        if name in MATCHERS:
            text += "A key that is left out is not looked at.\n\n"
        text += keys(name, definitions[name], settings)
    return text


# -- commands --


def commands_below(command: CommandSpec, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CommandSpec]]:
    yield path, command
    for child in command.subcommands:
        yield from commands_below(child, (*path, child.name))


def option_rows(options: Iterable[OptionSpec]) -> Iterator[tuple[str, str]]:
    for option in options:
        value = "" if option.value is None else f"[={option.value}]" if option.optional else f" {option.value}"
        choices = f"; one of {', '.join(map(code, option.choices))}" if option.choices else ""
        yield code(f"{', '.join(option.names)}{value}"), f"{option.help}{choices}"


def word_rows(words: Iterable[PositionalSpec]) -> Iterator[tuple[str, str]]:
    for word in words:
        choices = f"; one of {', '.join(map(code, word.choices))}" if word.choices else ""
        yield code(f"{word.name}{'...' if word.repeat else ''}"), f"{word.help}{choices}"


def details(command: CommandSpec) -> Iterator[str]:
    """Yield the paragraphs of a command's help; those that are examples as text."""
    for paragraph in filter(None, command.details.split("\n\n")):
        if paragraph.startswith(" "):
            yield f"```text\n{paragraph.rstrip()}\n```"
        else:
            yield filled(re.sub(r"\bdocs/([a-z-]+\.md)", r"[\1](../\1)", " ".join(paragraph.split())))


def commands() -> str:
    text = (
        f"{MADE}\n# Commands\n\n"
        "Every command with its arguments and options, as `byleave help COMMAND` prints them. These options belong to\n"
        "all commands, and stand before or after their names:\n\n"
        f"{table(('option', 'meaning'), option_rows((*COMMON, VERSION)))}"
    )
    for path, command in commands_below(ROOT):
        if not path:
            continue
        text += f"\n{'#' * min(len(path) + 1, 4)} byleave {' '.join(path)}\n\n{command.help}\n\n"
        text += f"```text\n{usage(command, path)}\n```\n"
        rows = [*word_rows(command.positionals), *option_rows(command.options)]
        text += f"\n{table(('argument or option', 'meaning'), rows)}" if rows else ""
        text += "".join(f"\n{paragraph}\n" for paragraph in details(command))
    return text


# -- exit codes --

# Errors whose exit code is the instance's own.
SEVERAL = {errors.MountError: "2 or 10", errors.SandboxError: "125, 126, 127 or 20"}


def exit_codes() -> str:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    rows = [
        (SEVERAL.get(kind, str(kind.exit_code)), code(kind.code), first_line(kind))
        for kind in kinds
        if issubclass(kind, errors.ByleaveError | errors.ConfigErrors) and kind is not errors.ByleaveError
    ]
    text = (
        f"{MADE}\n# Exit codes\n\n{table(('code', 'meaning'), ((str(n), what) for n, what in EXIT_CODES))}\n"
        "`run`, `acp` and `outside` end with the exit code of the program that they started, 128 + n if signal n\n"
        "ended it.\n\n## By command\n\n"
    )
    said_before = ""
    for path, command in commands_below(ROOT):
        prose = " ".join(each.replace("\n", " ") for each in details(command) if not each.startswith("```"))
        about = re.findall(r"(?:The exit code is|Exit code:|[^.]*: exit code).*?(?:\.|$)", prose)
        if about and about[0] != said_before:
            said_before = about[0]
            text += filled(f"- `byleave {' '.join(path)}`: {about[0].strip()}", indent="  ") + "\n"
    text += (
        '\n## Errors\n\nWith `--json` an error is `{"error": {"code": ..., "message": ...}}`.\n\n'
        f"{table(('exit code', 'code in JSON', 'what happened'), rows)}"
    )
    return text


def first_line(kind: type) -> str:
    return (kind.__doc__ or "").splitlines()[0]


# -- JSON --

RULES = """
[[rules]]
deny = { command = "git", subcommand = "push", flags = ["--force"] }
why = "force-push rewrites history"

[[rules]]
allow = { group = "read_only_git" }

[tools.editor]
source = "local"

[[tools.editor.access.fs]]
path = "src"
read = true

[agents.claude]
allow.servers = ["docs"]
"""
CASES = '[[case]]\ncommand = "git push --force"\ndecision = "deny"\n'
# What is run for its shape: the title, the words, and what is said of it.
SHAPES = (
    ("byleave check update src/main.py --tool editor", "A verdict about a file."),
    ("byleave check command 'git status && git push -f'", "A verdict about a command line has its `parts`."),
    ("byleave check --batch", "One object a line in, one a line out: [check.md](../check.md#batch)."),
    ("byleave policy show", ""),
    ("byleave policy test", ""),
    ("byleave policy lint", ""),
    ("byleave policy diff old.toml byleave.toml", ""),
    ("byleave policy groups tests", "One key for each group."),
    ("byleave policy import claude-code", ""),
    ("byleave agents list", ""),
    ("byleave approvals list", ""),
    ("byleave audit list", "One record a line: [audit.md](../audit.md#what-is-recorded)."),
    ("byleave audit verify", ""),
    ("byleave setup --dry-run --agent claude-code", ""),
)
BATCH = '{"id": 1, "action": {"kind": "read", "path": "src", "tool": "editor"}}\n'


def start(words: Sequence[str], root: Path, env: Mapping[str, str]) -> str:
    """Run one command, and return its standard output."""
    given = BATCH if "--batch" in words else ""
    done = subprocess.run(
        [sys.executable, "-m", "byleave", *words],
        cwd=root,
        env=dict(env),
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def shape(value: object) -> str:
    """Return the shape of a value: its keys, and of what type each is."""
    match value:
        case dict():
            inside = ", ".join(f'"{key}": {shape(each)}' for key, each in value.items())
            return f"{{{inside}}}"
        case list():
            return f"[{merged(value)}, ...]" if value else "[...]"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case None:
            return "null"
        case _:
            return "text"


def merged(values: Sequence[object]) -> str:
    """Return the shape of the elements of a list: that of all keys together where they are objects."""
    objects = [value for value in values if isinstance(value, dict)]
    if len(objects) != len(values):
        return shape(values[0])
    together: dict[str, Any] = {}
    for each in objects:
        for key, value in each.items():
            if together.get(key) in (None, [], ()):
                together[key] = value
    return shape(together)


def wrapped(text: str) -> str:
    """Break a shape into lines at its commas, indented by its brackets."""
    lines, depth = [""], 0
    for piece in re.split(r"(?<=, )", text):
        if lines[-1] and len(lines[-1]) + len(piece) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append("  " * depth)
        lines[-1] += piece
        depth = max(0, depth + sum(piece.count(each) for each in "{[") - sum(piece.count(each) for each in "}]"))
    return "\n".join(lines)


def json_shapes(run: Run = start) -> str:
    text = (
        f"{MADE}\n# JSON\n\nThe shapes that programs can rely on: every command takes `--json`, and prints one value.\n"
        "`text`, `number` and `bool` stand for values of these types, `null` for what is not there in the example,\n"
        "`...` for more of the same. Further keys may come in a later version.\n\n## Actions\n\n"
        "What `check --batch`, the Python API and the records call an action; `kind` says which.\n\n"
        f"{table(('kind', 'fields'), ((code(kind), ', '.join(map(code, fields_of(kind)))) for kind in KINDS))}"
    )
    with tempfile.TemporaryDirectory(prefix="byleave-reference-") as made:
        root = Path(made) / "home" / "shop"
        (root / "src").mkdir(parents=True)
        (root / ".git").mkdir()
        (root / "src" / "main.py").touch()
        (root / "byleave.toml").write_text(RULES)
        (root / "old.toml").write_text(RULES.replace("deny = {", "ask = {"))
        (root / "byleave.policy-test.toml").write_text(CASES)
        home = root.parent
        (home / ".claude").mkdir()
        settings = {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(git * main)"]}}
        (home / ".claude" / "settings.json").write_text(json.dumps(settings))
        env = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ},
            "HOME": str(home),
            "BYLEAVE_HOME": str(home / ".byleave"),
            "BYLEAVE_SERVICE": "off",
        }
        (home / ".byleave").mkdir(mode=0o700)
        (home / ".byleave" / "config.toml").write_text('[[rules]]\nallow = { path = "**" }\n')
        run(["trust", "--yes"], root, env)
        event = {"hook_event_name": "PreToolUse", "cwd": str(root), "tool_name": "Bash"}
        hook = json.dumps(event | {"tool_input": {"command": "make"}})
        subprocess.run(
            [sys.executable, "-m", "byleave", "hook", "codex"],
            cwd=root,
            env=env,
            input=hook,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for title, said in SHAPES:
            words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", title)[1:]]
            printed = run([*words, *([] if "--batch" in words else ["--json"])], root, env)
            found = json.loads(printed.splitlines()[-1] if "a line" in said else printed)
            about = f"{said}\n\n" if said else ""
            text += f"\n## {title}\n\n{about}```text\n{wrapped(shape(found))}\n```\n"
    return text


# -- metrics --


def families() -> Iterator[Family]:
    """Yield every family, also those that are there only where something is counted."""
    metrics = Metrics()
    metrics.connections = {"caller": 0}
    metrics.dropped = {"spans": lambda: 0}
    yield from metrics.families()


def metrics() -> str:
    rows = [(code(each.name), each.kind, ", ".join(map(code, each.labels)), each.help) for each in families()]
    values = (
        ("decision", sorted(DECISIONS)),
        ("outcome", sorted(OUTCOMES)),
        ("method", sorted(ASKED)),
        ("why", sorted(REFUSALS)),
    )
    return (
        f"{MADE}\n# Metrics\n\nWhat the MCP gateway counts, at `/metrics` for Prometheus and, with "
        "[`[gateway.telemetry]`](../telemetry.md), by OTLP.\n\n"
        f"{table(('name', 'type', 'labels', 'what it counts'), rows)}\n## Values of labels\n\n"
        "`server` and `agent` are names of your configuration. Whatever else comes counts as `other`.\n"
        "What each `why` means: [who was turned away](../mcp-identity.md#who-was-turned-away).\n\n"
        f"{table(('label', 'values'), ((code(name), ', '.join(map(code, words))) for name, words in values))}"
    )


# -- groups and programs --


def groups() -> str:
    text = (
        f'{MADE}\n# Groups of commands\n\nA rule names a group: `allow = {{ group = "read_only_git" }}`.\n'
        "`byleave policy groups NAME` prints what one contains.\n\n"
        "Options that execute or write are outside of every group.\n"
    )
    for name, tree in GROUPS.items():
        text += f"\n## {name}\n\n{ABOUT[name].capitalize()}.\n\n```text\n{chr(10).join(described(tree))}\n```\n"
    return text


def programs() -> str:
    text = (
        f"{MADE}\n# Programs\n\nWhat byleave knows of programs when it reads a command line. How rules use it:\n"
        "[commands.md](../commands.md#how-a-command-line-is-read).\n\n## Programs with a table of options\n\n"
        "An allow reaches only options of these that are known to be harmless. An option that is not in a program's\n"
        "table needs your approval.\n"
    )
    for family, names in FAMILIES.items():
        text += "\n" + filled(f"**{family}**: {words(names.split())}") + "\n"
    options = [
        (code(name), listed(PROGRAMS[name], "executes"), listed(PROGRAMS[name], "writes"))
        for name in sorted(PROGRAMS)
        if PROGRAMS[name].get("executes") or PROGRAMS[name].get("writes")
    ]
    wrappers = [name for name in sorted(PROGRAMS) if "wrap" in PROGRAMS[name]]
    plain = [name for name in wrappers if PROGRAMS[name]["wrap"].get("transparent")]
    text += (
        "\n## Options that run or write something\n\n"
        'A rule covers them if it names them, or says `options = "any"`. Those of subcommands are not listed here.\n\n'
        f"{table(('program', 'runs other programs or code', 'writes files'), options)}"
        "\n## Programs that run other programs\n\n"
        + filled(f"Transparent wrappers need a rule only for what they run: {words(plain)}.")
        + "\n\n"
        + filled(f"Others need a rule of their own as well: {words(name for name in wrappers if name not in plain)}.")
        + "\n\n## Programs whose files are known\n\n"
        + filled(f"The path rules evaluate the files that these name: {words(sorted(FILES))}.")
        + "\n"
    )
    return text


def listed(entry: Mapping[str, Any], key: str) -> str:
    return words(entry.get(key, ()))


def words(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


PAGES: dict[str, Callable[[], str]] = {
    "configuration-keys.md": configuration,
    "command-line.md": commands,
    "exit-codes.md": exit_codes,
    "json.md": json_shapes,
    "metrics.md": metrics,
    "groups.md": groups,
    "programs.md": programs,
}


def main() -> int:
    """Write every page, or say which are out of date."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    checking = parser.parse_args().check
    PLACE.mkdir(exist_ok=True)
    stale = [name for name, make in PAGES.items() if differs(PLACE / name, make(), write=not checking)]
    for name in stale if checking else ():
        print(f"docs/reference/{name} is out of date: run `make reference`")
    return 1 if checking and stale else 0


def differs(file: Path, text: str, *, write: bool) -> bool:
    """Whether the page is not what the code gives; `write` makes it so."""
    if file.exists() and file.read_text() == text:
        return False
    if write:
        file.write_text(text)
    return True


if __name__ == "__main__":
    sys.exit(main())
