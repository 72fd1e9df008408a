"""A language model that says what the prompt tells it to: loopback only, standard library only.

Speaks OpenAI chat completions, OpenAI responses, Anthropic messages and Gemini generateContent, streaming or not, so
that a real coding agent can be driven without an account. The script travels inside the user's prompt:

    @@script[{"name": "bash", "args": {"command": "ls"}}, {"text": "done"}]@@end

The model's N-th turn after that prompt plays step N: a tool call, a list of parallel tool calls, or a text. Prompts
without a script, and requests without tools (titles, summaries), are answered "ok".

usage: mockllm.py [--port N] [--log FILE]      port 0 (default) takes a free one; the first line printed is the base URL
"""

import argparse
import gzip
import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

SCRIPT = re.compile(r"@@script(.*?)@@end", re.DOTALL)
MODELS = ("mock", "mock-model", "gpt-5", "gemini-2.5-pro", "gemini-2.5-flash", "claude-sonnet-4-5")
TOOL_PARTS = ("tool_result", "tool_use", "function_call", "function_call_output")
SPOKEN = ("function_call", "custom_tool_call", "local_shell_call", "reasoning")
USER, ASSISTANT, TOOL = "user", "assistant", "tool"
OK = {"text": "ok"}

Tree = dict[str, Any]
Said = list[tuple[str, str]]  # role and text, in order


def name(prefix: str, letters: int = 12) -> str:
    return prefix + uuid.uuid4().hex[:letters]


def text_of(content: Any) -> str:
    """Return all plain text of a message's content, whatever its shape; tool calls and results have none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if not isinstance(content, dict) or content.get("type") in TOOL_PARTS:
        return ""
    if "functionCall" in content or "functionResponse" in content:
        return ""
    return content.get("text") or text_of(content.get("content")) or text_of(content.get("parts")) or ""


def choose(said: Said) -> Any:
    """Return the step to play now."""
    script: Any = None
    turns, was_assistant = 0, False
    for role, text in said:
        if role == USER and (found := SCRIPT.findall(text)):
            turns = 0
            try:
                script = json.loads(found[-1])
            except ValueError as error:
                script = [{"text": f"bad script: {error}"}]
        elif role == ASSISTANT and not was_assistant:
            turns += 1
        was_assistant = role == ASSISTANT
    if script is None:
        return OK
    return script[turns] if turns < len(script) else {"text": "script finished"}


def calls_of(step: Any) -> list[Tree]:
    return step if isinstance(step, list) else [step] if "name" in step else []


def words_of(step: Any) -> str:
    return step.get("text", "") if isinstance(step, dict) else ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: ClassVar[Path | None] = None
    lock: ClassVar[threading.Lock] = threading.Lock()

    def log_message(self, *_words: object) -> None:  # nobody wants to read it
        return

    def do_HEAD(self) -> None:
        self._reply(b"", "text/plain")

    def do_GET(self) -> None:
        self._note(None)
        if "models" not in self.path:
            self._json({})
            return
        listed = [
            {
                "id": model,
                "object": "model",
                "type": "model",
                "display_name": model,
                "created": 0,
                "owned_by": "mock",
                "context_length": 200000,
            }
            for model in MODELS
        ]
        named = [{"name": f"models/{model}"} for model in MODELS]
        self._json({"object": "list", "has_more": False, "models": named, "data": listed})

    def do_POST(self) -> None:
        try:
            body = json.loads(self._body() or b"{}")
        except ValueError:
            body = {}
        self._note(body)
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._openai_chat(body)
        elif path.endswith("/responses"):
            self._openai_responses(body)
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif "enerateContent" in path:
            self._gemini(body, stream="stream" in path)
        elif path.endswith("/count_tokens"):
            self._json({"input_tokens": 100})
        else:
            self._json({"totalTokens": 100} if ":countTokens" in path else {})

    def _openai_chat(self, body: Tree) -> None:
        said = [(message["role"], text_of(message.get("content"))) for message in body.get("messages", [])]
        step = choose(said) if body.get("tools") else OK
        calls = [
            {
                "index": number,
                "id": name("call_"),
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
            }
            for number, call in enumerate(calls_of(step))
        ]
        end = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": name("chatcmpl-"), "created": int(time.time()), "model": body.get("model", "mock")}
        if not body.get("stream"):
            message: Tree = {"role": "assistant", "content": words_of(step) or (None if calls else "")}
            if calls:
                message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in calls]
            choices = [{"index": 0, "message": message, "finish_reason": end}]
            self._json({**base, "object": "chat.completion", "usage": usage, "choices": choices})
            return

        def chunk(delta: Tree, finish: str | None = None) -> Tree:
            choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
            return {**base, "object": "chat.completion.chunk", "choices": choices}

        events = [chunk({"role": "assistant", "content": words_of(step)})]
        if calls:
            events.append(chunk({"tool_calls": calls}))
        self._stream([*events, {**chunk({}, end), "usage": usage}], "[DONE]")

    def _openai_responses(self, body: Tree) -> None:
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        step = choose([spoken for item in items if (spoken := _spoken(item)) is not None])
        out = [_response_call(call) for call in calls_of(step)] or [
            {
                "type": "message",
                "id": name("msg_", 8),
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": words_of(step) or "ok", "annotations": []}],
            }
        ]
        response: Tree = {
            "id": name("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": body.get("model"),
            "output": out,
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "total_tokens": 15,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }
        if not body.get("stream"):
            self._json(response)
            return
        begun = {**response, "status": "in_progress", "output": []}
        events: list[Tree] = [{"type": "response.created", "response": begun}]
        for number, item in enumerate(out):
            events.append({"type": "response.output_item.added", "output_index": number, "item": item})
            events.append({"type": "response.output_item.done", "output_index": number, "item": item})
        self._typed_stream([*events, {"type": "response.completed", "response": response}])

    def _anthropic(self, body: Tree) -> None:
        step = choose([_heard(message) for message in body.get("messages", [])]) if body.get("tools") else OK
        content: list[Tree] = [
            {"type": "tool_use", "id": name("toolu_", 16), "name": call["name"], "input": call["args"]}
            for call in calls_of(step)
        ]
        stop = "tool_use" if content else "end_turn"
        content = content or [{"type": "text", "text": words_of(step) or "ok"}]
        message: Tree = {
            "id": name("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }
        if not body.get("stream"):
            self._json(message)
            return
        events: list[Tree] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for number, block in enumerate(content):
            if block["type"] == "tool_use":
                empty: Tree = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            else:
                empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            events.append({"type": "content_block_start", "index": number, "content_block": empty})
            events.append({"type": "content_block_delta", "index": number, "delta": delta})
            events.append({"type": "content_block_stop", "index": number})
        ended = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}})
        self._typed_stream([*events, {"type": "message_stop"}])

    def _gemini(self, body: Tree, *, stream: bool) -> None:
        settings = body.get("generationConfig") or {}
        wants_json = settings.get("responseMimeType") == "application/json"
        if wants_json or settings.get("responseJsonSchema") or settings.get("responseSchema"):
            # What Gemini CLI asks for besides: who speaks next, which model is best, how a string was meant.
            whats = {"reasoning": "mock", "next_speaker": "user", "model_choice": "flash", "complexity_reasoning": "x"}
            step: Any = {"text": json.dumps({**whats, "complexity_score": 1, "corrected_string_escaping": ""})}
        else:
            said = [_turned(content) for content in body.get("contents", [])]
            step = choose(said) if body.get("tools") else OK
        parts: list[Tree] = [{"functionCall": {"name": c["name"], "args": c["args"]}} for c in calls_of(step)]
        content = {"role": "model", "parts": parts or [{"text": words_of(step) or "ok"}]}
        answer = {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "mock",
        }
        if stream:
            self._stream([answer])
        else:
            self._json(answer)

    def _body(self) -> bytes:
        if (self.headers.get("transfer-encoding") or "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def _reply(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _json(self, tree: Tree) -> None:
        self._reply(json.dumps(tree).encode(), "application/json")

    def _stream(self, events: Iterable[Tree], last: str | None = None) -> None:
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self._reply("".join([*lines, f"data: {last}\n\n"] if last else lines).encode(), "text/event-stream")

    def _typed_stream(self, events: Iterable[Tree]) -> None:
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self._reply("".join(lines).encode(), "text/event-stream")

    def _note(self, body: Tree | None) -> None:
        if self.log is None:
            return
        line = {"time": time.time(), "method": self.command, "path": self.path, "body": body}
        with self.lock, self.log.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def _spoken(item: Tree) -> tuple[str, str] | None:
    """Return who spoke in an item of OpenAI's responses, and what; None for an item that is neither."""
    kind = item.get("type") or ""
    if kind in SPOKEN or item.get("role") == ASSISTANT:
        return ASSISTANT, ""
    if kind.endswith("_output"):
        return TOOL, ""
    return (USER, text_of(item.get("content"))) if item.get("role") == USER else None


def _response_call(call: Tree) -> Tree:
    made = {"id": name("fc_", 8), "call_id": name("call_"), "name": call["name"], "status": "completed"}
    if call.get("custom"):
        return {"type": "custom_tool_call", **made, "input": call["args"]}
    return {"type": "function_call", **made, "arguments": json.dumps(call["args"])}


def _heard(message: Tree) -> tuple[str, str]:
    content = message["content"]
    brings_results = isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)
    return (TOOL, "") if message["role"] == USER and brings_results else (message["role"], text_of(content))


def _turned(content: Tree) -> tuple[str, str]:
    parts = content.get("parts", [])
    if content.get("role") == "model":
        return ASSISTANT, ""
    return (TOOL, "") if any("functionResponse" in part for part in parts) else (USER, text_of(parts))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    Handler.log = given.log
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
