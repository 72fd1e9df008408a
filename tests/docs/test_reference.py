"""The pages of docs/reference are what the code gives: `make reference` writes them again."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from byleave import errors
from byleave.acp.proxy import TIMED_OUT
from byleave.cli.commands import EXIT_CODES
from byleave.cli.main import INTERRUPTED

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "tools" / "reference.py"

if not SCRIPT.exists():
    pytest.skip("not run from a checkout", allow_module_level=True)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = load()


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_gives(name: str) -> None:
    page = reference.PLACE / name
    assert not reference.differs(page, reference.PAGES[name](), write=False), "run `make reference`"


def test_a_page_that_was_edited_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "metrics.md"
    made = reference.PAGES["metrics.md"]()
    page.write_text(made.replace("counter", "gauge"))
    assert reference.differs(page, made, write=True)
    assert not reference.differs(page, made, write=False)


def test_no_other_page_stands_beside_them() -> None:
    assert {page.name for page in reference.PLACE.iterdir()} == set(reference.PAGES)


def test_every_key_with_a_closed_set_of_values_shows_them() -> None:
    page = reference.PAGES["configuration-keys.md"]()
    assert '| `confine` | `"auto"`, `"off"`, `"require"` | auto; without this table: off |' in page
    assert "| `call_timeout` | number, 0 to 86400 | 300 |" in page


def test_a_list_of_objects_has_the_keys_of_all_of_them() -> None:
    assert reference.shape([{"a": 1}, {"a": 2, "b": [True]}]) == '[{"a": number, "b": [bool, ...]}, ...]'


def test_the_table_of_exit_codes_has_every_code_of_an_error_and_of_the_sandbox() -> None:
    listed = {code for code, _ in EXIT_CODES}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ByleaveError)]
    assert len(kinds) > 5
    assert {kind.exit_code for kind in kinds} | {TIMED_OUT, INTERRUPTED} <= listed
