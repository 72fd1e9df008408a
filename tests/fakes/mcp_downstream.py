"""A downstream server with everything that the protocol has, written with the official SDK.

    python mcp_downstream.py stdio [modern]     over standard input and output
    python mcp_downstream.py web                over streamable HTTP, HTTP with a stream, and streamable HTTP without a
                                                handshake; the addresses are the first line of output, as JSON

`modern`: it speaks the stateless revision alone. What servers want of the client they ask in both ways: by a request
where there is a handshake, else by a result that says what is needed.
"""

import asyncio
import json
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import runner
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

Context = ServerRequestContext[Any, Any]
Called = types.CallToolResult | types.InputRequiredResult
Doing = Callable[[Context, types.CallToolRequestParams], Awaitable[Called]]

PIXEL = "iVBORw0KGgo="
SOUND = "UklGRg=="
SCHEMA = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
REFUSAL = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": "2025-11-25"}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def schema(required: tuple[str, ...] = (), **properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(required),
    }


def text(words: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], **more)


def tool(name: str, **more: Any) -> types.Tool:
    given: dict[str, Any] = {"description": f"It is called {name}.", "input_schema": schema(), **more}
    return types.Tool(name=name, **given)


class Rich:
    """The state of the server, and what it does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bus = InMemorySubscriptionBus()
        self.level = "info"
        self.grown = False
        self.waiting = 0
        self.cancelled = 0
        self.subscribed: set[str] = set()
        self.tools = [
            tool(
                "add",
                title="Addition",
                input_schema=schema(("a", "b"), a="integer", b="integer"),
                output_schema=schema(("sum",), sum="integer"),
                annotations=types.ToolAnnotations(title="Add", read_only_hint=True, open_world_hint=False),
                icons=[types.Icon(src="data:image/png;base64,AA==", mime_type="image/png")],
                _meta={"example.com/shelf": 3},
            ),
            tool("remove", annotations=types.ToolAnnotations(destructive_hint=True, idempotent_hint=True)),
            *map(tool, ("fail", "broken", "meta", "steps", "log", "sample", "confirm", "roots", "wait", "waited")),
            *map(tool, ("mixed", "grow", "subscribed", "loop", "echo", "abilities")),
            tool("big", input_schema=schema(length="integer")),
            tool("touch", input_schema=schema(("uri",), uri="string")),
            tool(
                "region",
                input_schema={
                    "type": "object",
                    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
                },
            ),
        ]

    def server(self) -> Server[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            return Server(
                self.name,
                version="1",
                instructions=f"How {self.name} is used.",
                on_list_tools=self.list_tools,
                on_call_tool=self.call,
                on_list_resources=self.list_resources,
                on_list_resource_templates=self.list_templates,
                on_read_resource=self.read,
                on_subscribe_resource=self.subscribe,
                on_unsubscribe_resource=self.unsubscribe,
                on_subscriptions_listen=ListenHandler(self.bus),
                on_list_prompts=self.list_prompts,
                on_get_prompt=self.get_prompt,
                on_completion=self.complete,
                on_set_logging_level=self.set_level,
            )

    # ---- Tools ---------------------------------------------------------------------------------------------------

    async def list_tools(self, _ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is None or params.cursor is None:
            return types.ListToolsResult(tools=self.tools[:8], next_cursor="more")
        grown = [tool("grown")] if self.grown else []
        return types.ListToolsResult(tools=[*self.tools[8:], *grown])

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        do: Doing | None = getattr(self, f"do_{params.name}", None)
        if do is None:
            return text(f"{self.name}: {params.name} done")
        return await do(ctx, params)

    async def do_add(self, _ctx: Context, params: types.CallToolRequestParams) -> Called:
        given = params.arguments or {}
        total = given["a"] + given["b"]
        return text(str(total), structured_content={"sum": total})

    async def do_echo(self, _ctx: Context, params: types.CallToolRequestParams) -> Called:
        return text(json.dumps(params.arguments), structured_content={"arguments": params.arguments})

    async def do_fail(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("out of order", is_error=True, structured_content={"code": 7}, _meta={"example.com/try": "later"})

    async def do_broken(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        raise MCPError(-31999, "it is broken", {"part": "axle"})

    async def do_meta(self, _ctx: Context, params: types.CallToolRequestParams) -> Called:
        seen = {key: value for key, value in dict(params.meta or {}).items() if key.startswith("example.com/")}
        return text("see there", structured_content={"seen": seen}, _meta={"example.com/answer": [1, {"b": None}]})

    async def do_steps(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        for step in (1, 2, 3):
            await ctx.session.report_progress(step, 3, f"step {step}")
        return text("done")

    async def do_log(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        levels: tuple[types.LoggingLevel, ...] = ("debug", "info", "error")
        for level in levels:
            if modern or LEVELS.index(level) >= LEVELS.index(self.level):
                await ctx.session.send_log_message(level, {"said": level}, "shelf", ctx.request_id)
        return text("logged")

    async def do_sample(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        messages = [types.SamplingMessage(role="user", content=types.TextContent(text="What is it?"))]
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            wish = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=10))
            return await self.wanting(params, wish)
        sampled = await ctx.session.create_message(messages, max_tokens=10, related_request_id=ctx.request_id)
        return text(sampled.model_dump_json(by_alias=True, exclude_none=True))

    async def do_confirm(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(message="Really?", requested_schema=SCHEMA)
            return await self.wanting(params, types.ElicitRequest(params=form))
        said = await ctx.session.elicit_form("Really?", SCHEMA, ctx.request_id)
        return text(said.model_dump_json(by_alias=True, exclude_none=True))

    async def do_roots(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self.wanting(params, types.ListRootsRequest())
        said = await ctx.session.list_roots()
        return text(said.model_dump_json(by_alias=True, exclude_none=True))

    async def wanting(self, params: types.CallToolRequestParams, wish: types.InputRequest) -> Called:
        answers = params.input_responses or {}
        if "wish" not in answers or params.request_state != "half way":
            return types.InputRequiredResult(input_requests={"wish": wish}, request_state="half way")
        return text(answers["wish"].model_dump_json(by_alias=True, exclude_none=True))

    async def do_loop(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        """Want nothing, again and again: a stateless server may say that it needs more time."""
        count = int(params.request_state or 0) + 1
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or count > 3:
            return text(f"round {count}")
        return types.InputRequiredResult(request_state=str(count))

    async def do_wait(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        self.waiting += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return text("nobody cancelled it")

    async def do_waited(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("", structured_content={"waiting": self.waiting, "cancelled": self.cancelled})

    async def do_big(self, _ctx: Context, params: types.CallToolRequestParams) -> Called:
        return text("x" * int((params.arguments or {}).get("length", 10)))

    async def do_mixed(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        note = types.TextResourceContents(uri="note://inside", mime_type="text/plain", text="inside")
        blob = types.BlobResourceContents(uri="note://blob", blob="AAEC")
        return types.CallToolResult(
            content=[
                types.TextContent(text="plain", annotations=types.Annotations(audience=["user"], priority=0.5)),
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                types.AudioContent(data=SOUND, mime_type="audio/wav"),
                types.EmbeddedResource(resource=note),
                types.EmbeddedResource(resource=blob),
                types.ResourceLink(name="first", uri="note://first"),
            ]
        )

    async def do_region(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        headers = {} if ctx.request is None else dict(ctx.request.headers)
        names = ("mcp-param-region", "mcp-name", "mcp-method", "mcp-protocol-version", "authorization")
        told = {name: headers[name] for name in names if name in headers}
        return text("told", structured_content={"arguments": params.arguments, "headers": told})

    async def do_grow(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        self.grown = True
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_tool_list_changed()
            await ctx.session.send_prompt_list_changed()
            await ctx.session.send_resource_list_changed()
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self.bus.publish(event)
        return text("grown")

    async def do_touch(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        uri = (params.arguments or {})["uri"]
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_resource_updated(uri)
        await self.bus.publish(ResourceUpdated(uri=uri))
        return text("touched")

    async def do_abilities(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        able = ctx.session.client_capabilities
        known = {} if able is None else able.model_dump(by_alias=True, exclude_none=True)
        return text("", structured_content={"able": sorted(known)})

    async def do_subscribed(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("", structured_content={"uris": sorted(self.subscribed)})

    # ---- Resources -----------------------------------------------------------------------------------------------

    async def list_resources(
        self, _ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        first = params is None or params.cursor is None
        name = "first" if first else "second"
        resource = types.Resource(
            name=name, uri=f"{self.name}://{name}", mime_type="text/plain", size=5, _meta={"example.com/n": name}
        )
        return types.ListResourcesResult(resources=[resource], next_cursor="2" if first else None)

    async def list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(name="made", uri_template=f"{self.name}://made/{{what}}", title="Made")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        if uri.endswith("/missing"):
            raise MCPError(-32002, "there is none", {"uri": uri})
        if uri.endswith("/asks"):
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                answers = params.input_responses or {}
                if "wish" not in answers:
                    form = types.ElicitRequestFormParams(message="Read?", requested_schema=SCHEMA)
                    return types.InputRequiredResult(
                        input_requests={"wish": types.ElicitRequest(params=form)}, request_state="reading"
                    )
                said = answers["wish"]
            else:
                said = await ctx.session.elicit_form("Read?", SCHEMA, ctx.request_id)
            words = said.model_dump_json(by_alias=True, exclude_none=True)
            return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=words)])
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"{self.name} has {uri}"),
                types.BlobResourceContents(uri=uri, blob="AAEC"),
            ]
        )

    async def subscribe(self, _ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, _ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.discard(str(params.uri))
        return types.EmptyResult()

    # ---- Prompts -------------------------------------------------------------------------------------------------

    async def list_prompts(self, _ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        if params is None or params.cursor is None:
            whom = types.PromptArgument(name="whom", description="Who is greeted.", required=True)
            return types.ListPromptsResult(
                prompts=[types.Prompt(name="greet", title="Greeting", arguments=[whom])], next_cursor="2"
            )
        return types.ListPromptsResult(prompts=[types.Prompt(name="leave", _meta={"example.com/n": 2})])

    async def get_prompt(self, _ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name not in ("greet", "leave"):
            raise MCPError(types.INVALID_PARAMS, "there is no such prompt")
        words = f"{params.name} {(params.arguments or {}).get('whom', 'nobody')}"
        message = types.PromptMessage(role="user", content=types.TextContent(text=words))
        return types.GetPromptResult(description="As asked.", messages=[message], _meta={"example.com/p": True})

    async def complete(self, _ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        about = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        context = "" if params.context is None else json.dumps(params.context.arguments)
        values = [f"{about}:{params.argument.name}={params.argument.value}{context}"]
        return types.CompleteResult(completion=types.Completion(values=values, total=1, has_more=False))

    async def set_level(self, _ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.level = params.level
        return types.EmptyResult()


CHANGING = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


async def over_stdio(*, modern: bool) -> None:
    server = Rich("rich" if not modern else "modern").server()
    async with stdio_server() as (reading, writing):
        if modern:
            async with server.lifespan(server) as state:
                await runner._serve_modern_stream(  # noqa: SLF001 -- elsewhere the first request decides
                    server, reading, writing, lifespan_state=state, raise_exceptions=False
                )
        else:
            await server.run(reading, writing, server.create_initialization_options(CHANGING))


class WithoutHandshake:
    """Refuses `initialize`, as a server does that never heard of it; everything else goes to the SDK's."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(name == b"mcp-method" for name, _value in scope["headers"]):
            await self._app(scope, receive, send)
            return
        problem = {"code": types.UNSUPPORTED_PROTOCOL_VERSION, "message": "no handshake", "data": REFUSAL}
        body = await Request(scope, receive).body()
        answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"] if body else None, "error": problem}
        await JSONResponse(answer, status_code=400)(scope, receive, send)


def stream_app(server: Server[Any]) -> Starlette:
    transport = SseServerTransport("/messages/")

    async def serve(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reading, writing):  # noqa: SLF001 -- as the SDK shows it
            await server.run(reading, writing, server.create_initialization_options(CHANGING))
        return Response()

    return Starlette(routes=[Route("/sse", serve), Mount("/messages/", app=transport.handle_post_message)])


async def over_the_web() -> None:
    apps: dict[str, tuple[Any, str]] = {
        "web": (Rich("web").server().streamable_http_app(), "mcp"),
        "stream": (stream_app(Rich("stream").server()), "sse"),
        "modern": (WithoutHandshake(Rich("modern").server().streamable_http_app()), "mcp"),
    }
    addresses, running = {}, []
    for name, (app, path) in apps.items():
        listening = socket.create_server(("127.0.0.1", 0))
        addresses[name] = f"http://127.0.0.1:{listening.getsockname()[1]}/{path}"
        config = uvicorn.Config(app, log_level="error", lifespan="on" if path == "mcp" else "off")
        running.append(uvicorn.Server(config).serve(sockets=[listening]))
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*running)


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(over_the_web() if sys.argv[1] == "web" else over_stdio(modern="modern" in sys.argv))
