"""`byleave run --diagnose`: what real programs are refused is told, with the rule, and nothing else is."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import amounts
from byleave.net.proxy_policy import UrlVerdict
from byleave.sandbox.diagnose.diagnosis import ROOM, Observer
from command import COMMAND, Done, byleave, environment
from sandbox.machine import NO_PERSON, PYTHON, access_file, alive, as_nobody, inside, needs_sandbox

pytestmark = needs_sandbox

ACCESS = """\
[[access.fs]]
path = "."
read = true
write = true

[[access.fs]]
path = ".env"

[[access.fs]]
path = "ro"
read = true
"""
CC = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(CC is None, reason="there is no gcc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a secret, and a directory that may only be read."""
    place = tmp_path / "ws"
    (place / "ro").mkdir(parents=True)
    (place / "ro/there").write_text("1\n")
    (place / ".env").write_text("TOKEN=1\n")
    return place


@pytest.fixture
def options(root: Path, tmp_path: Path) -> list[str]:
    return access_file(tmp_path, ACCESS)


class Told:
    """What a run ended with."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.said, _newline, last = done.err.rstrip("\n").rpartition("\n")
        tree = json.loads(last)
        self.found: list[dict[str, Any]] = tree["refused"]
        self.uncounted: int = tree["uncounted"]

    @property
    def what(self) -> list[str]:
        return [each["what"] for each in self.found]

    def about(self, what: str) -> dict[str, Any]:
        (found,) = [each for each in self.found if each["what"] == what]
        return found


def told(root: Path, *words: str, options: list[str] | None = None, **more: Any) -> Told:
    return Told(inside(root, *words, options=["--diagnose", "--json", *(options or [])], **more))


def by_shell(root: Path, script: str, options: list[str] | None = None, **more: Any) -> Told:
    return told(root, "/bin/sh", "-c", script, options=options, **more)


def by_python(root: Path, script: str, options: list[str] | None = None, **more: Any) -> Told:
    return told(root, PYTHON, "-I", "-c", dedent(script), options=options, **more)


def build(root: Path, source: str, *flags: str) -> str:
    """Compile a program outside, and return its path in the workspace."""
    (root / "program.c").write_text(dedent(source))
    subprocess.run([str(CC), "-o", str(root / "program"), str(root / "program.c"), *flags], check=True)
    return "./program"


# Places in the workspace


def test_a_secret_that_a_rule_closes_is_told_with_the_rule_and_a_caution(root: Path, options: list[str]) -> None:
    found = by_shell(root, "cat .env", options).about("read .env")
    assert found["because"] == [{"rule": "fs .env: nothing", "source": f"{options[1]}:6", "decision": "deny"}]
    assert "secrets" in found["caution"]
    assert found["suggestion"] is None


def test_the_suggested_rule_allows_what_was_refused(root: Path, tmp_path: Path, options: list[str]) -> None:
    script = "echo 2 > ro/new; echo 2 >> ro/there; rm ro/there"
    first = by_shell(root, script, options)
    assert sorted(first.what) == ["create ro/new", "write to and delete ro/there"]
    texts = [each["suggestion"] for each in first.found]
    assert texts[0] == '[[access.fs]]\npath = "ro"\nread = true\ncreate = true'
    everything = ACCESS.replace('path = "ro"\nread = true\n', 'path = "ro"\nread = true\nwrite = true\n')
    again = by_shell(root, script, access_file(tmp_path, everything))
    assert again.found == []
    assert (root / "ro/new").exists()
    assert not (root / "ro/there").exists()


def test_a_protected_place_is_told_with_its_rule_and_a_caution(root: Path) -> None:
    found = by_shell(root, "mkdir .vscode; echo > .vscode/tasks.json")
    (only,) = found.found
    assert only["what"] == "create .vscode and .vscode/tasks.json"
    assert only["because"][0]["rule"] == "protected place .vscode"
    assert "obeyed" in only["caution"]
    assert 'path = ".vscode"' in only["suggestion"]
    assert only["add_to"] == "a file for --access"


def test_what_no_rule_can_open_has_no_suggestion(root: Path) -> None:
    (only,) = by_shell(root, "echo > byleave.toml").found
    assert only["what"] == "create byleave.toml"
    assert only["suggestion"] is None
    assert "no rule allows that" in only["why"]


def test_a_program_that_may_not_be_run_is_told(root: Path, options: list[str]) -> None:
    tool = root / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    found = by_shell(root, "./tool", options).about("run tool")
    assert "execute = true" in found["suggestion"]
    done = inside(root, "./tool", options=["--diagnose", *options])
    assert done.code == 126
    assert "run tool" in done.err


def test_a_tool_of_the_configuration_gets_its_rules_in_there(root: Path) -> None:
    text = '[tools.t]\nsource = "local"\nruntime = "stdio"\n[[tools.t.access.fs]]\npath = "."\nread = true\n'
    config = Path(os.environ["BYLEAVE_HOME"]) / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text(text)
    found = by_shell(root, "echo > x", ["--tool", "t"]).about("create x")
    assert found["suggestion"].startswith('[[tools.t.access.fs]]\npath = "."')
    assert found["add_to"] == "your configuration"


def test_relative_paths_are_told_as_they_were_meant(root: Path, options: list[str]) -> None:
    script = """
        import os
        os.mkdir("sub"); os.chdir("sub")
        place = os.open("../ro", os.O_RDONLY | os.O_DIRECTORY)
        for path, at in (("there", place), ("../ro/../ro/there", None)):
            try: os.open(path, os.O_WRONLY, dir_fd=at)
            except OSError: pass
        try: os.rename("there", "moved", src_dir_fd=place, dst_dir_fd=place)
        except OSError: pass
    """
    assert sorted(by_python(root, script, options).what) == ["create ro/moved", "write to and delete ro/there"]


def test_odd_names_do_no_harm(root: Path, options: list[str]) -> None:
    script = """
        import os
        names = b"\\xff\\xfe", b"a\\nb", b"\\x1b[31mred", "\\u202etxt".encode(), b"'\\"\\\\", b"x" * 255, b"y" * 300
        for name in names:
            try: os.open(b"ro/" + name, os.O_CREAT | os.O_WRONLY)
            except OSError: pass
        try: os.open(b"ro/" + b"z/" * 2100, os.O_RDONLY)
        except OSError: pass
        try: os.open(b"", os.O_RDONLY)
        except OSError: pass
    """
    found = by_python(root, script, options)
    assert [len(each["subjects"]) for each in found.found] == [4, 2]
    assert not any("\x1b" in what for what in found.what)
    assert found.found[1]["suggestion"] is None  # no rule can name what has control characters in it
    shown = inside(root, PYTHON, "-I", "-c", dedent(script), options=["--diagnose", *options]).err
    assert "\x1b" not in shown
    assert "\\xff\\xfe" in shown


def test_a_path_deeper_than_a_path_can_be_does_no_harm(root: Path) -> None:
    script = """
        import os
        for _ in range(30):
            os.mkdir("d" * 200); os.chdir("d" * 200)
        try: os.open("/etc/shadow", os.O_RDONLY)
        except OSError: pass
        try: os.mkdir("../" * 3 + "x" * 300)
        except OSError: pass
        os.chdir("/")
    """
    found = by_python(root, script)
    assert found.done.code == 0
    subprocess.run(["rm", "-rf", str(root / ("d" * 200))], check=True)


# Places outside of it


def test_what_is_not_in_the_view_is_told_with_the_line_that_lists_it(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cargo/registry").mkdir(parents=True)
    (home / ".cargo/config.toml").write_text("1")
    (home / ".cargo/registry/index").write_text("1")
    (home / ".gitconfig").write_text("1")
    script = "cat ~/.cargo/config.toml ~/.cargo/registry/index ~/.gitconfig ~/.nothing"
    found = by_shell(root, script, env={"HOME": str(home)})
    assert found.what == ["read ~/.cargo/config.toml and ~/.cargo/registry/index", "read ~/.gitconfig"]
    assert [each["suggestion"] for each in found.found] == [
        '[sandbox]\nread = ["~/.cargo"]',
        '[sandbox]\nread = ["~/.gitconfig"]',
    ]


def test_the_suggested_line_shows_the_place(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_text("seen")
    script = f"cat {outside}/data; echo 1 > {outside}/new; cat {outside}/nothing"
    first = by_shell(root, script)
    assert sorted(first.what) == [f"create {outside}/new", f"read {outside}/data"]
    lines = [each["suggestion"] for each in first.found]
    config = Path(os.environ["BYLEAVE_HOME"]) / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text(next(line for line in lines if "write" in line))
    again = by_shell(root, script)
    assert again.found == []
    assert again.done.out == "seen"


def test_keys_of_the_user_are_told_with_a_caution_and_without_a_suggestion(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("KEY")
    found = by_shell(root, "cat ~/.ssh/id", env={"HOME": str(home)}).about("read ~/.ssh/id")
    assert "secrets" in found["caution"]
    assert found["suggestion"] is None


def test_a_link_that_leads_out_of_the_workspace_is_told_as_one(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("1")
    (root / "link").symlink_to(tmp_path / "out")
    found = by_shell(root, "cat link").about("read link")
    assert "leads outside the workspace" in found["why"]


def test_the_files_of_the_system_are_told_with_a_caution(root: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("an ordinary user may not write there outside either")
    found = by_shell(root, "echo > /usr/byleave-test").about("create /usr/byleave-test")
    assert "whole machine" in found["caution"]


def test_what_fails_outside_as_well_is_not_told(root: Path, tmp_path: Path) -> None:
    script = (
        "cat nothing ro/nothing /nothing/at/all ~/.nothing /etc/nothing /usr/nothing /tmp/nothing; rm nothing; ls /x"
    )
    assert by_shell(root, script).found == []


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can look into, unlike those of pytest."""
    place = Path(tempfile.mkdtemp(prefix="byleave-diagnose-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_an_ordinary_user_is_not_told_what_ordinary_users_may_not(public: Path) -> None:
    words, variables = as_nobody(public / "home")
    (public / "home/.netrc").write_text("1")
    place = public / "ws"
    place.mkdir()
    os.chown(place, NO_PERSON, NO_PERSON)
    script = "cat /etc/shadow ~/.netrc; echo > /usr/x; mkdir .vscode; echo > .vscode/x; echo > fine"
    start = [*words, "-m", "byleave", "run", "--root", str(place), "--no-input", "--diagnose", "--json", "--"]
    done = subprocess.run(
        [*start, "/bin/sh", "-c", script], env=variables, cwd=place, capture_output=True, text=True, check=False
    )
    found = Told(Done(done.returncode, done.stdout, done.stderr))
    assert found.what == ["create .vscode and .vscode/x", "read ~/.netrc"]


# Noise


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "script",
    [
        "ls -la; id; getent passwd root",
        "git init -q sub; cd sub; git -c user.name=a -c user.email=b commit -q --allow-empty -m x; git status; git log",
        "/usr/bin/python3 -c 'import ssl, json, asyncio, subprocess, multiprocessing, tempfile, locale'",
        "/usr/bin/python3 -m pip --version; /usr/bin/python3 -m pip list",
        'node -e \'require("fs"); require("http"); require("child_process").execSync("true")\'; npm --version',
        "perl -e 'use POSIX; use Socket; print 1'",
        "bash -lc 'type ls; cd /tmp; echo $HOME'",
        "gcc --version; make --version; which gcc nothing",
        "df . ; ps aux; free; nproc; date; sort /etc/passwd | head -1; find . | wc -l; tar cf /tmp/x.tar .",
    ],
)
def test_ordinary_programs_are_refused_nothing(root: Path, tmp_path: Path, script: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    found = by_shell(root, script, env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"})
    assert found.found == []


# The network


def test_a_name_that_is_looked_up_is_told_as_a_host(root: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    found = by_shell(root, "curl -sS https://example.com/").about("look up example.com")
    assert found["suggestion"] == '[[access.net]]\nhost = "example.com"\nallow = true'
    assert found["because"][0]["rule"] == "a stdio tool has no network unless a net rule allows it"


def test_an_address_is_told_with_its_port(root: Path) -> None:
    script = """
        import socket
        for address in ("10.1.2.3", 443), ("10.1.2.3", 5432):
            try: socket.create_connection(address, 2)
            except OSError: pass
        try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.9.9.9", 123))
        except OSError: pass
    """
    found = by_python(root, script)
    if not found.found:
        pytest.skip("this machine has no way to 10.1.2.3 either")
    assert found.what == ["connect to 10.1.2.3:443", "connect to 10.1.2.3:5432", "connect to 10.9.9.9:123"]
    assert 'scheme = "https"' in found.found[0]["suggestion"]
    assert "only HTTP and TLS" in found.found[1]["why"]


def test_a_service_of_this_machine_is_told_and_a_port_where_nobody_listens_is_not(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, closed = server.getsockname()[1], other.getsockname()[1]
        other.close()
        script = f"""
            import socket
            for port in ({port}, {closed}):
                try: socket.create_connection(("127.0.0.1", port), 2)
                except OSError: pass
            own = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(own.getsockname())
        """
        assert by_python(root, script).what == [f"connect to 127.0.0.1:{port}"]


def test_what_the_proxy_denies_is_told(root: Path, tmp_path: Path) -> None:
    access = access_file(tmp_path, '[[access.net]]\nhost = "good.test"\nallow = true\n')
    script = """
        import urllib.request
        for url in ("http://bad.test/path", "http://bad.test/path"):
            try: urllib.request.urlopen(url, timeout=5)
            except OSError: pass
    """
    found = by_python(root, script, access).about("reach http://bad.test/path")
    assert found["times"] == 2
    assert 'host = "bad.test"' in found["suggestion"]


def test_a_program_that_passes_by_the_proxy_is_told_so(root: Path, tmp_path: Path) -> None:
    access = access_file(tmp_path, '[[access.net]]\nhost = "good.test"\nallow = true\n')
    script = """
        import socket
        for name in ("good.test", "bad.test"):
            try: socket.getaddrinfo(name, 443)
            except OSError: pass
    """
    found = by_python(root, script, access)
    assert "use the proxy" in found.about("look up good.test")["why"]
    assert found.about("look up bad.test")["suggestion"] is not None


# Calls that nothing allows


def test_refused_calls_are_told_by_their_names_and_fail_as_they_do_unwatched(root: Path) -> None:
    script = """
        import ctypes, socket
        libc = ctypes.CDLL(None, use_errno=True)
        def call(number, *words):
            ctypes.set_errno(0)
            print(number, libc.syscall(number, *words), ctypes.get_errno())
        call(425, 8, 0)           # io_uring_setup
        call(101, 0, 0, 0, 0)     # ptrace
        call(272, 0x10000000)     # unshare
        call(165, 0, 0, 0, 0, 0)  # mount
        call(321, 0, 0, 0)        # bpf
        call(435, 0, 0)           # clone3, which nobody misses
        try: socket.socket(socket.AF_UNIX)
        except OSError as error: print(error.errno)
        a, b = socket.socketpair(); a.send(b"pairs work"); print(b.recv(99))
    """
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    watched = by_python(root, script)
    plain = inside(root, PYTHON, "-I", "-c", dedent(script))
    assert watched.done.out == plain.out
    assert plain.code == watched.done.code == 0
    calls = {each["what"] for each in watched.found}
    assert calls == {
        "call io_uring_setup",
        "call ptrace",
        "call unshare",
        "call mount",
        "call bpf",
        "make a unix socket",
    }
    assert all(each["suggestion"] is None for each in watched.found)


@needs_compiler
def test_a_refused_call_with_all_signals_blocked_or_ignored_just_fails(root: Path) -> None:
    source = """
        #include <errno.h>
        #include <signal.h>
        #include <sys/mount.h>
        int main(void)
        {
            sigset_t all;
            signal(SIGSYS, SIG_IGN);
            int first = mount(0, "/", 0, 0, 0) == -1 && errno == EPERM;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, 0);
            return first && mount(0, "/", 0, 0, 0) == -1 && errno == EPERM ? 0 : 1;
        }
    """
    found = told(root, build(root, source))
    assert found.done.code == 0
    assert found.about("call mount")["times"] == 2


@needs_compiler
def test_a_made_up_signal_changes_nothing_but_its_sender(root: Path) -> None:
    source = """
        #define _GNU_SOURCE
        #include <signal.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static int caught;
        static void on(int number) { (void)number; caught++; }
        int main(void)
        {
            siginfo_t made = {0};
            signal(SIGSYS, on);
            raise(SIGSYS);
            made.si_signo = SIGSYS, made.si_code = 1, made.si_errno = 0x6201;
            for (int each = 0; each < 100; each++) {
                made.si_syscall = each * 7919;
                syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGSYS, &made);
            }
            return caught;
        }
    """
    found = told(root, build(root, source))
    assert found.done.code == 1  # the honest one arrived


@needs_compiler
def test_a_child_that_escapes_its_tracer_can_do_less_not_more(root: Path) -> None:
    source = """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <sched.h>
        #include <signal.h>
        #include <sys/mount.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int child(void)
        {
            int pid = (int)syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
            return pid;
        }
        int main(void)
        {
            int status;
            int first = child();
            if (first == 0)
                _exit(open("ro/there", O_RDONLY) == -1 && errno == ENOSYS ? 0 : 1);
            waitpid(first, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status))
                return 2;
            int second = child();
            if (second == 0)
                _exit(mount(0, "/", 0, 0, 0) == 0);
            waitpid(second, &status, 0);
            return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? 0 : 3;
        }
    """
    assert told(root, build(root, source)).done.code == 0


@needs_compiler
def test_filters_of_its_own_do_not_confuse_the_tracer(root: Path) -> None:
    source = """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <signal.h>
        #include <sys/mount.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static void install(unsigned number, unsigned answer)
        {
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, answer),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {4, code};
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        }
        static int caught;
        static void on(int number) { (void)number; caught++; }
        int main(void)
        {
            signal(SIGSYS, on);
            install(SYS_getppid, SECCOMP_RET_TRACE | 5);
            install(SYS_getpgrp, SECCOMP_RET_TRACE | 0xffff);
            install(SYS_getegid, SECCOMP_RET_TRAP | 7);
            for (int each = 0; each < 100; each++)
                if (syscall(SYS_getppid) != -1 || errno != ENOSYS || syscall(SYS_getpgrp) != -1)
                    return 2;
            syscall(SYS_getegid);
            return caught == 1 && mount(0, "/", 0, 0, 0) == -1 && errno == EPERM ? 0 : 1;
        }
    """
    found = told(root, build(root, source))
    assert (found.done.code, found.what) == (0, ["call mount"])


def test_a_watched_program_has_nothing_of_ours(root: Path) -> None:
    assert inside(root, "ls", "/proc/self/fd", options=["--diagnose"]).out.split() == ["0", "1", "2", "3"]


# Programs of all kinds


@needs_compiler
def test_a_parallel_build_works_and_is_refused_nothing(root: Path) -> None:
    for number in range(24):
        (root / f"f{number}.c").write_text(f"#include <stdio.h>\nint f{number}(void) {{ return {number}; }}\n")
    (root / "main.c").write_text("int main(void) { return 0; }\n")
    (root / "Makefile").write_text(
        "OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\nprog: $(OBJECTS)\n\tgcc -o $@ $(OBJECTS)\n"
    )
    found = told(root, "make", "-s", "-j4")
    assert (found.done.code, found.found) == (0, [])
    assert (root / "prog").exists()


@needs_compiler
def test_threads_are_watched_and_may_become_another_program(root: Path, options: list[str]) -> None:
    source = """
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static void *work(void *which)
        {
            char path[64];
            for (int each = 0; each < 50; each++) {
                snprintf(path, sizeof path, "ro/%ld", (long)which);
                open(path, O_CREAT | O_WRONLY, 0600);
            }
            return 0;
        }
        static void *change(void *none)
        {
            (void)none;
            execl("/bin/sh", "sh", "-c", "cat .env; exit 5", (char *)0);
            return 0;
        }
        int main(void)
        {
            pthread_t threads[8], last;
            for (long each = 0; each < 8; each++)
                pthread_create(&threads[each], 0, work, (void *)each);
            for (int each = 0; each < 8; each++)
                pthread_join(threads[each], 0);
            pthread_create(&last, 0, change, 0);
            pause();
            return 1;
        }
    """
    program = build(root, source, "-pthread")
    access = [*access_file(root.parent, ACCESS.replace("write = true\n", "write = true\nexecute = true\n", 1))]
    found = told(root, program, options=access)
    assert found.done.code == 5
    first = next(each for each in found.found if each["ops"] == ["create"])
    assert (len(first["subjects"]), first["times"]) == (8, 400)
    assert "read .env" in found.what


def test_every_way_to_start_a_process_is_watched(root: Path, options: list[str]) -> None:
    script = """
        import os, subprocess, multiprocessing
        subprocess.run(["cat", ".env"], stderr=subprocess.DEVNULL)              # vfork
        os.waitpid(os.posix_spawn("/bin/cat", ["cat", ".env"], {}), 0)
        os.system("cat .env; (cat .env &) ; wait")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            try: open(".env")
            finally: os._exit(0)
        os.waitpid(pid, 0)
        multiprocessing.Pool(2).map(os.path.exists, [".env/x"] * 4)
    """
    found = by_python(root, script, options)
    assert found.done.code == 0
    assert found.about("read .env")["times"] == 5


def test_node_is_watched(root: Path, options: list[str]) -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    script = """
        const fs = require("fs");
        Promise.all([1, 2, 3].map(() => fs.promises.readFile(".env").catch(() => 0))).then(() => process.exit(3));
    """
    found = told(root, "node", "-e", script, options=options)
    assert found.done.code == 3
    assert found.about("read .env")["times"] == 3


# Signals, ends, floods


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("kill -SYS $$", 128 + signal.SIGSYS),
        ("kill -TRAP $$", 128 + signal.SIGTRAP),
        ("trap 'exit 9' USR1; kill -USR1 $$; exit 1", 9),
        ("trap '' TERM; kill -TERM $$; exit 4", 4),
        ("sh -c 'kill -9 $$'; exit $?", 128 + 9),
        ("sleep 100 & kill $!; wait $!; exit $?", 128 + 15),
        ("sleep 100 & kill -STOP $!; kill -CONT $!; kill $!; wait $!; exit $?", 128 + 15),
    ],
)
def test_programs_end_as_they_do_unwatched(root: Path, script: str, code: int) -> None:
    assert inside(root, "/bin/sh", "-c", script).code == code
    assert inside(root, "/bin/sh", "-c", script, options=["--diagnose"]).code == code


def test_a_parent_sees_its_child_stop_and_continue(root: Path) -> None:
    script = """
        import os, signal
        pid = os.fork()
        if pid == 0:
            while True: signal.pause()
        os.kill(pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        os.kill(pid, signal.SIGCONT)
        assert os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1])
        os.kill(pid, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGUSR1) if False else None
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        caught = []
        signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
        while len(caught) < 5:
            try: os.stat("/nothing")
            except OSError: pass
    """
    assert by_python(root, script).done.code == 0


def test_a_stopped_sandbox_waits_until_it_is_continued(root: Path) -> None:
    token = f"stopped-{os.getpid()}"
    process = _start(root, "/bin/sh", "-c", f"kill -STOP $$; echo continued; : {token}")
    _wait_for(lambda: [pid for pid in alive(token) if _state(pid) in "Tt"])
    assert process.poll() is None

    def goes_on() -> bool:  # a first SIGCONT may come before the stop that it is to end: the tracer hears of that first
        for pid in alive(token):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return process.poll() is not None

    _wait_for(goes_on)
    assert (process.communicate()[0], process.returncode) == (b"continued\n", 0)


def test_signals_reach_a_watched_program_even_in_a_flood(root: Path) -> None:
    script = "trap 'exit 42' TERM; echo ready; while :; do cat </etc/shadow 2>/dev/null || :; done"
    process = _start(root, "/bin/sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 42


def test_whatever_is_left_ends_with_the_program(root: Path) -> None:
    token = f"byleave-left-{os.getpid()}"
    done = by_shell(root, f"(exec -a x sleep 300 {token} || sleep 300) >/dev/null 2>&1 & echo {token}; exit 0")
    assert done.done.code == 0
    assert alive(token) == []


def test_nothing_is_left_when_byleave_is_killed(root: Path) -> None:
    token = f"byleave-killed-{os.getpid()}"
    process = _start(root, "/bin/sh", "-c", f"echo ready; while :; do cat /etc/shadow; done; : {token}")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=30)
    assert _wait_for(lambda: alive(token) == [])


def test_a_run_that_takes_too_long_is_ended_and_told(root: Path, tmp_path: Path) -> None:
    access = access_file(tmp_path, ACCESS + "\n[limits]\nwall_time = 1\n")
    found = by_shell(root, "cat .env; sleep 60", access)
    assert found.done.code == 124
    assert found.what == ["read .env"]


def test_a_flood_is_counted(root: Path, options: list[str]) -> None:
    count = amounts.of(100_000, 10_000)
    script = f"""
        import os
        for _ in range({count}):
            try: os.open(".env", os.O_RDONLY)
            except OSError: pass
    """
    found = by_python(root, script, options, timeout=300)
    assert found.about("read .env")["times"] + found.uncounted == count


def test_a_flood_of_different_places_stays_short(root: Path, options: list[str]) -> None:
    count = amounts.of(30_000, 300)
    script = f"""
        import os
        for number in range({count}):
            try: os.open("ro/" + str(number), os.O_CREAT | os.O_WRONLY)
            except OSError: pass
    """
    done = inside(root, PYTHON, "-I", "-c", dedent(script), options=["--diagnose", *options], timeout=300)
    assert done.code == 0
    assert len(done.err) < 1000
    assert "create ro/0, ro/1, ro/2 and" in done.err


def test_what_is_more_than_is_remembered_is_only_counted() -> None:
    observer, count = Observer(os.uname().machine), ROOM // 100 + 1000
    for number in range(count):
        observer.decided(f"http://{number}.example.org/", UrlVerdict(allowed=False, reason="closed", rule=None))
    observer.decided("http://0.example.org/", UrlVerdict(allowed=False, reason="closed", rule=None))
    assert 0 < len(observer.denied) < ROOM // 100
    assert observer.missing == count - len(observer.denied)
    assert observer.denied["http://0.example.org/", "closed"] == 2


def test_many_processes_at_once_are_watched(root: Path, options: list[str]) -> None:
    script = """
        import os
        children = []
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                try: os.open(".env", os.O_RDONLY)
                except OSError: pass
                os._exit(0)
            children.append(pid)
        for pid in children: os.waitpid(pid, 0)
    """
    assert by_python(root, script, options).about("read .env")["times"] == 200


# What a person sees


def test_the_list_goes_to_standard_error_and_the_output_is_the_programs(root: Path, options: list[str]) -> None:
    done = inside(root, "/bin/sh", "-c", "echo mine; cat .env 2>/dev/null; exit 3", options=["--diagnose", *options])
    assert (done.code, done.out) == (3, "mine\n")
    assert done.err == (
        "byleave: one thing was refused\n"
        " 1. read .env\n"
        f"    because: fs .env: nothing (deny, {options[1]}:6)\n"
        "    caution: secrets are kept there (**/.env): let the program do without if you can\n"
    )


def test_nothing_refused_is_one_line(root: Path) -> None:
    (root / ".env").unlink()
    done = inside(root, "true", options=["--diagnose"])
    assert (done.code, done.out, done.err) == (0, "", "byleave: nothing was refused\n")


def test_a_command_that_is_not_listed_is_told_with_its_entry(root: Path, tmp_path: Path) -> None:
    access = access_file(tmp_path, "[access.commands.true]\n")
    done = inside(root, "cat", "x", options=["--diagnose", *access])
    assert done.code == 20
    assert '[access.commands.cat]\n  args = [["x"]]' in done.err


def test_commands_that_the_broker_refuses_or_nobody_finds_are_told_and_listed_ones_are_watched(
    root: Path, tmp_path: Path
) -> None:
    access = access_file(tmp_path, '[access.commands.sh]\n[access.commands.cat]\nargs = [["/etc/shadow"]]\n')
    found = told(root, "sh", "-c", "cat .env; cat /etc/shadow; head -1 x; exit 6", options=access)
    if os.getuid() != 0:
        pytest.skip("an ordinary user may not read that outside either")
    assert found.done.code == 6
    assert sorted(found.what) == ["read /etc/shadow", "run cat .env", "run head"]
    assert found.about("run cat .env")["suggestion"] == '[access.commands.cat]\nargs = [[".env"]]'
    assert found.about("run head")["suggestion"] == "[access.commands.head]"


def test_a_reader_that_sleeps_does_not_stop_the_program(root: Path) -> None:
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.sandbox import Sandbox

    class Sleepy(Observer):
        awake = threading.Event()

        def hear(self, message: bytes) -> None:
            self.awake.wait(60)
            super().hear(message)

    observer = Sleepy(os.uname().machine)
    script = """
        import os
        for _ in range(20_000):
            try: os.open("/etc/shadow", 0)
            except OSError: pass
        open("finished", "w")
    """
    with Sandbox(root=str(root)) as box:
        process = box.spawn([PYTHON, "-I", "-c", dedent(script)], observer=observer)
        finished = _wait_for((root / "finished").exists)
        observer.awake.set()
        assert finished
        assert process.wait(30) == 0
    counted = sum(times for seen, times in observer.calls.items() if seen.paths == ("/etc/shadow",))
    assert counted + observer.missing == 20000
    assert observer.missing > 0


def _start(root: Path, *words: str) -> "subprocess.Popen[bytes]":
    start = [*COMMAND, "run", "--root", str(root), "--no-input", "--diagnose", "--", *words]
    return subprocess.Popen(
        start, cwd=root, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _wait_for(condition: Any, patience: float = 30.0) -> Any:
    end = time.monotonic() + patience
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "-"


@pytest.fixture(autouse=True)
def _plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs be looked for in the system's own directories alone."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")


def test_what_a_run_was_refused_is_recorded_and_learned_from(root: Path) -> None:
    (root / "byleave.toml").write_text(
        '[tools.t]\nsource = "local"\ncommand = ["sh"]\n'
        '[[tools.t.access.fs]]\npath = "."\nread = true\n'
        '[[tools.t.access.fs]]\npath = ".env"\n'
    )
    policy = ["--policy", "byleave.toml", "--json"]
    line = "echo x > out.txt; echo x > ro/there; cat .env"
    byleave("run", "--tool", "t", "--diagnose", *policy, "--", "sh", "-c", line, cwd=root)
    found = json.loads(byleave("policy", "learn", "--times", "1", *policy, cwd=root).out)["proposals"]
    paths = [rule["path"] for each in found for rule in tomllib.loads(each["toml"])["tools"]["t"]["access"]["fs"]]
    assert sorted(paths) == ["out.txt", "ro/there"]
