"""Temporary files of a test lie where nobody else has any, so that it can be seen whether some are left."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    return scratch
