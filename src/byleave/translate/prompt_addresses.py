"""The addresses in a prompt, for a tool that fetches whatever its prompt names. Pure.

Such a tool takes every word with `://` in it for an address. One that a bracket or a quote surrounds, or that has no
scheme, some readers of the prompt take for an address as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.translate.names import bare
from byleave.translate.parsed_input import InputText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.translate.parsed_input import ParsedInput

_PROMPT = "prompt"
_SOURCE = "rawInput.prompt"
_BOM = "\ufeff"  # a blank to JavaScript
_SCHEMES = ("http://", "https://")
_AROUND = "()[]<>{}\"'`*_.,;:!?"
_SHORTEST_END = 2  # letters of the last part of a host's name


def read_prompts(parsed: ParsedInput, raw: Mapping[Any, Any]) -> None:
    """Take in the addresses that the prompts of an input name, and doubt what may be one."""
    for key, value in raw.items():
        if not isinstance(key, str) or bare(key) != _PROMPT or value is None:
            continue
        if not isinstance(value, str):
            parsed.doubts_of_fetching.append("its prompt is no text")
            continue
        for word in value.replace(_BOM, " ").split():
            if not _take(parsed, word):
                return


def _take(parsed: ParsedInput, word: str) -> bool:
    """Take in a word of a prompt; return whether there is room for another."""
    if "://" not in word:
        if _may_be_a_host(word):
            parsed.doubts_of_fetching.append("a word of its prompt may be an address")
        return True
    if word.lower().startswith(_SCHEMES):
        return parsed.keep(parsed.urls, InputText(word, _SOURCE))
    parsed.doubts_of_fetching.append("a word of its prompt holds an address, and something else")
    at = min((at for at in map(word.lower().find, _SCHEMES) if at >= 0), default=0)
    return parsed.keep(parsed.urls, InputText(word[at:].strip(_AROUND), _SOURCE))


def _may_be_a_host(word: str) -> bool:
    name = word.strip(_AROUND).partition("/")[0].partition(":")[0]
    end = name.rpartition(".")[2]
    return "." in name and (end.isdigit() or len(end) >= _SHORTEST_END)
