"""How the sandbox presents itself: the Python API, the environment, the plan that is shown, limits, odd workspaces."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import amounts
from byleave.errors import ByleaveError, ConfigErrors
from command import COMMAND, Done, environment
from sandbox.machine import PYTHON, access_file, alive, inside, listing, needs_sandbox, shell

pytestmark = needs_sandbox

MINIMAL = {"PATH", "HOME", "USER", "LANG", "TERM", "TZ"}
TOOL = '[tools.t]\nsource = "local"\nruntime = "stdio"\ncommand = ["x"]\n'
OPEN = '[[access.fs]]\npath = "."\nread = true\nwrite = true\nexecute = true\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "ws"
    place.mkdir()
    return place


# The Python API


@pytest.fixture
def boxed(root: Path) -> Iterator[Callable[[dict[str, Any] | None], Any]]:
    """Return a function that makes a sandbox for an access table, closed in the end."""
    from byleave.sandbox import Sandbox

    made = []

    def make(access: dict[str, Any] | None = None) -> Any:
        made.append(Sandbox(access, root=str(root)))
        return made[-1]

    yield make
    for box in made:
        box.close()


def said(box: Any, *words: str, **options: Any) -> tuple[int, bytes]:
    process = box.spawn(list(words), stdout=subprocess.PIPE, **options)
    out = process.stdout.read()
    process.stdout.close()
    code = process.wait()
    assert process.returncode == code
    assert process.pid > 0
    return code, out


def test_a_program_is_started_like_any_other(boxed: Callable[..., Any], root: Path) -> None:
    box = boxed()
    assert said(box, "/bin/sh", "-c", "pwd; exit 3", cwd=None) == (3, f"{root}\n".encode())
    assert said(box, "/bin/sh", "-c", "kill -9 $$")[0] in (-9, 137)
    assert said(box, "cat", stdin=subprocess.DEVNULL) == (0, b"")


def test_a_program_is_fed_and_read_through_pipes(boxed: Callable[..., Any]) -> None:
    box = boxed()
    process = box.spawn(
        ["/bin/sh", "-c", "cat; echo e >&2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(b"fed")
    process.stdin.close()
    assert (process.stdout.read(), process.stderr.read(), process.wait()) == (b"fed", b"e\n", 0)
    process.stdout.close()
    process.stderr.close()


def test_a_sandbox_holds_to_its_access_table(boxed: Callable[..., Any], root: Path) -> None:
    (root / "hidden").write_text("x")
    rules = [{"path": ".", "read": True}, {"path": "hidden"}]
    box = boxed({"fs": rules})
    script = "cat hidden 2>/dev/null || echo no; touch made 2>/dev/null || echo no; ls"
    code, out = said(box, "/bin/sh", "-c", script)
    assert (code, out.split()[:2]) == (0, [b"no", b"no"])
    assert not (root / "made").exists()


def test_a_program_gets_the_directory_and_the_variables_that_it_is_given(boxed: Callable[..., Any], root: Path) -> None:
    (root / "sub").mkdir()
    box = boxed({"env": [{"name": "MINE_*", "read": True}]})
    variables = {"PATH": "/usr/bin:/bin", "MINE_X": "1", "OTHER": "2"}
    code, out = said(box, "/bin/sh", "-c", "pwd; echo $MINE_X-$OTHER", cwd=str(root / "sub"), env=variables)
    assert (code, out.split()) == (0, [f"{root}/sub".encode(), b"1-"])
    assert said(box, "pwd", cwd="/etc")[1] == f"{root}\n".encode()


def test_a_wrong_table_or_an_unlisted_program_is_an_error(boxed: Callable[..., Any]) -> None:
    with pytest.raises(ConfigErrors):
        boxed({"fs": [{"path": "/etc", "read": True}]})
    box = boxed({"commands": {"cat": {}}})
    with pytest.raises(ByleaveError):
        box.spawn(["ls"])
    with pytest.raises(ByleaveError):
        boxed().spawn(["no-such-program-anywhere"])


def test_one_sandbox_runs_many_programs_and_leaves_no_descriptors(boxed: Callable[..., Any], root: Path) -> None:
    box = boxed()
    said(box, "true")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(10):
        assert said(box, "/bin/sh", "-c", f"echo {number}") == (0, f"{number}\n".encode())
    assert len(os.listdir("/proc/self/fd")) == before
    box.close()
    assert listing(root) == {}


def test_programs_run_at_the_same_time_in_one_sandbox(boxed: Callable[..., Any], root: Path) -> None:
    box = boxed()
    got = {}

    def one(number: int) -> None:
        got[number] = said(box, "/bin/sh", "-c", f"sleep 0.1; echo {number}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: (0, f"{number}\n".encode()) for number in range(6)}


def test_what_changes_after_the_sandbox_was_made_is_noticed(boxed: Callable[..., Any], root: Path) -> None:
    """A place that is hidden stays hidden when it comes into being later, or is replaced by something else."""
    box = boxed({"fs": [{"path": ".", "read": True, "write": True}, {"path": "hidden"}]})
    assert said(box, "true")[0] == 0
    place = root / "hidden"
    if place.is_dir():
        place.rmdir()
    place.write_text("secret")
    assert b"secret" not in said(box, "cat", "hidden")[1]
    place.unlink()
    place.mkdir()
    (place / "key").write_text("secret")
    assert b"secret" not in said(box, "cat", "hidden/key")[1]


# Environment and place


def test_the_environment_is_minimal(root: Path) -> None:
    given = {"LANG": "C.UTF-8", "LC_TIME": "C", "TZ": "UTC", "TERM": "dumb", "USER": "u"}
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "s",
        "LD_PRELOAD": "",
        "PYTHONSTARTUP": "x",
        "GITHUB_TOKEN": "s",
        "SSH_AUTH_SOCK": "s",
    }
    done = inside(root, "env", "-0", env={**given, **secrets})
    names = {line.partition("=")[0] for line in done.out.split("\0") if line}
    assert names - {"PWD", "SHLVL", "_"} <= MINIMAL | {"LC_TIME"} | {name for name in names if name.startswith("LC_")}
    assert given.keys() <= names


def test_granted_variables_pass_and_denied_ones_do_not(root: Path, tmp_path: Path) -> None:
    text = '[[access.env]]\nname = "AWS_*"\nread = true\n[[access.env]]\nname = "AWS_SECRET"\nread = false\n'
    done = inside(
        root, "env", options=access_file(tmp_path, text), env={"AWS_REGION": "r", "AWS_SECRET": "s", "X": "x"}
    )
    lines = done.out.splitlines()
    assert "AWS_REGION=r" in lines
    assert not [line for line in lines if line.startswith(("AWS_SECRET", "X="))]


def test_it_starts_where_the_caller_is_if_that_is_inside(root: Path, tmp_path: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    assert inside(root, "pwd", cwd=root / "a/b").out == f"{root}/a/b\n"
    assert inside(root, "pwd", cwd=tmp_path).out == f"{root}\n"
    assert inside(root, "pwd", cwd=Path("/")).out == f"{root}\n"


def test_home_and_temporary_files_are_private_and_empty(root: Path) -> None:
    script = "ls -A ~ /tmp /var/tmp 2>/dev/null; echo kept > ~/kept; echo kept > /tmp/kept; cat ~/kept"
    first, second = shell(root, script), shell(root, script)
    assert first == second
    assert not Path("/tmp/kept").exists()
    assert not Path(os.environ["HOME"], "kept").exists()


@pytest.mark.parametrize("where", ["home", "in home", "memory", "var", "link", "blanks", "long"])
def test_a_workspace_may_be_anywhere(tmp_path: Path, own_home: Path, where: str) -> None:
    unique = f"byleave-ws-{os.getpid()}"
    base = {
        "home": own_home,
        "in home": own_home / "code/ws",
        "memory": Path("/dev/shm") / unique,
        "var": Path("/var/tmp") / unique,
        "link": tmp_path / "real",
        "blanks": tmp_path / "a b'\"\\\t\n$x;é" / "-ws",
        "long": tmp_path.joinpath(*["n" * 200] * 8),
    }[where]
    base.mkdir(parents=True, exist_ok=True)
    root = base
    if where == "link":
        root = tmp_path / "link"
        root.symlink_to(base)
    try:
        (base / "f").write_text("here")
        done = inside(root, "/bin/sh", "-c", "cat f; echo made > g; pwd; touch .envrc")
        assert done.out == f"here{base.resolve()}\n", done
        assert (base / "g").read_text() == "made\n"
        assert not (base / ".envrc").exists()
    finally:
        if where in ("memory", "var"):
            shutil.rmtree(base)


def test_the_whole_file_system_is_no_workspace() -> None:
    assert inside(Path("/"), "true").code in (2, 125)


# The plan


def test_a_plan_is_explained_and_nothing_runs(root: Path) -> None:
    done = inside(root, "touch", "made", options=["--explain"])
    assert done.code == 0
    assert str(root) in done.out
    assert "network" in done.out
    assert listing(root) == {}


def test_a_plan_is_explained_to_programs(root: Path, tmp_path: Path) -> None:
    (root / "hidden").mkdir()
    text = OPEN + '[[access.fs]]\npath = "hidden"\n[[access.fs]]\npath = "half"\nread = true\ncreate = true\n'
    (root / "half").mkdir()
    done = inside(root, "true", options=["--explain", "--json", *access_file(tmp_path, text)])
    tree = json.loads(done.out)
    assert done.code == 0
    assert all({"path", "op", "why"} <= entry.keys() for entry in tree["approximate"])
    assert all(isinstance(entry[key], str) for entry in tree["approximate"] for key in ("path", "op", "why"))
    assert str(root / "hidden") in json.dumps(tree)


def test_a_plan_that_is_explained_is_the_one_that_holds(root: Path, tmp_path: Path) -> None:
    with_net = access_file(tmp_path, '[[access.net]]\nhost = "example.org"\nallow = true\n')
    explained = json.loads(inside(root, "true", options=["--explain", "--json", *with_net]).out)
    names = set(inside(root, "env", "-0", options=with_net).out.split("\0"))
    proxies = {name.partition("=")[0] for name in names if "proxy" in name.lower()}
    assert {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} <= proxies
    assert explained["approximate"] == [] or explained["approximate"]


# Configuration


def configured(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    return ["--policy", str(file)]


def test_further_places_can_be_read_and_written(root: Path, tmp_path: Path) -> None:
    for name in ("seen", "written", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    text = f'[sandbox]\nread = ["{tmp_path}/seen"]\nwrite = ["{tmp_path}/written"]\n'
    options = configured(tmp_path, text)
    script = f"cd {tmp_path}; cat seen/f written/f; echo x > written/g; echo x > seen/g; cat other/f"
    done = inside(root, "/bin/sh", "-c", script, options=options)
    assert done.out == "seenwritten", done
    assert done.code != 0
    assert sorted(path.name for path in (tmp_path / "written").iterdir()) == ["f", "g"]
    assert [path.name for path in (tmp_path / "seen").iterdir()] == ["f"]


def test_a_project_cannot_give_itself_further_places(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/f").write_text("secret")
    (root / "byleave.toml").write_text(f'[sandbox]\nread = ["{tmp_path}/other"]\n')
    done = inside(root, "cat", f"{tmp_path}/other/f")
    assert done.code != 0
    assert "secret" not in done.out


def test_a_mount_holds_for_one_run(root: Path, tmp_path: Path) -> None:
    (tmp_path / "fork").mkdir()
    (tmp_path / "fork/f").write_text("forked")
    access = access_file(tmp_path, OPEN)
    script = "cat fork/f; echo x > fork/g; echo $?"
    done = inside(root, "/bin/sh", "-c", script, options=[*access, "--mount", f"fork={tmp_path}/fork"])
    assert done.out.startswith("forked"), done
    assert done.out.split()[-1] != "0"
    assert inside(root, "cat", "fork/f", options=access).code != 0
    assert listing(root) == {}
    assert [path.name for path in (tmp_path / "fork").iterdir()] == ["f"]


def tool(tmp_path: Path, limits: str) -> list[str]:
    return [*configured(tmp_path, f"{TOOL}[tools.t.limits]\n{limits}\n"), "--tool", "t"]


def test_a_tool_runs_with_its_own_access(root: Path, tmp_path: Path) -> None:
    text = f'{TOOL}[[tools.t.access.fs]]\npath = "."\nread = true\n'
    options = [*configured(tmp_path, text), "--tool", "t"]
    assert inside(root, "touch", "made", options=options).code != 0
    assert inside(root, "true", options=[*configured(tmp_path, text), "--tool", "unknown"]).code == 2
    assert listing(root) == {}


def test_a_fork_bomb_ends_in_the_sandbox(root: Path, tmp_path: Path) -> None:
    program = dedent("""
        import os, time
        made = 0
        try:
            while made < 500:
                if os.fork() == 0: time.sleep(60.25)
                made += 1
        except OSError: pass
        print(made)
    """)
    done = inside(root, PYTHON, "-c", program, options=tool(tmp_path, "processes = 40"))
    assert done.code == 0, done
    most = 40 if os.getuid() else 400  # the kernel does not count root's processes; only the numbers run out
    assert 10 < int(done.out) <= most
    assert alive("time.sleep(60.25)") == []


@amounts.slow
def test_a_fork_bomb_ends_even_without_a_limit(root: Path) -> None:
    done = inside(root, "/bin/sh", "-c", "f() { f | f & }; f; sleep 1; echo survived", timeout=60)
    assert done.code in range(256)


@pytest.mark.parametrize(
    ("limit", "program"),
    [
        ('memory = "100 MB"', "x = bytearray(400 << 20)"),
        ('file_size = "1 MB"', "f = open('big', 'wb'); f.write(b'x' * (3 << 20)); f.flush()"),
        ("open_files = 20", "fs = [open('/dev/null') for _ in range(50)]"),
    ],
)
def test_what_is_too_much_is_refused(root: Path, tmp_path: Path, limit: str, program: str) -> None:
    options = tool(tmp_path, limit)
    assert inside(root, PYTHON, "-c", program, options=options).code != 0
    assert inside(root, PYTHON, "-c", program).code == 0
    assert inside(root, PYTHON, "-c", "print(1)", options=options).out == "1\n"


def test_what_takes_too_long_is_ended(root: Path, tmp_path: Path) -> None:
    token = f"token-{os.getpid()}-late"
    program = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(60)"
    begun = time.monotonic()
    done = inside(root, PYTHON, "-c", program, token, options=tool(tmp_path, "wall_time = 1"))
    assert done.code != 0
    assert 0.9 < time.monotonic() - begun < 20
    assert alive(token) == []


def test_limits_cannot_be_raised_inside(root: Path, tmp_path: Path) -> None:
    program = dedent("""
        import resource
        for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
            try: resource.setrlimit(kind, (resource.RLIM_INFINITY if kind != resource.RLIMIT_NOFILE else 9999,) * 2)
            except (ValueError, OSError): print("kept")
    """)
    limits = 'processes = 50\nmemory = "500 MB"\nfile_size = "1 MB"\nopen_files = 64'
    assert inside(root, PYTHON, "-c", program, options=tool(tmp_path, limits)).out == "kept\n" * 4


# Workspaces that somebody else has prepared


def hostile(kind: str, place: Path, outside: Path) -> None:
    """Make a protected name something that nobody expects there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "dangling link":
            place.symlink_to(outside / "missing")
        case "link to a directory":
            place.symlink_to(outside)
        case "link to a file":
            place.symlink_to(outside / "file")
        case "link into the workspace":
            place.symlink_to(place.parent / "elsewhere")
            (place.parent / "elsewhere").mkdir(exist_ok=True)
        case "loop":
            place.symlink_to(place.name)
        case "fifo":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                here = os.getcwd()
                os.chdir(place.parent)  # such a name may not be long
                made.bind(place.name)
                os.chdir(here)
        case "file":
            place.write_text("file")
        case "directory":
            place.mkdir()
        case "closed directory":
            place.mkdir(mode=0)


NAMES = (".claude", ".envrc", ".vscode", ".git", ".config", ".mcp.json", ".idea")
KINDS = (
    "dangling link",
    "link to a directory",
    "link to a file",
    "link into the workspace",
    "loop",
    "fifo",
    "socket",
    "file",
    "directory",
    "closed directory",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [NAMES, (".git/hooks", ".git/config")], ids=["at the top", "in .git"])
def test_a_prepared_workspace_leads_nowhere(tmp_path: Path, root: Path, kind: str, names: tuple[str, ...]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("untouched")
    for name in names:
        hostile(kind, root / name, outside)
    before, around = listing(root), listing(outside)
    script = """
        for n in .claude .envrc .vscode .git .config .mcp.json .idea .git/hooks .git/config; do
            (echo evil > $n) & (echo evil > $n/evil) & (mkdir $n/evil) & done 2>/dev/null
        sleep 0.2; rm -rf .claude .git/hooks; echo x > ordinary; echo done; kill -9 -1
    """
    done = inside(root, "timeout", "5", "/bin/sh", "-c", script, timeout=30)
    assert listing(outside) == around
    assert done.out == "done\n" or done.code in (2, 125), done
    if done.code in (2, 125):
        assert done.err, "a refusal says why"
        assert listing(root) == before
    elif kind not in ("link into the workspace", "dangling link"):
        ordinary = {
            "ordinary",
            ".git/evil",
            ".config/evil",
        }  # of these two directories only certain names are protected
        assert {name: text for name, text in listing(root).items() if name not in ordinary} == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_name_leads_nowhere_whatever_it_is(tmp_path: Path, root: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("TOPSECRET")
    hostile(kind, root / "hidden", outside)
    around = listing(outside)
    options = access_file(tmp_path, OPEN + '[[access.fs]]\npath = "hidden"\n')
    script = "timeout 1 cat hidden hidden/file hidden/missing; echo evil > hidden/missing; echo done"
    done = inside(root, "/bin/sh", "-c", script, options=options, timeout=30)
    assert "TOPSECRET" not in done.out
    assert listing(outside) == around
    assert done.out.endswith("done\n") or done.code in (2, 125), done


# Ways out that were found: what one run writes must not open the next one


def at_home(home: Path, *words: str) -> Done:
    """Run in a workspace that is the home directory, with byleave's own places where they usually are."""
    return inside(home, *words, env={"HOME": str(home), "BYLEAVE_HOME": None, "XDG_CACHE_HOME": None})


@pytest.mark.parametrize("present", [(), (".config", ".cache", ".local/state"), (".config/byleave", ".cache/byleave")])
def test_byleaves_own_places_stay_shut_where_home_is_the_workspace(tmp_path: Path, present: tuple[str, ...]) -> None:
    """The launcher lies in the cache, and who replaces it decides what the next run runs."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for name in present:
        (home / name).mkdir(parents=True, mode=0o700)
    script = """
        mkdir -p .config/byleave .cache/byleave .local/state/byleave
        echo evil > .config/byleave/config.toml; echo evil > .cache/byleave/evil; echo evil > .local/state/byleave/evil
        for f in .cache/byleave/* .local/state/byleave/*/*/*; do echo evil > $f; rm -f $f; done
        mv .config c1; mv .cache c2; mv .local c3; mkdir -p .config/byleave; echo evil > .config/byleave/config.toml
    """
    for _ in range(2):
        assert at_home(home, "/bin/sh", "-c", script).code != 125
        places = [home / name / "byleave" for name in (".config", ".cache", ".local/state")]
        found = [path for place in places for path in place.rglob("*") if path.is_file()]
        assert [path for path in found if path.read_bytes() == b"evil\n"] == []
    assert at_home(home, "true").code == 0


def test_the_files_that_hold_the_policy_are_not_granted(root: Path) -> None:
    (root / "conf").mkdir()
    (root / "access.toml").write_text(OPEN)
    (root / "conf/policy.toml").write_text("[sandbox]\nread = []\n")
    before = listing(root)
    options = ["--access", "access.toml", "--policy", "conf/policy.toml"]
    script = """
        for f in access.toml conf/policy.toml; do echo x >> $f; echo x > n; mv n $f; mv $f $f.old; rm -f $f n; done
        mv conf conf.old && mkdir conf && echo x > conf/policy.toml
    """
    inside(root, "/bin/sh", "-c", script, options=options)
    assert {name: text for name, text in listing(root).items() if name in before} == before


@pytest.mark.parametrize(
    "line",
    ["#!/usr/bin/env -S -u {} /bin/sh", "#!/usr/bin/env -S -C {} /bin/sh", "#!/usr/bin/env -S A=b -u {} /bin/sh"],
)
def test_a_script_does_not_choose_what_is_shown(root: Path, own_home: Path, line: str) -> None:
    """Scripts of the workspace are written by whoever runs in it, and their first lines are read for interpreters."""
    keys = own_home / ".ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("TOPSECRET")
    place = keys if "-C" in line else keys / "id_rsa"
    (root / "tool").write_text(f"{line.format(place)}\ncat {keys}/id_rsa; ls {keys}; echo ran\n")
    (root / "tool").chmod(0o755)
    done = inside(root, "./tool")
    assert "TOPSECRET" not in done.out
    assert "id_rsa" not in done.out.splitlines()


def test_a_program_brings_no_credentials_along(root: Path, own_home: Path) -> None:
    """What is installed in ~/.cargo/bin lies beside the token of its registry."""
    place = own_home / ".cargo/bin"
    place.mkdir(parents=True)
    shutil.copy("/bin/cat", place / "cargo")
    (own_home / ".cargo/credentials.toml").write_text("TOPSECRET")
    done = inside(root, str(place / "cargo"), str(own_home / ".cargo/credentials.toml"))
    assert "TOPSECRET" not in done.out


def test_a_held_name_stays_held_when_somebody_outside_clears_it_away(root: Path) -> None:
    """`git clean -d` removes empty directories, ours too; then the name must not be free for what runs inside."""
    program = dedent("""
        import os, time
        os.makedirs("evil"); open("evil/settings.json", "w").write("evil"); print("ready", flush=True)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try: os.rename("evil", ".claude"); break
            except OSError: pass
    """)
    process = subprocess.Popen(
        [*COMMAND, "run", "--root", str(root), "--no-input", "--", PYTHON, "-c", program],
        env=environment(None),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if (root / ".claude").is_dir():
        (root / ".claude").rmdir()
    process.wait(timeout=60)
    process.stdout.close()
    assert not (root / ".claude/settings.json").exists()


@pytest.mark.parametrize(
    "program",
    [
        "import mmap; m = mmap.mmap(-1, 400 << 20); m[::4096] = bytes(len(m) // 4096)",
        "import os; fs = [os.memfd_create('x') for _ in range(8)]; [os.write(f, bytes(50 << 20)) for f in fs]",
        "[open(f'/tmp/{n}', 'wb').write(bytes(50 << 20)) for n in range(8)]",
        "[open(f'/dev/shm/{n}', 'wb').write(bytes(50 << 20)) for n in range(8)]",
    ],
    ids=["shared memory", "memory files", "temporary files", "files in memory"],
)
def test_a_limit_on_memory_counts_all_of_it(root: Path, tmp_path: Path, program: str) -> None:
    options = tool(tmp_path, 'memory = "100 MB"')
    told = json.loads(inside(root, "true", options=[*options, "--explain", "--json"]).out)["approximate"]
    assert inside(root, PYTHON, "-c", program, options=options).code != 0 or "memory" in {entry["op"] for entry in told}


# Streams


def redirected(root: Path, script: str, **streams: Any) -> Done:
    words = [*COMMAND, "run", "--root", str(root), "--no-input", "--", "/bin/sh", "-c", script]
    done = subprocess.run(words, cwd=root, env=environment(None), check=False, timeout=60, **streams)
    return Done(done.returncode, "", "")


def test_a_stream_gives_no_more_than_it_was_opened_for(root: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("source\n")
    target.write_text("before\n")
    script = """
        (echo evil > /proc/self/fd/0); (echo evil >> /dev/stdin); (cat /proc/self/fd/1 > read1)
        (: > /proc/self/fd/1); cat; echo after; true
    """
    with source.open("rb") as stdin, target.open("ab") as stdout:
        done = redirected(root, script, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
    assert done.code == 0
    assert source.read_text() == "source\n"
    assert target.read_text().startswith("before\n")
    assert target.read_text().endswith("source\nafter\n")
    assert "before" not in (root / "read1").read_text()


def test_closed_streams_stay_closed(root: Path) -> None:
    words = " ".join([*COMMAND, "run", "--root", str(root), "--no-input", "--"])
    script = f"{words} /bin/sh -c 'ls -l /proc/self/fd > fds' <&- >&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", script], cwd=root, env=environment(None), check=False, timeout=60)
    assert done.returncode in (0, 1, 125)
    if done.returncode == 0:
        assert "byleave-program" not in (root / "fds").read_text()


def test_descriptors_of_the_caller_do_not_come_along(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("TOPSECRET")
    left = os.open(tmp_path / "secret", os.O_RDONLY)
    try:
        done = subprocess.run(
            [*COMMAND, "run", "--root", str(root), "--no-input", "--", "/bin/sh", "-c", "ls /proc/self/fd"],
            env=environment(None),
            pass_fds=[left],
            capture_output=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(left)
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"]  # the last is the directory that is being listed


@pytest.mark.parametrize(
    "setting",
    ["signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))", "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"],
    ids=["all blocked", "children ignored"],
)
def test_it_does_not_matter_which_signals_the_caller_ignores_or_blocks(root: Path, setting: str) -> None:
    """They stay so through an exec, and some who start programs do not care."""
    start = f"import os, signal, sys; {setting}; os.execv(sys.argv[1], sys.argv[1:])"
    words = ["run", "--root", str(root), "--no-input", "--", "/bin/sh", "-c", "exit 6"]
    process = subprocess.Popen([sys.executable, "-c", start, *COMMAND, *words], env=environment(None))
    try:
        assert process.wait(timeout=15) == 6
    finally:
        process.kill()
        process.wait()
