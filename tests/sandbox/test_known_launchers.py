"""The service names its launchers once; one that is gone is looked for as ever."""

from pathlib import Path

import pytest

from byleave.sandbox.native import build
from byleave.sandbox.native.build import FULL, LEAN, find_launcher, know_launchers, launcher_name


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_known", {})


@pytest.mark.parametrize("kind", [LEAN, FULL])
def test_a_known_launcher_is_the_one_that_is_found(kind: str, tmp_path: Path) -> None:
    plain = find_launcher(str(tmp_path), kind)
    know_launchers()
    assert find_launcher(str(tmp_path), kind) == plain


def test_a_known_launcher_that_is_gone_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / launcher_name(LEAN)
    cached.write_text("")
    cached.chmod(0o755)
    monkeypatch.setattr(build, "_known", {LEAN: str(tmp_path / "gone")})
    found = find_launcher(str(tmp_path), LEAN)
    assert found.path.endswith(launcher_name(LEAN))
