"""The table of commands. Help, completion and dispatch all come from here; a command's code is loaded when it runs."""

from byleave.cli.arguments import CommandSpec, OptionSpec, PositionalSpec

COMMON = (
    OptionSpec(("--root",), "the workspace (default: found from the working directory)", "DIR"),
    OptionSpec(("--policy",), "read this file instead of the usual ones; may be repeated", "FILE", repeat=True),
    OptionSpec(("--session",), 'the session whose grants hold (default: "default")', "NAME"),
    OptionSpec(("--json",), "print JSON"),
    OptionSpec(("--no-input",), "never ask at the terminal; stop where your consent is needed"),
    OptionSpec(("-q", "--quiet"), "print only the result: no reasons, no warnings"),
    OptionSpec(("-v", "--verbose"), "also report which files were read and written"),
    OptionSpec(("-h", "--help"), "show this help"),
)

CHECK_KINDS = ("read", "create", "update", "delete", "exec", "move", "search", "url", "env", "spawn", "command", "call")
SHELLS = ("bash", "zsh", "fish")
HOOKED = ("claude-code", "codex", "gemini", "cursor", "opencode", "copilot", "qwen", "cline")
GROUPS = (
    *("read_only_git", "compilation", "safe_npm", "package_listing", "tests", "read_only_files", "network"),
    *("destructive", "privilege", "installing", "publishing", "remote", "administration"),
)
IMPORTED = ("claude-code", "codex", "gemini", "cursor", "opencode", "agent-mcp-gateway", "jp")
EDITORS = ("zed", "jetbrains", "neovim", "emacs", "toad", "acpx")
DOORS = ("hook", "acp", "mcp", "call", "run", "cli", "python", "dashboard")  # of records
COMPLETED = ("agents", "tools", "servers", "sessions", "mounts", "pending", "approved")  # what a workspace has names of

_TOOL = OptionSpec(("--tool",), "the configured tool that acts; without it, only rules count", "TOOL")
_AGENT = OptionSpec(("--agent",), "the agent that acts", "AGENT")
_YES = OptionSpec(("--yes",), "consent without a question at the terminal, for scripts")
_ADDING = (OptionSpec(("--add",), "add the suggested rule to your own file, after your consent"), _YES)
_PATH = PositionalSpec("PATH", "a path relative to the workspace; without --tool it may be absolute")
_FILE = PositionalSpec("FILE", "the file (default: every project file here)", required=False)
_ID = PositionalSpec("ID", "the id that `byleave approvals list` shows")
_MOUNT_DETAILS = """\
SPEC is [TOOL:]NAME=PATH[:MODE]. NAME is the place of the link, relative to the working directory.
PATH is the target of the link; ~ is your home. MODE is ro (the default), or rw, which needs a TOOL.

  Let every enabled local tool read a directory, after your approval:
    byleave mount fork=~/code/forks/serde
  Let one tool change it:
    byleave mount editor:fork=~/code/forks/serde:rw

byleave makes the link, the grant in this session and your approval of the target together, or none of them."""
# The flag forms of `mount` and `unmount`, on every command that starts something.
MOUNTING = (
    OptionSpec(("--mount",), "mount this first: [TOOL:]NAME=PATH[:MODE]; may be repeated", "SPEC", repeat=True),
    OptionSpec(("--no-mount",), "remove this mount first, or all mounts", "NAME", repeat=True, optional=True),
)
_RUN_DETAILS = """\
Without --tool or --access the program may read, change and execute the workspace and start any program. It has no
network, and receives only the usual environment variables.

--shell runs one command line as an agent's command runs: confined as [shell.access] says. Rules that deny the command
deny it here, too; files that rules close cannot be opened. See docs/shell.md.

The exit code is the program's own, 128 + n for a signal; 20 if the policy denies the command, 124 if it took longer
than its wall_time, 125 if the sandbox cannot be set up, 126 if the program cannot be executed, 127 if it does not
exist."""
_OUTSIDE_DETAILS = """\
An agent writes `byleave outside -- PROGRAM ARGS...` as a whole command, in literal words. The hook or the ACP proxy
then asks you, whatever your rules allow; what they deny stays denied. See docs/outside.md. At your own terminal it runs
the program as it is.

The exit code is the program's own; 125 if this runs in the sandbox already, 126 if the program cannot be executed, 127
if it does not exist."""
_CALL_DETAILS = """\
A vfs tool touches nothing itself: it sends requests, and the policy decides each one. The operating system holds a
stdio tool to its access. Ctrl-C asks the tool to stop; a second Ctrl-C ends it.

Exit code: 0 completed, 1 the tool failed, 10 the tool has a question (see --answer), 130 cancelled."""
_ACP_DETAILS = """\
Speaks ACP on standard input and output, as the agent does: put it in front of the agent in your editor's settings
(--setup prints them). byleave answers what the policy allows or denies; what needs approval, you approve in the editor.
See docs/acp.md.

The exit code is the agent's own, 128 + n for a signal; 124 if it took longer than its wall_time, 125 if the sandbox
cannot be set up, 126 if the agent cannot be executed, 127 if it does not exist."""
_MCP_DETAILS = """\
Serves the tools of every server under [servers] and in .mcp.json, once you trust these files. [agents] and [[rules]]
decide which agent may call what. A tool is named SERVER__TOOL. Configure a client as for any MCP server, with the
command `byleave mcp`. How byleave identifies callers: see docs/mcp.md.

--check --deploy starts nothing: it looks at the configuration, the environment, files and the kernel. Give the address
that the gateway will listen at by --http. See docs/deploy.md.

Exit code: of --check --deploy 1 if it finds an error; 2 if the configuration cannot be used."""
_TEST_DETAILS = """\
A case says what is attempted, and what the policy should decide:

  [[case]]
  name = "no push with force"
  command = "git push --force"
  decision = "deny"

Project files are read as they are written, trusted or not. See docs/policy-tools.md.

Exit code: 0, or 1 if a case failed or too few rules decided one, 2 if a case file has an error."""
_SINCE = OptionSpec(("--since",), "from then on: 90s, 30m, 2h, 7d ago, 14:30, or a local date and time", "WHEN")
_UNTIL = OptionSpec(("--until",), "up to then, written in the same way", "WHEN")
_FILTERS = (
    _SINCE,
    _UNTIL,
    OptionSpec(("--decision",), "only this decision", "WORD", choices=("allow", "ask", "deny")),
    _AGENT.replace(help="only this agent; * and ? match any characters"),
    OptionSpec(("--door",), f"only this integration: {', '.join(DOORS)}", "DOOR"),
    OptionSpec(("--kind",), "only this kind of action", "KIND"),
    OptionSpec(("--tool",), "only this tool", "TOOL"),
    OptionSpec(("--path",), "only files that match this glob, such as 'src/**'", "GLOB"),
    OptionSpec(("--text",), "only records that contain this text", "TEXT"),
    OptionSpec(("--limit",), "at most N records, the newest", "N"),
)
_CODES = "Exit code: 0 allow, 10 ask (it needs your approval), 20 deny, 2 bad arguments or configuration."
_DASHED = f"{_CODES}\nWrite a PATH that begins with a dash after `--`: byleave check read --tool T -- -x"


def _file_check(kind: str, verb: str) -> CommandSpec:
    return CommandSpec(kind, f"May this path be {verb}?", "check", (_TOOL, _AGENT, *_ADDING), (_PATH,), details=_DASHED)


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
        (_TOOL, _AGENT, *_ADDING),
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
            OptionSpec(("--query",), "the text that is searched for", "TEXT"),
            OptionSpec(("--glob",), "the pattern that selects files by their names", "PATTERN"),
            *_ADDING,
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
            OptionSpec(("--address",), "the address that the host resolves to", "IP"),
            *_ADDING,
        ),
        (PositionalSpec("URL", "the whole URL, with its scheme"),),
        details=_CODES,
    ),
    CommandSpec(
        "env",
        "May this environment variable be read?",
        "check",
        (_TOOL, _AGENT, *_ADDING),
        (PositionalSpec("NAME", "its name"),),
        details=_CODES,
    ),
    CommandSpec(
        "spawn",
        "May this program be started?",
        "check",
        (_TOOL, _AGENT, *_ADDING),
        rest="PROGRAM ARGS...",
        details=f"{_CODES}\nEverything after `--` is the program and its arguments.",
    ),
    CommandSpec(
        "command",
        "May this shell command run?",
        "check",
        (
            _AGENT,
            OptionSpec(("--cwd",), "the directory that the command runs in", "DIR"),
            OptionSpec(("--unconfined",), "decide for an agent that cannot confine it as [shell] says"),
            *_ADDING,
        ),
        (PositionalSpec("COMMAND", "the whole command, in quotes"),),
        details=_CODES,
    ),
    CommandSpec(
        "call",
        "May this MCP tool be called?",
        "check",
        (_AGENT, OptionSpec(("--arguments",), "the arguments of the call", "JSON"), *_ADDING),
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
            (
                OptionSpec(
                    ("--strict",), "ask about every command that is not listed, also where it could be confined"
                ),
                OptionSpec(("--for",), "allow only this agent; may be repeated", "AGENT", repeat=True, choices=HOOKED),
            ),
            details="Looks for git, npm, cargo, uv, go and make, and never overwrites a file. The file has no\n"
            "effect until you read it and run `byleave trust`. Where commands cannot be fully\n"
            "confined, the strict rules are written.",
        ),
        CommandSpec(
            "setup",
            "Set byleave up: for this project, and in every agent that is found.",
            "setup",
            (
                OptionSpec(("--agent",), "only this agent; may be repeated", "AGENT", repeat=True, choices=HOOKED),
                OptionSpec(("--undo",), "remove what setup has put in place, and nothing else"),
                OptionSpec(("--dry-run",), "show what would be done, and change nothing"),
                _YES,
            ),
            details="Writes byleave.toml if there is none, trusts it, adds the permissions that you gave your agents\n"
            "to your own rules, installs the hooks, and sends a real event through each. Everything is shown first,\n"
            "and needs your consent once. Run it again: what is in place stays as it is.\n\n"
            "Exit code: 0 if every step is done, 1 if not, 10 if your consent is needed.",
        ),
        CommandSpec(
            "check",
            "Show what the policy decides about an action, and why.",
            "check",
            (OptionSpec(("--batch",), "read actions from standard input, one JSON object a line"),),
            subcommands=CHECKS,
            alone="batch",
            details=f"""{_CODES}

  byleave check read src/main.py --tool reader
  byleave check url https://api.example.com/repos --tool builder
  byleave check spawn --tool builder -- git status
  byleave check --batch < actions.ndjson""",
        ),
        CommandSpec(
            "policy",
            "Show, test, check and compare policies, and learn rules.",
            subcommands=(
                CommandSpec(
                    "show",
                    "Show every layer, tool and rule, the file and line of each, and its uses.",
                    "policy",
                    details="For a tool without rules of some type, the default is shown. How often a rule decided\n"
                    "something in this workspace, and when it did last, is taken from the audit log.",
                ),
                CommandSpec(
                    "test",
                    "Try the cases beside the policy, and show which rules they reach.",
                    "policy_test",
                    (
                        OptionSpec(("--junit",), "also write a JUnit report to this file", "FILE"),
                        OptionSpec(("--min-coverage",), "fail if fewer of the rules decided a case", "PERCENT"),
                        OptionSpec(("--watch",), "try them again whenever a file changes, until interrupted"),
                    ),
                    (
                        PositionalSpec(
                            "FILE", "case files (default: every *.policy-test.toml)", required=False, repeat=True
                        ),
                    ),
                    details=_TEST_DETAILS,
                ),
                CommandSpec(
                    "groups",
                    "Show what each group of commands contains, or one of them.",
                    "policy_groups",
                    (),
                    (PositionalSpec("NAME", "the group", required=False, choices=GROUPS),),
                    details='A rule names a group: allow = { group = "read_only_git" }.',
                ),
                CommandSpec(
                    "lint",
                    "Find rules that never decide, that let too much through, or that name what is not there.",
                    "policy_lint",
                    (
                        OptionSpec(
                            ("--fail-on",),
                            "exit 1 from this severity up (default: error)",
                            "SEVERITY",
                            choices=("note", "warning", "error"),
                        ),
                        OptionSpec(("--fix",), "remove rules without effect, after your consent"),
                        _YES,
                    ),
                    details="Reads project files as they are written, trusted or not. Every finding has a place and a "
                    "way to mend it;\nsee docs/policy-tools.md. --fix shows the change first, and makes it only if no "
                    "decision changes.\n\n"
                    "Exit code: 0, 1 if something is as grave as --fail-on, 10 if --fix needs your consent.",
                ),
                CommandSpec(
                    "learn",
                    "Propose rules for what you have approved again and again.",
                    "policy_learn",
                    (
                        _SINCE,
                        OptionSpec(("--times",), "how often you approved it at least (default: 3)", "N"),
                        OptionSpec(("--write",), "add the rules to this file, after your consent", "FILE"),
                        _YES,
                    ),
                    details="Reads your answers and the refusals of sandboxed runs from the audit log. For each rule\n"
                    "it shows how much else the rule would allow. At a terminal you accept, edit, narrow, reject or\n"
                    "deny each; elsewhere it only prints them. See docs/policy-tools.md.\n\n"
                    "Exit code: 0, 1 if you said no, 10 if --write needs your consent.",
                ),
                CommandSpec(
                    "diff",
                    "Show which actions two policies decide differently.",
                    "policy_diff",
                    (
                        OptionSpec(
                            ("--fail-on",),
                            "exit with 1 if an action is loosened, or if any changes",
                            "WHAT",
                            choices=("loosened", "any"),
                        ),
                    ),
                    (
                        PositionalSpec("OLD", "a file, a directory or git:REV (default: git:HEAD)", required=False),
                        PositionalSpec("NEW", "the same (default: the workspace as it is)", required=False),
                    ),
                    details="Lists one action for each change, and the rules behind it; what is loosened comes first.\n"
                    "Project files count as they are written, trusted or not.\n\n"
                    "Exit code: 0, or 1 if something changes as --fail-on says.\n\n"
                    "  byleave policy diff git:main --fail-on loosened",
                ),
                CommandSpec(
                    "replay",
                    "Show what another policy would have decided about recorded actions.",
                    "policy_replay",
                    (_SINCE,),
                    details="Without --policy, the policy that holds now. Counts the questions that it saves or adds.\n"
                    "Changes nothing.\n\n"
                    "  byleave policy replay --policy new.toml --since 7d",
                ),
                CommandSpec(
                    "import",
                    "Print the permissions that another program already has, as rules.",
                    "policy_import",
                    (
                        OptionSpec(("--write",), "add the rules to this file, after your consent", "FILE"),
                        _YES,
                    ),
                    (
                        PositionalSpec("FORMAT", "the agent, or the other program", choices=IMPORTED),
                        PositionalSpec("FILE", "its settings (default: yours)", required=False, repeat=True),
                    ),
                    details="The rules never allow what the original asks about or denies. What cannot be carried over "
                    "exactly is carried over stricter, and listed with its file and line.\n\n"
                    "Exit code: 0, 1 if you said no, 10 if --write needs your consent.\n\n"
                    """  byleave policy import claude-code
  byleave policy import codex ~/.codex/rules/default.rules --json
  byleave policy import gemini --write ~/.config/byleave/config.toml""",
                ),
            ),
        ),
        CommandSpec(
            "agents",
            "List the agents that call MCP servers, and make tokens for them.",
            subcommands=(
                CommandSpec(
                    "token",
                    "Make a token that identifies an agent.",
                    "agents",
                    (_YES,),
                    (PositionalSpec("AGENT", "the agent's name"),),
                    details="Prints the token once, and the line with its hash for your configuration.",
                ),
                CommandSpec("list", "List the agents, and which servers and tools each may use.", "agents"),
            ),
        ),
        CommandSpec(
            "run",
            "Run a program in a sandbox that enforces the policy.",
            "run",
            (
                OptionSpec(("--tool",), "use the access of this configured tool", "TOOL"),
                OptionSpec(("--access",), "use the [access] table of this TOML file", "FILE"),
                OptionSpec(("--shell",), "run this command line in a shell, as [shell] says", "TEXT"),
                OptionSpec(("--cwd-file",), "with --shell: write to FILE the directory that TEXT ended in", "FILE"),
                *MOUNTING,
                _YES,
                OptionSpec(("--explain",), "show what the sandbox would contain, and run nothing"),
                OptionSpec(("--diagnose",), "list what was refused at the end, and why; slower"),
                OptionSpec(("--ticket",), "with --shell: run the command that a hook gave this ticket to", "ID"),
                OptionSpec(("--home",), "with --ticket: the user's home; the environment is then ignored", "DIR"),
            ),
            rest="PROGRAM ARGS...",
            details=_RUN_DETAILS,
            dashless=True,
        ),
        CommandSpec(
            "outside",
            "Run a command without the sandbox, after your approval.",
            "outside",
            rest="PROGRAM ARGS...",
            details=_OUTSIDE_DETAILS,
        ),
        CommandSpec(
            "call",
            "Run a configured tool, and print its result.",
            "call",
            (
                *MOUNTING,
                OptionSpec(
                    ("--answer",), "answer a question of the tool: ID=VALUE; may be repeated", "ANSWER", repeat=True
                ),
                _YES,
                OptionSpec(("--keep",), "read more ARGUMENTS from standard input, one JSON object a line"),
                OptionSpec(("--schema",), "print the JSON Schema of the tool's arguments, and run nothing"),
            ),
            (
                PositionalSpec("TOOL", "the name of the tool"),
                PositionalSpec("ARGUMENTS", "a JSON object (default: {})", required=False),
            ),
            details=_CALL_DETAILS,
        ),
        CommandSpec(
            "acp",
            "Apply the policy between an editor and an agent (ACP proxy).",
            "acp",
            (
                OptionSpec(("--agent-profile",), "the agent's name in the policy", "AGENT"),
                OptionSpec(("--strict",), "also require approval where the agent does not ask for it"),
                OptionSpec(("--sandbox",), "run the agent in a sandbox, as `byleave run` does"),
                OptionSpec(("--tool",), "with --sandbox: use the access of this configured tool", "TOOL"),
                OptionSpec(("--access",), "with --sandbox: use the [access] table of this TOML file", "FILE"),
                OptionSpec(("--log",), "append a JSON object to this file for every decision", "FILE"),
                *MOUNTING,
                _YES,
                OptionSpec(
                    ("--setup",),
                    "print the settings for an editor, and run nothing",
                    "EDITOR",
                    choices=EDITORS,
                ),
            ),
            rest="AGENT ARGS...",
            details=_ACP_DETAILS,
        ),
        CommandSpec(
            "mcp",
            "Serve all your MCP servers as one that applies the policy (MCP gateway).",
            "mcp",
            (
                OptionSpec(("--stdio",), "serve one client on standard input and output (the default)"),
                OptionSpec(("--http",), "serve clients over HTTP at /mcp, until stopped", "HOST:PORT"),
                OptionSpec(("--workers",), "with --http: serve by so many processes (default: 1)", "N"),
                OptionSpec(
                    ("--peers",),
                    "with a shared store: where other replicas reach this one (default: the host of --http, any port)",
                    "HOST:PORT",
                ),
                OptionSpec(("--check",), "start every server once, list what each agent can see, and exit"),
                OptionSpec(("--deploy",), "with --check: list what is unsafe where several people share the gateway"),
                OptionSpec(("--agent",), "with --stdio: the agent that calls (default: BYLEAVE_AGENT)", "AGENT"),
                *MOUNTING,
                _YES,
            ),
            details=_MCP_DETAILS,
        ),
        CommandSpec(
            "hook",
            "Answer an agent's hook, or install the hook in an agent.",
            "hook",
            (
                OptionSpec(("--install",), "add the hook to this agent's settings", "AGENT", choices=HOOKED),
                OptionSpec(("--uninstall",), "remove the hook from this agent's settings", "AGENT", choices=HOOKED),
                OptionSpec(
                    ("--resume",),
                    "confine this agent's commands again, after one ran unconfined",
                    "AGENT",
                    choices=HOOKED,
                ),
                OptionSpec(("--dry-run",), "with --install or --uninstall: show the new file, change nothing"),
                OptionSpec(("--home",), "the user's home; the environment is then ignored", "DIR"),
                OptionSpec(("--agent-profile",), "the agent's name in rules and records (default: AGENT)", "NAME"),
                _YES,
            ),
            (PositionalSpec("AGENT", "the agent that sends the event", required=False, choices=HOOKED),),
            details="Reads one hook event on standard input, and prints the decision in the agent's own format.\n"
            "An error blocks the call: exit code 2, and the reason on standard error.",
        ),
        CommandSpec(
            "trust",
            "Trust a project file in its present content.",
            "trust",
            (_YES,),
            (_FILE,),
            details="Lists what the file makes active, then asks for your consent. Trust is in the exact content: when "
            "the file changes, trust it again. A file that is not trusted can only make the policy stricter.",
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
            "Give tools access to a place outside the workspace, through a link.",
            "mount",
            (
                _YES,
                OptionSpec(("--dry-run",), "show what would be done, and change nothing"),
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
            details="Removes the grants, and the link if it still has the approved target. The tool's other file "
            "rules stay in the session.",
        ),
        CommandSpec(
            "approvals",
            "List, give and revoke approvals.",
            "approvals_view",
            (OptionSpec(("--ui",), "show questions as they come, and answer them by keys"),),
            alone="ui",
            subcommands=(
                CommandSpec("list", "List approvals: pending, approved and revoked.", "approvals"),
                CommandSpec(
                    "approve",
                    "Approve what is pending.",
                    "approvals",
                    (_YES,),
                    (_ID.replace(required=False),),
                    details="Without an ID, asks about everything that is pending, one by one.",
                ),
                CommandSpec("revoke", "Revoke an approval.", "approvals", (_YES,), (_ID,)),
            ),
            details="Running programs apply a change within two seconds.",
        ),
        CommandSpec(
            "audit",
            "List, export and verify the records of all decisions.",
            subcommands=(
                CommandSpec("list", "List records, the newest last.", "audit", _FILTERS),
                CommandSpec(
                    "show",
                    "Show one record in full.",
                    "audit",
                    (),
                    (PositionalSpec("SEQUENCE", "the number that `byleave audit list` shows"),),
                ),
                CommandSpec(
                    "summary",
                    "Sum up what each agent did, and what was refused.",
                    "audit",
                    (
                        _SINCE.replace(help="from then on (default: yesterday evening), written as for `audit list`"),
                        OptionSpec(("--all",), "in every workspace, not only in this one"),
                        OptionSpec(("--markdown",), "print Markdown, for a stand-up note"),
                    ),
                    details="In observe mode it shows what would have needed your approval, and what would have been\n"
                    "denied.",
                ),
                CommandSpec(
                    "tail",
                    "Show new records as they are written, until interrupted.",
                    "audit",
                    (*_FILTERS, OptionSpec(("--ui",), "on the whole screen, filtered and paused by keys")),
                ),
                CommandSpec(
                    "export",
                    "Write records for other programs, as NDJSON or CSV.",
                    "audit",
                    (
                        *_FILTERS,
                        OptionSpec(("--format",), "the format (default: ndjson)", "FORMAT", choices=("ndjson", "csv")),
                    ),
                ),
                CommandSpec(
                    "verify",
                    "Check that no record was altered, removed or reordered.",
                    "audit",
                    (OptionSpec(("--head",), "a head from `byleave audit head` that you kept elsewhere", "HEAD"),),
                    details="Exit code: 0 if all records are intact, 1 if not.",
                ),
                CommandSpec("head", "Print the head of the hash chain, to keep elsewhere.", "audit"),
            ),
            details="Records are kept in your own state directory; see docs/audit.md.",
        ),
        CommandSpec(
            "dashboard",
            "Show what agents do, and answer their questions, in the browser.",
            "dashboard",
            (
                OptionSpec(("--port",), "listen at this port (default: a free one)", "N"),
                OptionSpec(("--no-open",), "only print the address; open no browser"),
            ),
            details="Listens on this machine alone, and prints an address that signs one browser in. Ctrl-C ends it.\n"
            "While it is open, requests that need approval wait for your answer there. See docs/dashboard.md.",
        ),
        CommandSpec(
            "doctor",
            "Check the installation, and report what this machine enforces.",
            "doctor",
            details="Exit code: 0, or 1 if something is broken. With -q only problems are shown.",
        ),
        CommandSpec(
            "service",
            "Show, stop or restart the service that answers hooks in milliseconds.",
            subcommands=(
                CommandSpec("status", "Show whether it runs, and what it has done.", "service"),
                CommandSpec("stop", "Have it end; commands that run go on.", "service"),
                CommandSpec("restart", "Have it end, and start it anew.", "service"),
            ),
            details="It starts by itself, and ends after 15 idle minutes; BYLEAVE_SERVICE=off keeps it from starting.\n"
            "See docs/service.md.",
        ),
        CommandSpec(
            "schema",
            "Print the JSON Schema of the configuration file.",
            "schema",
            (OptionSpec(("--editor",), "put it where editors find it, and print the setting that names it"),),
            details="Editors complete and check byleave.toml with it.",
        ),
        CommandSpec(
            "completion",
            "Print the completion script of a shell.",
            "completion",
            (
                OptionSpec(
                    ("--values",), "print names that this workspace has, for the scripts", "WHAT", choices=COMPLETED
                ),
            ),
            (PositionalSpec("SHELL", "the shell", required=False, choices=SHELLS),),
            details="""\
  bash  source <(byleave completion bash)       in ~/.bashrc
  zsh   source <(byleave completion zsh)        in ~/.zshrc
  fish  byleave completion fish | source        in ~/.config/fish/config.fish""",
        ),
    ),
)
VERSION = OptionSpec(("--version",), "show the version; with --json, what is compiled in and which extras there are")
# What every page on exit codes says: the manual pages and docs/reference.
EXIT_CODES = (
    (0, "done; of `check`: allow"),
    (1, "it failed, or a check of yours did not pass"),
    (2, "the command line, the configuration or byleave's own files cannot be used; nothing was done"),
    (10, "your approval or your consent is needed; of `check`: ask"),
    (20, "the policy denies it"),
    (124, "it took longer than its `wall_time`, and was ended"),
    (125, "the sandbox cannot be set up; nothing was run"),
    (126, "the program cannot be executed"),
    (127, "there is no such program"),
    (130, "cancelled by Ctrl-C"),
)
