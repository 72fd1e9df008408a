"""`byleave setup`: one question, every step reported, the hook proved, and all of it undone again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.cli.commands import HOOKED
from byleave.hooks.detect import find_agents, find_editors
from byleave.hooks.probe import probe
from byleave.policy.dirs import own_front
from cli.test_terminal import below_a_door
from command import COMMAND, Done, at_terminal, byleave, environment, python

AGENTS = HOOKED
CLAUDE = {"permissions": {"allow": ["Bash(npm run test:*)"], "deny": ["Bash(rm:*)"], "ask": ["Bash(git push:*)"]}}


@pytest.fixture
def home(own_home: Path) -> Path:
    (own_home / ".claude").mkdir()
    (own_home / ".claude/settings.json").write_text(json.dumps(CLAUDE))
    return own_home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "package.json").write_text("{}")
    return root


def steps(done: Done) -> dict[str, str]:
    return {
        " ".join([step["step"], step.get("agent", "")]).strip(): step["status"]
        for step in json.loads(done.out)["steps"]
    }


def files(*places: Path) -> dict[str, bytes]:
    found = [each for place in places for each in place.rglob("*") if each.is_file() and not each.is_symlink()]
    return {str(each): each.read_bytes() for each in found}


CLAUDE_ONLY = ("--agent", "claude-code")
EVERY_STEP = ("init", "import claude-code", "trust", "hook claude-code", "probe claude-code")


def test_one_command_puts_everything_in_place_and_proves_it(home: Path, project: Path) -> None:
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, steps(done), json.loads(done.out)["ok"]) == (0, dict.fromkeys(EVERY_STEP, "done"), True)
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert settings["permissions"] == CLAUDE["permissions"]
    assert "PreToolUse" in settings["hooks"]
    assert byleave("trust", cwd=project).out.startswith("byleave.toml is trusted already")
    assert 'args = ["run", "test", "**"]' in (home / ".config/byleave/config.toml").read_text()


def test_a_second_run_changes_nothing(home: Path, project: Path) -> None:
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    before = files(home, project)
    again = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (again.code, set(steps(again).values())) == (0, {"skipped"})
    plain = byleave("setup", *CLAUDE_ONLY, cwd=project)
    assert (plain.code, "Nothing to do." in plain.out) == (0, True)
    changed = [name for name, content in files(home, project).items() if before.get(name) != content]
    assert [name for name in changed if not name.endswith(".parsed")] == []


def test_undo_removes_what_was_put_in_place(home: Path, project: Path) -> None:
    settings = home / ".claude/settings.json"
    before = files(project) | {str(settings): settings.read_bytes()}
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    done = byleave("setup", "--undo", "--yes", "--json", cwd=project)
    assert (done.code, set(steps(done).values())) == (0, {"done"})
    assert files(project) | {str(settings): settings.read_bytes()} == before
    assert not (home / ".config/byleave/config.toml").exists()
    assert not (home / "config.toml").exists()
    again = byleave("setup", "--undo", cwd=project)
    assert (again.code, "Nothing to undo." in again.out) == (0, True)


def test_undo_keeps_what_the_user_changed(home: Path, project: Path) -> None:
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    (project / "byleave.toml").write_text("# mine\n")
    config = home / ".config/byleave/config.toml"
    config.write_text(f"# first\n{config.read_text().replace('npm', 'pnpm')}# last\n")
    done = byleave("setup", "--undo", "--yes", "--json", cwd=project)
    found = steps(done)
    assert (found["init"], found["import claude-code"], found["hook claude-code"]) == ("skipped", "skipped", "done")
    assert (project / "byleave.toml").read_text() == "# mine\n"
    assert "pnpm" in config.read_text()


def test_undo_names_the_copy_of_settings_that_changed_since(home: Path, project: Path) -> None:
    settings = home / ".claude/settings.json"
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    settings.write_text(settings.read_text().replace("{", '{\n  "theme": "dark",', 1))
    done = byleave("setup", "--undo", "--yes", cwd=project)
    copies = list((home / ".claude").glob("*.before-byleave"))
    assert [str(copy) in "".join(done.out.split()) for copy in copies] == [True]
    assert json.loads(settings.read_text())["theme"] == "dark"


def test_undo_leaves_the_users_own_rules_as_they_were(home: Path, project: Path) -> None:
    config = home / ".config/byleave/config.toml"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text('[[rules]]\nallow = { command = "ls" }')
    config.chmod(0o600)
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    assert "npm" in config.read_text()
    byleave("setup", "--undo", "--yes", cwd=project)
    assert config.read_text().rstrip() == '[[rules]]\nallow = { command = "ls" }'


def test_undo_of_one_agent_leaves_the_others_and_the_project(home: Path, project: Path) -> None:
    byleave("setup", *CLAUDE_ONLY, "--agent", "codex", "--yes", cwd=project)
    done = byleave("setup", "--undo", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, steps(done)) == (0, {"hook claude-code": "done", "import claude-code": "done"})
    assert (project / "byleave.toml").exists()
    assert probe("codex", str(home), str(project)) is None


def test_undo_does_not_remove_a_hook_that_the_user_installed(home: Path, project: Path) -> None:
    byleave("hook", "--install", "claude-code", "--yes", cwd=project)
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    byleave("setup", "--undo", "--yes", cwd=project)
    assert "PreToolUse" in (home / ".claude/settings.json").read_text()


def test_a_dry_run_and_a_run_without_consent_change_nothing(home: Path, project: Path) -> None:
    before = files(home / ".claude", project)
    dry = byleave("setup", *CLAUDE_ONLY, "--dry-run", "--json", cwd=project)
    assert (dry.code, steps(dry)) == (0, dict.fromkeys(EVERY_STEP, "would"))
    unasked = byleave("setup", *CLAUDE_ONLY, "--json", cwd=project)
    assert (unasked.code, steps(unasked), json.loads(unasked.out)["ok"]) == (10, steps(dry), False)
    assert files(home / ".claude", project) == before
    assert not (home / "config.toml").exists()


def test_the_whole_plan_fits_on_a_screen_and_is_asked_about_once(home: Path, project: Path) -> None:
    with at_terminal("setup", *CLAUDE_ONLY, cwd=project) as terminal:
        terminal.wait_for("Do all of this? [y/N] ")
        assert max(len(line) for line in terminal.seen.splitlines()) <= 80
        assert len(terminal.seen.splitlines()) <= 24
        terminal.type(b"y\n")
        assert terminal.ends() == 0
        assert terminal.seen.count("[y/N]") == 1
        assert "What now happens when Claude Code runs" in terminal.seen


def test_a_no_changes_nothing(home: Path, project: Path) -> None:
    before = files(home / ".claude", project)
    with at_terminal("setup", *CLAUDE_ONLY, cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"n\n")
        assert terminal.ends() == 1
    assert files(home / ".claude", project) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_the_hook_of_every_agent_is_installed_and_proved(agent: str, own_home: Path, project: Path) -> None:
    done = byleave("setup", "--agent", agent, "--yes", "--json", cwd=project)
    found = steps(done)
    assert (done.code, found[f"hook {agent}"], found[f"probe {agent}"]) == (0, "done", "done")
    undone = byleave("setup", "--undo", "--yes", "--json", cwd=project)
    assert (undone.code, steps(undone)[f"hook {agent}"]) == (0, "done")
    assert probe(agent, str(own_home), str(project)) is not None


def test_a_hook_that_does_not_deny_fails_its_probe(home: Path, project: Path) -> None:
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    settings = home / ".claude/settings.json"
    plain = settings.read_text()
    for instead, expected in (
        ("/bin/true;", "does not deny"),
        ("exit 3;", "blocks every call"),
        ("echo [;", "not JSON"),
    ):
        start = own_front("/nowhere") or sys.executable
        settings.write_text(plain.replace(start, f"{instead} exit 0; {start}", 1))
        assert expected in (probe("claude-code", str(home), str(project)) or "")


def test_an_older_form_of_the_hook_is_replaced_and_proved(home: Path, project: Path) -> None:
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project)
    settings = home / ".claude/settings.json"
    tree = json.loads(settings.read_text())
    tree["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] = 5
    settings.write_text(json.dumps(tree))
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, steps(done)["hook claude-code"]) == (0, "done")
    again = json.loads(settings.read_text())["hooks"]["PreToolUse"]
    assert (len(again), again[0]["hooks"][0]["timeout"]) == (1, 30)


ODD_SETTINGS = {
    "no JSON": "{",
    "a list": "[]",
    "a name twice": '{"permissions": {}, "permissions": {}}',
    "wrong types": '{"permissions": {"deny": 3}}',
    "too large": '{"x": "' + "y" * (2 << 20) + '"}',
    "hooks of a wrong type": '{"hooks": []}',
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("content", ODD_SETTINGS.values(), ids=ODD_SETTINGS.keys())
def test_settings_that_cannot_be_used_fail_their_step_and_no_other(content: str, home: Path, project: Path) -> None:
    (home / ".claude/settings.json").write_text(content)
    done = byleave("setup", *CLAUDE_ONLY, "--agent", "codex", "--yes", "--json", cwd=project)
    found = steps(done)
    assert done.code == 1
    assert "failed" in (found["import claude-code"], found["hook claude-code"])
    assert [found[name] for name in ("init", "trust", "hook codex", "probe codex")] == ["done"] * 4
    if found["hook claude-code"] == "failed":
        assert (home / ".claude/settings.json").read_text() == content


def test_comments_in_the_settings_are_read_and_the_file_is_left_alone(home: Path, project: Path) -> None:
    content = f"// mine\n{json.dumps(CLAUDE)}\n"
    (home / ".claude/settings.json").write_text(content)
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    found = steps(done)
    assert (done.code, found["import claude-code"], found["hook claude-code"]) == (1, "done", "failed")
    assert (home / ".claude/settings.json").read_text() == content


def test_a_link_to_a_dotfiles_repository_stays_a_link(home: Path, project: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    (home / ".claude/settings.json").rename(real)
    (home / ".claude/settings.json").symlink_to(real)
    assert byleave("setup", *CLAUDE_ONLY, "--yes", cwd=project).code == 0
    assert (home / ".claude/settings.json").is_symlink()
    assert "PreToolUse" in real.read_text()


def test_hooks_that_are_switched_off_are_a_failure(home: Path, project: Path) -> None:
    (home / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, steps(done)["hook claude-code"], steps(done)["probe claude-code"]) == (1, "failed", "skipped")


def test_settings_that_the_agent_reads_elsewhere_are_a_failure(home: Path, project: Path) -> None:
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project, env={"CLAUDE_CONFIG_DIR": "/nowhere"})
    assert (done.code, steps(done)["hook claude-code"]) == (1, "failed")


def test_a_strangers_project_file_is_shown_whole_before_it_is_trusted(home: Path, project: Path) -> None:
    hidden = "x" * 100
    (project / "byleave.toml").write_text(f'[[rules]]\nallow = {{ command = "a", args = ["{hidden}", "curl"] }}\n')
    shown = byleave("setup", *CLAUDE_ONLY, "--dry-run", cwd=project)
    assert "curl" in shown.out
    assert max(len(line) for line in shown.out.splitlines() if hidden not in line) <= 80
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (steps(done)["init"], steps(done)["trust"]) == ("skipped", "done")


def test_a_project_file_with_an_error_fails_to_be_trusted(home: Path, project: Path) -> None:
    (project / "byleave.toml").write_text("[[rules]]\n")
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, steps(done)["trust"], steps(done)["hook claude-code"]) == (1, "failed", "done")


def test_the_home_directory_is_no_project(home: Path) -> None:
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=home)
    assert (done.code, steps(done)["init"], steps(done)["trust"]) == (0, "skipped", "skipped")
    assert not (home / "byleave.toml").exists()


def test_in_the_home_directory_setup_says_that_a_project_is_missing_and_not_that_everything_is_in_place(
    home: Path,
) -> None:
    byleave("setup", *CLAUDE_ONLY, "--yes", cwd=home)
    done = byleave("setup", *CLAUDE_ONLY, "--yes", cwd=home)
    assert "but       this is no project: run byleave setup in one" in done.out
    assert "In place:\n            Claude Code has the hook" in done.out
    assert "no project file" not in done.out


def test_two_setups_at_once_end_in_one(home: Path, project: Path) -> None:
    argv = [*COMMAND, "setup", *CLAUDE_ONLY, "--yes", "--json"]
    both = [subprocess.Popen(argv, cwd=project, env=environment(None), stdout=subprocess.PIPE) for _ in range(2)]
    ended = [(json.loads(each.communicate(timeout=60)[0]), each.returncode) for each in both]
    assert [code for _tree, code in ended] == [0, 0]
    assert len(json.loads((home / ".claude/settings.json").read_text())["hooks"]["PreToolUse"]) == 1
    assert (home / ".config/byleave/config.toml").read_text().count("npm") == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moment", ["init", "import", "trust", "hook"])
def test_a_setup_that_is_killed_is_finished_by_the_next_and_can_be_undone(
    moment: str, home: Path, project: Path
) -> None:
    program = (
        "import os, signal, sys\nfrom byleave.cli import setup_steps\nfrom byleave.cli.main import main\n"
        "done = setup_steps.SetupStep.done\n"
        "def dies(self):\n    result = done(self)\n"
        f"    if self.step == {moment!r}: os.kill(os.getpid(), signal.SIGKILL)\n    return result\n"
        "setup_steps.SetupStep.done = dies\nmain(['setup', '--agent', 'claude-code', '--yes'])\n"
    )
    before = (home / ".claude/settings.json").read_bytes()
    killed = subprocess.run([sys.executable, "-c", program], cwd=project, env=environment(None), check=False)
    assert killed.returncode == -signal.SIGKILL
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    assert (done.code, json.loads(done.out)["ok"]) == (0, True)
    assert byleave("setup", "--undo", "--yes", cwd=project).code == 0
    assert (home / ".claude/settings.json").read_bytes() == before
    assert not (project / "byleave.toml").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_that_cannot_be_written_fails_every_step_with_a_reason(home: Path, project: Path) -> None:
    for place in (home, home / ".claude"):
        place.chmod(0o500)
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project)
    for place in (home, home / ".claude"):
        place.chmod(0o700)
    assert (done.code, steps(done)["hook claude-code"]) == (1, "failed")


def test_a_state_directory_that_is_a_file_fails_the_steps_that_need_it(own_home: Path, project: Path) -> None:
    (own_home / "blocked").write_text("")
    done = byleave("setup", *CLAUDE_ONLY, "--yes", "--json", cwd=project, env={"BYLEAVE_HOME": f"{own_home}/blocked"})
    assert done.code == 1


def test_setup_is_kept_from_agents(project: Path) -> None:
    done = byleave("check", "command", "byleave setup --yes", cwd=project)
    assert (done.code, "only a person may run it" in done.out) == (20, True)
    inside = subprocess.run(
        below_a_door(*COMMAND, "setup", *CLAUDE_ONLY, "--yes"),
        executable="/bin/sh",
        cwd=project,
        env=environment(None),
        capture_output=True,
        check=False,
    )
    assert (inside.returncode, b"an agent or tool may have started this command" in inside.stderr) == (2, True)
    assert not (project / "byleave.toml").exists()


def test_agents_are_found_by_program_and_by_settings(tmp_path: Path) -> None:
    binaries, place = tmp_path / "bin", tmp_path / "home"
    binaries.mkdir()
    (place / ".codex").mkdir(parents=True)
    (place / ".config/zed").mkdir(parents=True)
    (binaries / "claude").write_text("#!/bin/sh\n")
    (binaries / "claude").chmod(0o755)
    (binaries / "gemini").write_text("not executable")
    found: dict[str, Any] = {each.name: each.place for each in find_agents(str(place), f"relative:{binaries}")}
    assert found["claude-code"] == str(binaries / "claude")
    assert found["codex"] == str(place / ".codex")
    assert "gemini" not in found or not found["gemini"].startswith(str(tmp_path))
    assert "zed" in {each.name for each in find_editors(str(place), "")}


def test_without_any_agent_it_says_what_it_can_do(own_home: Path, project: Path) -> None:
    if find_agents(str(own_home), "/usr/bin:/bin"):
        pytest.skip("this machine has agents")
    done = byleave("setup", "--dry-run", cwd=project, env={"PATH": "/usr/bin:/bin"})
    assert (done.code, "no agent" in done.out, "byleave acp" in done.out) == (0, True, True)
    assert max(len(line) for line in done.out.splitlines()) <= 80
    done = byleave("setup", "--yes", cwd=project, env={"PATH": "/usr/bin:/bin"})
    assert "no agent asks byleave yet: byleave setup --agent NAME" in " ".join(done.out.split())


def outcomes(*agents: str, cwd: Path) -> tuple[dict[str, str], str]:
    """Set these agents up; return what is said of each command, and the whole text in one line."""
    done = byleave("setup", *(word for agent in agents for word in ("--agent", agent)), "--yes", cwd=cwd)
    assert done.code == 0, done.out + done.err
    rows = [line.strip().split("  ", 1) for line in done.out.split("What now happens")[1].splitlines()]
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}, " ".join(done.out.split())


def test_what_is_said_of_commands_holds_for_agents_that_cannot_be_confined(own_home: Path, project: Path) -> None:
    said, text = outcomes("cline", "qwen", cwd=project)
    assert (said["npm test"], said["git status"]) == ("needs your approval", "runs, without a question")
    assert "byleave cannot confine commands of Cline and Qwen Code" in text
    said, text = outcomes("claude-code", "cline", cwd=project)
    assert said["npm test"] == "runs confined, without a question"
    assert "when Claude Code runs" in text
    assert "byleave cannot confine commands of Cline:" in text
    assert "Claude Code before 2.1.185" in text


UNCONFINED = """
import sys
from byleave.cli import setup_command, setup_steps
from byleave.cli.main import main
for module in (setup_command, setup_steps):
    module.machine_problem = lambda memory: "there is no launcher"
setup_command.can_confine = lambda *words: "there is no launcher"
sys.exit(main(["setup", "--yes", "--agent", "claude-code"]))
"""


def test_what_is_said_of_commands_holds_on_a_machine_that_cannot_confine(own_home: Path, project: Path) -> None:
    done = python(UNCONFINED, cwd=project)
    text = " ".join(done.out.split())
    assert done.code == 0, done.err
    assert "the strict rules, because commands cannot be fully confined here" in text
    assert "npm test needs your approval" in text
    assert "runs confined" not in text
    assert "Nothing can run confined here, so more needs your approval: there is no launcher." in text
