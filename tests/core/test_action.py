"""An action from JSON: what each kind may say, and names that are no text."""

from base64 import b64encode

import pytest

from byleave.core.action import FileAction, MoveAction, action_tree, fields_of, parse_action
from byleave.errors import InputError


def encoded(name: bytes) -> str:
    return b64encode(name).decode()


def test_a_path_that_is_no_text_is_given_in_its_bytes() -> None:
    tree = {"kind": "move", "path_b64": encoded(b"caf\xe9"), "to": "b"}
    action = parse_action(tree)
    assert action == MoveAction("caf\udce9", "b")
    assert parse_action(action_tree(action)) == action


def test_the_bytes_of_a_path_stand_above_a_text_beside_them() -> None:
    tree = {"kind": "read", "path": "harmless", "path_b64": encoded(b".env\xff")}
    assert parse_action(tree) == FileAction("read", ".env\udcff")


@pytest.mark.parametrize("given", ["!!", "YQ", "Y=Q=", "YQ==\n", "é", 7, None, ["YQ=="]])
def test_bytes_of_a_path_that_are_not_base64_are_an_input_error(given: object) -> None:
    with pytest.raises(InputError, match="path_b64 is not base64"):
        parse_action({"kind": "read", "path_b64": given})


def test_each_kind_names_its_fields_and_no_kind_has_none() -> None:
    assert fields_of("move") == ("path", "to", "tool", "agent", "path_b64", "to_b64")
    assert fields_of("other") == ("name", "title", "agent")
    assert fields_of("nothing") == ()
