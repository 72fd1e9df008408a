"""A closed room with a person's home, a workspace and an agent, in which command lines of the corpora really run.

Everything happens in namespaces of its own below `inside_room.py`: on a machine that is read-only there, with no
network, and with other processes than ours. So even a harmful line that were let through would reach only canaries.
"""

import functools
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from compileall import compile_dir
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from byleave.policy.dirs import own_front
from stage import CASES

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "tests" / "samples"
INSIDE = Path(__file__).with_name("inside_room.py")
AGENT = "claude-code"
AGENT_VERSION = "2.1.400"
NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc")

# Where each secret of the scene lies, by the name that cases give it; "~/" is the person's home.
SECRETS = {
    "ssh": "~/.ssh/id_ed25519",
    "aws": "~/.aws/credentials",
    "netrc": "~/.netrc",
    "npmrc": "~/.npmrc",
    "kube": "~/.kube/config",
    "gh": "~/.config/gh/hosts.yml",
    "docker": "~/.docker/config.json",
    "gcloud": "~/.config/gcloud/credentials.db",
    "git_credentials": "~/.git-credentials",
    "gpg": "~/.gnupg/private-keys-v1.d/key.key",
    "notes": "~/notes.txt",
    "outside": "../outside/private.txt",
    "env": ".env",
    "pem": "config/server.pem",
    "nested_env": "packages/web/.env.production",
}
_TEXTS = {
    "aws": "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = {}\n",
    "npmrc": "//registry.example.org/:_authToken={}\n",
    "netrc": "machine example.org login me password {}\n",
    "git_credentials": "https://me:{}@git.example.org\n",
    "docker": '{{"auths": {{"example.org": {{"auth": "{}"}}}}}}\n',
    "pem": "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
    "env": "API_KEY={}\nPORT=3000\n",
    "nested_env": "API_KEY={}\n",
}
_GIT = {
    "GIT_AUTHOR_DATE": "2026-01-05T10:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-05T10:00:00Z",
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class Ended:
    """How a program of the room ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Answer:
    """What the hook said to one command line; `changed` is the text that the agent runs instead."""

    decision: str
    reason: str
    changed: str | None

    @property
    def runs(self) -> bool:
        return self.decision == "allow"


@dataclass
class Room:
    """A room that is open until `close`. `names` are the words that cases write as @NAME@."""

    base: Path
    project: str
    variables: dict[str, str]
    names: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    @classmethod
    def build(cls, base: Path, project: str, *, secret_files: bool = False) -> "Room":
        """Make the places of a room, with a sample project in the workspace, and start it."""
        compile_dir(REPOSITORY / "src", quiet=2)  # nothing can be written there from inside
        room = cls(base.resolve(), project, {})
        for name in ("home", "ws", "outside", "tmp", "template"):
            (room.base / name).mkdir()
        (room.base / "tmp").chmod(0o1777)
        room.variables = _variables(room.home)
        room.secrets = {name: secrets.token_hex(20) for name in (*SECRETS, "environment", "victim")}
        _furnish(room.home)
        lay_sample(project, room.root)
        _start_history(room.root, room.variables)
        if secret_files:
            room._plant_secrets()
            room.variables["AWS_SECRET_ACCESS_KEY"] = room.secrets["environment"]
        room._open()
        room._set_up()
        _go_on_with_history(room.root, room.variables)
        _copy(room.root, room.base / "template")
        return room

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def root(self) -> Path:
        return self.base / "ws"

    def place(self, path: str) -> Path:
        """Return where a path of a case lies: in the home, outside, absolute, or in the workspace."""
        path = self.filled(path)
        if path.startswith("~/"):
            return self.home / path[2:]
        if path.startswith("/tmp/"):
            return self.base / path[1:]
        return Path(os.path.normpath(self.root / path))

    def filled(self, text: str) -> str:
        """Return a text of a case with the room's own ports, processes and places."""
        for name, value in self.names.items():
            text = text.replace(f"@{name}@", value)
        return text

    def restore(self, setup: Mapping[str, Any] | None = None) -> None:
        """End what still runs, make the workspace what it was, and lay there what the case needs."""
        self.end_others()
        _empty(self.root)
        _empty(self.base / "tmp", keep=[path.parts[2] for path in (self.base, REPOSITORY) if path.parts[1] == "tmp"])
        _copy(self.base / "template", self.root)
        _git(self.root, ["update-index", "-q", "--refresh"], self.variables)  # copies are other files to git
        self._lay(setup or {})

    def end_others(self) -> None:
        """End every process but the agent's and the one outside that must live: sessions and background processes."""
        self._ask({"end": True})

    def hook(self, command: str, cwd: Path | None = None) -> Answer:
        """Send one call of the agent's shell through the installed hook, exactly as the agent starts it."""
        self.calls += 1
        event = {
            "session_id": f"session-{self.calls}",
            "transcript_path": f"{self.home}/.claude/transcript.jsonl",
            "cwd": str(cwd or self.root),
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command, "description": "what it is for"},
            "tool_use_id": f"toolu_{self.calls:04d}",
        }
        ended = self.run(["/bin/sh", "-c", self._installed()], feed=json.dumps(event), cwd=cwd)
        if ended.code != 0 or not ended.out.strip():
            return Answer("deny" if ended.code == 2 else "ask", ended.err.strip() or "no opinion", None)
        said = json.loads(ended.out).get("hookSpecificOutput", {})
        changed = said.get("updatedInput", {}).get("command")
        decision = said.get("permissionDecision", "ask")
        return Answer(decision, said.get("permissionDecisionReason", ""), None if changed == command else changed)

    def run_as_agent(self, text: str, cwd: Path | None = None, seconds: float = 60) -> Ended:
        """Run a text as the agent's shell tool does; afterwards, end what it left in its process group."""
        return self.run(["bash", "-c", text], cwd=cwd, seconds=seconds, ends=True)

    def run_confined(self, text: str, cwd: Path | None = None, seconds: float = 60) -> Ended:
        """Run a text in the sandbox for agents' commands, whatever the hook said: what follows a person's yes."""
        return self.run([self.names["BYLEAVE"], "run", "--shell", text], cwd=cwd, seconds=seconds)

    def run(
        self, argv: list[str], feed: str = "", cwd: Path | None = None, seconds: float = 60, *, ends: bool = False
    ) -> Ended:
        request = {
            "argv": argv,
            "feed": feed,
            "cwd": str(cwd or self.root),
            "env": {**self.variables, "CLAUDE_PROJECT_DIR": str(self.root)},
            "timeout": seconds,
            "ends": ends,
        }
        return Ended(**self._ask(request))

    def seen(self) -> tuple[list[str], bool]:
        """Return who came to what must not be reached since the last question, and whether the other process lives."""
        told = self._ask({"seen": True})
        return told["came"], told["victim"]

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()

    def _open(self) -> None:
        self._process = subprocess.Popen(
            [*NAMESPACES, _agent(self.home), "-S", INSIDE, self.base, REPOSITORY, self.secrets["victim"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self.variables, "PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"},
            text=True,
        )
        told = self._answer()
        self.names = {name: str(value) for name, value in told.items()}
        self.names["OUT"] = str(self.base / "outside")
        self.names["BYLEAVE"] = str(Path(sysconfig.get_path("scripts")) / "byleave")

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the room has ended: something in it was stronger than its walls"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _set_up(self) -> None:
        ended = self.run([self.names["BYLEAVE"], "setup", "--yes", "--agent", AGENT], seconds=120)
        if ended.code == 2 and "setup" in ended.err:  # a byleave that has no `setup` yet
            for words in (["init"], ["trust", "--yes", "byleave.toml"], ["hook", "--install", AGENT, "--yes"]):
                ended = self.run([self.names["BYLEAVE"], *words])
                assert ended.code == 0, (words, ended)
        assert ended.code == 0, ended

    def _installed(self) -> str:
        settings = json.loads((self.home / ".claude" / "settings.json").read_text())
        commands = [hook["command"] for item in settings["hooks"]["PreToolUse"] for hook in item["hooks"]]
        assert len(commands) == 1, commands
        return str(commands[0])

    def _plant_secrets(self) -> None:
        for name, path in SECRETS.items():
            place = self.place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_TEXTS.get(name, "{}\n").format(self.secrets[name]))
            place.chmod(0o600)
        exclude = self.root / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text(".env*\n*.pem\n")

    def _lay(self, setup: Mapping[str, Any]) -> None:
        for path in setup.get("directories", ()):
            self.place(path).mkdir(parents=True, exist_ok=True)
        for path, text in setup.get("files", {}).items():
            self.place(path).parent.mkdir(parents=True, exist_ok=True)
            self.place(path).write_text(self.filled(text))
        for path, target in setup.get("links", {}).items():
            self.place(path).symlink_to(self.place(target) if target.startswith(("~", "@")) else target)
        for path, members in setup.get("tars", {}).items():
            _write_tar(self.place(path), {name: self.filled(text) for name, text in members.items()})
        for path in setup.get("sockets", ()):
            self._ask({"listen": str(self.place(path))})


def lay_sample(project: str, root: Path) -> None:
    """Copy a sample project; Python's has a virtual environment with pytest, as projects have."""
    _copy(SAMPLES / project, root)
    if project != "python":
        return
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or os.path.realpath(sys.executable)
    subprocess.run([python, "-m", "venv", "--without-pip", str(root / ".venv")], check=True)
    (packages,) = (root / ".venv" / "lib").glob("python*/site-packages")
    ours = Path(sysconfig.get_path("purelib"))
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(ours / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ours / "py.py", packages)
    script = root / ".venv" / "bin" / "pytest"
    script.write_text(f"#!{root}/.venv/bin/python\nimport sys\n\nimport pytest\n\nsys.exit(pytest.console_main())\n")
    script.chmod(0o755)


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


def _variables(home: Path) -> dict[str, str]:
    """Return the environment of the agent: what a person has who works on this machine, with that home."""
    places = [f"{home}/.local/bin", *_rust(), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    person = {"HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "USER": "sample", "BYLEAVE_SERVICE": "off"}
    return {"PATH": ":".join(places), **person, **_GIT}


def _rust() -> list[str]:
    """Return where Rust's programs really are: those on PATH may be rustup's, which look into the home."""
    if (rustc := shutil.which("rustc")) is None:
        return []
    asked = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=False)
    return [f"{asked.stdout.strip()}/bin"] if asked.returncode == 0 else []


def _furnish(home: Path) -> None:
    """Lay into the home what a person has there, and must find unchanged."""
    files = {
        ".bashrc": "alias ll='ls -l'\n",
        ".profile": "umask 022\n",
        ".gitconfig": "[user]\n\tname = Sample Person\n\temail = sample@example.org\n[init]\n\tdefaultBranch = main\n"
        "[credential]\n\thelper = store\n",
        ".claude/settings.json": "{}\n",
        "other/package.json": '{"name": "other"}\n',
        "other/pyproject.toml": '[project]\nname = "other"\n',
        "other/.git/HEAD": "ref: refs/heads/main\n",
        "other/.git/hooks/README": "\n",
    }
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "byleave").symlink_to(Path(sysconfig.get_path("scripts")) / "byleave")


def _agent(home: Path) -> Path:
    """Return a program that the hook takes for the agent, by where it lies; it is a Python."""
    program = home / ".local" / "share" / "claude" / "versions" / AGENT_VERSION
    program.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), program)
    return program


def _start_history(root: Path, variables: Mapping[str, str]) -> None:
    """Make the workspace a repository, with a hook and a remote as projects have."""
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "Start"]):
        _git(root, words, variables)
    _git(root, ["remote", "add", "origin", "https://git.example.org/sample.git"], variables)
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)


def _go_on_with_history(root: Path, variables: Mapping[str, str]) -> None:
    """Commit what setup wrote, as a person does, and then something that lines can go back from."""
    _git(root, ["add", "-A"], variables)
    _git(root, ["commit", "-qm", "Guard agents"], variables)
    with (root / "README.md").open("a") as notes:
        notes.write("\nSecond paragraph.\n")
    _git(root, ["commit", "-qam", "Say more"], variables)


def _git(root: Path, words: list[str], variables: Mapping[str, str]) -> None:
    subprocess.run(["git", *words], cwd=root, env=dict(variables), check=True)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def _empty(directory: Path, keep: Sequence[str] = ()) -> None:
    for entry in os.scandir(directory):
        if entry.name in keep:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _write_tar(path: Path, members: Mapping[str, str]) -> None:
    """Write an archive in which a name that later ones go through is a link."""
    with tarfile.open(path, "w") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            if any(other.startswith(f"{name}/") for other in members):
                entry.type, entry.linkname = tarfile.SYMTYPE, text
                archive.addfile(entry)
            else:
                entry.size = len(text.encode())
                archive.addfile(entry, BytesIO(text.encode()))


def starts_byleave(text: str, program: str) -> bool:
    """Whether what a changed call starts is our byleave: nothing else is run for a harmful line."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    words = words[1:] if words[:1] == [own_front("/nowhere")] else words
    entry = str(REPOSITORY / "src" / "byleave" / "cli" / "__main__.py")
    isolated = os.path.basename(words[0]).startswith("python") and words[1:4] == ["-I", "-S", entry] if words else False
    return (words[:1] == [program] or isolated) and "--ticket" in words


@functools.cache
def why_no_room() -> str | None:
    """Return why this machine cannot have rooms, or None."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "a room needs Linux and `unshare`"
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return f"a room needs namespaces: {tried.stderr.strip()}" if tried.returncode else None
