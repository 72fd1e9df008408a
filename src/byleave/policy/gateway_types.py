"""The shape of `agents` and `gateway`, as types. Servers, and the rest of the file: policy.schema_types."""

import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from byleave.core.access import LARGEST
from byleave.core.action import LOCAL
from byleave.policy.rule_types import ConfigTable, Merge
from byleave.text import quoted

ITSELF = "is byleave itself, which would start itself without end"
_SERVER_NAME = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
_LONGEST_SERVER_NAME = 64
_DAY = 24 * 3600  # seconds
Names = list[str] | Merge[str]
_ByServer = dict[str, Names]


def name_problem(name: str) -> str | None:
    """Say why this cannot be the name of a server, or None."""
    if name == LOCAL:
        return f"{quoted(LOCAL)} stands for the configured tools"
    if len(name) > _LONGEST_SERVER_NAME:
        return f"its name is longer than {_LONGEST_SERVER_NAME} letters"
    if not _SERVER_NAME.fullmatch(name):
        return "a name is letters, digits, dashes, and single underscores between them"
    return None


class ReachTable(ConfigTable):
    """What an agent may reach (`allow`), or may not (`deny`). A deny counts before an allow."""

    servers: Annotated[
        Names | UnsetType,
        Meta(description="MCP servers, by name or glob.", examples=[["postgres", "browser_*"]]),
    ] = UNSET
    tools: Annotated[
        _ByServer | UnsetType,
        Meta(
            description="Tools by server, each by name or glob. In allow: a server that is not listed here has all of "
            "its tools. The servers may be globs, too.",
            examples=[{"postgres": ["query", "list_*"]}],
        ),
    ] = UNSET
    resources: Annotated[
        _ByServer | UnsetType,
        Meta(
            description="Resources by server, as globs over their URIs. Needed where allow.tools narrows the server.",
            examples=[{"postgres": ["schema://*"]}],
        ),
    ] = UNSET
    prompts: Annotated[
        _ByServer | UnsetType,
        Meta(
            description="Prompts by server, by name or glob. Needed where allow.tools narrows the server.",
            examples=[{"postgres": ["explain_*"]}],
        ),
    ] = UNSET


# `$` alone would let a trailing newline pass; editors' regular expressions know no \Z.
_Token = Annotated[str, Meta(pattern=r"^sha256:[0-9a-fA-F]{64}(?!\n)$")]


class AgentTable(ConfigTable):
    """One agent: what it may reach, and how it proves who it is. Its name may be a glob."""

    allow: Annotated[
        ReachTable | UnsetType, Meta(description="What it may reach.", examples=[{"servers": ["postgres"]}])
    ] = UNSET
    deny: Annotated[
        ReachTable | UnsetType,
        Meta(description="What it may not reach, whatever allow says.", examples=[{"tools": {"postgres": ["drop_*"]}}]),
    ] = UNSET
    description: Annotated[
        str | UnsetType, Meta(description="What the agent is for.", examples=["works on the database"])
    ] = UNSET
    token: Annotated[
        _Token | list[_Token] | UnsetType,
        Meta(
            description="The hash of the agent's token, as `byleave agents token` prints it; or several.",
            examples=["sha256:" + 64 * "0"],
            extra={"hint": "write the line that `byleave agents token` prints: sha256: and 64 hex digits"},
        ),
    ] = UNSET
    jwt: Annotated[
        str | list[str] | UnsetType,
        Meta(
            description="What the agent claim of a JSON Web Token says when it means this agent; or several words.",
            examples=["build-robot@example.com"],
        ),
    ] = UNSET


class IssuerTable(ConfigTable):
    """Whose JSON Web Tokens say who is calling. `exp` and `aud` are always required."""

    issuer: Annotated[str, Meta(description="What `iss` must be.", examples=["https://id.example.com"])]
    audience: Annotated[
        str | list[str] | UnsetType,
        Meta(description="What `aud` must hold: this gateway (default: public_url).", examples=["byleave"]),
    ] = UNSET
    jwks: Annotated[
        str | UnsetType,
        Meta(
            description="The keys: a file, or a URL (https, and not in a project's file) (default: where the issuer's "
            "metadata says, by RFC 8414 or OpenID Connect Discovery).",
            examples=["keys.json", "https://id.example.com/jwks.json"],
        ),
    ] = UNSET
    agent_claim: Annotated[
        str | UnsetType,
        Meta(
            description="The claim that names the agent (default: sub in gateway.jwt; in gateway.issuers none: only "
            "gateway.identities say which agent a token means).",
            examples=["sub"],
        ),
    ] = UNSET
    algorithms: Annotated[
        list[Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]]
        | UnsetType,
        Meta(description="Accepted signatures; asymmetric ones only (default: all of them).", examples=[["ES256"]]),
    ] = UNSET


class TelemetryTable(ConfigTable):
    """Where the gateway sends traces and figures by OTLP: docs/telemetry.md. Not in a project's file."""

    endpoint: Annotated[
        str | UnsetType,
        Meta(
            description="The collector's base URL, to which /v1/traces and /v1/metrics are added (default: what "
            "OTEL_EXPORTER_OTLP_ENDPOINT says).",
            examples=["http://127.0.0.1:4318"],
        ),
    ] = UNSET
    service_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType,
        Meta(description="service.name (default: OTEL_SERVICE_NAME, then byleave).", examples=["byleave"]),
    ] = UNSET
    traces: Annotated[bool | UnsetType, Meta(description="Whether spans are sent (default: true).")] = UNSET
    metrics: Annotated[bool | UnsetType, Meta(description="Whether figures are sent (default: true).")] = UNSET
    sample: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | UnsetType,
        Meta(
            description="Which part of the traces that begin here is sent (default: OTEL_TRACES_SAMPLER, then all). A "
            "trace that began at the caller is sent if the caller says so.",
            examples=[0.1],
        ),
    ] = UNSET
    interval: Annotated[
        Annotated[float, Meta(ge=1, le=3600)] | UnsetType,
        Meta(description="Seconds between two exports of figures (default: 60).", examples=[60]),
    ] = UNSET


class IdentityTable(ConfigTable):
    """Which agent a JSON Web Token means, by its claims. The first that matches counts."""

    match: Annotated[
        dict[str, str | bool],
        Meta(
            description="Claims that the token must have, all of them: by name or path (realm_access.roles), each with "
            "a text, a glob, or true or false. A list matches if it holds the value. iss is one of the issuers.",
            examples=[{"iss": "https://id.example.com", "groups": "builders"}],
        ),
    ]
    agent: Annotated[str, Meta(description="The agent that it means, which no caller can merely claim to be.")]


class ScopeTable(ConfigTable):
    """What a JSON Web Token must hold a scope for."""

    servers: Annotated[
        list[str] | UnsetType,
        Meta(description="MCP servers with all they have, by name or glob.", examples=[["postgres"]]),
    ] = UNSET
    tools: Annotated[
        dict[str, list[str]] | UnsetType,
        Meta(description="Tools by server, each by name or glob.", examples=[{"github": ["create_*", "delete_*"]}]),
    ] = UNSET
    all: Annotated[bool | UnsetType, Meta(description="Every request needs it; alone, without servers and tools.")] = (
        UNSET
    )


_Size = Annotated[int, Meta(ge=1, le=LARGEST)] | str | UnsetType
_Seconds = Annotated[float, Meta(gt=0, le=_DAY)] | UnsetType
_Count = Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType


class LimitTable(ConfigTable):
    """How many calls are taken of some agents, to some servers and tools."""

    agent: Annotated[
        str | UnsetType, Meta(description="Whose calls, by name or glob (default: all).", examples=["ci-*"])
    ] = UNSET
    server: Annotated[
        str | UnsetType, Meta(description="To which servers, by name or glob (default: all).", examples=["postgres"])
    ] = UNSET
    tool: Annotated[
        str | UnsetType, Meta(description="Of which tools, by name or glob (default: all).", examples=["query"])
    ] = UNSET
    each: Annotated[
        list[Literal["agent", "server", "tool"]] | UnsetType,
        Meta(
            description="What is counted apart (default: each agent); an empty list counts all of them together.",
            examples=[["agent", "tool"]],
        ),
    ] = UNSET
    rate: Annotated[_Count, Meta(description="Calls in a minute.", examples=[60])] = UNSET
    max_calls: Annotated[_Count, Meta(description="Calls that are open at a time.", examples=[4])] = UNSET


class GatewayTable(ConfigTable):
    """The MCP gateway, `byleave mcp`."""

    expose: Annotated[
        Literal["flat", "discovery", "both"] | UnsetType,
        Meta(
            description="flat: every permitted tool as server__tool. discovery: three tools that find and run the "
            "others. both: all of them.",
            examples=["flat"],
        ),
    ] = UNSET
    pin_tools: Annotated[
        bool | UnsetType,
        Meta(description="A tool whose definition changes waits until a person has seen it (default: true)."),
    ] = UNSET
    new_tools: Annotated[
        Literal["serve", "ask"] | UnsetType,
        Meta(
            description="What becomes of a tool, prompt or template that a known server has not listed before. serve: "
            "it is recorded and served. ask: it is hidden until a person approves it.",
            examples=["ask"],
        ),
    ] = UNSET
    require_identity: Annotated[
        bool | UnsetType, Meta(description="Refuse callers that do not prove who they are.")
    ] = UNSET
    default_agent: Annotated[
        str | UnsetType, Meta(description="Who a caller is that names no agent.", examples=["default"])
    ] = UNSET
    approve: Annotated[
        Literal["client", "person"] | UnsetType,
        Meta(
            description="Who answers when the policy asks. client: a form that the client shows. person: only "
            "`byleave approvals`: no agent approves its own call (default: client over stdio, person over HTTP).",
            examples=["person"],
        ),
    ] = UNSET
    max_body: Annotated[
        _Size, Meta(description="Bytes of one message, or text with a unit (default: 8 MB).", examples=["8 MB"])
    ] = UNSET
    max_result: Annotated[
        _Size,
        Meta(description="Bytes of one result, or text with a unit (default: any number).", examples=["20 MB"]),
    ] = UNSET
    call_timeout: Annotated[
        _Seconds, Meta(description="Seconds that a server has for one call (default: 300).", examples=[300])
    ] = UNSET
    ask_timeout: Annotated[
        _Seconds, Meta(description="Seconds that a person has to answer (default: 60).", examples=[60])
    ] = UNSET
    max_calls: Annotated[
        _Count, Meta(description="Open requests of one session at a time (default: 64).", examples=[64])
    ] = UNSET
    max_sessions: Annotated[_Count, Meta(description="Open sessions at a time (default: 1000).", examples=[1000])] = (
        UNSET
    )
    max_sessions_per_caller: Annotated[
        _Count, Meta(description="Open sessions of one caller at a time (default: 500).", examples=[500])
    ] = UNSET
    max_connections: Annotated[
        _Count, Meta(description="Connections over HTTP at a time (default: 1024).", examples=[1024])
    ] = UNSET
    max_connections_per_caller: Annotated[
        _Count, Meta(description="Connections of one caller at a time (default: 512).", examples=[512])
    ] = UNSET
    max_connections_per_peer: Annotated[
        _Count,
        Meta(
            description="Connections of one address (on this machine: of one user) that have not shown who is calling "
            "(default: 512).",
            examples=[512],
        ),
    ] = UNSET
    trusted_proxies: Annotated[
        list[str] | UnsetType,
        Meta(
            description="Addresses or networks of proxies that are believed about the addresses of clients, for limits "
            "and records; never about who is calling.",
            examples=[["10.0.0.0/8", "::1"]],
        ),
    ] = UNSET
    proxy_header: Annotated[
        Literal["x-forwarded-for", "forwarded"] | UnsetType,
        Meta(
            description="The header in which trusted_proxies name the client (default: x-forwarded-for).",
            examples=["forwarded"],
        ),
    ] = UNSET
    metrics_agents: Annotated[
        list[str] | UnsetType,
        Meta(
            description="Agents whose token shows the figures of all agents at /metrics; others see their own.",
            examples=[["prometheus"]],
        ),
    ] = UNSET
    max_processes: Annotated[
        _Count,
        Meta(
            description="Servers that run at a time as processes of the gateway; further ones wait (default: 200).",
            examples=[200],
        ),
    ] = UNSET
    rate: Annotated[
        _Count, Meta(description="Calls of one agent in a minute (default: any number).", examples=[600])
    ] = UNSET
    limits: Annotated[
        list[LimitTable] | UnsetType,
        Meta(
            description="Further limits of calls; a call is taken if all of them that are about it have room.",
            examples=[[{"server": "postgres", "each": [], "rate": 600, "max_calls": 20}]],
        ),
    ] = UNSET
    public_url: Annotated[
        str | UnsetType,
        Meta(
            description="The URL by which clients reach the gateway: the resource that tokens are for.",
            examples=["https://mcp.example.com/mcp"],
        ),
    ] = UNSET
    jwt: Annotated[
        IssuerTable | UnsetType,
        Meta(
            description="Whose JSON Web Tokens say who is calling; they may name agents by the words of agents.*.jwt.",
            examples=[{"issuer": "https://id.example.com", "audience": "byleave", "jwks": "keys.json"}],
        ),
    ] = UNSET
    issuers: Annotated[
        list[IssuerTable] | UnsetType,
        Meta(
            description="Further issuers of tokens, each with keys of its own.",
            examples=[[{"issuer": "https://id.example.com"}]],
        ),
    ] = UNSET
    identities: Annotated[
        list[IdentityTable] | UnsetType,
        Meta(
            description="Which agents tokens mean, by their claims; the first that matches counts.",
            examples=[[{"match": {"groups": "builders"}, "agent": "builder"}]],
        ),
    ] = UNSET
    scopes: Annotated[
        dict[str, ScopeTable] | UnsetType,
        Meta(
            description="What a token must hold a scope for.",
            examples=[{"tools:write": {"tools": {"github": ["create_*"]}}}],
        ),
    ] = UNSET
    log_format: Annotated[
        Literal["text", "json"] | UnsetType,
        Meta(description="How the gateway writes its log to standard error (default: text).", examples=["json"]),
    ] = UNSET
    access_log: Annotated[
        bool | str | UnsetType,
        Meta(
            description="One line for each HTTP request. true: to standard error. A path that begins with / or ~/: to "
            "that file, which a project's file cannot name (default: false).",
            examples=[True, "~/byleave-access.log"],
        ),
    ] = UNSET
    telemetry: Annotated[
        TelemetryTable | UnsetType,
        Meta(
            description="Where the gateway sends traces and figures by OTLP. Not in a project's file.",
            examples=[{"endpoint": "http://127.0.0.1:4318"}],
        ),
    ] = UNSET
