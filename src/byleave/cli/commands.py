"""The table of commands. Help, completion and dispatch all come from here; a command's code is loaded when it runs."""

from byleave.cli.arguments import CommandSpec, OptionSpec, PositionalSpec

COMMON = (
    OptionSpec(("--root",), "the workspace (default: found from the working directory)", "DIR"),
    OptionSpec(("--policy",), "use this file instead of what would be found; may be repeated", "FILE", repeat=True),
    OptionSpec(("--session",), 'the session whose grants hold (default: "default")', "NAME"),
    OptionSpec(("--json",), "answer in JSON"),
    OptionSpec(("--no-input",), "never ask a person; where consent is needed, stop"),
    OptionSpec(("-q", "--quiet"), "only the answer: no reasons, no warnings"),
    OptionSpec(("-v", "--verbose"), "also say what was read or written, and where it lies"),
    OptionSpec(("-h", "--help"), "show this help"),
)

CHECK_KINDS = ("read", "create", "update", "delete", "exec", "move", "search", "url", "env", "spawn", "command", "call")
SHELLS = ("bash", "zsh", "fish")
HOOKED = ("claude-code", "codex", "gemini", "cursor", "opencode")
EDITORS = ("zed", "jetbrains", "neovim", "emacs", "toad", "acpx")

_TOOL = OptionSpec(("--tool",), "the configured tool that would do it; without one, its grants have no say", "TOOL")
_AGENT = OptionSpec(("--agent",), "the agent on whose behalf", "AGENT")
_YES = OptionSpec(("--yes",), "agree without being asked: the consent of a script")
_PATH = PositionalSpec("PATH", "with --tool relative to the workspace, as tools name files; else also absolute")
_FILE = PositionalSpec("FILE", "the file (default: every project file here)", required=False)
_ID = PositionalSpec("ID", "its id, as `byleave approvals list` shows it")
_MOUNT_DETAILS = """\
SPEC is [TOOL:]NAME=PATH[:MODE]. NAME is where the link will stand, relative to the working
directory; PATH is what it leads to (~ is your home); MODE is ro (the default) or rw, which
needs a TOOL.

  byleave mount fork=~/code/forks/serde            every enabled local tool may read it; asks first
  byleave mount editor:fork=~/code/forks/serde:rw  one tool may change it

The link, the grant in this session and your approval of the target come together or not at all."""
# The flag forms of `mount` and `unmount`, on every command that starts something.
MOUNTING = (
    OptionSpec(("--mount",), "first mount this: [TOOL:]NAME=PATH[:MODE]; may be repeated", "SPEC", repeat=True),
    OptionSpec(("--no-mount",), "first take this mount away, or all of them", "NAME", repeat=True, optional=True),
)
_RUN_DETAILS = """\
Without --tool or --access: the workspace may be read, changed and executed, there is no network,
any program may be started, and only the usual variables are passed on.

The exit code is the program's own, 128 + n for a signal; 20 if the command is denied, 125 if the
sandbox could not be set up, 126 if the program cannot be executed, 127 if there is none."""
_CALL_DETAILS = """\
A vfs tool touches nothing by itself: what it wants is a request, and each is judged. A stdio tool
is held to its access by the operating system. Ctrl-C asks the tool to stop, a second one ends it.

Exit code: 0 completed, 1 the tool failed, 10 it has a question (see --answer), 130 cancelled."""
_ACP_DETAILS = """\
Speaks ACP on standard input and output, as the agent does: put it in front of the agent in your
editor's settings (--setup prints them). What the policy allows or denies is answered at once; what
it asks about is asked in the editor. docs/acp.md says what is decided where.

The exit code is the agent's own, 128 + n for a signal; 126 if it cannot be executed, 127 if there
is none, 125 if the sandbox could not be set up."""
_MCP_DETAILS = """\
Servers are those under [servers] and in .mcp.json, once these files are trusted; who may call what
is said by [agents] and [[rules]]. A tool is named SERVER__TOOL. Give it to a client as you would
give any MCP server: the command is `byleave mcp`. docs/mcp.md says how callers are told apart."""
_SINCE = OptionSpec(("--since",), "only from then on: 90s, 30m, 2h, 7d, or a date and time", "WHEN")
_UNTIL = OptionSpec(("--until",), "only up to then, written in the same ways", "WHEN")
_FILTERS = (
    _SINCE,
    _UNTIL,
    OptionSpec(("--decision",), "only this decision", "WORD", choices=("allow", "ask", "deny")),
    _AGENT.replace(help="only what this agent did; may hold * and ?"),
    OptionSpec(("--door",), "only what came through this door", "DOOR"),
    OptionSpec(("--kind",), "only this kind of action", "KIND"),
    OptionSpec(("--tool",), "only what this tool did", "TOOL"),
    OptionSpec(("--path",), "only files that match this glob, such as 'src/**'", "GLOB"),
    OptionSpec(("--text",), "only records in which this text occurs", "TEXT"),
    OptionSpec(("--limit",), "at most so many, the newest", "N"),
)
_CODES = "Exit code: 0 allow, 10 ask, 20 deny, 2 the question or the configuration cannot be read."
_DASHED = f"{_CODES}\nA PATH that begins with a dash is written after `--`: byleave check read --tool T -- -x"


def _file_check(kind: str, verb: str) -> CommandSpec:
    return CommandSpec(kind, f"May this path be {verb}?", "check", (_TOOL, _AGENT), (_PATH,), details=_DASHED)


CHECKS = (
    _file_check("read", "read"),
    _file_check("create", "created"),
    _file_check("update", "changed"),
    _file_check("delete", "deleted"),
    _file_check("exec", "executed"),
    CommandSpec(
        "move",
        "May this path be moved there?",
        "check",
        (_TOOL, _AGENT),
        (_PATH, PositionalSpec("TO", "the new path")),
        details=_DASHED,
    ),
    CommandSpec(
        "search",
        "May files below this path be searched?",
        "check",
        (
            _TOOL,
            _AGENT,
            OptionSpec(("--query",), "what is searched for", "TEXT"),
            OptionSpec(("--glob",), "the pattern that selects files by their names", "PATTERN"),
        ),
        (_PATH.replace(required=False),),
        details=_DASHED,
    ),
    CommandSpec(
        "url",
        "May this URL be reached?",
        "check",
        (
            _TOOL,
            _AGENT,
            OptionSpec(("--method",), "the HTTP method", "METHOD"),
            OptionSpec(("--address",), "the address its host resolves to", "IP"),
        ),
        (PositionalSpec("URL", "the whole URL, with its scheme"),),
        details=_CODES,
    ),
    CommandSpec(
        "env",
        "May this environment variable be read?",
        "check",
        (_TOOL, _AGENT),
        (PositionalSpec("NAME", "its name"),),
        details=_CODES,
    ),
    CommandSpec(
        "spawn",
        "May this program be started?",
        "check",
        (_TOOL, _AGENT),
        rest="PROGRAM ARGS...",
        details=f"{_CODES}\nEverything after `--` is the program and its arguments, taken as they are.",
    ),
    CommandSpec(
        "command",
        "May this shell command run?",
        "check",
        (
            _AGENT,
            OptionSpec(("--cwd",), "the directory it would run in", "DIR"),
            OptionSpec(("--unconfined",), "answer for a program that cannot run it as [shell] says"),
        ),
        (PositionalSpec("COMMAND", "the whole command as one word, in quotes"),),
        details=_CODES,
    ),
    CommandSpec(
        "call",
        "May this MCP tool be called?",
        "check",
        (_AGENT, OptionSpec(("--arguments",), "the arguments of the call", "JSON")),
        (
            PositionalSpec("SERVER", "the MCP server"),
            PositionalSpec("TOOL", "its tool (default: the server itself)", required=False),
        ),
        details=_CODES,
    ),
)

ROOT = CommandSpec(
    "byleave",
    "Nothing touches your machine but by your leave.",
    subcommands=(
        CommandSpec(
            "init",
            "Write a commented byleave.toml for this project.",
            "init",
            details="Looks for git, npm, cargo, uv, go and make, and never overwrites a file. The file has no say\n"
            "before you have read and trusted it: `byleave trust`.",
        ),
        CommandSpec(
            "check",
            "Ask the policy about one action, or about many.",
            "check",
            (OptionSpec(("--batch",), "read questions from standard input, one JSON object a line, and answer each"),),
            subcommands=CHECKS,
            alone="batch",
            details=f"""{_CODES}

  byleave check read src/main.py --tool reader
  byleave check url https://api.github.com/repos --tool builder
  byleave check spawn --tool builder -- git status
  echo '{{"id": 1, "action": {{"kind": "read", "path": "src"}}}}' | byleave check --batch""",
        ),
        CommandSpec(
            "policy",
            "Look at the policy.",
            subcommands=(
                CommandSpec(
                    "show",
                    "Show what holds: every layer, tool and rule, and where it was written.",
                    "policy",
                    details="A tool without rules of some type shows the default that holds instead.",
                ),
                CommandSpec(
                    "learn",
                    "Propose rules for what you have allowed again and again.",
                    "policy",
                    (
                        OptionSpec(("--times",), "how often you must have allowed it (default: 3)", "N"),
                        _SINCE,
                    ),
                    details="Reads the records and changes nothing: what it prints is for you to read, and to add\n"
                    "to a byleave.toml of yours where you agree.",
                ),
            ),
        ),
        CommandSpec(
            "agents",
            "Look at the agents that call MCP servers, and give them tokens.",
            subcommands=(
                CommandSpec(
                    "token",
                    "Make a token by which an agent proves who it is.",
                    "agents",
                    (_YES,),
                    (PositionalSpec("AGENT", "the agent's name"),),
                    details="Prints the token, once, and the line with its hash for your configuration.",
                ),
                CommandSpec("list", "List the agents, and what each may reach.", "agents"),
            ),
        ),
        CommandSpec(
            "run",
            "Run a program so that the operating system holds it to the policy.",
            "run",
            (
                OptionSpec(("--tool",), "with the access of this configured tool", "TOOL"),
                OptionSpec(("--access",), "with the [access] table of this TOML file", "FILE"),
                *MOUNTING,
                _YES,
                OptionSpec(("--explain",), "show what the program would be given, and run nothing"),
                OptionSpec(("--diagnose",), "run slower, and end with a list of what was refused, and why"),
            ),
            rest="PROGRAM ARGS...",
            details=_RUN_DETAILS,
        ),
        CommandSpec(
            "call",
            "Run one configured tool, and print its result.",
            "call",
            (
                *MOUNTING,
                OptionSpec(
                    ("--answer",), "answer a question of the tool: ID=VALUE; may be repeated", "ANSWER", repeat=True
                ),
                _YES,
                OptionSpec(("--keep",), "read further ARGUMENTS from standard input, one a line; answer each in JSON"),
                OptionSpec(("--schema",), "print the JSON Schema of the tool's arguments, and run nothing"),
            ),
            (
                PositionalSpec("TOOL", "the tool, as it is configured"),
                PositionalSpec("ARGUMENTS", "a JSON object (default: {})", required=False),
            ),
            details=_CALL_DETAILS,
        ),
        CommandSpec(
            "acp",
            "Stand between an editor and an agent, and apply the policy.",
            "acp",
            (
                OptionSpec(("--agent-profile",), "the agent's name in the policy", "AGENT"),
                OptionSpec(("--strict",), "also ask about what the agent does without asking"),
                OptionSpec(
                    ("--sandbox",), "run the agent so that the operating system holds it, as `byleave run` does"
                ),
                OptionSpec(("--tool",), "with --sandbox: with the access of this configured tool", "TOOL"),
                OptionSpec(("--access",), "with --sandbox: with the [access] table of this TOML file", "FILE"),
                OptionSpec(("--log",), "append a JSON object to this file for every request that is judged", "FILE"),
                *MOUNTING,
                _YES,
                OptionSpec(
                    ("--setup",),
                    "print what to put into an editor's settings, and run nothing",
                    "EDITOR",
                    choices=EDITORS,
                ),
            ),
            rest="AGENT ARGS...",
            details=_ACP_DETAILS,
        ),
        CommandSpec(
            "mcp",
            "Put every MCP server behind the policy: one server for any number of clients.",
            "mcp",
            (
                OptionSpec(("--stdio",), "serve one client on standard input and output (the default)"),
                OptionSpec(("--http",), "serve clients over HTTP at /mcp, until stopped", "HOST:PORT"),
                OptionSpec(("--check",), "start every server once, list what each agent would see, and exit"),
                OptionSpec(("--agent",), "with --stdio: on whose behalf (default: BYLEAVE_AGENT)", "AGENT"),
                *MOUNTING,
                _YES,
            ),
            details=_MCP_DETAILS,
        ),
        CommandSpec(
            "hook",
            "Answer an agent's own hook, or have an agent ask byleave before every tool call.",
            "hook",
            (
                OptionSpec(("--install",), "write the hook into this agent's settings", "AGENT", choices=HOOKED),
                OptionSpec(("--uninstall",), "take the hook out again", "AGENT", choices=HOOKED),
                OptionSpec(("--dry-run",), "with the two above: change nothing; show the file as it would be"),
                OptionSpec(("--home",), "the user's home; then nothing of the environment has a say", "DIR"),
                OptionSpec(("--agent-profile",), "the agent's name in rules and records (default: AGENT)", "NAME"),
                _YES,
            ),
            (PositionalSpec("AGENT", "whose event is on standard input", required=False, choices=HOOKED),),
            details="Reads one hook event of the agent on standard input, and answers in the agent's own format.\n"
            "Whatever goes wrong blocks the call: exit code 2, and the reason on standard error.",
        ),
        CommandSpec(
            "trust",
            "Trust a project file as it is now.",
            "trust",
            (_YES,),
            (_FILE,),
            details="Lists what would become active, then asks on the terminal. Trust is in the exact content: a file\n"
            "that changes must be trusted again. Until then it can only tighten what holds.",
        ),
        CommandSpec(
            "untrust",
            "Stop trusting a project file.",
            "trust",
            (_YES,),
            (_FILE,),
        ),
        CommandSpec(
            "mount",
            "Let tools reach a place outside the workspace, through a link in it.",
            "mount",
            (
                _YES,
                OptionSpec(("--dry-run",), "change nothing; say what would be done"),
                OptionSpec(("--list",), "list the mounts of this session"),
            ),
            (PositionalSpec("SPEC", "[TOOL:]NAME=PATH[:MODE]", required=False),),
            details=_MOUNT_DETAILS,
        ),
        CommandSpec(
            "unmount",
            "Remove a mount of this session, or all of them.",
            "unmount",
            (_YES,),
            (PositionalSpec("NAME", "the mount, relative to the working directory (default: all)", required=False),),
            details="Removes the link if it still leads where it was approved to lead, and takes the grants away. The\n"
            "tool's other file rules are kept in the session as they are now.",
        ),
        CommandSpec(
            "approvals",
            "See what you have approved, approve what waits, take approvals back.",
            subcommands=(
                CommandSpec("list", "List approvals: what waits, what holds, what was revoked.", "approvals"),
                CommandSpec(
                    "approve",
                    "Approve what waits.",
                    "approvals",
                    (_YES,),
                    (_ID.replace(required=False),),
                    details="Without an ID, asks about everything that waits, one by one.",
                ),
                CommandSpec("revoke", "Take an approval back.", "approvals", (_YES,), (_ID,)),
            ),
            details="Running programs notice within two seconds.",
        ),
        CommandSpec(
            "audit",
            "Look at what was decided and done.",
            subcommands=(
                CommandSpec("list", "List records, the newest last.", "audit", _FILTERS),
                CommandSpec(
                    "show",
                    "Show one record in full.",
                    "audit",
                    (),
                    (PositionalSpec("SEQUENCE", "its number, as `byleave audit list` shows it"),),
                ),
                CommandSpec("tail", "Show new records as they come, until interrupted.", "audit", _FILTERS),
                CommandSpec(
                    "export",
                    "Write records for other programs, as NDJSON or CSV.",
                    "audit",
                    (
                        *_FILTERS,
                        OptionSpec(("--format",), "how (default: ndjson)", "FORMAT", choices=("ndjson", "csv")),
                    ),
                ),
                CommandSpec(
                    "verify",
                    "Check that no record was altered, removed or reordered.",
                    "audit",
                    (OptionSpec(("--head",), "a head that was kept elsewhere, from `byleave audit head`", "HEAD"),),
                    details="Exit code: 0 if the chain is whole, 1 if not.",
                ),
                CommandSpec("head", "Print the head of the chain, to keep elsewhere.", "audit"),
            ),
            details="Records are kept in your own state directory; see docs/audit.md.",
        ),
        CommandSpec(
            "doctor",
            "Check that everything works here, and say what is enforced.",
            "doctor",
            details="Exit code: 0, or 1 if something is bad. With -q only what is not well is shown.",
        ),
        CommandSpec(
            "schema",
            "Print the JSON Schema of the configuration file.",
            "schema",
            details="Editors complete and check byleave.toml with it; `byleave init` puts it where they find it.",
        ),
        CommandSpec(
            "completion",
            "Print the completion script of a shell.",
            "completion",
            (),
            (PositionalSpec("SHELL", "the shell", choices=SHELLS),),
            details="""\
  bash  source <(byleave completion bash)       in ~/.bashrc
  zsh   source <(byleave completion zsh)        in ~/.zshrc
  fish  byleave completion fish | source        in ~/.config/fish/config.fish""",
        ),
    ),
)
VERSION = OptionSpec(("--version",), "show the version")
