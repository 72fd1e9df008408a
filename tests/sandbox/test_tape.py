"""The language of the launcher: both sides speak the same."""

import re
from pathlib import Path
from struct import pack

from byleave.sandbox.linux import program
from byleave.sandbox.linux.program import STEPS, step, write_tape

SOURCE = Path(program.__file__).parents[1] / "native" / "launcher.c"


def test_the_launcher_knows_the_same_steps_in_the_same_order() -> None:
    text = SOURCE.read_text()
    table = text[text.index("} STEPS[] = {") :]
    assert tuple(re.findall(r'\{"(\w+)", \w+\}', table)) == STEPS


def test_fields_are_numbers_texts_and_lists() -> None:
    written = write_tape([step("grant", "/x", 3, 0), step("exec", "/p", "/", [b"a", b""], [])])
    number = STEPS.index("grant")
    assert written.startswith(pack("=QQ", number, 2) + b"/x\0" + pack("=QQ", 3, 0))
    assert written.endswith(pack("=Q", 2) + pack("=Q", 1) + b"a\0" + pack("=Q", 0) + b"\0" + pack("=Q", 0))


def test_names_that_are_no_text_keep_their_bytes() -> None:
    assert b"\xff\0" in write_tape([step("hostname", "\udcff")])
