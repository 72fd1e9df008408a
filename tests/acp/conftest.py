"""What a conversation opened is closed with its test: hundreds of open logs would use up the descriptors."""

from collections.abc import Iterator

import pytest

from fakes.acp_talk import Talk


@pytest.fixture(autouse=True)
def conversations_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    begun: list[Talk] = []
    monkeypatch.setattr(Talk, "begun", begun)
    yield
    for talk in begun:
        talk.relay.close()
