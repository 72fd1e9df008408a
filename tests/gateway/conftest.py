"""A gateway with servers and clients that are plain objects, for one scene."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fakes.mcp_talk import OPEN, FakeServer, Talk, Tree


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a scene against a gateway with this policy and these servers."""

    def run(scene: Callable[[Talk], Awaitable[None]], tree: Tree | None = None, **servers: FakeServer) -> None:
        async def whole() -> None:
            known = servers or {"shop": FakeServer("price", "query", "close")}
            talk = Talk(tmp_path, monkeypatch, OPEN if tree is None else tree, **known)
            try:
                async with asyncio.timeout(10):
                    await scene(talk)
            finally:
                await talk.close()

        asyncio.run(whole())

    return run
