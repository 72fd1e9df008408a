"""Local tools in MCP words: how they are listed, what comes of a call, and what they ask.

Blocks that a tool writes have MCP's shapes already; one that no client could read becomes a text that says all of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from byleave.gateway.redact import without_escapes
from byleave.protocol.content import text_block
from byleave.text import quoted, speakable
from byleave.toolhost.argument_schema import description_of, input_schema
from byleave.toolhost.description import NOTHING, SelfDescription
from byleave.toolhost.outcome import CompletedOutcome, FailedOutcome, NeedsInput, StateOutcome, outcome_tree
from byleave.toolhost.spawn import OWN_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.policy.compile import CompiledTool
    from byleave.protocol.content import Block
    from byleave.toolhost.outcome import Outcome

    Tree = dict[str, Any]

_READS = {"readOnlyHint": True, "openWorldHint": False}
_ADDS = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
_CHANGES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}
_HINTS: Mapping[str, Mapping[str, bool]] = {  # of the tools that come with byleave; of others nothing is known
    "fs_read_file": _READS,
    "fs_list_files": _READS,
    "fs_grep_files": _READS,
    "unix_utils": _READS,
    "fs_create_file": _ADDS,
    "fs_modify_file": _CHANGES,
    "fs_delete_file": _CHANGES,
    "fs_move_file": _CHANGES,
}


def definition(tool: CompiledTool, said: SelfDescription = NOTHING) -> Tree:
    """Return a local tool as MCP describes one; `said` is what the tool says of itself."""
    command = tool.settings.get("command") or [""]
    own = command[1] if command[0] == OWN_TOOLS and len(command) > 1 else ""
    tree = {
        "name": tool.name,
        "description": description_of(tool, said),
        "inputSchema": {"type": "object", **input_schema(tool, said)},
    }
    if own in _HINTS and not tool.settings.get("stateful"):
        tree["annotations"] = dict(_HINTS[own])
    cleaned: Tree = speakable({key: value for key, value in tree.items() if value != ""})
    return cleaned


def result_tree(outcome: Outcome) -> Tree:
    """Return an outcome as the result of an MCP call."""
    tree: Tree
    if isinstance(outcome, CompletedOutcome):
        tree = {"content": [_block(block) for block in outcome.content], "isError": False}
    elif isinstance(outcome, StateOutcome):
        told = outcome_tree(outcome)
        tree = {"content": [text_block(_written(told))], "structuredContent": told, "isError": False}
    elif isinstance(outcome, FailedOutcome):
        failure = outcome.failure
        text = "\n".join([failure.message, *failure.trace])
        tree = {"content": [text_block(text)], "structuredContent": outcome_tree(outcome), "isError": True}
    elif isinstance(outcome, NeedsInput):
        text = f"the tool asks: {outcome.question['text']}"
        blocks = [*map(_block, outcome.content), text_block(text)]
        tree = {"content": blocks, "structuredContent": outcome_tree(outcome), "isError": True}
    else:
        tree = {"content": [text_block("the call was cancelled")], "isError": True}
    cleaned: Tree = speakable(tree)
    return cleaned


def question_form(name: str, needs: NeedsInput) -> Tree:
    """Return a tool's question as the parameters of an MCP elicitation: one text, named `answer`."""
    question = needs.question
    choices = question.get("options", question.get("choices"))
    answer: Tree = {"type": "string", "title": "Answer"}
    if isinstance(choices, list) and choices:
        answer["enum"] = list(dict.fromkeys(str(choice) for choice in choices))
    form: Tree = speakable(
        {
            "message": without_escapes(f"The local tool {quoted(name)} asks: {question['text']}"),
            "requestedSchema": {"type": "object", "properties": {"answer": answer}, "required": ["answer"]},
        }
    )
    return form


def answer_in(content: object) -> str | None:
    """Return the answer in what a client sends back for `question_form`; None if it holds none."""
    answer = content.get("answer") if isinstance(content, dict) else None
    return answer if isinstance(answer, str) else None


# What a block of each kind must have for an MCP client to read it.
_BLOCKS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


def _block(block: Block) -> Block:
    """Return a block as it is, if MCP has such blocks; else a text that says all of it."""
    kind = block["type"]
    known = _is_resource(block.get("resource")) if kind == "resource" else _has_texts(block, _BLOCKS.get(kind))
    return block if known else text_block(_written(block))


def _is_resource(tree: object) -> bool:
    return isinstance(tree, dict) and any(_has_texts(tree, ("uri", content)) for content in ("text", "blob"))


def _has_texts(tree: Tree, names: tuple[str, ...] | None) -> bool:
    return names is not None and all(isinstance(tree.get(name), str) for name in names)


def _written(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)
