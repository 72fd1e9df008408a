"""Files as a revision of a git repository has them, read without a checkout.

The repository may be hostile. Only plumbing is called (`rev-parse`, `ls-tree`, `cat-file`), by fixed words: it runs no
hooks, filters, text conversions, pagers or aliases. What a repository's configuration could start besides, a transport
that fetches missing objects or a monitor of the file system, is switched off. The environment's `GIT_*` variables are
not passed on, git is not taken from the workspace, and its output is bounded in size and time.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.errors import InputError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_REVISION = 256
_SECONDS = 30
_FIXED = (
    *("--no-pager", "--no-replace-objects", "--literal-pathspecs"),
    *("-c", "protocol.allow=never", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.alternateRefsCommand=", "-c", "log.showSignature=false"),
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "LC_ALL": "C",
}
_PLAIN_FILES = ("100644", "100755")


class GitRevision:
    """One commit of the repository around a directory."""

    def __init__(self, directory: str, revision: str) -> None:
        self._directory = directory
        self.revision = revision
        self._git = _find_git(directory)
        self._commit = self._resolve(revision)

    def read(self, names: Sequence[str], *, limit: int) -> dict[str, bytes]:
        """Return the content of those of the named files, relative to the directory, that the commit has."""
        found: dict[str, bytes] = {}
        for name in names:
            listed = self._run(["ls-tree", "-z", "-l", self._commit, "--", name], limit=1 << 16)
            for entry in listed.split(b"\0"):
                head, _, path = entry.partition(b"\t")
                words = head.decode("ascii", "replace").split()
                if len(words) == 4 and path == os.fsencode(name):
                    found[name] = self._blob(name, words, limit)
        return found

    def _blob(self, name: str, words: list[str], limit: int) -> bytes:
        mode, kind, number, size = words
        if kind != "blob" or mode not in _PLAIN_FILES:
            raise self._error(f"{quoted(name)} is not a plain file there", "compare with another revision, or a file")
        if not size.isdigit() or int(size) > limit:
            raise self._error(f"{quoted(name)} is larger than {limit >> 20} MB there", "compare with another revision")
        return self._run(["cat-file", "blob", number], limit=limit)

    def _resolve(self, revision: str) -> str:
        if not revision or len(revision) > LONGEST_REVISION or revision.startswith("-") or not revision.isprintable():
            raise InputError(f"{quoted(revision[:80])} is no revision", hint="write git:HEAD, git:main or a commit")
        words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
        commit = self._run(words, limit=1 << 12).decode("ascii", "replace").strip()
        if len(commit) not in (40, 64) or not set(commit) <= set("0123456789abcdef"):
            raise self._error("git knows no such commit", "write git:HEAD, git:main or a commit; fetch it first")
        return commit

    def _run(self, words: list[str], *, limit: int) -> bytes:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        try:
            with subprocess.Popen(  # noqa: S603 -- fixed words, a revision that is no option, names of ours
                [self._git, *_FIXED, *words],
                cwd=self._directory,
                env={**kept, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process:
                try:
                    output, complaint = process.communicate(timeout=_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise self._error("git does not answer", "try `git status` there") from None
        except OSError as error:
            raise self._error(f"git cannot be started: {error.strerror}", "install git") from None
        if process.returncode != 0:
            said = complaint[:400].decode("utf-8", "replace").strip().partition("\n")[0]
            problem = f"git says: {shown(said)}" if said else "git knows no such commit"
            raise self._error(problem, "run it in a git repository, and name a commit that it has")
        if len(output) > limit:
            raise self._error("git answers with more than was asked for", "compare with a file")
        return output

    def _error(self, problem: str, hint: str) -> InputError:
        return InputError(f"git:{shown(self.revision)} cannot be read: {problem}", hint=hint)


def _find_git(directory: str) -> str:
    """Return the git on PATH; one that lies in the workspace is not taken."""
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(place, "git")
        outside = os.path.isabs(place) and not is_under(os.path.realpath(path), os.path.realpath(directory))
        if outside and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise InputError("there is no git to read a revision with", hint="install git, or compare two files")
