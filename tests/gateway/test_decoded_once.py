"""A message is decoded once; what the gateway needs of it is handed on."""

from collections.abc import Callable
from typing import Any

import pytest

from byleave.gateway import message
from byleave.protocol import json_fast
from fakes.mcp_talk import FakeServer, Talk

SENT, ANSWERED = b"a mark in the arguments", b"a mark in the result"


class CountingDecoder:
    """A decoder that notes which of the two marks were in what it decodes."""

    def __init__(self, decoder: Any, seen: list[bytes]) -> None:
        self._decoder = decoder
        self._seen = seen

    def decode(self, text: Any) -> Any:
        self._seen += [mark for mark in (SENT, ANSWERED) if mark in bytes(text)]
        return self._decoder.decode(text)


@pytest.mark.parametrize("stateless", [False, True])
def test_a_call_is_decoded_once_and_its_result_not_at_all(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, *, stateless: bool
) -> None:
    decoded: list[bytes] = []  # into values
    split: list[bytes] = []  # into members that stay as they are written

    async def scene(talk: Talk) -> None:
        client = talk.stateless() if stateless else talk.client()
        if not stateless:
            await client.begin()
        await client.call("shop__price")  # which starts the server, and lists its tools
        for module, name, seen in (
            *((message, "_any", decoded), (json_fast, "_any", decoded), (message, "_elements", split)),
            *((message, "_members", split), (message, "_server", split), (json_fast, "_parts", split)),
            (json_fast, "_usual", split),
        ):
            monkeypatch.setattr(module, name, CountingDecoder(getattr(module, name), seen))
        answer = await client.call("shop__price", {"a": SENT.decode()})
        assert answer["result"]["structuredContent"] == {"b": ANSWERED.decode()}

    server = FakeServer("price")
    server.on_call = lambda _link, _request: {"content": [], "structuredContent": {"b": ANSWERED.decode()}}
    play(scene, shop=server)
    assert decoded == [SENT]
    assert split.count(SENT) == 1
    assert split.count(ANSWERED) == 1 + stateless  # such a result is completed, member by member
