"""`byleave check` and the entrance: every form, every exit code, and no traceback whatever comes in."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.cli.commands import CHECK_KINDS
from command import COMMAND, PATIENCE, byleave, environment

POLICY = """\
[tools.t]
source = "local"
[[tools.t.access.fs]]
path = "src"
read = true
write = true
execute = true
[[tools.t.access.net]]
host = "api.example.org"
scheme = "https"
allow = true
[[tools.t.access.env]]
name = "LANG"
read = true
[tools.t.access.commands.git]
args = [["status", "**"]]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x").touch()
    (tmp_path / "p.toml").write_text(POLICY)
    return tmp_path


def check(project: Path, *words: str | bytes, **how: Any) -> Any:
    return byleave("--policy", "p.toml", "check", *words, cwd=project, **how)


FORMS = {
    "read": (["read", "src/x", "--tool", "t"], ["read", "other", "--tool", "t"], ["read", "src/x"]),
    "create": (["create", "src/new", "--tool", "t"], ["create", "new", "--tool", "t"], ["create", "src/new"]),
    "update": (["update", "src/x", "--tool", "t"], ["update", "p.toml", "--tool", "t"], ["update", "src/x"]),
    "delete": (["delete", "src/x", "--tool", "t"], ["delete", "p.toml", "--tool", "t"], ["delete", "src/x"]),
    "exec": (["exec", "src/x", "--tool", "t"], ["exec", "p.toml", "--tool", "t"], ["exec", "src/x"]),
    "move": (["move", "src/x", "src/y", "--tool", "t"], ["move", "src/x", "y", "--tool", "t"], ["move", "src/x", "y"]),
    "search": (["search", "src", "--tool", "t"], ["search", "--tool", "t"], ["search", "--query", "word"]),
    "url": (
        ["url", "https://api.example.org/x", "--tool", "t", "--method", "GET"],
        ["url", "http://api.example.org", "--tool", "t"],
        ["url", "https://api.example.org/x", "--agent", "a"],
    ),
    "env": (["env", "LANG", "--tool", "t"], ["env", "TOKEN", "--tool", "t"], ["env", "LANG"]),
    "spawn": (
        ["spawn", "--tool", "t", "--", "git", "status", "--short"],
        ["spawn", "--tool", "t", "--", "git", "push"],
        ["spawn", "--", "git", "status"],
    ),
}


@pytest.mark.parametrize("forms", FORMS.values(), ids=FORMS.keys())
def test_every_form_is_allowed_denied_and_asked_about(forms: tuple[list[str], ...], project: Path) -> None:
    words = ("allow", "deny", "ask")
    answers = [check(project, *form) for form in forms]
    assert [(answer.code, answer.out.split(":")[0]) for answer in answers] == list(zip((0, 20, 10), words, strict=True))
    assert [answer.err for answer in answers] == ["", "", ""]


@pytest.mark.parametrize(
    "words",
    [
        ["command", "git push --force", "--cwd", "src", "--agent", "a"],
        ["call", "server", "tool", "--arguments", '{"a": 1}', "--agent", "a"],
        ["call", "server"],
    ],
    ids=["command", "call", "call of a server"],
)
def test_what_no_rule_speaks_of_asks(words: list[str], project: Path) -> None:
    answer = check(project, *words)
    assert (answer.code, answer.out.splitlines()[1]) == (10, "  because: no rule matches (ask, built-in)")


def test_the_table_has_every_form() -> None:
    assert {*FORMS, "command", "call"} == set(CHECK_KINDS)


def test_json_and_words_give_the_same_answer(project: Path) -> None:
    for form in (form for forms in FORMS.values() for form in forms[:2]):
        verdict = check(project, "--json", *form)
        assert (verdict.err, verdict.out.count("\n")) == ("", 1)
        tree = json.loads(verdict.out)
        assert tree["decision"] == check(project, "-q", *form).out.strip()
        assert tree["because"]
        assert tree["reason"]
        assert ("suggestion" in tree) == (tree["decision"] != "allow")


def test_a_denial_says_why_where_and_what_would_help(project: Path) -> None:
    reason, because, *help_ = check(project, "read", "other", "--tool", "t").out.splitlines()
    assert reason.startswith('deny: read on "other" is denied: ')
    assert because.startswith("  because: ")
    assert help_ == [
        "  granted at: src",
        "  to allow it, add to your configuration:",
        "    [[tools.t.access.fs]]",
        '    path = "other"',
        "    read = true",
    ]


def test_common_flags_stand_before_and_after_and_behind_equals_signs(project: Path) -> None:
    policy, root = str(project / "p.toml"), str(project)
    before = byleave("--policy", policy, f"--root={root}", "--session", "s", "check", "read", "src/x", "--tool", "t")
    after = byleave(
        "check", "read", "src/x", "--tool=t", f"--policy={policy}", "--root", root, "--session=s", "--no-input"
    )
    assert (before.code, before.out) == (after.code, after.out) == (0, before.out)


def test_several_policies_are_read_and_the_later_one_is_stronger(project: Path) -> None:
    (project / "more.toml").write_text('[[tools.t.access.fs]]\npath = "src"\n')
    closed = byleave("check", "read", "src/x", "--tool", "t", "--policy", "p.toml", "--policy=more.toml", cwd=project)
    opened = byleave("check", "read", "src/x", "--tool", "t", "--policy", "more.toml", "--policy=p.toml", cwd=project)
    assert (closed.code, opened.code) == (20, 0)


def test_verbose_says_what_was_read(project: Path) -> None:
    done = check(project, "read", "src/x", "--tool", "t", "-v")
    assert done.err == f"byleave: the workspace is {project.resolve()}\nbyleave: read p.toml (command line)\n"
    nothing = byleave("check", "read", "x", "-v", cwd=project)
    assert "no configuration was found" in nothing.err


def test_quiet_says_only_the_answer(project: Path) -> None:
    (project / "byleave.toml").write_text('[tools.t]\nsource = "local"\n')
    loud = byleave("check", "read", "x", cwd=project)
    assert "not trusted" in loud.err
    quiet = byleave("check", "read", "x", "-q", cwd=project)
    assert (quiet.out, quiet.err) == ("ask\n", "")


HINTS = {
    "no configuration": (["check", "read", "x"], "`byleave init` writes a file"),
    "no tool named": (
        ["check", "read", "x", "--policy", "p.toml"],
        "with --tool TOOL its own rules answer (there are t)",
    ),
    "a tool nearly named": (["check", "read", "x", "--tool", "tt", "--policy", "p.toml"], 'did you mean "t"?'),
    "a tool unlike any": (["check", "read", "x", "--tool", "zzz", "--policy", "p.toml"], "there are t"),
    "a tool without any": (["check", "read", "x", "--tool", "t"], "`byleave init` writes a file"),
}


@pytest.mark.parametrize(("words", "hint"), HINTS.values(), ids=HINTS.keys())
def test_a_poor_question_gets_a_hint(words: list[str], hint: str, project: Path) -> None:
    done = byleave(*words, cwd=project)
    assert hint in done.out + done.err


def test_a_tool_of_a_file_that_is_not_trusted_is_explained(project: Path) -> None:
    (project / "byleave.toml").write_text(POLICY)
    done = byleave("check", "read", "src/x", "--tool", "t", cwd=project)
    assert done.code == 2
    assert "byleave.toml describes it, but is not trusted yet" in done.err


def test_a_path_that_begins_with_a_dash_is_written_after_two_dashes(project: Path) -> None:
    (project / "src" / "-x").touch()
    assert check(project, "read", "--tool", "t", "--json", "src/-x").code == 0
    done = byleave("check", "read", "--policy", "p.toml", "--tool", "t", "--", "-x", cwd=project)
    assert (done.code, 'read on "-x"' in done.out) == (20, True)


def test_a_name_that_is_not_utf8_is_judged_shown_and_told_in_base64(project: Path) -> None:
    shown = check(project, "read", b"src/caf\xe9", "--tool", "t")
    assert (shown.code, shown.out.startswith('allow: read on "src/caf\\xe9" is granted by ')) == (0, True)
    tree = json.loads(check(project, "read", b"src/caf\xe9", "--tool", "t", "--json").out)
    assert base64.b64decode(tree["canonical_b64"]) == os.fsencode(project.resolve()) + b"/src/caf\xe9"
    assert tree["canonical"].endswith("/src/caf\\xe9")


def test_a_root_whose_name_is_not_utf8_works_everywhere(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(root)
    with open(root + b"/byleave.toml", "wb") as file:
        file.write(POLICY.encode())
    for words in (["trust", "--yes"], ["check", "read", "src/x", "--tool", "t"], ["policy", "show"], ["doctor"]):
        done = byleave(*words, "--json", cwd=os.fsdecode(root))
        assert (done.code, done.err) == (0, ""), words
        done.out.encode()
        json.loads(done.out)
    assert base64.b64decode(json.loads(byleave("policy", "show", "--json", "--root", root).out)["root_b64"]) == root


HOSTILE = ("\x1b]0;owned\x07", "\u202egnp.exe", "a\nb", "\x9b31m", 'x" is granted by fs .', "\u3164", b"\xff\xfe")


@pytest.mark.parametrize("word", HOSTILE, ids=repr)
def test_hostile_words_never_reach_the_terminal_as_they_are(word: str | bytes, project: Path) -> None:
    for words in (
        [word],
        ["check", word],
        ["check", "read", word],
        ["check", "read", word, "--tool", "t"],
        ["check", "read", "x", "--tool", word],
        ["check", "move", word, word, "--tool", "t"],
        ["check", "url", word, "--tool", "t"],
        ["check", "env", word, "--tool", "t"],
        ["check", "spawn", "--tool", "t", "--", word, word],
        ["check", "command", word, "--cwd", word],
        ["check", "call", word, word],
        ["check", "call", "s", "--arguments", word],
        ["check", "read", "x", "--root", word],
        ["check", "read", "x", "--session", word],
        ["check", "read", "x", "--policy", word],
        ["trust", word, "--yes"],
    ):
        done = byleave(*words, *(["--policy", "p.toml"] if "--" not in words else []), cwd=project)
        said = done.out + done.err
        assert done.code in (2, 10, 20), words
        assert [char for char in said if not char.isprintable() and char != "\n"] == [], words
        assert ("internal error" in said, "Traceback" in said) == (False, False), words


def test_hostile_configuration_is_shown_harmlessly(project: Path) -> None:
    (project / "p.toml").write_text(
        '[tools."t\\u001b[2J"]\nsource = "mcp.\\u001b]0;x\\u0007"\nrun = "ask"\n[tools.l]\nsource = "local"\n'
        'command = ["\\u202e", "\\u009b"]\n[tools.l.options]\nday = 2024-01-01\n'
        '[[tools.l.access.fs]]\npath = "\\u202ea"\n'
    )
    for words in (["policy", "show"], ["doctor"], ["check", "read", "\u202ea", "--tool", "l"]):
        done = byleave(*words, "--policy", "p.toml", cwd=project)
        assert [char for char in done.out + done.err if not char.isprintable() and char != "\n"] == [], words
        as_json = byleave(*words, "--policy", "p.toml", "--json", cwd=project)
        assert json.loads(as_json.out)
        assert as_json.out.isascii()


BROKEN: dict[str, bytes] = {
    "not TOML": b"[tools.t\n",
    "not text": b"\xff\xfe\x00\x01",
    "a wrong type": b"tools = 3\n",
    "a wrong type inside": b'[tools.t]\nsource = ["local"]\n',
    "an unknown key": b"[toools.t]\n",
    "a hostile key": b'[tools."a\\u001b[2J"]\nsourze = "local"\n',
    "a hostile line": b'[tools.t]\nsourze = "\xe2\x80\xae\xc2\x9b31m"\n',
    "a rule that escapes": b'[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "../x"\nread = true\n',
    "an access on a server's tool": b'[tools.t]\nsource = "mcp.x"\n[[tools.t.access.fs]]\npath = "x"\nread = true\n',
    "brackets without end": b"a = " + b"[" * 100_000,
    "a key of many names": b".".join([b"a"] * 50_000) + b" = 1\n",
    "a number without end": b"a = " + b"9" * 100_000 + b"\n",
    "a thousand mistakes": b"".join(b"[tools.t%d]\nsourze = 1\n" % number for number in range(1000)),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_policy_is_a_clear_error(content: bytes, project: Path) -> None:
    (project / "p.toml").write_bytes(content)
    done = check(project, "read", "src/x", "--tool", "t")
    assert (done.code, done.out, "Traceback" in done.err, "internal error" in done.err) == (2, "", False, False)
    assert "hint: " in done.err
    assert [char for char in done.err if not char.isprintable() and char != "\n"] == []
    assert len(done.err) < 40_000
    error = json.loads(check(project, "read", "src/x", "--tool", "t", "--json").out)["error"]
    assert error["code"] == "config"


@pytest.mark.parametrize("name", ["missing.toml", "src", "/dev/null/x", "/dev/zero", ""])
def test_a_policy_that_cannot_be_read_is_a_clear_error(name: str, project: Path) -> None:
    done = byleave("check", "read", "src/x", "--tool", "t", "--policy", name, cwd=project)
    assert (done.code, done.out) == (2, "")
    assert "cannot be read" in done.err


def test_a_policy_of_very_many_rules_is_read_in_time(project: Path) -> None:
    count = amounts.of(100_000, 20_000)  # `test_layers` always reads a hundred thousand, once
    rules = [f'[[tools.t.access.fs]]\npath = "src/d{number}"\nread = true\n' for number in range(count)]
    (project / "p.toml").write_text('[tools.t]\nsource = "local"\n' + "".join(rules))
    started = time.monotonic()
    first = check(project, "read", f"src/d{count // 9 * 7}/x", "--tool", "t", timeout=120)
    second = check(project, "read", "src/e", "--tool", "t", timeout=120)
    assert (first.code, second.code, first.err + second.err) == (0, 20, "")
    assert time.monotonic() - started < 100
    assert len(second.out) < 1000


@pytest.mark.parametrize("root", ["/does/not/exist", "/dev/null", "", "p.toml"])
def test_a_root_that_is_no_directory_is_a_clear_error(root: str, project: Path) -> None:
    for words in (["check", "read", "x"], ["policy", "show"], ["trust", "--yes"], ["init"]):
        done = byleave(*words, f"--root={root}", cwd=project)
        assert (done.code, done.out) == (2, ""), words
        assert "hint: " in done.err


# Runs a command twice in one process: as it is, so that everything is loaded, and then as an ordinary user.
AS_NOBODY = """
import os, sys
from byleave.cli.main import main
main(sys.argv[1:])
sys.stdout.flush()
print("now as nobody", flush=True)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


def as_nobody(*words: str, cwd: Path, home: Path) -> tuple[int, str]:
    """Run a command as an ordinary user and return its exit code and what it said."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *words],
        cwd=cwd,
        env=environment({"BYLEAVE_HOME": str(home)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout.partition("now as nobody\n")[2]


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield a project that everybody can reach and read, but for one directory."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve()
        project.chmod(0o755)
        if not all(place.stat().st_mode & 0o001 for place in project.parents):
            pytest.skip("an ordinary user cannot reach the directory for temporary files")
        (project / "home").mkdir(mode=0o755)
        (project / "src").mkdir(mode=0o755)
        (project / "src" / "closed").mkdir(mode=0o700)
        (project / "src" / "closed" / "x").touch()
        (project / "p.toml").write_text(POLICY)
        yield project


def test_a_directory_that_cannot_be_read_is_never_allowed(shared: Path) -> None:
    words = ["check", "read", "src/closed/x", "--tool", "t", "--policy", "p.toml"]
    code, said = as_nobody(*words, cwd=shared, home=shared / "home")
    assert (code, "Traceback" in said) == (20, False), said
    assert "cannot be resolved: Permission denied" in said


def test_a_root_or_a_policy_that_cannot_be_read_is_a_clear_error(shared: Path) -> None:
    code, said = as_nobody("check", "read", "x", "--root", "src/closed/x/y", cwd=shared, home=shared / "home")
    assert (code, "hint: " in said, "Traceback" in said) == (2, True, False), said
    (shared / "p.toml").chmod(0o600)
    code, said = as_nobody(
        "check", "read", "src/x", "--tool", "t", "--policy", "p.toml", cwd=shared, home=shared / "home"
    )
    assert (code, "cannot be read: Permission denied" in said) == (2, True), said


def in_shell(line: str, cwd: Path, env: dict[str, str | None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in which `byleave` is our command."""
    words = " ".join(f"'{word}'" for word in COMMAND)
    return subprocess.run(
        ["/bin/sh", "-c", f'byleave() {{ {words} "$@"; }}; {line}'],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


STREAMS = {
    "standard output closed": ("check read x >&-", 10, ""),
    "standard error closed": ("check read x 2>&-", 10, ""),
    "standard input closed": ("check read x <&-", 10, ""),
    "all closed": ("check read x <&- >&- 2>&-", 10, ""),
    "an error with all closed": ("check read <&- >&- 2>&-", 2, ""),
    "an error in JSON with all closed": ("check read --json <&- >&- 2>&-", 2, ""),
    "a full disk": ("check read x >/dev/full", 1, "byleave: No space left on device\n"),
    "a full disk for JSON": ("check read x --json >/dev/full", 1, "byleave: No space left on device\n"),
    "a full disk for an error": ("check read --json >/dev/full", 1, "byleave: No space left on device\n"),
    "a full disk for help": ("--help >/dev/full", 1, "byleave: No space left on device\n"),
    "a full disk for the policy": ("policy show >/dev/full", 1, "byleave: No space left on device\n"),
    "a full disk for warnings": ("check read x -v 2>/dev/full", 10, ""),
    "a full disk for errors": ("check read 2>/dev/full", 2, ""),
}


@pytest.mark.parametrize("buffered", [None, "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(("line", "code", "said"), STREAMS.values(), ids=STREAMS.keys())
def test_streams_nobody_listens_to_cost_no_traceback(
    line: str, code: int, said: str, buffered: str | None, project: Path
) -> None:
    done = in_shell(f"byleave {line}", project, {"PYTHONUNBUFFERED": buffered})
    assert (done.returncode, done.stderr) == (code, said)


def test_a_closed_stream_does_not_make_a_file_of_ours_standard_output(project: Path) -> None:
    in_shell("byleave check read src/x --tool t --policy p.toml >&-; byleave init >&-", project)
    assert (project / "p.toml").read_text() == POLICY
    assert "wrote byleave.toml" not in (project / "byleave.toml").read_text()


@pytest.mark.parametrize("buffered", [None, "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", ["schema", "--help", "policy show", "check read x --json", "completion bash"])
def test_a_reader_that_stops_reading_costs_no_traceback(words: str, buffered: str | None, project: Path) -> None:
    done = in_shell(f"byleave {words} | true", project, {"PYTHONUNBUFFERED": buffered})
    assert done.stderr == ""


_NO_HOME: dict[str, str | None] = {"BYLEAVE_HOME": None, "XDG_CONFIG_HOME": "$HERE/c", "XDG_STATE_HOME": "$HERE/s"}
_FILE_HOME: dict[str, str | None] = {"BYLEAVE_HOME": None, "HOME": "/dev/null"}
ODD: dict[str, dict[str, str | None]] = {
    "no HOME": {**_NO_HOME, "XDG_CACHE_HOME": "$HERE/m", "HOME": None},
    "an empty HOME": {**_NO_HOME, "XDG_CACHE_HOME": "$HERE/m", "HOME": ""},
    "a HOME that is a file": _FILE_HOME,
    "a BYLEAVE_HOME that is a file": {"BYLEAVE_HOME": "/dev/null"},
    "a BYLEAVE_HOME that cannot exist": {"BYLEAVE_HOME": "/dev/null/x"},
    "an empty BYLEAVE_HOME": {"BYLEAVE_HOME": "", "HOME": "/dev/null"},
    "odd XDG variables": {**_FILE_HOME, "XDG_CONFIG_HOME": "rel", "XDG_STATE_HOME": "\x1b", "XDG_CACHE_HOME": ""},
    "plain ASCII": {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    "no encoding at all": {"LANG": None, "LC_ALL": None, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "no environment": {**dict.fromkeys(os.environ), "BYLEAVE_HOME": "$HERE/home"},
}


@pytest.mark.parametrize("env", ODD.values(), ids=ODD.keys())
def test_an_odd_environment_changes_no_answer(env: dict[str, str | None], project: Path) -> None:
    env = {name: value and value.replace("$HERE", str(project)) for name, value in env.items()}
    (project / "src" / "café").touch()
    done = check(project, "read", "src/café".encode(), "--tool", "t", "--json", env=env)
    assert (done.code, json.loads(done.out)["decision"], "Traceback" in done.err) == (0, "allow", False)
    spoken = check(project, "read", "src/café".encode(), "--tool", "t", env=env)
    assert (spoken.code, spoken.out.startswith("allow: "), "Traceback" in spoken.err) == (0, True, False)


def test_a_working_directory_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    for words in ("check read x", "init", "trust --yes", "policy show", "trust x --root /"):
        (tmp_path / "gone").mkdir()
        done = in_shell(f"cd gone && rmdir ../gone && byleave {words}", tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "the working directory" in done.stderr
        assert "hint: " in done.stderr


def test_a_named_root_needs_no_working_directory(project: Path) -> None:
    (project / "gone").mkdir()
    done = in_shell(f"cd gone && rmdir ../gone && byleave check read x --root '{project}'", project)
    assert done.returncode == 10


def test_very_long_words_are_answered_briefly(project: Path) -> None:
    long = "a" * 100_000
    for words in (
        ["read", long, "--tool", "t"],
        ["url", f"https://{long}/", "--tool", "t"],
        ["env", long, "--tool", "t"],
    ):
        done = check(project, *words)
        assert done.code in (10, 20)
        assert "Traceback" not in done.err


def test_arguments_of_a_call_must_be_json(project: Path) -> None:
    for bad in ("{", "NaN", '{"a": 1, "a": 2}', "[" * 100_000, ""):
        done = check(project, "call", "s", "t", f"--arguments={bad}")
        assert (done.code, done.out, "--arguments" in done.err) == (2, "", True), bad


def test_the_word_json_behind_dashes_does_not_change_how_errors_look(project: Path) -> None:
    done = byleave("check", "spawn", "--tool", "nobody", "--", "git", "--json", cwd=project)
    assert (done.code, done.out) == (2, "")
    assert "no tool named" in done.err


def test_a_defect_is_no_answer_and_verbose_shows_where_it_was(project: Path) -> None:
    script = (
        "import sys, byleave.cli.check_command as c\n"
        "def run(given): raise KeyError('\\x1b[2J')\n"
        "c.run = run\n"
        "from byleave.cli.main import main\n"
        "sys.exit(main(['check', 'read', 'x', *sys.argv[1:]]))\n"
    )
    for more in ([], ["-v"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *more],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("byleave: internal error: KeyError: ")
        assert ("Traceback" in done.stderr) == bool(more)
        assert "\x1b" not in done.stderr


def test_nothing_asked_for_is_a_mistake_that_shows_the_help(project: Path) -> None:
    for words in ([], ["check"], ["policy"]):
        done = byleave(*words, cwd=project)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("usage: byleave")


def test_a_directory_for_a_command_is_meant_from_where_the_asker_stands(project: Path) -> None:
    (project / "src" / "in").mkdir(parents=True)
    rules = '[[rules]]\nallow = { command = "make", within = "src/in" }\n'
    (project / "rules.toml").write_text(rules)
    asked = ("check", "--root", str(project), "--policy", str(project / "rules.toml"), "command", "make", "--cwd", "in")
    assert byleave(*asked, cwd=project / "src").code == 0
    assert byleave(*asked, cwd=project).code == 10


def test_the_policy_is_shown_with_the_rules_of_every_family(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(POLICY)
    done = byleave("policy", "show", "--policy", "p.toml", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines() if line.startswith("  ")]
    assert {row[0] for row in rows} >= {"fs", "net", "env", "commands"}
    assert "git" in done.out
