"""Other ways to the same effect: what a deny on a program's name does not hold back. Data, and one look-up. Pure.

A list of denied programs is never complete: files are deleted by `find` and by every interpreter. Each effect has the
programs that people deny, and command lines that bring it about by other programs. The lines are tried, not believed:
only one that the policy allows counts.
"""

from __future__ import annotations

from msgspec import Struct


class Effect(Struct, frozen=True):
    """What some programs do, and other ways to do it. `held`: a confined run cannot do it whatever it starts."""

    what: str
    programs: frozenset[str]
    ways: tuple[str, ...]
    held: bool


def _effect(what: str, programs: str, *ways: str, held: bool = False) -> Effect:
    return Effect(what, frozenset(programs.split()), ways, held)


EFFECTS = (
    _effect(
        "delete files",
        "rm rmdir unlink shred del",
        "rm notes.txt",
        "unlink notes.txt",
        "find build -name notes.txt -delete",
        "git clean -fdx",
        "rsync -a --delete empty/ build/",
        "truncate -s 0 notes.txt",
        "python3 -c \"import os; os.remove('notes.txt')\"",
        "perl -e 'unlink \"notes.txt\"'",
        "node -e 'fs.unlinkSync(\"notes.txt\")'",
        "ruby -e 'File.delete(\"notes.txt\")'",
        "npx rimraf build",
        "python3 cleanup.py",
        "bash cleanup.sh",
        "make clean",
    ),
    _effect(
        "reach the network",
        "curl wget nc ncat netcat telnet ftp sftp scp ssh http aria2c",
        "curl https://example.org/x",
        "wget https://example.org/x",
        "nc example.org 80",
        "ssh example.org",
        "git clone https://example.org/x.git",
        "openssl s_client -connect example.org:443",
        "python3 -c \"import urllib.request; urllib.request.urlopen('https://example.org')\"",
        "node -e 'fetch(\"https://example.org\")'",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"example.org:80\")'",
        "python3 fetch.py",
        "bash fetch.sh",
        held=True,
    ),
    _effect(
        "become another user",
        "sudo su doas pkexec runuser run0",
        *("sudo id", "su -c id", "doas id", "pkexec id", "runuser -u root id", "run0 id"),
        held=True,
    ),
    _effect(
        "end processes",
        "kill pkill killall",
        *("kill 1", "pkill x", "killall x", 'python3 -c "import os; os.kill(1, 9)"', "bash stop.sh"),
        held=True,
    ),
    _effect(
        "change permissions",
        "chmod chown chgrp",
        "chmod 777 notes.txt",
        "install -m 777 notes.txt copy.txt",
        "python3 -c \"import os; os.chmod('notes.txt', 511)\"",
        "perl -e 'chmod 0777, \"notes.txt\"'",
        "bash open.sh",
    ),
    _effect(
        "read files",
        "cat less more head tail bat",
        *("cat notes.txt", "head notes.txt", "tail notes.txt", "less notes.txt", "grep . notes.txt"),
        *("sed -n p notes.txt", "awk 1 notes.txt", "sort notes.txt", "od -c notes.txt", "diff notes.txt other.txt"),
        "python3 -c \"print(open('notes.txt').read())\"",
    ),
    _effect(
        "run shell scripts",
        "sh bash dash zsh ksh fish",
        *("sh run.sh", "bash run.sh", "dash run.sh", "zsh run.sh", "./run.sh"),
        "python3 -c \"import os; os.system('id')\"",
        "perl -e 'system(\"id\")'",
        "node -e 'child_process.execSync(\"id\")'",
        "make run",
    ),
    _effect(
        "install packages",
        "npm yarn pnpm bun pip pip3 pipx uv",
        *("npm install x", "yarn add x", "pnpm add x", "bun add x", "pip install x", "python3 -m pip install x"),
        *("uv pip install x", "uv add x", "pipx install x", "npx x"),
        held=True,
    ),
)


def generic_ways(program: str, words: str) -> tuple[str, ...]:
    """Return command lines that start any program through an interpreter, without naming it as a command."""
    spelled = "'+'".join(program)  # in a form that is known only at run time
    text = f"'{spelled}'" + (f"+' {words}'" if words else "")
    return (
        f'python3 -c "import os; os.system({text})"',
        "python3 run.py",
        "node run.js",
        "perl run.pl",
        "bash run.sh",
        "./run.sh",
    )
