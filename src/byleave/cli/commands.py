"""The table of commands. Help, completion and dispatch all come from here; a command's code is loaded when it runs."""

from byleave.cli.arguments import Command, Option, Positional

COMMON = (
    Option(("--root",), "the workspace (default: found from the working directory)", "DIR"),
    Option(("--policy",), "use this file instead of what would be found; may be repeated", "FILE", repeat=True),
    Option(("--session",), 'the session whose grants hold (default: "default")', "NAME"),
    Option(("--json",), "answer in JSON"),
    Option(("--no-input",), "never ask; what would ask counts as no"),
    Option(("-q", "--quiet"), "say only the answer"),
    Option(("-v", "--verbose"), "say more"),
    Option(("-h", "--help"), "show this help"),
)

CHECK_KINDS = ("read", "create", "update", "delete", "exec", "move", "search", "url", "env", "spawn", "command", "call")
SHELLS = ("bash", "zsh", "fish")

_TOOL = Option(("--tool",), "the tool on whose behalf", "TOOL")
_AGENT = Option(("--agent",), "the agent on whose behalf", "AGENT")
_YES = Option(("--yes",), "agree without being asked: the consent of a script")
_PATH = Positional("PATH", "a path; relative to the workspace if a tool is named")

CHECKS = (
    *(Command(kind, f"may a tool {kind} this path?", "check", (_TOOL, _AGENT), (_PATH,)) for kind in CHECK_KINDS[:5]),
    Command(
        "move", "may a tool move this path there?", "check", (_TOOL, _AGENT), (_PATH, Positional("TO", "the new path"))
    ),
    Command("search", "may a tool search below this path?", "check", (_TOOL, _AGENT), (_PATH.replace(required=False),)),
    Command(
        "url",
        "may a tool reach this URL?",
        "check",
        (
            _TOOL,
            _AGENT,
            Option(("--method",), "the HTTP method", "METHOD"),
            Option(("--address",), "the address its host resolves to", "IP"),
        ),
        (Positional("URL", "the URL"),),
    ),
    Command("env", "may a tool read this variable?", "check", (_TOOL, _AGENT), (Positional("NAME", "its name"),)),
    Command("spawn", "may a tool start this program?", "check", (_TOOL, _AGENT), rest="PROGRAM ARGS..."),
    Command(
        "command",
        "may this shell command run?",
        "check",
        (_AGENT, Option(("--cwd",), "the directory it would run in", "DIR")),
        (Positional("COMMAND", "the command as one word"),),
    ),
    Command(
        "call",
        "may an agent call this MCP tool?",
        "check",
        (_AGENT, Option(("--arguments",), "its arguments", "JSON")),
        (Positional("SERVER", "the server"), Positional("TOOL", "the tool", required=False)),
    ),
)

ROOT = Command(
    "byleave",
    "Nothing touches your machine but by your leave.",
    subcommands=(
        Command("init", "write a commented byleave.toml for this project", "init"),
        Command(
            "check",
            "ask the policy about one action, or about many",
            "check",
            (Option(("--batch",), "read one JSON object a line, answer one a line"),),
            subcommands=CHECKS,
            details="Exit code: 0 allow, 10 ask, 20 deny, 2 the question or the configuration cannot be read.",
        ),
        Command(
            "policy",
            "look at the policy",
            subcommands=(Command("show", "show the merged policy with the origin of each rule", "policy"),),
        ),
        Command(
            "trust",
            "trust a project file as it is now",
            "trust",
            (_YES,),
            (Positional("FILE", "the file (default: every project file here)", required=False),),
            details="Lists what would become active, then asks. A file that changes must be trusted again.",
        ),
        Command(
            "untrust",
            "stop trusting a project file",
            "trust",
            (_YES,),
            (Positional("FILE", "the file (default: every project file here)", required=False),),
        ),
        Command("doctor", "check that everything works here", "doctor"),
        Command("schema", "print the JSON Schema of the configuration file", "schema"),
        Command(
            "completion",
            "print the completion script of a shell",
            "completion",
            (),
            (Positional("SHELL", "which", choices=SHELLS),),
        ),
    ),
)
VERSION = Option(("--version",), "show the version")
