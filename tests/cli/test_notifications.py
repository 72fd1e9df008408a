"""What the desktop is told: plain text, whatever an agent is called."""

import pytest

from byleave.cli.dashboard_command import notification


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("codex wants to run a command", "codex wants to run a command"),
        ("<a href='x'>A & B</a> wants", "&lt;a href='x'&gt;A &amp; B&lt;/a&gt; wants"),
        ("--icon=/etc/passwd", "--icon=/etc/passwd"),
        ("a\x1b[31m\u202e\n", "a\\x1b[31m\\u202e\\n"),
        ("&" * 300, "&amp;" * 200),
    ],
)
def test_a_notification_is_neither_markup_nor_an_option(text: str, expected: str) -> None:
    words = notification("/usr/bin/notify-send", text)
    assert words == ["/usr/bin/notify-send", "--app-name=byleave", "--", "byleave", expected]
