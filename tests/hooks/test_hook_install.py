"""`byleave hook --install`: our hook in the agent's settings, and nothing else in them changed."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.errors import StateError
from byleave.hooks.agents import AGENTS
from byleave.hooks.install import (
    InstallPlan,
    NotPlainError,
    _with_ours,
    add_item,
    add_member,
    carry_out,
    cut_part,
    our_words,
    plan_install,
    plan_uninstall,
    read_node,
    settings_file,
)
from byleave.hooks.snippets import PLACES, is_ours, item, items
from command import Done, at_terminal, byleave

JSON_AGENTS = tuple(agent for agent in AGENTS if agent not in ("opencode", "cline"))
FOREIGN = """\
{
    "model": "x",   // MARK
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo hi"}]} ],
        "BeforeTool": [{"hooks": [{"type": "command", "command": "echo byleave hook gemini"}]}],
        "beforeShellExecution":[{"command":"./audit.sh"}],
        "Stop": []
    },
    "umlaut": "\u00e4\\u00e4", "number": 1.50
}
""".replace("   // MARK", "")


@pytest.fixture(autouse=True)
def no_agent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have none of the agents of the machine that the tests run on decide what is installed."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def lists(agent: str) -> tuple[tuple[str, ...], ...]:
    """Return the lists that get an item where the version of the agent is not known."""
    return (*PLACES[agent].lists, *PLACES[agent].outcomes)


def words(agent: str, home: Path) -> list[str]:
    return our_words(agent, ["--home", str(home)])


def install(agent: str, home: Path) -> Path:
    file = Path(settings_file(agent, str(home)))
    carry_out(plan_install(agent, str(file), words(agent, home)))
    return file


def command(home: Path, *arguments: str) -> Done:
    return byleave("hook", *arguments, "--home", str(home), cwd=home)


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_what_is_installed_is_in_every_list_that_the_agent_reads(agent: str, tmp_path: Path) -> None:
    tree = json.loads(install(agent, tmp_path).read_text())
    for (name, inner), wanted in items(agent, words(agent, tmp_path)).items():
        assert tree[name][inner] == [wanted]
        assert is_ours(agent, wanted)
    assert {("hooks", inner) for inner in tree["hooks"]} == set(lists(agent))


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_an_install_that_reports_no_outcomes_yet_is_brought_up_to_date(agent: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    older = {inner: [item(agent, words(agent, tmp_path))] for _name, inner in PLACES[agent].lists}
    file.write_text(json.dumps({**PLACES[agent].needs, "hooks": {**older, "Other": [{"mine": 1}]}}, indent=2))
    install(agent, tmp_path)
    tree = json.loads(file.read_text())
    assert {inner: len(tree["hooks"][inner]) for _name, inner in lists(agent)} == dict.fromkeys(
        [inner for _name, inner in lists(agent)], 1
    )
    assert not plan_install(agent, str(file), words(agent, tmp_path)).changes
    carry_out(plan_uninstall(agent, str(file)))
    assert json.loads(file.read_text())["hooks"] == {"Other": [{"mine": 1}]}


def fake_claude(home: Path, version: str) -> Path:
    """Install a program of Claude Code below a home, where the native installer puts it."""
    file = home / ".local/share/claude/versions" / version
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    link = home / ".local/bin/claude"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(file)
    return link


def events_of(file: Path) -> set[str]:
    return set(json.loads(file.read_text())["hooks"])


def test_events_that_an_older_claude_code_does_not_know_are_not_written(tmp_path: Path) -> None:
    # 2.0.0 ignores the whole file for one unknown event, and every call would run unasked.
    old = {"PreToolUse", "PostToolUse", "SessionEnd"}
    assert events_of(install("claude-code", tmp_path)) == old
    fake_claude(tmp_path, "2.1.324")
    assert events_of(install("claude-code", tmp_path)) == old
    fake_claude(tmp_path, "2.1.325")
    file = install("claude-code", tmp_path)
    assert events_of(file) == old | {"PermissionRequest", "PostToolUseFailure", "PermissionDenied"}
    other = tmp_path / ".npm-global/bin/claude"  # of which nothing is known
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert events_of(install("claude-code", tmp_path)) == old
    carry_out(plan_uninstall("claude-code", str(file)))
    assert not file.exists() or "PermissionRequest" not in file.read_text()


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_a_file_that_an_older_byleave_changed_is_put_back_byte_for_byte(agent: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    file.write_text(FOREIGN)
    older = dict.fromkeys(PLACES[agent].lists, item(agent, ["/old/byleave/hooks/__main__.py", "hook", agent]))
    text = _with_ours(agent, FOREIGN, older)
    carry_out(InstallPlan(agent, str(file), FOREIGN, text))
    install(agent, tmp_path)
    assert "--only outcome" in file.read_text()
    carry_out(plan_uninstall(agent, str(file)))
    assert file.read_text() == FOREIGN


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_everything_else_in_the_file_stays_as_it_is(agent: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    file.write_text(FOREIGN)
    before = json.loads(FOREIGN)
    install(agent, tmp_path)
    after = file.read_text()
    for line in FOREIGN.splitlines()[1:3]:
        assert line in after
    tree = json.loads(after)
    for name, inner in lists(agent):
        assert is_ours(agent, tree[name][inner].pop())
        if not tree[name][inner] and inner not in before[name]:
            del tree[name][inner]
    for name in PLACES[agent].needs:
        del tree[name]
    assert tree == before
    carry_out(plan_uninstall(agent, str(file)))
    assert (file.read_text(), os.listdir(file.parent)) == (FOREIGN, [file.name])


@pytest.mark.parametrize("agent", AGENTS)
def test_installing_twice_changes_nothing_the_second_time(agent: str, tmp_path: Path) -> None:
    file = install(agent, tmp_path)
    first, known = file.read_bytes(), file.stat()
    assert not plan_install(agent, str(file), words(agent, tmp_path)).changes
    done = command(tmp_path, "--install", agent, "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (0, "nothing was changed")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (first, known.st_mtime_ns)
    assert not Path(f"{file}.before-byleave").exists()


@pytest.mark.parametrize("agent", AGENTS)
def test_what_was_installed_before_by_another_byleave_is_replaced(agent: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    old = ["/old/python", "-I", "/old/lib/byleave/hooks/__main__.py", "hook", agent, "--home", "/old"]
    carry_out(plan_install(agent, str(file), old))
    assert "/old/python" in file.read_text()
    install(agent, tmp_path)
    assert "/old/" not in file.read_text()
    assert file.read_text() == install(agent, tmp_path).read_text()


@pytest.mark.parametrize("agent", AGENTS)
def test_uninstalling_takes_away_what_was_installed_and_no_more(agent: str, tmp_path: Path) -> None:
    file = install(agent, tmp_path)
    done = command(tmp_path, "--uninstall", agent, "--yes")
    assert done.code == 0, done.err
    assert os.listdir(file.parent) == []
    again = command(tmp_path, "--uninstall", agent, "--yes")
    assert (again.code, again.out.splitlines()[-1]) == (0, "nothing was changed")


def test_a_hook_of_ours_that_somebody_put_among_others_is_left_to_them(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    ours = item("claude-code", words("claude-code", tmp_path))
    ours["hooks"].append({"type": "command", "command": "echo mine"})
    file.write_text(json.dumps({"hooks": {"PreToolUse": [ours]}}))
    assert not plan_uninstall("claude-code", str(file)).changes


REFUSED = {
    "comments": '{\n  // mine\n  "a": 1\n}',
    "a trailing comma": '{"a": 1,}',
    "a name twice": '{"hooks": {}, "hooks": {}}',
    "a list": "[]",
    "hooks that are a list": '{"hooks": []}',
    "lists that are none": '{"hooks": {"PreToolUse": {}}}',
    "nonsense": "hello",
    "a second value": "{} {}",
    "a byte order mark": "\ufeff{}",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_plain_json_is_left_alone_and_the_snippet_is_shown(case: str, tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(REFUSED[case])
    done = command(tmp_path, "--install", "claude-code", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "is left as it is" in done.err
    assert '"PreToolUse": [' in done.err
    assert file.read_text() == REFUSED[case]
    assert os.listdir(file.parent) == ["settings.json"]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    place = tmp_path / ".claude"
    place.mkdir()
    os.mkfifo(place / "settings.json")
    assert "no plain file" in command(tmp_path, "--install", "claude-code", "--yes").err
    (place / "settings.json").unlink()
    (place / "settings.json").symlink_to("nowhere")
    assert "leads nowhere" in command(tmp_path, "--install", "claude-code", "--yes").err
    (place / "settings.json").unlink()
    (place / "settings.json").write_bytes(b'{"a": "\xff"}')
    assert "not UTF-8" in command(tmp_path, "--install", "claude-code", "--yes").err
    (place / "settings.json").unlink()
    (place / "settings.json").mkdir()
    assert 'settings.json" is no plain file' in command(tmp_path, "--uninstall", "claude-code", "--yes").err


def test_what_was_there_before_is_kept_beside_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"a": 1}')
    file.chmod(0o640)
    install("claude-code", tmp_path)
    backup = Path(f"{file}.before-byleave")
    assert backup.read_text() == '{"a": 1}'
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, backup)] == [0o640, 0o640]
    assert sorted(os.listdir(file.parent)) == ["settings.json", "settings.json.before-byleave"]


def test_a_new_file_is_the_users_alone(tmp_path: Path) -> None:
    file = install("codex", tmp_path)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text('{"a": 1}')
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.symlink_to(dotfiles / "claude.json")
    install("claude-code", tmp_path)
    assert file.is_symlink()
    assert "PreToolUse" in (dotfiles / "claude.json").read_text()
    assert os.listdir(dotfiles) == ["claude.json"]
    assert Path(f"{file}.before-byleave").read_text() == '{"a": 1}'


def test_a_file_that_changes_after_it_was_shown_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{}")
    plan = plan_install("claude-code", str(file), ["x"])
    file.write_text('{"theirs": 1}')
    with pytest.raises(StateError, match="has changed meanwhile"):
        carry_out(plan)
    assert file.read_text() == '{"theirs": 1}'


def test_a_plugin_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    file = Path(settings_file("opencode", str(tmp_path)))
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = async () => ({})\n")
    assert "was not written by byleave" in command(tmp_path, "--install", "opencode", "--yes").err
    assert command(tmp_path, "--uninstall", "opencode", "--yes").out.endswith("nothing was changed\n")
    assert file.read_text().startswith("export const Mine")


def test_a_dry_run_shows_the_file_and_writes_nothing(tmp_path: Path) -> None:
    done = command(tmp_path, "--install", "gemini", "--dry-run")
    assert done.code == 0
    assert json.loads(done.out.partition("would be:\n")[2])["hooks"]["BeforeTool"]
    assert os.listdir(tmp_path) == []
    tree = json.loads(command(tmp_path, "--install", "gemini", "--dry-run", "--json").out)
    assert (tree["changes"], tree["file"]) == (True, str(tmp_path / ".gemini/settings.json"))


def test_without_a_person_nothing_is_written(tmp_path: Path) -> None:
    for verb in ("--install", "--uninstall"):
        if verb == "--uninstall":
            install("claude-code", tmp_path)
        done = command(tmp_path, verb, "claude-code")
        assert (done.code, "this needs your consent at a terminal" in done.err) == (2, True)
    assert (tmp_path / ".claude/settings.json").exists()


def test_a_person_is_shown_what_would_be_written_and_asked(tmp_path: Path) -> None:
    for keys, code in ((b"n\n", 1), (b"y\n", 0)):
        with at_terminal("hook", "--install", "claude-code", "--home", str(tmp_path), cwd=tmp_path) as terminal:
            terminal.wait_for("Write this? [y/N] ")
            assert '"onFailure": "block"' in terminal.seen
            terminal.type(keys)
            assert terminal.ends() == code
        assert (tmp_path / ".claude/settings.json").exists() == (code == 0)


def test_below_a_door_of_ours_nobody_can_agree(tmp_path: Path) -> None:
    # What a person would type, started by a shell whose own command line looks like a door of ours.
    inner = f"{sys.executable} -m byleave hook --install claude-code --yes --home {tmp_path}"
    script = f"import subprocess, sys; sys.exit(subprocess.run({inner.split()!r}).returncode)"
    file = tmp_path / "byleave" / "__main__.py"
    file.parent.mkdir(parents=True)
    file.write_text(script)
    done = subprocess.run([sys.executable, str(file), "acp"], capture_output=True, check=False, timeout=30)
    assert done.returncode == 2
    assert b"an agent or tool may have started this command" in done.stderr
    assert not (tmp_path / ".claude").exists()


def test_installing_is_recorded(tmp_path: Path) -> None:
    assert command(tmp_path, "--install", "claude-code", "--yes").code == 0
    listed = byleave("audit", "export", cwd=tmp_path, env={"HOME": str(tmp_path), "BYLEAVE_HOME": None})
    (record,) = [json.loads(line) for line in listed.out.splitlines()]
    assert record["action"]["title"].startswith("install claude-code (")


def test_the_flags_of_a_hook_go_along(tmp_path: Path) -> None:
    arguments = ("--install", "codex", "--dry-run", "--agent-profile", "r v", "--root", ".", "--session", "s")
    text = json.loads(command(tmp_path, *arguments, "--json").out)["content"]
    line: str = json.loads(text)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert f"--home {tmp_path} --root {tmp_path} --agent-profile 'r v' --session s" in line


@pytest.mark.parametrize(
    ("agent", "variable"),
    [("claude-code", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME"), ("gemini", "GEMINI_CLI_HOME")],
)
def test_settings_that_a_variable_moved_are_left_to_the_user(agent: str, variable: str, tmp_path: Path) -> None:
    done = byleave("hook", "--install", agent, "--yes", env={variable: "/elsewhere", "HOME": str(tmp_path)})
    assert (done.code, f"{variable} is set" in done.err) == (2, True)
    assert os.listdir(tmp_path) == []


def test_a_user_whose_hooks_are_switched_off_is_told(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    assert "hooks are switched off" in command(tmp_path, "--install", "claude-code", "--yes").err
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text('{"hooksConfig": {"disabled": ["byleave"]}}')
    assert "hooks are switched off" in command(tmp_path, "--install", "gemini", "--yes").err


def test_codex_users_are_told_to_trust_the_hook(tmp_path: Path) -> None:
    assert "before you have trusted it" in command(tmp_path, "--install", "codex", "--yes").err


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
looks = st.sampled_from([{}, {"indent": 2}, {"indent": 4}, {"indent": "\t"}, {"separators": (",", ":")}])


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), values, looks, st.sampled_from(["\n", "\r\n"]))
def test_a_member_that_is_added_and_cut_again_leaves_the_text_as_it_was(
    tree: dict[str, Any], value: Any, look: dict[str, Any], newline: str
) -> None:
    text = json.dumps(tree, **look).replace("\n", newline)
    more = add_member(text, read_node(text), "a longer name", value)
    assert json.loads(more) == {**tree, "a longer name": value}
    assert cut_part(more, read_node(more), len(tree)) == (text if tree else "{}")


@given(st.lists(values, max_size=4), values, looks, st.data())
def test_an_item_can_be_added_and_any_item_cut(
    items: list[Any], value: Any, look: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(items, **look)
    more = add_item(text, read_node(text), value)
    assert json.loads(more) == [*items, value]
    number = data.draw(st.integers(0, len(items)))
    left = [*items, value]
    del left[number]
    assert json.loads(cut_part(more, read_node(more), number)) == left


@given(st.text(alphabet='{}[]":, \n1atrue\\', max_size=30))
def test_what_json_cannot_read_is_not_read(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(NotPlainError):
            read_node(text)


OWNED = {
    "nothing": "",
    "blanks": " \n\n",
    "an empty object": "{}",
    "empty hooks": '{"hooks": {}}',
    "empty lists": '{"hooks": {"PreToolUse": [], "BeforeTool": [ ], "beforeShellExecution": []}}\n',
    "a version": '{"version": 1}\n',
    "one line": '{"a":1,"hooks":{"Stop":[]}}',
    "tabs and no end of line": '{\n\t"a": 1\n}',
    "lines that end in two bytes": '{\r\n  "a": [1,\r\n  2]\r\n}\r\n',
    "odd blanks": '{ "a" : 1 , "hooks" : { "PreToolUse" : [ {"matcher" : "x"} ] } }  \n\n',
    "much": FOREIGN,
}


@pytest.mark.parametrize("how", ["once", "upgraded"])
@pytest.mark.parametrize("case", OWNED)
@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_uninstalling_leaves_what_the_user_had_byte_for_byte(agent: str, case: str, how: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    dotfile = tmp_path / "dotfile.json"
    dotfile.write_bytes(OWNED[case].encode())
    dotfile.chmod(0o644)
    file.symlink_to(dotfile)
    if how == "upgraded":
        old = ["/old/python", "-I", "/old/lib/byleave/hooks/__main__.py", "hook", agent, "--home", "/old"]
        carry_out(plan_install(agent, str(file), old))
    install(agent, tmp_path)
    assert dotfile.read_bytes() != OWNED[case].encode()
    carry_out(plan_uninstall(agent, str(file)))
    assert (dotfile.read_bytes(), os.listdir(file.parent)) == (OWNED[case].encode(), [file.name])
    assert (file.is_symlink(), stat.S_IMODE(dotfile.stat().st_mode)) == (True, 0o644)


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_what_the_user_changed_after_the_install_stays_when_it_is_taken_out(agent: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    file.write_text(FOREIGN)
    install(agent, tmp_path)
    file.write_text(file.read_text().replace('"model": "x"', '"model": "y"'))
    carry_out(plan_uninstall(agent, str(file)))
    tree = json.loads(FOREIGN.replace('"model": "x"', '"model": "y"'))
    assert json.loads(file.read_text()) == tree


@pytest.mark.parametrize("case", [case for case, text in OWNED.items() if text.strip()])
@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_a_file_that_was_written_anew_since_loses_our_hook_and_no_more(agent: str, case: str, tmp_path: Path) -> None:
    file = Path(settings_file(agent, str(tmp_path)))
    file.parent.mkdir(parents=True)
    file.write_text(OWNED[case])
    tree = json.loads(install(agent, tmp_path).read_text())
    file.write_text(json.dumps({**tree, "added": [1]}, indent=4))
    carry_out(plan_uninstall(agent, str(file)))
    assert json.loads(file.read_text()) == {**json.loads(OWNED[case]), "added": [1]}


def test_a_file_that_is_kept_beside_and_is_not_what_was_there_is_not_put_back(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"a": 1}')
    install("claude-code", tmp_path)
    Path(f"{file}.before-byleave").write_text('{"a": 2}')
    carry_out(plan_uninstall("claude-code", str(file)))
    assert json.loads(file.read_text()) == {"a": 1}
