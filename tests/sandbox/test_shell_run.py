"""`byleave run --shell`: one command line of an agent, confined as `[shell]` and the rules say."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from command import COMMAND, Done, at_terminal, byleave, environment
from sandbox.machine import NO_PERSON, access_file, as_nobody, inside, needs_sandbox

pytestmark = needs_sandbox

NOTHING = "byleave: "


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "ws"
    (place / "sub").mkdir(parents=True)
    return place


def policy(root: Path, text: str) -> list[str]:
    """Write a policy beside the workspace, and return the words that name it."""
    file = root.parent / "policy.toml"
    file.write_text(dedent(text))
    return ["--policy", str(file)]


def run_text(
    root: Path,
    text: str | bytes,
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    feed: bytes = b"",
) -> Done:
    option: str | bytes = f"--shell={text}" if isinstance(text, str) else b"--shell=" + text
    return byleave("run", "--root", str(root), "--no-input", *words, option, cwd=cwd or root, env=env, feed=feed)


def run_script(root: Path, text: str, *words: str) -> Done:
    """Run a text that only the sandbox can hold: nothing of it stands on the command line."""
    (root / "script.sh").write_text(text)
    return run_text(root, "sh script.sh", *words)


def ended_in(root: Path, text: str, *words: str, cwd: Path | None = None) -> str:
    """Run a command line and return the directory that it ended in, relative to the workspace."""
    file = root.parent / "cwd"
    file.unlink(missing_ok=True)
    run_text(root, text, "--cwd-file", str(file), *words, cwd=cwd)
    return os.path.relpath(file.read_text().removesuffix("\n"), root)


# The text and its end


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "code", "out"),
    [
        ("echo one; exit 3", 3, "one\n"),
        ("echo 'a  b' \"$HOME\" | wc -w", 0, "3\n"),
        ("echo one\necho two\n", 0, "one\ntwo\n"),
        ("kill -9 $$", 137, ""),
        ("exec echo replaced", 0, "replaced\n"),
        ("trap 'echo trapped; exit 5' EXIT; true", 5, "trapped\n"),
        ("trap 'echo got; exit 6' TERM; kill -TERM $$", 6, "got\n"),
        ("set -e; false; echo never", 1, ""),
        ("(exit 7)", 7, ""),
        ("cat", 0, "fed"),
        ("-x", 127, ""),
        ("--help", 127, ""),
        ("+x", 127, ""),
        ("", 0, ""),
        ("# a comment", 0, ""),
        ("[[ a == a ]] && echo bash", 0, "bash\n"),
    ],
)
def test_a_text_runs_as_in_a_plain_shell(root: Path, text: str, code: int, out: str) -> None:
    done = run_text(root, text, feed=b"fed")
    assert (done.code, done.out) == (code, out), done


def test_a_text_reaches_the_shell_byte_for_byte(root: Path) -> None:
    text = b"printf '%s' '\xff\xfe \xc3\xa9 $x `y` \"z\" \\ \t\x01' | od -An -c | tr -d ' \\n'"
    plain = subprocess.run(["/bin/bash", "-c", text], capture_output=True, check=True).stdout
    assert run_text(root, text).out == plain.decode()


def test_a_text_that_begins_with_a_dash_is_no_option_of_the_shell(root: Path) -> None:
    done = run_text(root, "-c 'echo fooled'")
    assert (done.code, done.out) == (127, "")


def test_output_of_any_size_arrives(root: Path) -> None:
    done = run_text(root, "head -c 5000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert (len(done.out), done.err) == (5_000_000, "end\n")


def test_a_reader_that_leaves_ends_the_command_as_it_would_a_plain_one(root: Path) -> None:
    words = [*COMMAND, "run", "--root", str(root), "--shell", "yes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=root, env=environment(None)) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(30) == 128 + signal.SIGPIPE


def test_a_command_runs_with_its_output_closed(root: Path) -> None:
    words = [*COMMAND, "run", "--root", str(root), "--shell", "echo x > made; echo y"]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *words], cwd=root, env=environment(None), check=False
    )
    assert (root / "made").read_text() == "x\n"
    assert done.returncode in (0, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_command(root: Path, number: int) -> None:
    text = f"trap 'echo caught; exit 9' {signal.Signals(number).name[3:]}; echo ready; while :; do sleep 0.1; done"
    words = [*COMMAND, "run", "--root", str(root), "--shell", text]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, cwd=root, env=environment(None), start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"caught\n"
        assert process.wait(30) == 9


def test_a_command_has_a_terminal_where_byleave_has_one(root: Path) -> None:
    with at_terminal("run", "--root", str(root), "--shell", "tty -s && read -r x && echo got-$x", cwd=root) as terminal:
        terminal.type(b"this\n")
        terminal.wait_for("got-this")
        assert terminal.ends() == 0


def test_what_a_command_leaves_running_ends_with_it_outside_of_a_session(root: Path) -> None:
    done = run_text(root, "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert done.code == 0
    assert run_text(root, "ls; ps ax 2>/dev/null | grep -c '[s]leep 1000'").out.endswith("0\n")


def test_a_shell_of_the_workspace_is_not_the_shell(root: Path) -> None:
    fake = root / "bin/bash"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(0o755)
    path = f"{root}/bin:{os.environ['PATH']}"
    assert run_text(root, "echo real", env={"PATH": path}).out == "real\n"


def test_a_command_line_excludes_a_program_a_tool_and_a_table(root: Path) -> None:
    assert run_text(root, "true", "--tool", "t").code == 2
    assert byleave("run", "--root", str(root), "--shell", "true", "--", "true").code == 2
    assert byleave("run", "--root", str(root), "--cwd-file", "x", "--", "true").code == 2


# Where it ended


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd sub", "sub"),
        ("cd sub; exit 3", "sub"),
        ("cd sub; kill -9 $$", "sub"),
        ("cd sub; exec true", "sub"),
        ("cd sub; exec sh -c 'cd ..'", "."),
        ("trap 'cd sub' EXIT; false", "sub"),
        ("(cd sub)", "."),
        ("cd sub & wait", "."),
        ("cd sub; set -e; false", "sub"),
        ("cd /", "."),
        ("cd /tmp", "."),
        ("mkdir gone; cd gone; rmdir ../gone", "."),
        ("ln -s /usr out; cd out", "."),
        ("ln -s sub inside; cd inside", "sub"),
        ("mkdir 'a\nb'; cd a*", "."),
        ("mkdir 'with space'; cd with*", "with space"),
        ("echo /etc > ../cwd; pwd() { echo /etc; }; PWD=/etc; cd sub", "sub"),
        ("mv sub other; ln -s /etc sub; cd other", "other"),
    ],
)
def test_the_directory_is_where_the_shell_really_ended(root: Path, text: str, expected: str) -> None:
    assert ended_in(root, text) == expected


def test_a_command_starts_where_its_caller_is_and_stays_there(root: Path) -> None:
    assert ended_in(root, "true", cwd=root / "sub") == "sub"
    assert ended_in(root, "true", cwd=root.parent) == "."
    assert run_text(root, "pwd", cwd=root / "sub").out == f"{root}/sub\n"


def test_a_list_of_commands_loses_no_directory(root: Path) -> None:
    words = policy(root, "[shell.access.commands.true]\n")
    assert ended_in(root, "true", *words, cwd=root / "sub") == "sub"


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "hard link", "missing directory"])
def test_only_an_ordinary_file_receives_the_directory(root: Path, kind: str) -> None:
    file, precious = root.parent / "cwd", root.parent / "precious"
    precious.write_text("kept")
    if kind == "link":
        file.symlink_to(precious)
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "hard link":
        os.link(precious, file)
    else:
        file = root.parent / "nowhere/cwd"
    done = run_text(root, "touch ran", "--cwd-file", str(file))
    assert done.code == 2
    assert not (root / "ran").exists()
    assert precious.read_text() == "kept"


def test_a_command_cannot_lead_the_file_elsewhere_while_it_runs(root: Path) -> None:
    (root / "state").mkdir()
    precious = root / "precious"
    precious.write_text("kept")
    text = "mv state moved; mkdir state; ln -s ../precious state/cwd; ln -s ../precious moved/cwd"
    done = run_text(root, text, "--cwd-file", str(root / "state/cwd"))
    assert precious.read_text() == "kept"
    assert done.code == 0
    assert "could not be written" in done.err


def test_an_old_directory_is_replaced_as_a_whole(root: Path) -> None:
    file = root.parent / "cwd"
    file.write_text("/a/very/long/directory/name/that/was/there/before\n" * 10)
    run_text(root, "cd sub", "--cwd-file", str(file))
    assert file.read_text() == f"{root}/sub\n"


# What the rules say


RULES = """
    [[rules]]
    deny = { path = "**/.env*", ops = ["read"] }
    [[rules]]
    ask = { path = "secrets/**", ops = ["read"] }
    [[rules]]
    deny = { path = "locked.txt", ops = ["create", "update", "delete"] }
    [[rules]]
    ask = { path = "migrations/**", ops = ["create", "update", "delete"] }
    [[rules]]
    deny = { path = "private", agent = "other" }
    [[rules]]
    deny = { command = "rm", flags = ["-r"] }
    why = "too much at once"
    [[rules]]
    allow = { any_command = true }
    sandbox = true
    [shell]
"""


@pytest.fixture
def ruled(root: Path) -> Path:
    for name in (".env", "sub/.env.local", "secrets/key", "locked.txt", "migrations/1.sql", "private", "open.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"content of {name}\n")
    return root


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text",
    [
        "cat .env",
        "cat sub/.env.local",
        "cat sub/../.env",
        "cat ./sub/.././.env",
        "grep -rh --exclude=script.sh 'content of .env' .",
        "find . -name '.env*' -exec cat {} +",
        "ln -s ../.env sub/link; cat sub/link",
        "cd sub; cat ../.env",
        "ln .env hard && cat hard",
        "cp .env copy && cat copy",
        "mv .env moved && cat moved",
        "mv sub elsewhere && cat elsewhere/.env.local",
        "tar cf - .env | tar xO",
        "cat /proc/self/cwd/.env",
        "exec 3<.env; cat <&3",
        "cat secrets/key",
        "cat secrets/*",
        "mv secrets opened && cat opened/key",
    ],
)
def test_what_may_not_be_read_is_not_there(ruled: Path, text: str) -> None:
    done = run_script(ruled, text, *policy(ruled, RULES))
    assert "content of" not in done.out, done
    assert done.code in (0, 1, 2), done
    assert (ruled / ".env").read_text() == "content of .env\n"


def test_a_hard_link_that_was_there_before_shows_the_same_content(ruled: Path) -> None:
    """The rule names paths: the plan says that another name of the same file is another path."""
    os.link(ruled / ".env", ruled / "other-name")
    assert run_script(ruled, "cat .env; cat other-name", *policy(ruled, RULES)).out == "content of .env\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text",
    [
        "echo x > locked.txt",
        "echo x >> locked.txt",
        "rm -f locked.txt",
        "mv open.txt locked.txt",
        "ln -f open.txt locked.txt",
        "cp open.txt locked.txt",
        "sed -i s/content/x/ locked.txt",
        "echo x > sub/../locked.txt",
        "ln -s ../locked.txt sub/l; echo x > sub/l",
        "ln locked.txt hard && echo x > hard",
        "echo x > migrations/1.sql",
        "echo x > migrations/2.sql",
        "rm migrations/1.sql",
        "mv migrations m2",
    ],
)
def test_what_may_not_be_written_is_read_only(ruled: Path, text: str) -> None:
    run_script(ruled, text, *policy(ruled, RULES))
    assert (ruled / "locked.txt").read_text() == "content of locked.txt\n"
    assert os.listdir(ruled / "migrations") == ["1.sql"]
    assert (ruled / "migrations/1.sql").read_text() == "content of migrations/1.sql\n"


def test_the_rest_of_the_workspace_is_open(ruled: Path) -> None:
    text = "cat open.txt locked.txt migrations/1.sql private; echo new > open.txt; mkdir -p a/b; echo x > a/b/c"
    done = run_text(ruled, text, *policy(ruled, RULES))
    assert (done.code, done.out.count("content of")) == (0, 4)
    assert (ruled / "open.txt").read_text() == "new\n"


def test_a_denied_text_does_not_run_and_the_reason_is_given(ruled: Path) -> None:
    done = run_text(ruled, "touch ran; rm -r sub", *policy(ruled, RULES))
    assert done.code == 20
    assert "too much at once" in done.err
    assert not (ruled / "ran").exists()
    records = byleave("audit", "export", "--json", "--root", str(ruled)).out.splitlines()
    assert [json.loads(line)["verdict"]["decision"] for line in records] == ["deny"]


def test_a_text_that_no_rule_allows_runs_confined_all_the_same(root: Path) -> None:
    outside = root.parent / "outside"
    done = run_text(
        root, f"echo x > made; echo x > {outside}", *policy(root, "[[rules]]\nask = { any_command = true }")
    )
    assert (root / "made").exists()
    assert not outside.exists()
    assert done.code == 0  # /tmp is the sandbox's own


def test_a_pattern_is_said_to_be_approximate_for_what_comes_to_match_later(ruled: Path) -> None:
    done = run_text(ruled, "cat .env", "--explain", "--json", *policy(ruled, RULES))
    plan = json.loads(done.out)
    why = {each["path"]: each["why"] for each in plan["approximate"]}
    assert "what comes to match while it runs is not" in why["**/.env*"]
    assert plan["network"] == "none"
    assert plan["program"].endswith("/bash")


def test_the_plan_is_shown_to_people(root: Path) -> None:
    done = run_text(root, "cat .env", "--explain")
    assert done.code == 0
    assert "hosts that are asked for through the proxy are refused, and named" in done.out


# The access of [shell]


def test_without_a_table_the_workspace_is_open_and_nothing_else_is(root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_text("secret")
    (root / "script").write_text("#!/bin/sh\necho ran\n")
    (root / "script").chmod(0o755)
    done = run_text(root, f"./script; echo x > made; cat {secret}; ls -A ~ | wc -l")
    assert "secret" not in done.out
    assert done.out.startswith("ran\n")
    assert (root / "made").exists()


def test_file_rules_of_the_table_hold(root: Path) -> None:
    access = """
        [[shell.access.fs]]
        path = "."
        read = true
        execute = true
        [[shell.access.fs]]
        path = "sub"
        read = true
        write = true
    """
    run_text(root, "echo x > made; echo x > sub/made", *policy(root, access))
    assert not (root / "made").exists()
    assert (root / "sub/made").exists()


def test_listed_commands_of_the_table_hold_and_the_shell_need_not_be_listed(root: Path) -> None:
    words = policy(root, "[shell.access.commands.echo]\n[shell.access.commands.true]\n")
    done = run_text(root, "/bin/echo builtin-free; true && ls / ; env echo x", *words)
    assert "bin" not in done.out.replace("builtin", "")


VARIABLES = {
    "CI": "1",
    "NODE_ENV": "test",
    "GIT_PAGER": "cat",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "ANTHROPIC_API_KEY": "secret",
    "GITHUB_TOKEN": "secret",
    "SSH_AUTH_SOCK": "/secret",
    "BYLEAVE_AGENT": "secret",
    "BASH_ENV": "/secret",
    "LD_PRELOAD": None,
    "MY_SETTING": "mine",
}


def test_a_closed_list_of_variables_passes(root: Path) -> None:
    done = run_text(root, "env", env=VARIABLES)
    given = dict(line.split("=", 1) for line in done.out.splitlines() if "=" in line)
    assert {"CI", "NODE_ENV", "GIT_PAGER", "PATH", "HOME"} <= given.keys()
    assert "secret" not in done.out
    assert "MY_SETTING" not in given


def test_the_table_adds_variables_and_takes_some_away_but_never_gives_ours(root: Path) -> None:
    rules = """
        [[shell.access.env]]
        name = "*"
        read = true
        [[shell.access.env]]
        name = "CI"
        read = false
    """
    done = run_text(root, "env", *policy(root, rules), env=VARIABLES)
    given = dict(line.split("=", 1) for line in done.out.splitlines() if "=" in line)
    assert given["MY_SETTING"] == "mine"
    assert given["NODE_ENV"] == "test"
    assert "CI" not in given
    assert not [name for name in given if name.startswith("BYLEAVE_")]


def test_an_untrusted_project_gives_no_access_and_takes_some_away(root: Path) -> None:
    (root / "byleave.toml").write_text(
        dedent("""
            [shell]
            confine = "off"
            [[shell.access.fs]]
            path = "."
            read = true
            [[shell.access.env]]
            name = "MY_*"
            read = true
        """)
    )
    done = run_text(root, "echo x > made; env", env=VARIABLES)
    assert not (root / "made").exists()
    assert "MY_SETTING" not in done.out


# What was refused


LINE = "byleave: 1 thing was refused: registry.example.org; `byleave outside -- CMD` asks the person\n"


def test_a_host_that_was_refused_is_named_at_the_end(root: Path) -> None:
    done = run_text(root, "curl -sf http://registry.example.org/; exit 4")
    assert (done.code, done.err) == (4, LINE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("curl -sf a.io", "curl -sf a.io"),
        ("curl -sf 'a.io'", "curl -sf 'a.io'"),
        ("curl -sf a.io; true", "CMD"),
        ("X=a.io; curl -sf $X", "CMD"),
        ("curl -sf a.io >out", "CMD"),
        ("curl -sf a.io\n", "CMD"),
        ("curl -sf 'http://a.io/a/very/long/path'", "CMD"),
        ("sh -c 'curl -sf a.io'", "CMD"),
    ],
)
def test_a_short_command_in_literal_words_is_repeated(root: Path, text: str, command: str) -> None:
    expected = f"byleave: 1 thing was refused: a.io; `byleave outside -- {command}` asks the person\n"
    assert run_text(root, text).err == expected


def test_the_first_few_of_many_hosts_are_named(root: Path) -> None:
    text = "for n in 1 2 3 4 5 1 2; do curl -sf http://h$n.example/; done; true"
    done = run_text(root, text)
    assert done.err.startswith("byleave: 5 things were refused: h1.example, h2.example, h3.example")
    assert "h5" not in done.err


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("echo x > locked.txt", "locked.txt"),
        ("cd sub; echo x >> ../locked.txt", "locked.txt"),
        ("rm locked.txt", "locked.txt"),
        ("mv locked.txt elsewhere", "locked.txt"),
        ("mv open.txt locked.txt", "locked.txt"),
        ("ln -s ../locked.txt sub/l; echo x > sub/l", "locked.txt"),
        ("truncate -s 0 locked.txt", "locked.txt"),
        ("touch migrations/2.sql", "migrations/2.sql"),
        ("mkdir migrations/new", "migrations/new"),
        ("ln -s x migrations/link", "migrations/link"),
        ("ln open.txt migrations/hard", "migrations/hard"),
        ("rm migrations/1.sql", "migrations/1.sql"),
        ("cd migrations; : > 2.sql", "migrations/2.sql"),
        ("echo x >> .env", ".env"),
        ("printf 'a\\033[31mb' > name; : > migrations/\"$(cat name)\"", "migrations/a\\x1b[31mb"),
    ],
)
def test_what_a_command_may_not_write_is_named_at_the_end(ruled: Path, text: str, named: str) -> None:
    done = run_script(ruled, text, *policy(ruled, RULES))
    last = done.err.splitlines()[-1]
    assert last == f"byleave: 1 thing was refused: {named}; `byleave outside -- sh script.sh` asks the person", done


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text",
    [
        "echo x > open.txt; mkdir -p a/b/c; mkdir -p a/b; mv a z; rm -r z; touch sub/new; ln -s x l; ln open.txt h",
        "cat locked.txt migrations/1.sql; ls -R",
        "mkdir -p migrations",
        "rm -f migrations/missing missing; cat missing",
        "echo x > /usr/x; echo x > /etc/x; echo x > ~/x; echo x > /tmp/x",
        "test -w locked.txt; [ -e migrations/9 ]",
    ],
)
def test_what_is_allowed_or_fails_for_another_reason_is_not_named(ruled: Path, text: str) -> None:
    assert "refused" not in run_script(ruled, text, *policy(ruled, RULES)).err


def test_many_names_are_counted_up_to_a_limit_and_nothing_waits(ruled: Path) -> None:
    text = "for n in $(seq 60); do touch migrations/$n; done 2>/dev/null; for n in $(seq 500); do : > sub/$n; done"
    done = run_script(ruled, text, *policy(ruled, RULES))
    assert done.err.startswith("byleave: 16 things were refused: migrations/1, migrations/2, migrations/3 and 13 more;")
    assert len(os.listdir(ruled / "sub")) == 501


def test_a_command_that_ends_the_process_that_notes_only_harms_itself(ruled: Path) -> None:
    text = "for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || [ $n = $$ ] || kill -9 $n; done; echo x > locked.txt"
    run_script(ruled, text, *policy(ruled, RULES))
    assert (ruled / "locked.txt").read_text() == "content of locked.txt\n"


def test_a_signal_does_not_break_a_write(root: Path) -> None:
    (root / "w.py").write_text(
        dedent("""
            import os, signal
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.siginterrupt(signal.SIGALRM, True)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for n in range(3000):
                os.close(os.open(f"/tmp/{n % 10}", os.O_WRONLY | os.O_CREAT))
            print("all")
        """)
    )
    assert run_text(root, "/usr/bin/python3 w.py").out == "all\n"


def test_nothing_is_said_where_nothing_was_refused(root: Path) -> None:
    assert run_text(root, "echo fine").err == ""


def test_what_was_refused_is_recorded(root: Path) -> None:
    run_text(root, "curl -sf http://registry.example.org/x")
    trees = [json.loads(line) for line in byleave("audit", "export", "--json", "--root", str(root)).out.splitlines()]
    urls = [(tree["action"]["url"], tree["verdict"]) for tree in trees if tree["action"]["kind"] == "url"]
    assert [url for url, _verdict in urls] == ["http://registry.example.org/x"]
    assert "[[shell.access.net]]" in urls[0][1]["suggestion"]


def test_a_write_that_was_refused_is_recorded(ruled: Path) -> None:
    run_script(ruled, "echo x > locked.txt; touch migrations/2.sql", *policy(ruled, RULES))
    exported = byleave("audit", "export", "--json", "--root", str(ruled)).out.splitlines()
    trees = [json.loads(line) for line in exported]
    writes = [(tree["action"]["kind"], tree["action"]["path"]) for tree in trees if "path" in tree["action"]]
    assert writes == [("update", "locked.txt"), ("create", "migrations/2.sql")]


# In an agent session


DRIVER = """
import sys
from byleave.launch.agent_session import AgentSession, process_of
from byleave.launch.shell_run import ShellCommand, run_shell
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import shell_layer

root, agent, text, file = sys.argv[1:]
workspace = Workspace(root)
session = AgentSession(root=root, agent="a", name="one", process=process_of(int(agent)))
command = ShellCommand(text=text, cwd=root, cwd_file=file, agent="a", session=session)
sys.exit(run_shell(workspace, workspace.load(extra=[shell_layer()]), command))
"""


def test_commands_of_one_session_share_what_they_left(root: Path) -> None:
    with subprocess.Popen(["sleep", "300"]) as agent:
        file = root.parent / "cwd"

        def in_session(text: str) -> tuple[int, str, str]:
            words = [sys.executable, "-c", DRIVER, str(root), str(agent.pid), text, str(file)]
            done = subprocess.run(words, capture_output=True, text=True, env=environment(None), check=False, timeout=60)
            return done.returncode, done.stdout, done.stderr

        try:
            server = "/usr/bin/python3 -m http.server --bind 127.0.0.1 8124 >/dev/null 2>&1 &"
            assert in_session(f"cd sub; echo kept > /tmp/file; {server} echo begun") == (0, "begun\n", "")
            assert file.read_text() == f"{root}/sub\n"
            reach = "until curl -sf http://localhost:8124/ >/dev/null; do sleep 0.1; done; cat /tmp/file; exit 4"
            assert in_session(reach) == (4, "kept\n", "")
            code, _out, err = in_session("curl -sf a.io")
            assert (code != 0, "1 thing was refused: a.io;" in err) == (True, True)
            assert in_session("cd sub; kill -9 $$")[0] == 137
            assert file.read_text() == f"{root}/sub\n"
        finally:
            agent.kill()


def test_a_server_of_the_command_itself_is_reached_without_the_proxy(root: Path) -> None:
    text = dedent("""
        /usr/bin/python3 -c 'import http.server as h; s = h.HTTPServer(("127.0.0.1", 8123), h.SimpleHTTPRequestHandler)
        open("up", "w").close()
        s.handle_request()' 2>/dev/null &
        until [ -e up ]; do sleep 0.05; done
        curl -sf http://localhost:8123/ >/dev/null && echo reached
    """)
    done = run_text(root, text)
    assert (done.out, done.err) == ("reached\n", "")


def test_a_granted_host_is_reached_and_no_other(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rules = f"""
            [[shell.access.net]]
            host = "127.0.0.1"
            port = {port}
            allow = true
        """
        words = [*COMMAND, "run", "--root", str(root), *policy(root, rules)]
        text = f"curl -s http://127.0.0.1:{port}/; curl -s http://b.example/ >/dev/null"
        with subprocess.Popen(
            [*words, "--shell", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(None), cwd=root
        ) as process:
            server.settimeout(30)
            connection, _address = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nserved")
            out, err = process.communicate(timeout=30)
    assert out == b"served"
    assert b"1 thing was refused: b.example;" in err


def test_the_details_are_listed_on_request(root: Path) -> None:
    (root / "locked.txt").write_text("x")
    rules = '[[rules]]\ndeny = { path = "locked.txt", ops = ["update"] }\n[shell]\n'
    done = run_script(root, "echo x > locked.txt", "--diagnose", *policy(root, rules))
    assert "write to locked.txt" in done.err
    assert (done.code, (root / "locked.txt").read_text()) == (2, "x")


# Who commits


def git(root: Path, home: Path, text: str, *words: str) -> Done:
    return run_text(root, text, *words, env={"HOME": str(home), "XDG_CONFIG_HOME": None, "GIT_AUTHOR_NAME": None})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "home"
    place.mkdir()
    (place / ".gitconfig").write_text(
        dedent("""
            [user]
                name = "Ada \\"Countess\\" Lovelace" # a comment
                email = ada@example.org
                signingkey = SECRETKEY
            [credential]
                helper = store
            [url "https://token@example.org/"]
                insteadOf = x
        """)
    )
    return place


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
REPOSITORY = "cd sub && git init -q . && git commit -q --allow-empty -m one"
AUTHOR = "git log -1 --format='%an <%ae> %cn <%ce>'"


@needs_git
def test_a_commit_has_the_users_name_and_address_and_nothing_else(root: Path, home: Path) -> None:
    done = git(root, home, f"{REPOSITORY} && {AUTHOR}; git config --list; env")
    name = 'Ada "Countess" Lovelace <ada@example.org>'
    assert done.out.startswith(f"{name} {name}\n"), done
    assert "SECRETKEY" not in done.out
    assert "token" not in done.out
    assert "helper=store" not in done.out


@needs_git
def test_the_identity_of_a_repository_stands_above_the_users(root: Path, home: Path) -> None:
    text = f"cd sub && git init -q . && git config user.name Local && git commit -q --allow-empty -m x && {AUTHOR}"
    assert git(root, home, text).out.startswith("Local <ada@example.org>")
    own = "export HOME=$PWD; git config --global user.email other@example.org; cd sub"
    text = f"{own}; git commit -q --allow-empty -m x && {AUTHOR}"
    assert git(root, home, text).out.startswith("Local <other@example.org>")


@needs_git
def test_an_included_identity_counts_where_its_condition_holds(root: Path, home: Path) -> None:
    (home / "work").write_text("[user]\n\temail = ada@work.example\n")
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{root.parent}/"]\n\tpath = work\n[includeIf "gitdir:/nowhere/"]\n\tpath = no\n')
    assert "<ada@work.example>" in git(root, home, f"{REPOSITORY} && {AUTHOR}").out


@needs_git
def test_without_an_identity_git_says_so_as_outside(root: Path, tmp_path: Path) -> None:
    done = git(root, tmp_path, f"{REPOSITORY}")
    assert done.code == 128
    assert "Please tell me who you are" in done.err


# An ordinary user


@needs_git
def test_it_holds_for_an_ordinary_user() -> None:
    place = Path(tempfile.mkdtemp(prefix="byleave-test-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        words, variables = as_nobody(place / "home")
        (place / "home/.gitconfig").write_text("[user]\n\tname = Grace\n\temail = grace@example.org\n")
        root = place / "ws"
        (root / "sub").mkdir(parents=True)
        (root / ".env").write_text("content of .env\n")
        (place / "home/.ssh").mkdir()
        (place / "home/.ssh/id").write_text("content of a key\n")
        rules = place / "policy.toml"
        rules.write_text('[[rules]]\ndeny = { path = "**/.env" }\n[shell]\n')
        for file in (root, root / "sub", root / ".env", place / "home/.ssh", place / "home/.ssh/id"):
            os.chown(file, NO_PERSON, NO_PERSON)
        cwd = place / "home/cwd"
        (root / "script.sh").write_text("cat .env ~/.ssh/id")
        text = f"sh script.sh; {REPOSITORY} && {AUTHOR}; curl -sf http://a.io"
        start = [*words, "-m", "byleave", "run", "-q", "--root", str(root), "--policy", str(rules), "--shell", text]
        done = subprocess.run(
            [*start, "--cwd-file", str(cwd)], env=variables, cwd=root, capture_output=True, text=True, check=False
        )
        assert "content of" not in done.stdout
        assert done.stdout.startswith("Grace <grace@example.org>"), done
        assert "1 thing was refused: a.io;" in done.stderr
        assert cwd.read_text() == f"{root}/sub\n"
    finally:
        shutil.rmtree(place)


def test_other_programs_learn_nothing_of_this(root: Path) -> None:
    """`byleave run -- PROGRAM` has neither the variables nor the proxy of a command line."""
    words = access_file(root.parent, '[[access.fs]]\npath = "."\nread = true\n')
    done = inside(root, "/usr/bin/env", options=words, env=VARIABLES)
    assert "NODE_ENV" not in done.out
    assert "http_proxy" not in done.out


def test_git_makes_no_repository_at_the_root_whether_there_is_one_or_not(root: Path) -> None:
    """Which is why `git init` asks there: confined, it can only fail."""
    words = policy(root, "[shell]")
    assert run_text(root, "git init -q sub", *words).code == 0
    assert (root / "sub/.git/HEAD").is_file()
    assert run_text(root, "git init -q", *words).code == 128
    assert not (root / ".git").exists()
    assert run_text(root, "git init -q sub", *words).code == 128
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    before = (root / ".git/config").read_bytes()
    assert run_text(root, "git init -q", *words).code == 128
    assert (root / ".git/config").read_bytes() == before
