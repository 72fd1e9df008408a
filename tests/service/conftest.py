"""A service for each module of tests."""

from collections.abc import Iterator

import pytest

from service.served import TestService, service


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestService]:
    with service(tmp_path_factory.mktemp("service") / "place") as started:
        yield started
