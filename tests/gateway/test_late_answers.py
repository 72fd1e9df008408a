"""How long a server is waited for: one timer for all requests to it, each with its own end."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Raw

from byleave.gateway.requests import (
    PendingRequests,
    ServerAnswer,
    ServerLate,
    ServerLost,
    ServerNotification,
    ServerQuestion,
)

LONG = 60.0


def plays(scene: Callable[[PendingRequests], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(scene(PendingRequests()), 5)

    asyncio.run(run())


def test_each_request_is_late_at_its_own_time() -> None:
    async def scene(requests: PendingRequests) -> None:
        first, second, third = (requests.begin(None) for _ in range(3))
        requests.expect(first, LONG)
        requests.expect(second, 0.02)  # before the time for which the timer was set
        requests.expect(third, 0.04)
        late = await second.get()
        assert isinstance(late, ServerLate)
        assert late.public == "it did not answer within 0.02 s"
        assert isinstance(await third.get(), ServerLate)
        assert first.due < float("inf")

    plays(scene)


def test_a_request_that_is_given_more_time_has_it() -> None:
    async def scene(requests: PendingRequests) -> None:
        given, other = requests.begin(None), requests.begin(None)
        requests.expect(given, 0.02)
        requests.expect(other, 0.02)
        requests.expect(given, LONG)
        assert isinstance(await other.get(), ServerLate)
        given.put(ServerAnswer(None))
        assert isinstance(await given.get(), ServerAnswer)

    plays(scene)


def test_a_request_that_was_answered_is_not_late_and_later_ones_are() -> None:
    async def scene(requests: PendingRequests) -> None:
        answered = requests.begin(None)
        requests.expect(answered, 0.02)
        requests.pop(answered.id)
        later = requests.begin(None)
        requests.expect(later, 0.05)
        assert isinstance(await later.get(), ServerLate)
        answered.put(ServerLost("it is over"))
        assert not isinstance(await answered.get(), ServerLate)

    plays(scene)


def test_what_a_server_sends_about_a_request_is_kept_up_to_some_megabytes_and_the_answer_always() -> None:
    async def scene(requests: PendingRequests) -> None:
        request, large = requests.begin(None), Raw(b" " * (1 << 20))
        assert request.put(ServerNotification("notifications/progress", Raw(b" " * (64 << 20))))  # one, whatever it is
        assert not request.put(ServerNotification("notifications/progress", large))
        assert isinstance(await request.get(), ServerNotification)
        taken = [request.put(ServerQuestion(Raw(b"1"), "sampling/createMessage", large)) for _ in range(9)]
        assert taken == [True] * 3 + [False] * 6
        assert request.put(ServerAnswer(large))
        kinds = [type(await request.get()) for _ in range(4)]
        assert kinds == [ServerQuestion] * 3 + [ServerAnswer]
        assert request.put(ServerNotification("notifications/progress", large))

    plays(scene)


def test_requests_after_the_end_of_all_others_are_late_again() -> None:
    async def scene(requests: PendingRequests) -> None:
        lost = requests.begin(None)
        requests.expect(lost, LONG)
        requests.end_all("the connection is gone")
        assert isinstance(await lost.get(), ServerLost)
        after = requests.begin(None)
        requests.expect(after, 0.02)
        assert isinstance(await after.get(), ServerLate)

    plays(scene)
