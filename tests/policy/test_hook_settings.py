"""Where the agents' own hook settings really are: what is looked up quickly is what a whole resolution finds."""

import os
from pathlib import Path

from byleave.policy.dirs import _HOOK_SETTINGS, hook_settings, real_path


def test_links_to_and_in_a_home_directory_are_followed(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "real", tmp_path / "elsewhere"
    for directory in (home / ".codex", home / ".config", elsewhere):
        directory.mkdir(parents=True)
    (tmp_path / "home").symlink_to("real")
    (home / ".claude").symlink_to(elsewhere)  # a directory
    (home / ".gemini").symlink_to(tmp_path / "missing")  # dangling
    (home / ".cursor").write_text("")  # no directory
    (home / ".qwen").symlink_to(".qwen")  # a loop
    (home / ".codex" / "hooks.json").symlink_to(elsewhere / "hooks.json")
    (home / ".config" / "opencode").symlink_to("../.codex")
    user = str(tmp_path / "home")
    found = hook_settings(user)
    assert found == tuple(real_path(os.path.join(user, name)) for name in _HOOK_SETTINGS)
    assert str(elsewhere / "settings.json") in found
    assert str(tmp_path / "missing" / "settings.json") in found


def test_a_home_directory_that_is_missing_or_odd_keeps_its_name(tmp_path: Path) -> None:
    for user in (str(tmp_path / "none"), "/proc/self/cwd", "", "relative"):
        expected = tuple(real_path(os.path.join(user, name)) for name in _HOOK_SETTINGS) if user else ()
        assert hook_settings(user) == expected
