"""A PostgreSQL server of its own for tests: in a scratch directory, by an unprivileged user, on a socket of its own."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

KEY = "ab" * 32


def programs() -> Path | None:
    """Return the directory of the server's programs; None if they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    on_path = shutil.which("postgres")
    return found[0].parent if found else Path(on_path).parent if on_path else None


def missing() -> str:
    """Say why no server can be started here; empty if one can."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _unprivileged() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def _unprivileged() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


class PostgresServer:
    """One cluster. `durable`: with the guarantees that hold when a machine is switched off; tests rarely need them."""

    def __init__(self, *, durable: bool = False, of: "PostgresServer | None" = None) -> None:
        """`of`: the server of which this one is a standby, that has on its disk what the other acknowledges."""
        self._durable = durable
        self.directory = Path(tempfile.mkdtemp(prefix="byleave-pg-", dir="/tmp"))
        self._user = _unprivileged() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self.directory.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None
        bin_ = programs()
        assert bin_ is not None
        self._bin = bin_
        words = ["-A", "trust", "-U", "byleave", "--no-sync", "-E", "UTF8", "--locale", "C", "--wal-segsize=1"]
        try:
            if of is None:
                self._run("initdb", "-D", self._data, *words)
            else:
                source = ["-h", str(of.directory), "-U", "byleave", "--checkpoint=fast", "--no-sync"]
                self._run("pg_basebackup", "-D", self._data, "-R", *source)
        except BaseException:
            self.remove()
            raise

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _words(self, program: str, *words: str) -> list[str]:
        user = self._user
        ids = [] if user is None else [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--pdeathsig=INT", str(self._bin / program), *words]  # it ends with the tests

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(self._words(program, *words), check=True, capture_output=True, cwd="/", timeout=60)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        speed = [] if self._durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        words = ["-D", self._data, "-k", str(self.directory), "-c", "listen_addresses=", *speed]
        words += ["-c", "max_connections=100", "-c", "shared_buffers=16MB", "-c", "logging_collector=off"]
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(self._words("postgres", *words), stdout=log, stderr=log, cwd="/")
        log.close()
        for _ in range(600):
            if self._answers():
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                raise AssertionError((self.directory / "log").read_text())
        raise AssertionError("the server does not answer")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def postmaster(self) -> int:
        """The process whose children serve."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        """Return the address of a database of this server."""
        return f"postgresql://byleave@/{database}?host={self.directory}"

    def url_with(self, other: "PostgresServer") -> str:
        """Return an address by which whichever of two servers takes records is found."""
        hosts = f"{self.directory},{other.directory}"
        return f"postgresql://byleave@/postgres?host={hosts}&target_session_attrs=read-write"

    def wait_for_standby(self) -> None:
        """Have every commit wait for the standby from now on."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for _ in range(600):
                if connection.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchone():
                    break
                time.sleep(0.05)
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            for _ in range(600):
                if connection.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone():
                    return
                time.sleep(0.05)
        raise AssertionError("there is no standby")

    def promote(self) -> None:
        """Have a standby take records."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true, 30)")

    def emptied(self) -> str:
        """Remove all that an earlier test has left, and return the address."""
        url = self.url("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET lock_timeout TO '5s'")
            connection.execute("DROP SCHEMA IF EXISTS byleave CASCADE")
        return url

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its sessions and then itself, SIGQUIT ends it like a crash."""
        process, self._process = self._process, None
        if process is not None:
            self._signal(process, how)
            process.wait(30)

    def restore(self) -> None:
        """Have the server run, whatever a test did to it."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
        else:
            self.stop()
            self.start()

    def freeze(self) -> None:
        """Have no process of the server go on."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have all of them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        process.send_signal(number)  # setpriv has become the server itself

    def _signal_all(self, number: int) -> None:
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in [pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):  # a session that ended meanwhile
                os.kill(each, number)

    def remove(self) -> None:
        """Stop the server, also one that hangs, and remove all that it has written."""
        process, self._process = self._process, None
        try:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGQUIT)  # nothing of it is needed any more
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait(10)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
