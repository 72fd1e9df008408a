"""A secret is hidden without the blanks, line ends and quotes that stand around it, too."""

import base64
import json
from urllib.parse import quote

import pytest

from byleave.core.redact import REDACTED, Redactor, SecretFilter
from byleave.gateway.redact import ResultScrub

CORE = "hunter2/4711+x"
GIVEN = {
    "blanks": f"  {CORE} ",
    "a line end": f"{CORE}\n",
    "a line end of Windows": f"{CORE}\r\n",
    "a tab": f"\t{CORE}",
    "a wide blank": f"\u3000{CORE}\u00a0",
    "a byte order mark": f"\ufeff{CORE}",
    "quotes": f'"{CORE}"',
    "quotes and blanks": f" '{CORE}' \n",
}
COME_BACK = {
    "as it is": CORE,
    "in JSON": json.dumps(CORE)[1:-1],
    "in a URL": quote(CORE, safe=""),
    "in a URL, in small letters": quote(CORE, safe="").lower(),
    "in base64": base64.b64encode(CORE.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("back", COME_BACK.values(), ids=COME_BACK)
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_the_core_of_a_secret_is_hidden_in_records(given: str, back: str) -> None:
    assert Redactor([given]).values(f"a {back} b") == f"a {REDACTED} b"


@pytest.mark.parametrize("back", COME_BACK.values(), ids=COME_BACK)
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_the_core_of_a_secret_does_not_come_back_to_a_tool(given: str, back: str) -> None:
    scrub = SecretFilter()
    scrub.uses(given)
    assert CORE not in scrub.text(f"a {back} b")
    assert scrub.text(f"a {back} b").startswith(f"a {REDACTED}")


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_the_core_of_a_secret_does_not_come_back_from_a_server(given: str) -> None:
    message = json.dumps({"text": f"you sent {CORE}"}).encode()
    assert ResultScrub([given]).message(message) == json.dumps({"text": f"you sent {REDACTED}"}).encode()


def test_a_secret_is_hidden_with_its_blanks_as_well() -> None:
    assert Redactor([" hunter2 "]).values("[ hunter2 ]") == f"[{REDACTED}]"


@pytest.mark.parametrize("given", [" ab ", "  true\n", '"x"', "    "])
def test_what_is_too_short_or_plain_without_its_blanks_hides_nothing_more(given: str) -> None:
    assert Redactor([given]).values("ab true x") == "ab true x"


def test_a_tool_is_not_told_a_secret_that_has_only_blanks_around_it() -> None:
    scrub = SecretFilter()
    scrub.uses("  hunter2  ")
    assert scrub.data(b"hunter2") == REDACTED.encode()
