"""The shape of a configuration file, as types: what may stand where, and what each key is for.

Start at `ConfigFile`. The types say nothing about meaning: the compiler decides whether a path may be granted or a
host makes sense. A key that a file leaves out is `UNSET`, which is not the same as false. `extra["hint"]` is what
`policy.diagnostics` says when a value does not fit.

`json_schema` makes the JSON Schema of the file from these types and their descriptions, so that editors complete keys
and mark mistakes. Nothing here reads or checks a file.
"""

from typing import Annotated, Any, Literal

import msgspec.json
from msgspec import UNSET, Meta, UnsetType

from byleave.core.access import LARGEST
from byleave.policy.gateway_types import AgentTable, GatewayTable
from byleave.policy.rule_types import ConfigTable, Merge, RuleDefinition

_YEAR = 365 * 24 * 3600  # seconds
RunMode = Literal["ask", "unattended", "edit", "skip"]


class FsRuleTable(ConfigTable):
    """What the tool may do at one path and below. The longest path decides; on a tie, the last rule."""

    path: Annotated[
        str,
        Meta(description="Path relative to the workspace root; '.' is the root.", examples=["src", "."]),
    ]
    external: Annotated[
        bool | UnsetType,
        Meta(
            description="The path is a link that leads out of the workspace; its target needs approval "
            "(default: false)."
        ),
    ] = UNSET
    read: Annotated[bool | UnsetType, Meta(description="May read and list (default: false).")] = UNSET
    write: Annotated[bool | UnsetType, Meta(description="Short for create, update and delete (default: false).")] = (
        UNSET
    )
    create: Annotated[bool | UnsetType, Meta(description="May make new files and directories (default: as write).")] = (
        UNSET
    )
    update: Annotated[bool | UnsetType, Meta(description="May change existing files (default: as write).")] = UNSET
    delete: Annotated[bool | UnsetType, Meta(description="May remove files and directories (default: as write).")] = (
        UNSET
    )
    execute: Annotated[bool | UnsetType, Meta(description="May run files found here (default: false).")] = UNSET


class NetRuleTable(ConfigTable):
    """Whether the tool may reach a host. The rule that matches in most parts decides; on a tie, the last."""

    host: Annotated[
        str,
        Meta(
            description="Host name or IP address, without scheme or port.",
            examples=["api.example.com", "127.0.0.1"],
        ),
    ]
    scheme: Annotated[
        str | UnsetType,
        Meta(description="Only this URL scheme. Absent: any, plain http too.", examples=["https"]),
    ] = UNSET
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | UnsetType,
        Meta(description="Only this port. Absent: the default port of the scheme.", examples=[443]),
    ] = UNSET
    path_prefix: Annotated[
        str | UnsetType,
        Meta(description="Only URL paths at or below this one, by whole segments.", examples=["/repos"]),
    ] = UNSET
    allow: Annotated[bool | UnsetType, Meta(description="true lets it through, false refuses (default: false).")] = (
        UNSET
    )
    private: Annotated[
        bool | UnsetType,
        Meta(description="The host may resolve to a private, loopback or link-local address (default: false)."),
    ] = UNSET


class EnvRuleTable(ConfigTable):
    """Whether the tool sees an environment variable. The longest name decides; exact beats prefix."""

    name: Annotated[
        str,
        Meta(
            description="Name of the variable, or a prefix that ends in *.",
            examples=["GITHUB_TOKEN", "AWS_*"],
        ),
    ]
    read: Annotated[bool | UnsetType, Meta(description="The tool gets the variable (default: false).")] = UNSET
    substitute: Annotated[
        bool | UnsetType,
        Meta(description="The host may put the value into requests; the tool never sees it (default: false)."),
    ] = UNSET


Args = list[list[str]]


class CommandRuleTable(ConfigTable):
    """How one program may be started."""

    args: Annotated[
        Args | Merge[list[str]] | UnsetType,
        Meta(
            description="Allowed argument lists; a last '**' allows anything after. Absent: any arguments. "
            "Empty: none at all.",
            examples=[[["check", "**"]]],
        ),
    ] = UNSET
    envs: Annotated[
        list[str] | Merge[str] | UnsetType,
        Meta(description="Which of the tool's variables reach this program.", examples=[["CARGO_TERM_COLOR"]]),
    ] = UNSET


class AccessTable(ConfigTable):
    """What a tool may touch. A kind of resource that has rules is closed except for what they open."""

    fs: Annotated[
        list[FsRuleTable] | Merge[FsRuleTable] | UnsetType,
        Meta(description="Files and directories.", examples=[[{"path": "src", "read": True}]]),
    ] = UNSET
    net: Annotated[
        list[NetRuleTable] | Merge[NetRuleTable] | UnsetType,
        Meta(
            description="Hosts on the network.",
            examples=[[{"host": "api.example.com", "scheme": "https", "allow": True}]],
        ),
    ] = UNSET
    env: Annotated[
        list[EnvRuleTable] | Merge[EnvRuleTable] | UnsetType,
        Meta(description="Environment variables.", examples=[[{"name": "AWS_*", "read": True}]]),
    ] = UNSET
    commands: Annotated[
        dict[str, CommandRuleTable] | UnsetType,
        Meta(
            description="Programs the tool may start, by name as written. Absent: any.",
            examples=[{"cargo": {"args": [["check", "**"]]}}],
        ),
    ] = UNSET


class SandboxFilesystem(ConfigTable):
    """Older spelling of `access.fs`."""

    allow: Annotated[list[str] | UnsetType, Meta(description="Paths the tool may read.", examples=[["src"]])] = UNSET
    writable: Annotated[
        list[str] | bool | UnsetType,
        Meta(description="Paths the tool may also change; true: all that it may read.", examples=[["target"], True]),
    ] = UNSET


class SandboxNetwork(ConfigTable):
    """Older spelling of `access.net`, and of `access.env` with `substitute`."""

    allow: Annotated[
        list[str] | UnsetType, Meta(description="Hosts the tool may reach.", examples=[["api.example.com"]])
    ] = UNSET
    envs: Annotated[
        list[str] | UnsetType,
        Meta(description="Variables the host may put into requests.", examples=[["GITHUB_TOKEN"]]),
    ] = UNSET


class SandboxCommand(ConfigTable):
    """Older spelling of an entry of `access.commands`; its lists are plain."""

    args: Annotated[Args | UnsetType, Meta(description="Allowed argument lists.", examples=[[["check", "**"]]])] = UNSET
    envs: Annotated[
        list[str] | UnsetType,
        Meta(description="Variables that reach this program.", examples=[["CARGO_TERM_COLOR"]]),
    ] = UNSET


class SandboxTable(ConfigTable):
    """Older spelling of `access`. A tool has one or the other."""

    filesystem: Annotated[
        SandboxFilesystem | UnsetType,
        Meta(description="Files and directories.", examples=[{"allow": ["src"]}]),
    ] = UNSET
    network: Annotated[
        SandboxNetwork | UnsetType,
        Meta(description="Hosts on the network.", examples=[{"allow": ["api.example.com"]}]),
    ] = UNSET
    commands: Annotated[
        dict[str, SandboxCommand] | UnsetType,
        Meta(description="Programs the tool may start.", examples=[{"cargo": {"args": [["check", "**"]]}}]),
    ] = UNSET


class RunRule(ConfigTable):
    """One line of a conditional `run`: the mode for calls whose argument looks like this."""

    one_of = ("prefix", "equals", "glob", "regex", "inside")

    arg: Annotated[
        str,
        Meta(
            description="JSON pointer into the arguments; through a list it means any element.",
            examples=["/path"],
        ),
    ]
    mode: Annotated[RunMode, Meta(description="What to do with such a call.", examples=["ask"])]
    prefix: Annotated[str | UnsetType, Meta(description="The argument starts with this text.", examples=["docs/"])] = (
        UNSET
    )
    equals: Annotated[
        str | int | float | bool | UnsetType,
        Meta(description="The argument is exactly this.", examples=["main"]),
    ] = UNSET
    glob: Annotated[str | UnsetType, Meta(description="The argument matches this glob.", examples=["*.md"])] = UNSET
    regex: Annotated[str | UnsetType, Meta(description="The argument matches this pattern.", examples=["(?i)drop"])] = (
        UNSET
    )
    inside: Annotated[
        str | UnsetType,
        Meta(description="The argument is this path, or lies in it; `..` is followed.", examples=["docs"]),
    ] = UNSET


_RequestTimeout = Annotated[
    Annotated[float, Meta(gt=0, le=_YEAR)] | UnsetType,
    Meta(
        description="Seconds between two requests of a vfs tool, and for one http or process request (default: 60).",
        examples=[60],
    ),
]
_CancelTimeout = Annotated[
    Annotated[float, Meta(gt=0, le=_YEAR)] | UnsetType,
    Meta(
        description="Seconds from the request to stop until SIGTERM, and again until SIGKILL (default: 5).",
        examples=[5],
    ),
]
_MaxFileSize = Annotated[
    Annotated[int, Meta(ge=1, le=LARGEST)] | str | UnsetType,
    Meta(
        description="Bytes of one file or body in a message, or text with a unit (default: 10 MB).", examples=["10 MB"]
    ),
]


class LimitsTable(ConfigTable):
    """What the tool's processes may use at most, and how long its host waits. What is left out has its default."""

    processes: Annotated[
        Annotated[int, Meta(ge=1, le=1 << 22)] | UnsetType,  # linux/threads.h: PID_MAX_LIMIT
        Meta(description="Processes and threads at one time.", examples=[64]),
    ] = UNSET
    memory: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST)] | str | UnsetType,
        Meta(description="Bytes of memory, or text with a unit: KB, MB, GB or TB.", examples=["2 GB"]),
    ] = UNSET
    file_size: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST)] | str | UnsetType,
        Meta(description="Bytes that one written file may have, or text with a unit.", examples=["512 MB"]),
    ] = UNSET
    open_files: Annotated[
        Annotated[int, Meta(ge=8, le=1 << 30)] | UnsetType,  # fewer than 8, and no program starts
        Meta(description="Files that one process may have open.", examples=[256]),
    ] = UNSET
    wall_time: Annotated[
        Annotated[float, Meta(gt=0, le=_YEAR)] | UnsetType,
        Meta(description="Seconds until the tool is ended.", examples=[600]),
    ] = UNSET
    request_timeout: _RequestTimeout = UNSET
    cancel_timeout: _CancelTimeout = UNSET
    max_file_size: _MaxFileSize = UNSET


class ToolTable(ConfigTable):
    """One tool: where it comes from, how it runs, and what it may touch."""

    source: Annotated[
        # `$` alone would let a trailing newline pass; editors' regular expressions know no \Z.
        Annotated[str, Meta(pattern=r"^(local|builtin|mcp\.\S+)(?!\n)$")] | UnsetType,
        Meta(
            description="Where the tool is defined: local, builtin or mcp.<server>.",
            examples=["local", "builtin", "mcp.github"],
            extra={"hint": 'write "local", "builtin" or "mcp.<server>"'},
        ),
    ] = UNSET
    command: Annotated[
        list[str] | str | UnsetType,
        Meta(
            description="Program and arguments; a string is split once by POSIX quoting, never by a shell.",
            examples=[["byleave-tool", "fs_modify_file"]],
        ),
    ] = UNSET
    runtime: Annotated[
        Literal["vfs", "stdio", "wasm"] | UnsetType,
        Meta(
            description="vfs: every request goes through the tool host. stdio: a plain process. wasm: refused, this "
            "version cannot run it (default: stdio).",
            examples=["vfs", "stdio"],
        ),
    ] = UNSET
    run: Annotated[
        RunMode | list[RunRule] | UnsetType,
        Meta(
            description="Whether a call runs: one mode, or a list of conditions; the first match decides.",
            examples=["ask"],
        ),
    ] = UNSET
    enable: Annotated[bool | UnsetType, Meta(description="false switches the tool off (default: true).")] = UNSET
    description: Annotated[
        str | UnsetType,
        Meta(description="What the tool does, for people and models.", examples=["Edits one file."]),
    ] = UNSET
    options: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="Any table; the tool gets it as it is.", examples=[{"style": "unified"}]),
    ] = UNSET
    access: Annotated[
        AccessTable | UnsetType,
        Meta(description="What the tool may touch.", examples=[{"fs": [{"path": "src", "read": True}]}]),
    ] = UNSET
    sandbox: Annotated[
        SandboxTable | UnsetType,
        Meta(description="Older spelling of access.", examples=[{"filesystem": {"allow": ["src"]}}]),
    ] = UNSET
    limits: Annotated[
        LimitsTable | UnsetType,
        Meta(description="What its processes may use at most.", examples=[{"memory": "2 GB", "processes": 64}]),
    ] = UNSET
    request_timeout: _RequestTimeout = UNSET
    cancel_timeout: _CancelTimeout = UNSET
    max_file_size: _MaxFileSize = UNSET
    parameters: Annotated[
        dict[str, Any] | UnsetType,
        Meta(
            description="JSON Schema of the tool's arguments.",
            examples=[{"type": "object", "properties": {"path": {"type": "string"}}}],
        ),
    ] = UNSET
    stateful: Annotated[
        bool | UnsetType,
        Meta(
            description="true: calls are spawned, fetched, answered and aborted by an id (default: false).",
            examples=[True],
        ),
    ] = UNSET
    actions: Annotated[
        list[Literal["spawn", "fetch", "apply", "abort"]] | UnsetType,
        Meta(description="What a stateful tool supports (default: all of it).", examples=[["spawn", "fetch", "abort"]]),
    ] = UNSET
    format_arguments: Annotated[
        bool | UnsetType,
        Meta(
            description="true: before you are asked, the tool itself says what a call would do (default: false).",
            examples=[True],
        ),
    ] = UNSET


class ServerTool(ConfigTable):
    """One tool of an MCP server that is started anew for each call."""

    access: Annotated[
        AccessTable | UnsetType,
        Meta(description="What the process of such a call may touch.", examples=[{"net": [{"host": "example.com"}]}]),
    ] = UNSET


class ServerTable(ConfigTable):
    """One MCP server behind the gateway: how it is reached, and what its process may touch."""

    command: Annotated[
        list[str] | str | UnsetType,
        Meta(
            description="Program and arguments; a string is split once by POSIX quoting, never by a shell.",
            examples=[["npx", "-y", "some-server"]],
        ),
    ] = UNSET
    args: Annotated[
        list[str] | UnsetType, Meta(description="Further arguments of the command.", examples=[["-y", "some-server"]])
    ] = UNSET
    url: Annotated[
        str | UnsetType, Meta(description="Where the server answers, instead of a command.", examples=["https://..."])
    ] = UNSET
    transport: Annotated[
        Literal["stdio", "http", "sse"] | UnsetType,
        Meta(description="stdio for a command; http or the older sse for a url (default: http).", examples=["http"]),
    ] = UNSET
    env: Annotated[
        dict[str, str] | UnsetType,
        Meta(
            description="Variables of its process; ${VAR} and ${VAR:-default} are filled in.",
            examples=[{"TOKEN": "${GITHUB_TOKEN}"}],
        ),
    ] = UNSET
    headers: Annotated[
        dict[str, str] | UnsetType,
        Meta(
            description="Headers of each request to the url; ${VAR} and ${VAR:-default} are filled in.",
            examples=[{"Authorization": "Bearer ${GITHUB_TOKEN}"}],
        ),
    ] = UNSET
    cwd: Annotated[
        str | UnsetType, Meta(description="Where its process starts, inside the workspace.", examples=["tools"])
    ] = UNSET
    description: Annotated[
        str | UnsetType,
        Meta(description="What the server is for, for people and models.", examples=["issues and pull requests"]),
    ] = UNSET
    enable: Annotated[bool | UnsetType, Meta(description="false switches the server off (default: true).")] = UNSET
    may: Annotated[
        list[Literal["sampling", "elicitation", "roots"]] | UnsetType,
        Meta(description="What the server may ask of the client (default: all of it).", examples=[["roots"]]),
    ] = UNSET
    stateful: Annotated[
        bool | UnsetType,
        Meta(description="false: a process for each call, whose access stands at the tool (default: true)."),
    ] = UNSET
    share: Annotated[
        bool | Literal["auto"] | UnsetType,
        Meta(
            description="Which clients share its process. true: all, for a server that keeps no state for a client. "
            "false: none. auto: those of one caller that offer the server nothing to ask for (default: auto).",
            examples=[True],
        ),
    ] = UNSET
    access: Annotated[
        AccessTable | UnsetType,
        Meta(
            description="What its process may touch. Absent: the network, the workspace to read, a cache of its own.",
            examples=[{"fs": [{"path": "data", "read": True}]}],
        ),
    ] = UNSET
    limits: Annotated[
        LimitsTable | UnsetType,
        Meta(description="What its process may use at most.", examples=[{"memory": "2 GB", "processes": 64}]),
    ] = UNSET
    tools: Annotated[
        dict[str, ServerTool] | UnsetType,
        Meta(
            description="Access by tool, for a server that is not stateful.",
            examples=[{"fetch": {"access": {"net": [{"host": "example.com", "allow": True}]}}}],
        ),
    ] = UNSET


class ConversationTable(ConfigTable):
    """An older name of the table that holds `tools`."""

    tools: Annotated[
        dict[str, ToolTable] | UnsetType,
        Meta(description="Read as the top-level tools table.", examples=[{"grep": {"source": "builtin"}}]),
    ] = UNSET


class Defaults(ConfigTable):
    """What holds where nothing else is said."""

    os_sandbox: Annotated[
        Literal["auto", "require", "off"] | UnsetType,
        Meta(
            description="auto: the kernel enforces where it can. require: refuse to run where it cannot. "
            "off: tools and servers run without a sandbox (default: auto).",
            examples=["auto"],
        ),
    ] = UNSET
    deny_on_missing_agent: Annotated[
        bool | UnsetType,
        Meta(
            description="false: an agent that is not listed counts as `default`; without one it may call anything "
            "(default: true)."
        ),
    ] = UNSET
    mode: Annotated[
        Literal["enforce", "observe"] | UnsetType,
        Meta(
            description="observe: hooks and the ACP proxy record what the policy decides, and leave the decision to "
            "the agent. Only in your own file, or in the managed one (default: enforce).",
            examples=["observe"],
        ),
    ] = UNSET
    ask_timeout: Annotated[
        Annotated[float, Meta(ge=0, le=3600)] | UnsetType,
        Meta(
            description="Seconds that a request may wait for your answer in an open dashboard (default: 60). Only in "
            "your own file, or in the managed one.",
            examples=[120],
        ),
    ] = UNSET


class Audit(ConfigTable):
    """How long records are kept. The oldest go first; what is left stays verifiable."""

    keep_days: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType,
        Meta(description="Remove records that are older (default: 90).", examples=[365]),
    ] = UNSET
    keep_megabytes: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType,
        Meta(description="Remove the oldest records beyond this size (default: 1024).", examples=[256]),
    ] = UNSET


class StoreTable(ConfigTable):
    """Where the MCP gateway keeps records, approvals of calls and definitions of tools."""

    url: Annotated[
        str | UnsetType,
        Meta(
            description="sqlite:/// for this user's own files, or postgresql://USER@HOST:PORT/DATABASE for "
            "what several gateways share. Without a password. Only in your own file, or in the managed one "
            "(default: sqlite:///).",
            examples=["postgresql://byleave@db.example.com/byleave"],
        ),
    ] = UNSET
    on_failure: Annotated[
        Literal["deny", "spool"] | UnsetType,
        Meta(
            description="What becomes of calls while the database is away. deny: they are refused. spool: their "
            "records wait on the disk of the gateway's machine, and are delivered later (default: deny).",
            examples=["spool"],
        ),
    ] = UNSET
    spool_megabytes: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType,
        Meta(
            description="Megabytes of records that wait on one machine at most; then calls are refused (default: 64).",
            examples=[64],
        ),
    ] = UNSET


class HostPathsTable(ConfigTable):
    """What every sandbox sees of the machine, beside the system and the workspace."""

    read: Annotated[
        list[str] | Merge[str] | UnsetType,
        Meta(
            description="Paths that may be read: absolute, or below the home directory by ~/.",
            examples=[["~/.cargo/registry"]],
        ),
    ] = UNSET
    write: Annotated[
        list[str] | Merge[str] | UnsetType,
        Meta(
            description="Paths that may be read and changed: absolute, or below the home directory by ~/.",
            examples=[["~/.cache/pip"]],
        ),
    ] = UNSET


class Shell(ConfigTable):
    """How the commands of agents run."""

    confine: Annotated[
        Literal["auto", "require", "off"] | UnsetType,
        Meta(
            description="auto: confined where that is possible. require: only confined. off: plainly (default: auto; "
            "without this table: off).",
            examples=["auto"],
        ),
    ] = UNSET
    access: Annotated[
        AccessTable | UnsetType,
        Meta(
            description="What a confined command may touch. Absent: the workspace; no network.",
            examples=[{"net": [{"host": "registry.example.org", "allow": True}]}],
        ),
    ] = UNSET


class HooksTable(ConfigTable):
    """How the hooks of agents answer."""

    silent: Annotated[
        Literal["ask", "agent"] | UnsetType,
        Meta(
            description="What becomes of a command that no rule matches. ask: it needs approval. agent: the agent "
            "decides. Only in your own file, or in the managed one (default: ask).",
            examples=["agent"],
        ),
    ] = UNSET


class ConfigFile(ConfigTable):
    """A byleave configuration file."""

    tools: Annotated[
        dict[str, ToolTable] | UnsetType,
        Meta(description="Tools by name.", examples=[{"grep": {"source": "builtin"}}]),
    ] = UNSET
    conversation: Annotated[
        ConversationTable | UnsetType,
        Meta(
            description="An older name: conversation.tools is read as tools.",
            examples=[{"tools": {"grep": {"source": "builtin"}}}],
        ),
    ] = UNSET
    rules: Annotated[
        list[RuleDefinition] | Merge[RuleDefinition] | UnsetType,
        Meta(
            description="Ordered rules; the first that matches decides. What none matches needs approval.",
            examples=[[{"allow": {"command": "git", "subcommand": ["status", "log"]}}]],
        ),
    ] = UNSET
    agents: Annotated[
        dict[str, AgentTable] | UnsetType,
        Meta(
            description="Which agent may call which MCP server and which of its tools, by the agent's name or glob.",
            examples=[{"backend": {"allow": {"servers": ["postgres"]}}}],
        ),
    ] = UNSET
    servers: Annotated[
        dict[str, ServerTable] | UnsetType,
        Meta(
            description="MCP servers behind the gateway, by name.",
            examples=[{"github": {"command": ["npx", "-y", "some-server"]}}],
        ),
    ] = UNSET
    gateway: Annotated[
        GatewayTable | UnsetType, Meta(description="The MCP gateway, `byleave mcp`.", examples=[{"expose": "flat"}])
    ] = UNSET
    programs: Annotated[
        dict[str, dict[str, Any]] | UnsetType,
        Meta(
            description="More knowledge about programs: their options, what executes, what writes.",
            examples=[{"mytool": {"executes": ["--plugin"], "values": ["--config"]}}],
        ),
    ] = UNSET
    defaults: Annotated[
        Defaults | UnsetType,
        Meta(description="What holds where nothing else is said.", examples=[{"os_sandbox": "auto"}]),
    ] = UNSET
    strict_links: Annotated[
        bool | UnsetType,
        Meta(description="Writing to a file that has several hard links needs approval (default: false)."),
    ] = UNSET
    sensitive_paths: Annotated[
        list[str] | UnsetType,
        Meta(
            description="Globs of further places that hold secrets; a grant that reaches one is pointed out.",
            examples=[["**/*.pem", "~/.netrc"]],
        ),
    ] = UNSET
    audit: Annotated[
        Audit | UnsetType, Meta(description="How long records are kept.", examples=[{"keep_days": 365}])
    ] = UNSET
    store: Annotated[
        StoreTable | UnsetType,
        Meta(
            description="Where the MCP gateway keeps records, approvals of calls and definitions of tools.",
            examples=[{"url": "postgresql://byleave@db.example.com/byleave"}],
        ),
    ] = UNSET
    shell: Annotated[
        Shell | UnsetType, Meta(description="How the commands of agents run.", examples=[{"confine": "auto"}])
    ] = UNSET
    hooks: Annotated[
        HooksTable | UnsetType, Meta(description="How the hooks of agents answer.", examples=[{"silent": "agent"}])
    ] = UNSET
    sandbox: Annotated[
        HostPathsTable | UnsetType,
        Meta(
            description="What every sandbox sees of the machine, beside the system and the workspace.",
            examples=[{"read": ["~/.cargo/registry"]}],
        ),
    ] = UNSET


DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTITY = "urn:byleave:schema:config"


def json_schema() -> dict[str, Any]:
    """Return the schema of `ConfigFile`: the same on every call, with the top of the file at the root."""
    definitions = msgspec.json.schema(ConfigFile)["$defs"]
    top = definitions.pop("ConfigFile")
    _say_one_of(definitions["RunRule"], RunRule.one_of)
    return {
        "$schema": DIALECT,
        "$id": IDENTITY,
        **top,
        "title": "byleave configuration",
        "description": "What AI agents' tools may touch. TOML, or the same tree as JSON.",
        "$defs": dict(sorted(definitions.items())),
    }


def _say_one_of(table: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Add to a table's schema that exactly one of `keys` is needed, which types alone do not say."""
    table["oneOf"] = [{"required": [key]} for key in keys]
