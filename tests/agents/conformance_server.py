"""The server that the official conformance suite asks for, written with the official SDK.

`python conformance_server.py` serves over HTTP. It speaks every revision at one address, which is the first line of
output. What each tool, prompt and resource does is laid down by the suite's scenarios, and so are their names.
"""

import asyncio
import hmac
import json
import secrets
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Called = types.CallToolResult | types.InputRequiredResult
Doing = Callable[[Context, types.CallToolRequestParams], Awaitable[Called]]
Wishes = dict[str, types.InputRequest]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MISSING_CAPABILITY = -32021
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
NEW_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
CHOICES = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


def form(message: str, **properties: Any) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=types.TextContent(text=words))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=100))


def text(words: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], **more)


def embedded(uri: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="text/plain", text=words))


TEXT: dict[str, Any] = {"type": "string"}
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "test_sampling": {"type": "object", "properties": {"prompt": TEXT}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": TEXT}, "required": ["message"]},
    "test_custom_header": {"type": "object", "properties": {"region": {**TEXT, "x-mcp-header": "Region"}}},
    "json_schema_2020_12_tool": NEW_SCHEMA,
}
PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="A prompt without arguments."),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="A prompt with two arguments.",
        arguments=[types.PromptArgument(name=name, required=True) for name in ("arg1", "arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A prompt that holds a resource.",
        arguments=[types.PromptArgument(name="resourceUri", required=True)],
    ),
    types.Prompt(name="test_prompt_with_image", description="A prompt that holds an image."),
    types.Prompt(name="test_input_required_result_prompt", description="A prompt that has to know more first."),
]


class Everything:
    """What the scenarios ask for."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.level = "info"
        self._key = secrets.token_bytes(16)
        names = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
        self.tools = [
            types.Tool(name=name, description=f"It is called {name}.", input_schema=SCHEMAS.get(name, NOTHING))
            for name in sorted(names, key=lambda name: (name != "test_simple_text", name))
        ]

    def server(self) -> Server[Any]:
        return Server(
            "everything",
            version="1",
            instructions="What the scenarios ask for.",
            get_tool_input_schema=self.schema_of,
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

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        return next((tool.input_schema for tool in self.tools if tool.name == name), None)

    # ---- Tools ---------------------------------------------------------------------------------------------------

    async def list_tools(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        do: Doing | None = getattr(self, f"do_{params.name}", None)
        if do is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name}")
        return await do(ctx, params)

    async def do_test_simple_text(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("This is a simple text response for testing.")

    async def do_json_schema_2020_12_tool(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("done")

    async def do_test_custom_header(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("done")

    async def do_test_image_content(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return types.CallToolResult(content=[types.ImageContent(data=PIXEL, mime_type="image/png")])

    async def do_test_audio_content(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return types.CallToolResult(content=[types.AudioContent(data=SOUND, mime_type="audio/wav")])

    async def do_test_embedded_resource(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return types.CallToolResult(content=[embedded("test://embedded-resource", "This is an embedded resource.")])

    async def do_test_multiple_content_types(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return types.CallToolResult(
            content=[
                types.TextContent(text="Multiple content types test:"),
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                embedded("test://mixed-content-resource", '{"test":"data","value":123}'),
            ]
        )

    async def do_test_error_handling(self, _ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return text("This tool intentionally returns an error for testing", is_error=True)

    async def do_test_tool_with_logging(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.session.send_log_message("info", words, "scenarios", ctx.request_id)
            await asyncio.sleep(0.05)
        return text("logged")

    async def do_test_logging_tool(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        await ctx.session.send_log_message("info", "a line", "scenarios", ctx.request_id)
        return text("logged")

    async def do_test_tool_with_progress(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(0.05)
        return text("done")

    async def do_test_reconnection(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
        await asyncio.sleep(0.2)
        return text("Reconnection test completed")

    # ---- Tools that want something of the client -----------------------------------------------------------------

    async def do_test_sampling(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        words = str((params.arguments or {}).get("prompt"))
        messages = [types.SamplingMessage(role="user", content=types.TextContent(text=words))]
        said = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
        return text(f"LLM response: {said.model_dump_json(by_alias=True, exclude_none=True)}")

    async def do_test_elicitation(self, ctx: Context, params: types.CallToolRequestParams) -> Called:
        return await self._elicited(ctx, str((params.arguments or {}).get("message")), username=TEXT, email=TEXT)

    async def do_test_elicitation_sep1034_defaults(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return await self._elicited(ctx, "Please look at the defaults", **DEFAULTS)

    async def do_test_elicitation_sep1330_enums(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        return await self._elicited(ctx, "Please choose", **CHOICES)

    async def _elicited(self, ctx: Context, message: str, **properties: Any) -> Called:
        schema = {"type": "object", "properties": properties, "required": []}
        said = await ctx.session.elicit_form(message, schema, ctx.request_id)
        return text(f"Elicitation completed: action={said.action}, content={json.dumps(said.content)}")

    async def do_test_missing_capability(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        if "sampling" not in self._abilities(ctx):
            raise MCPError(MISSING_CAPABILITY, "this needs sampling", {"requiredCapabilities": {"sampling": {}}})
        return text("done")

    async def do_test_streaming_elicitation(self, _ctx: Context, params: types.CallToolRequestParams) -> Called:
        return self._wanting(params, {"user_name": form("What is your name?", name=TEXT)})

    async def do_test_input_required_result_elicitation(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        return self._wanting(params, {"user_name": form("What is your name?", name=TEXT)})

    async def do_test_input_required_result_sampling(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        return self._wanting(params, {"capital_question": sample("What is the capital of France?")})

    async def do_test_input_required_result_list_roots(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        return self._wanting(params, {"client_roots": types.ListRootsRequest()})

    async def do_test_input_required_result_request_state(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        return self._wanting(params, {"confirm": form("Please confirm", ok={"type": "boolean"})}, step="confirm")

    async def do_test_input_required_result_tampered_state(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        return self._wanting(params, {"confirm": form("Please confirm", ok={"type": "boolean"})}, step="confirm")

    async def do_test_input_required_result_multiple_inputs(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        wishes: Wishes = {
            "user_name": form("What is your name?", name=TEXT),
            "greeting": sample("Generate a greeting"),
            "client_roots": types.ListRootsRequest(),
        }
        return self._wanting(params, wishes, step="all")

    async def do_test_input_required_result_multi_round(
        self, _ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        second: Wishes = {"step2": form("Step 2: What is your favorite color?", color=TEXT)}
        if params.request_state is None:
            return self._wanting(params, {"step1": form("Step 1: What is your name?", name=TEXT)}, step="one")
        if self._step_of(params.request_state) == "one":
            return types.InputRequiredResult(input_requests=second, request_state=self._sealed("two"))
        return self._wanting(params, second, step="two")

    async def do_test_input_required_result_capabilities(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> Called:
        able = self._abilities(ctx)
        wishes: Wishes = {}
        if "sampling" in able:
            wishes["a_sample"] = sample("Say something")
        if "elicitation" in able:
            wishes["a_form"] = form("What is your name?", name=TEXT)
        return self._wanting(params, wishes)

    def _wanting(self, params: types.CallToolRequestParams, wishes: Wishes, step: str | None = None) -> Called:
        """Say that more has to be known, until all of it is; a state that is not ours is refused."""
        answers = params.input_responses or {}
        if params.request_state is not None and self._step_of(params.request_state) != step:
            raise MCPError(types.INVALID_PARAMS, "the state is not the one that belongs here")
        if not wishes.keys() <= answers.keys() or (step is not None and params.request_state is None):
            return types.InputRequiredResult(
                input_requests=wishes, request_state=None if step is None else self._sealed(step)
            )
        said = {key: json.loads(answers[key].model_dump_json(by_alias=True, exclude_none=True)) for key in wishes}
        return text(f"state-ok {json.dumps(said)}")

    def _sealed(self, step: str) -> str:
        return f"{step}.{hmac.digest(self._key, step.encode(), 'sha256').hex()}"

    def _step_of(self, state: str) -> str:
        step = state.partition(".")[0]
        if not hmac.compare_digest(self._sealed(step).encode(), state.encode()):
            raise MCPError(types.INVALID_PARAMS, "the state was tampered with")
        return step

    @staticmethod
    def _abilities(ctx: Context) -> dict[str, Any]:
        able = ctx.session.client_capabilities
        return {} if able is None else able.model_dump(by_alias=True, exclude_none=True)

    # ---- Changes -------------------------------------------------------------------------------------------------

    async def do_test_trigger_tool_change(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_tool_list_changed()
        await self.bus.publish(ToolsListChanged())
        return text("changed")

    async def do_test_trigger_prompt_change(self, ctx: Context, _params: types.CallToolRequestParams) -> Called:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_prompt_list_changed()
        await self.bus.publish(PromptsListChanged())
        return text("changed")

    # ---- Resources -----------------------------------------------------------------------------------------------

    async def list_resources(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        kinds = {"static-text": "text/plain", "static-binary": "image/png", "watched-resource": "text/plain"}
        listed = [
            types.Resource(name=name, uri=f"test://{name}", description=f"It is called {name}.", mime_type=kind)
            for name, kind in kinds.items()
        ]
        return types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        made = types.ResourceTemplate(
            name="template", uri_template="test://template/{id}/data", mime_type="application/json"
        )
        return types.ListResourceTemplatesResult(resource_templates=[made])

    async def read(self, _ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        id_ = uri.removeprefix("test://template/").removesuffix("/data")
        if uri == "test://static-binary":
            contents: Any = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        elif uri in ("test://static-text", "test://watched-resource"):
            words = "This is the content of the static text resource."
            contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
        elif uri == f"test://template/{id_}/data":
            words = json.dumps({"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"})
            contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=words)
        else:
            raise MCPError(types.INVALID_PARAMS, "there is no such resource", {"uri": uri})
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, _ctx: Context, _params: types.SubscribeRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    async def unsubscribe(self, _ctx: Context, _params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    # ---- Prompts -------------------------------------------------------------------------------------------------

    async def list_prompts(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=PROMPTS)

    async def get_prompt(
        self, _ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given, content = params.arguments or {}, []
        if params.name == "test_simple_prompt":
            content = [types.TextContent(text="This is a simple prompt for testing.")]
        elif params.name == "test_prompt_with_arguments":
            content = [types.TextContent(text=f"arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
        elif params.name == "test_prompt_with_embedded_resource":
            held: Any = embedded(str(given.get("resourceUri")), "Embedded resource content for testing.")
            content = [held, types.TextContent(text="Please process the embedded resource above.")]
        elif params.name == "test_prompt_with_image":
            shown: Any = types.ImageContent(data=PIXEL, mime_type="image/png")
            content = [shown, types.TextContent(text="Please analyze the image above.")]
        elif params.name == "test_input_required_result_prompt":
            said = (params.input_responses or {}).get("user_context")
            if said is None:
                return types.InputRequiredResult(
                    input_requests={"user_context": form("What context should the prompt use?", context=TEXT)}
                )
            content = [types.TextContent(text=said.model_dump_json(by_alias=True, exclude_none=True))]
        else:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in content])

    async def complete(self, _ctx: Context, _params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=["paris", "park"], total=2, has_more=False))

    async def set_level(self, _ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.level = params.level
        return types.EmptyResult()


async def serve() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        app = Everything().server().streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listening])


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(serve())
