"""Made-up signatures and made-up arguments: whatever the official SDK reads in them, a deny of just that holds."""

import json
import random
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from pydantic import BaseModel, create_model

from byleave.core.action import CallAction
from byleave.core.calls import decide_call
from byleave.core.input_schema import InputSchema
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from fakes.places import PlainRoot


class Word(Enum):
    A = "a"
    B = "b"


class Number(Enum):
    ONE = 1
    NONE = 0


SCALARS: list[Any] = [
    *[True, False, 1, 0, 1.0, 0.0, 2, 1000, None],
    *["true", "Yes", "on", "1", "0", "no", "TRUE", "f", "1000", "1_000", "1e3", " 1 ", "2.5", "-1", "+1"],
    *["a", "b", "x", "null", "/etc/shadow"],
]
TYPES: list[Any] = [
    *[bool, int, float, str, Any, Word, Number, Literal["a", "b"], Literal[1, 0], Literal[True], Decimal, dict, list],
]


class Maker:
    """Makes up types and values, always the same ones from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 -- dice, always the same

    def type_(self, depth: int) -> Any:
        kind = self.dice.randrange(10) if depth > 0 else 0
        makers: dict[int, Any] = {
            4: lambda: list[self.type_(depth - 1)],  # type: ignore[misc]
            5: lambda: self.type_(depth - 1) | None,
            6: lambda: self.type_(depth - 1) | self.type_(depth - 1),
            7: lambda: dict[str, self.type_(depth - 1)],  # type: ignore[misc]
            8: lambda: tuple[self.type_(depth - 1), self.type_(depth - 1)],  # type: ignore[misc]
            9: lambda: self.model(depth - 1),
        }
        return makers.get(kind, lambda: self.dice.choice(TYPES))()

    def model(self, depth: int) -> Any:
        fields: Any = {"f": (self.type_(depth), ...), "g": (bool, self.dice.random() < 0.5)}
        return create_model(f"M{self.dice.randrange(10**9)}", **fields)

    def value(self, depth: int) -> Any:
        kind = self.dice.randrange(10) if depth > 0 else 0
        if kind < 4:
            return self.dice.choice(SCALARS)
        if kind < 6:
            return [self.value(depth - 1) for _ in range(self.dice.randrange(3))]
        if kind < 9:
            return {self.dice.choice("fgak"): self.value(depth - 1) for _ in range(self.dice.randrange(1, 4))}
        return json.dumps(self.value(depth - 1))


def leaves(read: Any, pointer: str = "/v") -> list[tuple[str, Any]]:
    if isinstance(read, BaseModel):
        read = {name: getattr(read, name) for name in type(read).model_fields}
    if isinstance(read, Enum):
        read = read.value
    if isinstance(read, Decimal):
        read = float(read)
    if isinstance(read, list | tuple):
        return [leaf for each in read for leaf in leaves(each, pointer)]
    if isinstance(read, dict):
        return [leaf for key, each in read.items() for leaf in leaves(each, f"{pointer}/{key}")]
    return [(pointer, read)]


def slips_through(pointer: str, value: Any, arguments: Any, schema: Any) -> bool:
    around = CompileContext(PlainRoot("/ws"))
    rules = [
        {"deny": {"call": {"server": "s", "arg": pointer, "equals": value}}},
        {"allow": {"call": {"server": "s"}}},
    ]
    policy = compile_layers([inline_layer({"rules": rules})], around).policy
    return decide_call(policy, CallAction("s", "t", arguments, "a", schema)).allowed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_that_the_server_reads_slips_through_a_deny_of_it(seed: int) -> None:
    maker, checked = Maker(seed), 0
    while checked < 150:
        made_up = maker.type_(3)
        scope: dict[str, Any] = {"T": made_up}
        exec("def tool(*, v: T) -> None: ...", scope)  # noqa: S102 -- a signature of our own making
        try:
            made = func_metadata(scope["tool"])
        except (TypeError, ValueError):
            continue
        schema = made.arg_model.model_json_schema(by_alias=True)
        for _ in range(20):
            value = maker.value(3)
            arguments = {"v": json.dumps(value) if maker.dice.random() < 0.4 else value}
            try:
                read = made.validate_arguments(arguments)["v"]
            except ValueError:
                continue
            assert InputSchema(schema).problem(arguments) is None, (made_up, arguments, "is taken by the server")
            for pointer, leaf in leaves(read):
                if isinstance(leaf, str | int | float) and leaf == leaf:  # noqa: PLR0124 -- NaN is no rule's value
                    checked += 1
                    assert not slips_through(pointer, leaf, arguments, schema), (made_up, arguments, pointer, leaf)
