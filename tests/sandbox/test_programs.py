"""Real programs work inside as they do outside: git, pip, npm, make, databases, the network, terminals and signals."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent

import pytest

import amounts
from command import COMMAND, PATIENCE, Terminal, at_terminal, environment
from sandbox.machine import PYTHON, access_file, alive, as_nobody, inside, listing, needs_sandbox, shell

pytestmark = [needs_sandbox, pytest.mark.sampled(2)]

STRICT = """\
[[access.fs]]
path = "."
read = true
write = true

[[access.fs]]
path = "secret"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with nothing in it."""
    place = tmp_path / "ws"
    place.mkdir()
    return place


@pytest.fixture(params=["default", "strict"])
def options(request: pytest.FixtureRequest, tmp_path: Path, root: Path) -> list[str]:
    """The default policy, and one that executes nothing in the workspace and hides a part of it."""
    if request.param == "default":
        return []
    (root / "secret").mkdir()
    (root / "secret/key").write_text("TOPSECRET")
    return access_file(tmp_path, STRICT)


def git(place: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(root: Path) -> Path:
    """A repository with one commit, made outside, and somebody to commit as."""
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.email", "a@example.org")
    git(root, "config", "user.name", "A")
    (root / "one").write_text("1\n")
    git(root, "add", "one")
    git(root, "commit", "-qm", "first")
    return root


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"there is no {', '.join(missing)}")


@contextmanager
def web(place: Path) -> Iterator[int]:
    """Serve a directory on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place))) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def net_access(place: Path, port: int) -> list[str]:
    return access_file(place, f'[[access.net]]\nhost = "127.0.0.1"\nport = {port}\nscheme = "http"\nallow = true\n')


def make_wheel(place: Path) -> Path:
    wheel = place / "greeting-1.0-py3-none-any.whl"
    info = "greeting-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("greeting.py", "WORD = 'hello'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


# Ordinary work


def test_git_commits_branches_and_rebases(repository: Path, options: list[str]) -> None:
    script = """
        git status --short
        echo 2 > two; git add two; git commit -qm second
        git branch side; git checkout -q side; echo 3 > three; git add three; git commit -qm third
        git checkout -q main; echo 4 > four; git add four; git commit -qm fourth
        git checkout -q side; git rebase -q main; git checkout -q main; git merge -q side
        git stash list; git tag v1; git gc -q
        git log --format=%s
    """
    assert shell(repository, script, options=options).split() == ["third", "fourth", "second", "first"]
    assert git(repository, "log", "--format=%s").split() == ["third", "fourth", "second", "first"]
    assert git(repository, "fsck", "--strict") == ""


def test_git_clones_a_local_repository_and_commits_in_the_clone(repository: Path, options: list[str]) -> None:
    script = """
        git clone -q . clone; cd clone
        git config user.email b@example.org; git config user.name B
        echo 5 > five; git add five; git commit -qm fifth; git push -q origin HEAD:refs/heads/fifth
    """
    shell(repository, script, options=options)
    assert git(repository, "log", "--format=%s", "fifth").split() == ["fifth", "first"]


def test_git_goes_on_outside_as_before(repository: Path) -> None:
    before = listing(repository)
    shell(repository, "git status")
    after = listing(repository)
    assert {name: text for name, text in after.items() if name != ".git/index"} == {
        name: text for name, text in before.items() if name != ".git/index"
    }
    git(repository, "config", "user.name", "C")
    git(repository, "worktree", "add", "-q", "../tree")


def test_a_repository_is_made_inside_only_where_it_is_no_way_to_the_workspaces_own(root: Path) -> None:
    assert "Initialized" in shell(root, "mkdir sub; git init sub 2>&1")
    assert inside(root, "git", "init").code != 0


def test_files_are_saved_as_editors_do(root: Path, options: list[str]) -> None:
    script = """
        echo old > f; echo new > .f.tmp; mv .f.tmp f; cat f
        cp f g; ln g h; ln -s g i; cat i; chmod 600 g; touch -d 2001-01-01 g
        mkdir -p a/b/c; mv a z; rm -r z; mkfifo p; (echo through > p &) ; cat p; rm p
        sed -i s/new/newer/ f; cat f; dd if=/dev/zero of=big bs=1M count=3 2>/dev/null; truncate -s 5 big; wc -c < big
    """
    assert shell(root, script, options=options).split() == ["new", "new", "through", "newer", "5"]
    assert (root / "g").stat().st_mode & 0o777 == 0o600


def test_pip_installs_a_local_wheel_into_a_virtual_environment(root: Path) -> None:
    make_wheel(root)
    program = dedent("""
        import subprocess, sys
        subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", "v"])
        pip = [sys.executable, "-m", "pip", "--python", "v/bin/python", "install", "-q", "--no-index"]
        subprocess.check_call([*pip, "--disable-pip-version-check", "greeting-1.0-py3-none-any.whl"])
        subprocess.check_call(["v/bin/python", "-c", "import greeting; print(greeting.WORD)"])
    """)
    done = inside(root, sys.executable, "-c", program)
    assert (done.code, done.out) == (0, "hello\n"), done


@needs("node", "npm")
def test_npm_runs_a_script_and_node_a_test_suite(root: Path) -> None:
    (root / "package.json").write_text('{"name": "x", "version": "1.0.0", "scripts": {"hello": "node hello.js"}}')
    (root / "hello.js").write_text("console.log('hello from', require('path').basename(process.cwd()))")
    (root / "a.test.js").write_text(
        "const t=require('node:test'),a=require('node:assert');t('adds',()=>a.equal(1+1,2));"
        "t('spawns',()=>a.equal(require('child_process').execSync('echo x')+'','x\\n'))"
    )
    assert "hello from ws" in shell(root, "npm run --silent hello")
    assert "pass 2" in shell(root, "node --test --test-reporter=tap")


def test_a_python_test_suite_runs(root: Path) -> None:
    (root / "test_it.py").write_text(
        "import unittest, tempfile, asyncio\n"
        "class T(unittest.TestCase):\n"
        "    def test_file(self):\n"
        "        with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n"
        "    def test_loop(self): self.assertEqual(asyncio.run(asyncio.sleep(0, 3)), 3)\n"
    )
    done = inside(root, PYTHON, "-m", "unittest", "-v")
    assert done.code == 0, done
    assert "Ran 2 tests" in done.err


def test_the_python_of_the_tests_finds_its_own_libraries(root: Path) -> None:
    (root / "test_it.py").write_text("def test_it(tmp_path):\n    assert tmp_path.is_dir()\n")
    done = inside(root, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.code == 0, done
    assert "1 passed" in done.out


@needs("make", "gcc")
def test_make_builds_and_runs_a_program(root: Path) -> None:
    (root / "Makefile").write_text("run: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n")
    (root / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    assert shell(root, "make -s").split() == ["built"]


def test_shell_pipelines_and_archives(root: Path, options: list[str]) -> None:
    script = """
        seq 1 1000 | sort -rn | head -3 | tr '\\n' ' '; echo
        mkdir d; seq 1 100 > d/n; tar czf d.tgz d; rm -r d; tar xzf d.tgz; tail -1 d/n
        cat <<EOF | wc -l
        a
        b
        EOF
        x=$(echo sub); echo "$x"; (sleep 0.1; echo late) & wait
    """
    assert shell(root, dedent(script), options=options).split() == ["1000", "999", "998", "100", "2", "sub", "late"]


@needs("zip", "unzip")
def test_zip_archives(root: Path) -> None:
    assert shell(root, "echo x > f; zip -q f.zip f; rm f; unzip -q f.zip; cat f") == "x\n"


def test_a_database_works_in_the_workspace(root: Path, options: list[str]) -> None:
    program = dedent("""
        import sqlite3
        a = sqlite3.connect("d.db"); print(a.execute("pragma journal_mode=wal").fetchone()[0])
        a.execute("create table t(x)"); a.execute("insert into t values (7)"); a.commit()
        b = sqlite3.connect("d.db"); print(b.execute("select x from t").fetchone()[0]); b.close()
        a.execute("vacuum"); a.close()
    """)
    done = inside(root, PYTHON, "-c", program, options=options)
    assert (done.code, done.out.split()) == (0, ["wal", "7"]), done


# The network, through the proxy


@needs("curl")
def test_curl_reaches_a_permitted_server_and_no_other(tmp_path: Path, root: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "page").write_text("a page")
    with web(served) as port, web(served) as other:
        allowed = net_access(tmp_path, port)
        assert shell(root, f"curl -sSf http://127.0.0.1:{port}/page", options=allowed) == "a page"
        done = inside(root, "curl", "-sSf", f"http://127.0.0.1:{other}/page", options=allowed)
        assert done.code == 22, done  # the server answered, and it was an error
        assert inside(root, "curl", "-sSf", f"http://127.0.0.1:{port}/page").code != 0


def test_python_git_and_pip_use_the_proxy_of_the_environment(tmp_path: Path, repository: Path) -> None:
    served = tmp_path / "served"
    (served / "simple/greeting").mkdir(parents=True)
    wheel = make_wheel(served / "simple/greeting")
    (served / "simple/greeting/index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(served / "r.git"))
    git(served / "r.git", "update-server-info")
    with web(served) as port:
        here = f"http://127.0.0.1:{port}"
        program = dedent(f"""
            import subprocess, sys, urllib.request
            print(len(urllib.request.urlopen("{here}/simple/greeting/{wheel.name}").read()))
            subprocess.check_call(["git", "clone", "-q", "{here}/r.git", "cloned"])
            print(open("cloned/one").read())
            pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-cache-dir"]
            subprocess.check_call([*pip, "--index-url", "{here}/simple", "greeting"])
        """)
        done = inside(repository, sys.executable, "-c", program, options=net_access(tmp_path, port))
    assert (done.code, done.out.split()) == (0, [str(wheel.stat().st_size), "1"]), done
    assert (repository / wheel.name).exists()


# What programs expect of the system


def test_programs_find_what_they_expect(root: Path, options: list[str]) -> None:
    program = dedent("""
        import concurrent.futures, multiprocessing, os, pty, queue, socket, subprocess, tempfile, threading
        def square(n): return n * n
        if __name__ == "__main__":
            a, b = socket.socketpair(); a.sendall(b"x"); assert b.recv(1) == b"x"
            with tempfile.TemporaryDirectory() as d: open(d + "/f", "w").write("x")
            with multiprocessing.Pool(2) as pool: assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
            with concurrent.futures.ThreadPoolExecutor(8) as pool: assert sum(pool.map(square, range(9))) == 204
            q = multiprocessing.Queue(); q.put(3); assert q.get(timeout=5) == 3
            lock = multiprocessing.Lock(); lock.acquire(); lock.release()
            assert subprocess.run(["cat"], input=b"y", capture_output=True).stdout == b"y"
            said = bytearray()
            def read(fd):
                data = os.read(fd, 1024); said.extend(data); return data
            pty.spawn(["/bin/sh", "-c", "tty >/dev/null && echo terminal"], read); assert b"terminal" in said
            open("/dev/stdout", "w").write("out\\n"); open("/dev/stderr", "w").write("err\\n")
            assert len(os.urandom(8)) == 8 and open("/dev/zero", "rb").read(3) == b"\\0\\0\\0"
            open("/dev/null", "w").write("x"); os.makedirs(os.path.expanduser("~"), exist_ok=True)
            open(os.path.expanduser("~/f"), "w").write("x"); os.stat("/proc/self/status"); os.cpu_count()
            import pwd, locale, ssl; locale.setlocale(locale.LC_ALL, "C.UTF-8"); print("é")
            server = socket.create_server(("127.0.0.1", 0))
            with socket.create_connection(server.getsockname()) as c:
                server.accept()[0].sendall(b"z"); assert c.recv(1) == b"z"
    """)
    (root / "expects.py").write_text(program)
    done = inside(root, PYTHON, "expects.py", options=options, env={"LANG": "C.UTF-8"})
    assert done.code == 0, done
    assert {"out", "terminal"} < set(done.out.splitlines())
    assert "é" in done.out


@needs("script")
def test_a_terminal_can_be_opened_inside(root: Path) -> None:
    assert "typed" in shell(root, "script -qec 'echo typed' /dev/null")


def test_large_streams_arrive_whole(root: Path) -> None:
    data = os.urandom(1 << 20) * 100
    done = subprocess.run(
        [*COMMAND, "run", "--root", str(root), "--no-input", "--", "cat"],
        input=data,
        capture_output=True,
        check=False,
        env=environment(None),
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_an_ended_input_ends_inside(root: Path) -> None:
    done = inside(root, "/bin/sh", "-c", "cat; echo ended", feed=b"a\n")
    assert (done.code, done.out, done.err) == (0, "a\nended\n", "")


def test_a_closed_output_ends_the_program(root: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--root", str(root), "--no-input", "--", "yes"], stdout=subprocess.PIPE, env=environment(None)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) in (1, 128 + signal.SIGPIPE)


@needs("git")
def test_an_ordinary_user_works_as_well(tmp_path: Path) -> None:
    place = Path(f"/var/tmp/byleave-user-{os.getpid()}")
    place.mkdir(mode=0o755)
    try:
        words, variables = as_nobody(place / "home")
        root = place / "ws"
        root.mkdir()
        os.chown(root, 65534, 65534)
        user = words[:-2]
        for command in (
            ["git", "init", "-q", "-b", "main", str(root)],
            ["git", "-C", str(root), "config", "user.email", "n@example.org"],
            ["git", "-C", str(root), "config", "user.name", "N"],
        ):
            subprocess.run([*user, *command], env=variables, check=True, capture_output=True)
        script = "id -u; umask; echo x > f; git add f; git commit -qm one; git log --format=%s; rm f; ls -A ~ | wc -l"
        done = subprocess.run(
            [*words, "-m", "byleave", "run", "--root", str(root), "--no-input", "--", "/bin/sh", "-euc", script],
            env=variables,
            cwd=root,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stdout.split()) == (0, [b"65534", b"0022", b"one", b"0"]), done
    finally:
        shutil.rmtree(place, ignore_errors=True)


# How a program ends


@pytest.mark.sampled(3)
@pytest.mark.parametrize("code", [0, 1, 20, 125, 127, 255])
def test_the_exit_code_is_the_programs(root: Path, code: int) -> None:
    assert inside(root, "/bin/sh", "-c", f"exit {code}").code == code


@amounts.slow
def test_every_exit_code_is_the_programs(root: Path) -> None:
    assert [inside(root, "/bin/sh", "-c", f"exit {code}").code for code in range(256)] == list(range(256))


@pytest.mark.parametrize("name", ["HUP", "KILL", "SEGV", "TERM"])
def test_a_signal_is_told_as_shells_do(root: Path, name: str) -> None:
    done = inside(root, "/bin/sh", "-c", f"kill -{name} $$")
    assert done.code == 128 + signal.Signals[f"SIG{name}"], done


def test_a_program_that_is_missing_or_no_program(root: Path, tmp_path: Path) -> None:
    (root / "plain.txt").write_text("text")
    (root / "empty").mkdir()
    assert inside(root, "no-such-program-anywhere").code == 127
    assert inside(root, "./missing").code == 127
    assert inside(root, "./plain.txt").code == 126
    assert inside(root, "./empty").code == 126
    (root / "script").write_text("#!/no/such/interpreter\n")
    (root / "script").chmod(0o755)
    assert inside(root, "./script").code in (126, 127)


def test_nothing_of_ours_is_on_standard_output(root: Path) -> None:
    for words in (["true"], ["no-such-program-anywhere"], ["/bin/sh", "-c", "kill -9 $$"]):
        assert inside(root, *words).out == ""


def test_a_program_that_the_policy_denies_is_not_started(root: Path, tmp_path: Path) -> None:
    only = access_file(tmp_path, '[access.commands.cat]\n[access.commands.echo]\nargs = [["yes"]]\n')
    assert inside(root, "touch", "made", options=only).code == 20
    assert inside(root, "echo", "no", options=only).code == 20
    assert inside(root, "echo", "yes", options=only).out == "yes\n"
    assert inside(root, "cat", options=only, feed=b"x").out == "x"
    assert list(root.iterdir()) == []


def test_a_sandbox_that_cannot_be_set_up_starts_nothing(root: Path, tmp_path: Path) -> None:
    missing = inside(root, "touch", "made", options=["--access", str(tmp_path / "missing.toml")])
    broken = inside(root, "touch", "made", options=access_file(tmp_path, "[[access.fs]]\npath = 7\n"))
    assert {missing.code, broken.code} <= {2, 125}, (missing, broken)
    assert list(root.iterdir()) == []
    assert missing.err
    assert broken.err


# Signals, terminals, and what is left behind

SLEEPER = dedent("""
    import os, signal, subprocess, sys, time
    inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)", sys.argv[1]])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
            time.sleep(99)
        os._exit(0)
    print("ready", flush=True)
    for _ in range(2000): time.sleep(0.05)  # Python sleeps through a signal that comes just before it sleeps
""")


def gone(token: str, patience: float = 5.0) -> list[int]:
    """Return who is still alive after a while: nobody, as soon as that is so."""
    end = time.monotonic() + patience
    while (left := alive(token)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


@contextmanager
def running(root: Path, *words: str, options: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a sandbox that says `ready`, and end it whatever happens."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--root", str(root), "--no-input", *options, "--", *words],
        env=environment(None),
        cwd=root,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_us_reaches_the_program(root: Path, number: signal.Signals) -> None:
    program = "trap 'echo caught; exit 7' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
    with running(root, "/bin/sh", "-c", program) as process:
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 7
        assert process.stdout is not None
        assert process.stdout.read() == b"caught\n"


def test_a_program_that_a_signal_ends_leaves_nothing_behind(root: Path) -> None:
    token = f"token-{os.getpid()}-term"
    with running(root, PYTHON, "-c", SLEEPER, token) as process:
        end = time.monotonic() + PATIENCE
        while len(alive(token)) < 3:  # what it starts comes to life beside it
            assert time.monotonic() < end
            time.sleep(0.01)
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
    assert gone(token) == []


def test_killing_us_ends_the_sandbox_and_the_next_run_finds_order(root: Path) -> None:
    before = listing(root)
    token = f"token-{os.getpid()}-kill"
    with running(root, PYTHON, "-c", SLEEPER, token) as process:
        process.kill()
        process.wait(timeout=PATIENCE)
    assert gone(token) == []
    assert inside(root, "true").code == 0
    assert listing(root) == before


def test_what_a_program_leaves_running_ends_with_it(root: Path) -> None:
    token = f"token-{os.getpid()}-daemon"
    program = (
        f"setsid -f sleep 98 {token} 2>/dev/null; setsid -f sh -c 'trap \"\" TERM HUP; sleep 97 # {token}'; exit 3"
    )
    assert inside(root, "/bin/sh", "-c", program).code == 3
    assert gone(token) == []


def test_killing_everybody_inside_touches_nobody_outside(root: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        program = "import os, subprocess; p = subprocess.Popen(['sleep', '60']); os.kill(-1, 9); p.wait(); print('on')"
        done = inside(root, PYTHON, "-c", program)
        assert (done.code, done.out) == (0, "on\n")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "setup", [[], [".git/HEAD"], [".git/HEAD", ".git/hooks/x", ".git/config", ".claude/y", ".envrc"]]
)
def test_no_ghosts_are_left_in_the_workspace(root: Path, setup: list[str], options: list[str]) -> None:
    for name in setup:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    before = listing(root)
    assert inside(root, "true", options=options).code == 0
    assert listing(root) == before
    assert inside(root, "no-such-program-anywhere", options=options).code == 127
    assert listing(root) == before


def test_two_sandboxes_in_one_workspace_leave_no_ghosts(root: Path) -> None:
    before = listing(root)
    wait = "echo ready; read line"
    with running(root, "/bin/sh", "-c", wait) as one:
        assert inside(root, "true").code == 0
        assert inside(root, "touch", ".envrc").code != 0
        with running(root, "/bin/sh", "-c", "echo ready; sleep 30") as two:
            one.kill()
            one.wait()
            assert inside(root, "mkdir", ".claude").code != 0
            two.terminate()
            two.wait(timeout=PATIENCE)
    assert inside(root, "true").code == 0
    assert listing(root) == before


def test_what_people_make_while_a_sandbox_runs_is_kept(root: Path) -> None:
    with running(root, "/bin/sh", "-c", "echo ready; sleep 30") as process:
        (root / "mine").write_text("kept")
        place = root / ".claude"
        place.mkdir(exist_ok=True)
        (place / "notes").write_text("kept")
        process.terminate()
        process.wait(timeout=PATIENCE)
    assert inside(root, "true").code == 0
    assert (root / "mine").read_text() == "kept"
    assert (place / "notes").read_text() == "kept"


def test_a_terminal_looks_inside_as_outside(root: Path) -> None:
    program = (
        "import os; print([os.isatty(n) for n in range(3)], *os.get_terminal_size(), os.getpgrp() == os.tcgetpgrp(0))"
    )
    with at_terminal("run", "--root", str(root), "--", PYTHON, "-c", program, cwd=root) as terminal:
        assert terminal.ends() == 0
    assert "[True, True, True] 120 24 True" in terminal.seen


def test_what_is_typed_arrives(root: Path) -> None:
    program = "echo ready; read -r line; echo got $line; read -r more || echo end"
    with at_terminal("run", "--root", str(root), "--", "/bin/sh", "-c", program, cwd=root) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"words\n")
        terminal.wait_for("got words")
        terminal.type(b"\x04")
        terminal.wait_for("end")
        assert terminal.ends() == 0


def test_an_interrupt_from_the_keyboard_ends_it_and_leaves_nothing(root: Path) -> None:
    token = f"token-{os.getpid()}-int"
    with at_terminal("run", "--root", str(root), "--", PYTHON, "-c", SLEEPER, token, cwd=root) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"\x03")
        assert terminal.ends() == 128 + signal.SIGINT, terminal.seen
    assert gone(token) == []
    assert listing(root) == {}


def test_a_program_may_handle_the_interrupt(root: Path) -> None:
    program = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    with at_terminal("run", "--root", str(root), "--", "/bin/sh", "-c", program, cwd=root) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"\x03")
        terminal.wait_for("caught")
        assert terminal.ends() == 5


def test_a_new_size_of_the_terminal_is_told(root: Path) -> None:
    import fcntl
    import termios

    program = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
    with at_terminal("run", "--root", str(root), "--", "/bin/sh", "-c", program, cwd=root) as terminal:
        terminal.wait_for("ready")
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, b"\x21\x00\x4d\x00\x00\x00\x00\x00")
        terminal.wait_for("33 77")
        assert terminal.ends() == 0


@needs("bash")
def test_it_can_be_stopped_and_continued_from_a_shell(root: Path) -> None:
    master, slave = os.openpty()
    session = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, "/bin/bash", "--norc", "--noprofile", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment({"PS1": "$ ", "TERM": "dumb"}),
        cwd=root,
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(session, master)
    try:
        # Nothing for the outer shell to expand; and it ends when we say so, not before it was stopped.
        program = "echo re''ady; while [ ! -e go ]; do sleep 0.05; done; echo wo''ke"
        words = " ".join(COMMAND)
        terminal.type(f'{words} run --root {root} -- /bin/sh -c "{program}"\n'.encode())
        terminal.wait_for("ready")
        terminal.type(b"\x1a")
        terminal.wait_for("Stopped")
        (root / "go").touch()
        terminal.type(b"fg\n")
        terminal.wait_for("woke")
        terminal.type(b"exit 4\n")
        assert terminal.ends() == 4
    finally:
        session.kill()
        session.wait()
        os.close(master)


TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def test_typing_into_the_terminal_for_others_is_refused(root: Path) -> None:
    """A program that ends could leave a command for the shell that started it."""
    program = dedent("""
        import ctypes, fcntl, sys
        libc = ctypes.CDLL(None, use_errno=True)
        for request in (0x5412, 0x5412 | 1 << 32, 0x541C, 0x541C | 1 << 32):
            for number in range(3):
                if libc.syscall(16, number, ctypes.c_ulong(request), ctypes.c_char_p(b"x")) == 0: print("TYPED")
        print("done")
    """)
    with at_terminal("run", "--root", str(root), "--", PYTHON, "-c", program, cwd=root) as terminal:
        assert terminal.ends() == 0
    assert "done" in terminal.seen
    assert "TYPED" not in terminal.seen
