"""Of a question that is given up nothing stays: no memory, and no way by which a client's progress reaches a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from byleave.gateway.client_questions import ClientQuestions
from byleave.gateway.message import ClientParams
from byleave.gateway.requests import ServerQuestion

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLING: dict[str, Any] = {"sampling": {}}


class Server:
    """A server as its questions see it, and what reached it."""

    name = "asker"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def reply(self, _id: Raw, **_said: Any) -> None:
        self.heard.append("reply")

    def notify(self, method: str, _params: Mapping[str, Any] | None = None) -> None:
        self.heard.append(method)


class Client:
    """Takes every question, and answers none."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, *_parts: bytes) -> bool:
        self.asked += 1
        return True


def ask_and_give_up(how: str, count: int) -> tuple[ClientQuestions, Server, Client]:
    """Have a server ask so often, and give each question up; return what was there."""
    questions, server, client = ClientQuestions(), Server(), Client()
    known: Any = server
    for number in range(count):
        params = Raw(b'{"messages":[],"maxTokens":1,"_meta":{"progressToken":"mine"}}')
        asked = ServerQuestion(Raw(b"%d" % number), "sampling/createMessage", params)
        asyncio.run(questions.pass_on(client, known, asked, SAMPLING))  # type: ignore[arg-type]
        if how == "cancelled":
            assert questions.cancelled_by(known, Raw(b'{"requestId":%d}' % number)) is not None
        else:
            questions.forget(known)
    return questions, server, client


@pytest.mark.parametrize("how", ["cancelled", "gone"])
def test_the_progress_of_a_question_that_was_given_up_reaches_no_server(how: str) -> None:
    questions, server, client = ask_and_give_up(how, 3)
    assert client.asked == 3
    for number in (1, 2, 3):
        questions.pass_on_progress(ClientParams({"progressToken": f"byleave-{number}", "progress": 1}))
    assert server.heard == []


def test_the_progress_of_an_open_question_reaches_its_server() -> None:
    questions, server = ClientQuestions(), Server()
    known: Any = server
    params = Raw(b'{"messages":[],"maxTokens":1,"_meta":{"progressToken":"mine"}}')
    asked = ServerQuestion(Raw(b"7"), "sampling/createMessage", params)
    asyncio.run(questions.pass_on(Client(), known, asked, SAMPLING))  # type: ignore[arg-type]
    questions.pass_on_progress(ClientParams({"progressToken": "byleave-1", "progress": 1}))
    assert server.heard == ["notifications/progress"]
