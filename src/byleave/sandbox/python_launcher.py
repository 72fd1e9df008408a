"""The launcher where there is no C compiler: the same tape as native/launcher.c, step by step, only slower.

    python -I -S python_launcher.py TAPE CONTROL

Stands alone: the standard library, nothing of byleave. Once the view is the root of everything, the interpreter's own
files may be gone, or be somebody else's. So all that is needed is imported here, and before the first step the
interpreter forgets how to import. Read launcher.c first: names, order and messages are the same there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

NOT_SET_UP, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
LAST_OF_OURS = 5
DIRECTORY, OTHER, LINKED, ITSELF, IF_THERE = 0, 1, 2, 3, 4
_LONGEST_WHAT = 4096
_MOST_WORDS = 1 << 20
_EVERY = 0xFFFFFFFF

# One number per call, the same on every architecture since Linux 5.2.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 428, 429, 430, 431, 432
_PIDFD_OPEN, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 434, 436, 437, 442
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_HERE = -100  # AT_FDCWD
_EMPTY_PATH, _RECURSIVE, _CLONE, _CLOEXEC = 0x1000, 0x8000, 1, os.O_CLOEXEC
_NO_MAGICLINKS, _NO_SYMLINKS, _IN_ROOT = 0x02, 0x04, 0x10
_BENEATH = _IN_ROOT | _NO_SYMLINKS | _NO_MAGICLINKS
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 1 << 18, 2
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_EMPTY_SOURCE_AND_TARGET = 0x04 | 0x40  # MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH
_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_READ, _CAPBSET_DROP, _SET_SECUREBITS = 1, 4, 23, 24, 28
_SET_SECCOMP, _FILTER, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 22, 2, 36, 38
_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_SECURE_ALL = 0xFF  # all bits, and all of them locked
_CAPABILITY_VERSION = 0x20080522
_INTERFACE_UP, _SET_INTERFACE_FLAGS = 0x41, 0x8914  # IFF_UP and IFF_RUNNING; SIOCSIFFLAGS
_SOCK_FILTER = struct.calcsize("=HBBI")
_MOST_FILTERS = 512
_CLOSE_ON_EXEC = 4  # CLOSE_RANGE_CLOEXEC
_SIGNALFD_SIGINFO = 128
_MOST_GUARDS, _NEWS = 8192, 64
_COVER_DIRECTORY, _COVER_FILE = b"/.byleave/void", b"/.byleave/blank"
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8  # MOUNT_ATTR_...
_SET_SIGNAL = 10  # F_SETSIG
_WATCHED = 0x010003C0  # IN_CREATE, DELETE, MOVED_FROM, MOVED_TO, ONLYDIR
_STATX, _MOUNT_ROOT = 256, 0x2000
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # a link above it is none of the plan's, and leads elsewhere
_FOR_ALL = 64  # this less a signal is that signal for the program's whole process group, as a terminal would send it
_STOPPED_WITH_US = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_ALL = signal.valid_signals()

_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):  # noqa: N818 -- never seen by anybody: it becomes a message
    """A step that failed: with which code we end, the error number, the step, and what it was at."""

    def __init__(self, number: int, step: str, what: bytes = b"", code: int = NOT_SET_UP) -> None:
        super().__init__(step)
        self.number = number
        self.step = step
        self.what = what
        self.code = code


class _At:
    """Says which step an OSError belongs to."""

    def __init__(self, step: str, what: bytes = b"") -> None:
        self._step = step
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, OSError):
            raise Failure(error.errno or errno.EIO, self._step, self._what) from None


def _argument(value: int | bytes | object | None) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


def _must(step: str, what: bytes, call: str, *arguments: object) -> int:
    """Call a function of the C library, which must not fail."""
    result = int(getattr(_libc, call)(*[_argument(each) for each in arguments]))
    if result < 0:
        raise Failure(ctypes.get_errno(), step, what)
    return result


class Tape:
    """Reads steps and their fields."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._now = 0

    def __bool__(self) -> bool:
        return self._now < len(self._content)

    def number(self) -> int:
        if len(self._content) - self._now < 8:
            raise Failure(errno.EBADMSG, "tape", b"number")
        value: int = struct.unpack_from("=Q", self._content, self._now)[0]
        self._now += 8
        return value

    def text(self) -> bytes:
        """Return a string: its length, its bytes, a NUL."""
        end = self.number() + self._now
        if end >= len(self._content) or self._content[end] != 0:
            raise Failure(errno.EBADMSG, "tape", b"text")
        found = self._content[self._now : end]
        self._now = end + 1
        return found

    def word(self) -> bytes:
        """Return a string as C sees it: it ends at the first NUL."""
        return self.text().split(b"\0", 1)[0]

    def words(self) -> ctypes.Array[ctypes.c_char_p]:
        count = self.number()
        if count >= _MOST_WORDS:
            raise Failure(errno.ENOMEM, "tape", b"list")
        return (ctypes.c_char_p * (count + 1))(*[self.word() for _ in range(count)], None)


class _State:
    """What the steps share: see the static variables of launcher.c."""

    control = -1
    host = -1
    view = -1
    ruleset = -1
    mask: set[int] = set()
    status: mmap.mmap | None = None
    guards: list[tuple[bytes, bytes, int, int]] = []
    watching = -1
    leads_group = False
    memory: int | None = None  # a limit that must wait: this interpreter is larger than many programs


_state = _State()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _write_file(path: bytes, content: bytes) -> None:
    with _At("write", path):
        file = os.open(path, os.O_WRONLY | _CLOEXEC)
        os.write(file, content)
        os.close(file)


def _namespaces(tape: Tape) -> None:
    flags, uids, gids, keeps_groups = tape.number(), tape.word(), tape.word(), tape.number()
    _must("namespaces", b"", "unshare", flags)
    if not keeps_groups:
        _write_file(b"/proc/self/setgroups", b"deny")
    _write_file(b"/proc/self/uid_map", uids)
    _write_file(b"/proc/self/gid_map", gids)


def _open_at(root: int, path: bytes, flags: int, resolve: int) -> int:
    """Open a path below a root; -1 if that fails, with the reason in errno."""
    how = struct.pack("=QQQ", flags | _CLOEXEC, 0, resolve)
    below = path.lstrip(b"/") or b"."
    return int(_libc.syscall(*[_argument(each) for each in (_OPENAT2, root, below, how, len(how))]))


def _open_host(path: bytes, step: str) -> int:
    found = _open_at(_state.host, path, os.O_PATH | os.O_NOFOLLOW, _NO_SYMLINKS | _NO_MAGICLINKS)
    return _opened(found, step, path)


def _open_view(path: bytes, step: str, what: bytes) -> int:
    return _opened(_open_at(_state.view, path, os.O_PATH | os.O_NOFOLLOW, _BENEATH), step, what)


def _opened(descriptor: int, step: str, what: bytes) -> int:
    if descriptor < 0:
        raise Failure(ctypes.get_errno(), step, what)
    return descriptor


def _open_parent(path: bytes) -> tuple[int, bytes]:
    """Open the directory that holds `path` in the view, and return it with the last name."""
    parent, _, name = path.rpartition(b"/")
    found = _open_at(_state.view, parent, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, _BENEATH)
    return _opened(found, "view", path), name


def _root(tape: Tape) -> None:
    """Make the directory that the view is built in, upon a directory of the host's that is no link."""
    staging, options = tape.word(), tape.text()
    with _At("root", b"/"):
        _state.host = os.open(b"/", os.O_PATH | os.O_DIRECTORY | _CLOEXEC)
    _must("private", b"/", "mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    place = _open_host(staging, "root")
    if not _same_kind(place, DIRECTORY):
        raise Failure(errno.ELOOP, "root", staging)
    _state.view = _made_mount(b"tmpfs", options, staging)
    _set_attributes("root", staging, _state.view, _NOSUID | _NODEV, propagation=_MS_PRIVATE, flags=_EMPTY_PATH)
    _must("root", staging, "syscall", _MOVE_MOUNT, _state.view, b"", place, b"", _EMPTY_SOURCE_AND_TARGET)
    os.close(place)


def _directory(tape: Tape) -> None:
    """Make a directory of the view, and what is missing above it, whatever the caller's umask is.

    Every name is looked up in the directory that was opened before it, and none of them through a link.
    """
    path, mode = tape.word(), tape.number()
    at = _open_view(b"/", "directory", path)
    names = path.split(b"/")[1:]
    for depth, name in enumerate(names, 1):
        before = os.umask(0)
        with _At("directory", path), suppress(FileExistsError):
            os.mkdir(name, mode if depth == len(names) else 0o755, dir_fd=at)
        os.umask(before)
        below = _opened(_open_at(at, name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, _BENEATH), "directory", path)
        os.close(at)
        at = below
    os.close(at)


def _link(tape: Tape) -> None:
    target, path = tape.word(), tape.word()
    parent, name = _open_parent(path)
    with _At("link", path):
        os.symlink(target, name, dir_fd=parent)
        os.close(parent)


def _file(tape: Tape) -> None:
    path, mode, content = tape.word(), tape.number(), tape.text()
    parent, name = _open_parent(path)
    with _At("file", path):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _CLOEXEC, 0o600, dir_fd=parent)
        if content:
            os.write(file, content)
        os.fchmod(file, mode)
        _close(file, parent)


def _set_attributes(step: str, what: bytes, place: int, attributes: int, *, propagation: int, flags: int) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, propagation, 0)
    _must(step, what, "syscall", _MOUNT_SETATTR, place, b"", flags, wanted, len(wanted))


def _attach(tree: int, attributes: int, path: bytes, *, recursive: bool) -> None:
    """Attach a detached mount at a place of the view, which exists. If it is a link, it is not followed."""
    flags = _EMPTY_PATH | (_RECURSIVE if recursive else 0)
    _set_attributes("attributes", path, tree, attributes, propagation=_MS_PRIVATE, flags=flags)
    where = _open_view(path, "place", path)
    _must("place", path, "syscall", _MOVE_MOUNT, tree, b"", where, b"", _EMPTY_SOURCE_AND_TARGET)
    _close(where, tree)


def _same_kind(place: int, kind: int) -> bool:
    mode = os.fstat(place).st_mode
    if stat.S_ISLNK(mode):
        return kind == ITSELF
    return stat.S_ISDIR(mode) if kind == DIRECTORY else kind != ITSELF and not stat.S_ISDIR(mode)


def _bind(tape: Tape) -> None:
    """Show a place of the host at a path of the view. The place must be of the kind that the plan saw."""
    source, path, attributes, kind = tape.word(), tape.word(), tape.number(), tape.number()
    place = _open_host(source, "bind")
    if not _same_kind(place, kind):
        raise Failure(errno.ESTALE, "bind", source)
    flags = _CLONE | _CLOEXEC | _EMPTY_PATH | _RECURSIVE
    tree = _must("bind", source, "syscall", _OPEN_TREE, place, b"", flags)
    os.close(place)
    _attach(tree, attributes, path, recursive=True)


def _cover(tape: Tape) -> None:
    """Cover a place of the view with something of the view: what a mask shows, empty and closed to everybody."""
    _cover_place(tape.word(), tape.word(), tape.number())


def _cover_place(what: bytes, path: bytes, attributes: int) -> None:
    cover = _open_view(what, "cover", what)
    tree = _must("cover", what, "syscall", _OPEN_TREE, cover, b"", _CLONE | _CLOEXEC | _EMPTY_PATH)
    os.close(cover)
    _attach(tree, attributes, path, recursive=False)


def _shade(tape: Tape) -> None:
    """Cover a file of the kernel's, if this kernel still has it: modules come and go."""
    what, path, attributes = tape.word(), tape.word(), tape.number()
    if _is_there(path):
        _cover_place(what, path, attributes)


def _seal(tape: Tape) -> None:
    """Take rights away from a mount whose inside is finished."""
    path, attributes = tape.word(), tape.number()
    place = _open_view(path, "seal", path)
    _set_attributes("seal", path, place, attributes, propagation=0, flags=_EMPTY_PATH)
    os.close(place)


def _noexec(tape: Tape) -> None:
    """Let nothing be executed from a mount, nor from any mount inside it."""
    path = tape.word()
    place = _open_view(path, "noexec", path)
    _set_attributes("noexec", path, place, _NOEXEC, propagation=0, flags=_EMPTY_PATH | _RECURSIVE)
    os.close(place)


def _mount(tape: Tape) -> None:
    """Mount a file system of the kernel's own."""
    kind, path, options, attributes = tape.word(), tape.word(), tape.text(), tape.number()
    _attach(_made_mount(kind, options, path), attributes, path, recursive=False)


def _made_mount(kind: bytes, options: bytes, path: bytes) -> int:
    """Return a file system of the kernel's own, as a mount that is attached nowhere yet."""
    context = _must("mount", path, "syscall", _FSOPEN, kind, 1)
    for pair in options.split(b"\0")[:-1]:
        key, given, value = pair.partition(b"=")
        how = _SET_STRING if given else _SET_FLAG
        _must("mount", pair, "syscall", _FSCONFIG, context, how, key[:63], value if given else None, 0)
    _must("mount", path, "syscall", _FSCONFIG, context, _CREATE, None, None, 0)
    tree = _must("mount", path, "syscall", _FSMOUNT, context, 1, 0)
    os.close(context)
    return tree


def _pivot(tape: Tape) -> None:
    """Make the view the root of everything, and let go of the host's."""
    _set_attributes("pivot", b"", _state.view, tape.number(), propagation=_MS_PRIVATE, flags=_EMPTY_PATH)
    with _At("pivot"):
        os.fchdir(_state.view)
        _must("pivot", b"", "pivot_root", b".", b".")
        _must("pivot", b"", "umount2", b".", _MNT_DETACH)
        os.chdir(b"/")
    _close(_state.host, _state.view)
    _state.host = _state.view = -1


def _guard(tape: Tape) -> None:
    """Note a mount that is to be mounted again when somebody outside exchanges what it stands on."""
    guard = (tape.word(), tape.word(), tape.number(), tape.number())
    if len(_state.guards) == _MOST_GUARDS:
        raise Failure(errno.E2BIG, "guard", guard[0])
    _state.guards.append(guard)


def _watch(_tape: Tape) -> None:
    """Be told of news by a signal, which the init waits for anyway."""
    with _At("guard", b"/"):
        _state.view = os.open(b"/", os.O_PATH | os.O_DIRECTORY | _CLOEXEC)
    _state.watching = _must("guard", b"", "inotify_init1", os.O_NONBLOCK | _CLOEXEC)
    for path, *_how in _state.guards:
        _watch_around(path)
    with _At("guard"):
        fcntl.fcntl(_state.watching, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(_state.watching, _SET_SIGNAL, _NEWS)
        fcntl.fcntl(_state.watching, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    _renew()  # of what was exchanged before we watched


def _watch_around(path: bytes) -> None:
    """Watch the directory around a place; watching it twice is watching it once."""
    try:
        above, _name = _open_parent(path)
    except Failure as failure:
        if failure.number in _GONE:
            return
        raise Failure(failure.number, "guard", path) from None
    _must("guard", path, "inotify_add_watch", _state.watching, b"/proc/self/fd/%d" % above, _WATCHED)
    os.close(above)


def _is_mounted(path: bytes) -> bool:
    """Whether a mount is there; also if nothing is: when it is there again, we are told."""
    try:
        place = _open_view(path, "guard", path)
    except Failure as failure:
        return failure.number in _GONE
    found = ctypes.create_string_buffer(_STATX)
    try:
        _must("guard", path, "statx", place, b"", _EMPTY_PATH, 1, found)
    finally:
        os.close(place)
    return bool(struct.unpack_from("=Q", found, 8)[0] & _MOUNT_ROOT)


def _is_there(path: bytes) -> bool:
    place = _open_at(_state.view, path, os.O_PATH | os.O_NOFOLLOW, _BENEATH)
    if place >= 0:
        os.close(place)
    return place >= 0


def _renew() -> None:
    """Mount what is missing. What cannot be mounted ends the sandbox: better none than a weaker one."""
    with suppress(BlockingIOError):
        while os.read(_state.watching, 4096):
            pass
    for path, cover, attributes, held in _state.guards:
        if not _is_there(path):
            _watch_around(path)  # the directory around it may be another one by now
        if not _is_mounted(path):
            if held and cover not in (_COVER_DIRECTORY, _COVER_FILE) and not _is_empty(path):
                _put_aside(path, again=bool(cover))
            try:
                _mount_again(path, cover, attributes)
            except Failure as failure:
                if failure.number not in _GONE:  # whoever exchanges it again at this moment causes further news
                    raise Failure(failure.number, "guard", path) from None
            else:
                _watch_around(path)


def _is_empty(path: bytes) -> bool:
    directory = _open_at(_state.view, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, _BENEATH)
    if directory < 0:
        return False
    try:
        return not os.listdir(directory)
    except OSError:
        return False
    finally:
        os.close(directory)


def _put_aside(path: bytes, *, again: bool) -> None:
    """Keep what has taken a held name, under a name that nobody can foresee; hold the name `again` by a directory."""
    try:
        above, name = _open_parent(path)
    except Failure as failure:
        if failure.number in _GONE:
            return
        raise
    other = b"%s.refused-by-byleave-%d" % (name, int.from_bytes(os.urandom(4), "little") >> 1)
    with _At("guard", path):
        with suppress(FileNotFoundError):
            os.rename(name, other, src_dir_fd=above, dst_dir_fd=above)
        if again:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=above)
        os.close(above)


def _mount_again(path: bytes, cover: bytes, attributes: int) -> None:
    place = _open_view(path, "guard", path)
    shown = _COVER_DIRECTORY if _same_kind(place, DIRECTORY) else _COVER_FILE
    source = _open_view(shown, "guard", shown) if cover else os.dup(place)
    flags = _CLONE | _CLOEXEC | _EMPTY_PATH | (0 if cover else _RECURSIVE)
    tree = _must("copy", path, "syscall", _OPEN_TREE, source, b"", flags)
    _close(place, source)
    _attach(tree, attributes, path, recursive=not cover)


def _loopback(_tape: Tape) -> None:
    request = struct.pack("=16sH22x", b"lo", _INTERFACE_UP)
    with _At("loopback"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        _must("loopback", b"", "ioctl", any_one.fileno(), _SET_INTERFACE_FLAGS, request)


def _listen(tape: Tape) -> None:
    """Listen inside the namespace, and hand the socket out: who accepts from it is outside."""
    port = tape.number() & 0xFFFF
    with _At("listen"), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        _hand_out(b"L", listener.fileno())


def _hand_out(message: bytes, descriptor: int) -> None:
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", descriptor))]
    with socket.socket(fileno=os.dup(_state.control)) as line:
        line.sendmsg([message], extra, socket.MSG_NOSIGNAL)


def _setting(tape: Tape) -> None:
    """Change a setting that belongs to our own namespaces. The third field says whether it must work."""
    path, value, wanted = tape.word(), tape.word(), tape.number()
    try:
        _write_file(path, value)
    except Failure as failure:
        if wanted:
            raise Failure(failure.number, "setting", path) from None


def _hostname(tape: Tape) -> None:
    name = tape.word()
    _must("hostname", name, "sethostname", name, len(name))


def _limit(tape: Tape) -> None:
    which, wanted = tape.number(), tape.number()
    if which == resource.RLIMIT_DATA:
        _state.memory = wanted
        return
    _set_limit(which, wanted)


def _set_limit(which: int, wanted: int) -> None:
    most = resource.getrlimit(which)[1]
    if most != resource.RLIM_INFINITY:  # never more than we have
        wanted = min(wanted, most)
    try:
        resource.setrlimit(which, (wanted, wanted))
    except (OSError, ValueError, OverflowError) as error:
        raise Failure(getattr(error, "errno", None) or errno.EINVAL, "limit") from None


def _prctl(step: str, *arguments: int) -> None:
    _must(step, b"", "prctl", *[*arguments, 0, 0, 0, 0][:5])


def _may_fail(step: str, *arguments: int) -> None:
    """Without CAP_SETPCAP the bounding set stays; then there was nothing in it that exec could give back."""
    try:
        _prctl(step, *arguments)
    except Failure as failure:
        if failure.number != errno.EPERM:
            raise


def _drop(_tape: Tape) -> None:
    _prctl("no_new_privs", _SET_NO_NEW_PRIVS, 1)
    each = 0
    while int(_libc.prctl(*[ctypes.c_long(word) for word in (_CAPBSET_READ, each, 0, 0, 0)])) >= 0:
        _may_fail("capabilities", _CAPBSET_DROP, each)
        each += 1
    _may_fail("securebits", _SET_SECUREBITS, _SECURE_ALL)
    _prctl("capabilities", _CAP_AMBIENT, _CLEAR_ALL)
    _must("capabilities", b"", "capset", struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _landlock(tape: Tape) -> None:
    handled = struct.pack("=QQQ", tape.number(), tape.number(), tape.number())
    size = tape.number()  # as much of it as this kernel's version knows
    _state.ruleset = _must("landlock", b"", "syscall", _CREATE_RULESET, handled, size, 0)


def _grant(tape: Tape) -> None:
    """Grant rights at a place, which must be there, or else what it says is no longer needed."""
    path, allowed, kind = tape.word(), tape.number(), tape.number()
    try:
        place = _granted_place(path, kind & ~IF_THERE)
    except Failure:
        if kind & IF_THERE:
            return
        raise
    _add_rule(allowed, place, path)
    os.close(place)


def _granted_place(path: bytes, kind: int) -> int:
    if kind == LINKED:
        with _At("grant", path):
            return os.open(path, os.O_PATH | _CLOEXEC)
    how = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | _CLOEXEC, 0, _NO_SYMLINKS | _NO_MAGICLINKS)
    try:
        place = _must("grant", path, "syscall", _OPENAT2, _HERE, path, how, len(how))
    except Failure as failure:
        if failure.number != errno.ENOSYS:
            raise
        place = _open_by_names(path)
    if not _same_kind(place, kind):
        os.close(place)
        raise Failure(errno.ESTALE, "grant", path)
    return place


def _open_by_names(path: bytes) -> int:
    """Open a place name by name, none of them a link, where the kernel's own call for that is refused.

    We are in a sandbox ourselves then, which can only take away.
    """
    with _At("grant", path):
        at = os.open(b"/", os.O_PATH | os.O_DIRECTORY | _CLOEXEC)
        for name in path.split(b"/"):
            if not name:
                continue
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | _CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
            if stat.S_ISLNK(os.fstat(at).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return at


def _add_rule(allowed: int, place: int, what: bytes) -> None:
    _must("grant", what, "syscall", _ADD_RULE, _state.ruleset, 1, struct.pack("=Qi", allowed, place), 0)


def _streams(tape: Tape) -> None:
    """The terminal that the caller's streams lead to is none of the view's: without this, nobody opens /dev/stdout."""
    allowed = tape.number()
    for stream in range(3):
        if os.isatty(stream):
            _add_rule(allowed, stream, b"terminal")


def _restrict(_tape: Tape) -> None:
    _must("landlock", b"restrict", "syscall", _RESTRICT_SELF, _state.ruleset, 0)
    os.close(_state.ruleset)
    _state.ruleset = -1


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _seccomp(tape: Tape) -> None:
    code = tape.text()
    if len(code) > _MOST_FILTERS * _SOCK_FILTER or len(code) % _SOCK_FILTER:
        raise Failure(errno.E2BIG, "seccomp")
    program = _Filter(len(code) // _SOCK_FILTER, code)
    _must("seccomp", b"", "prctl", _SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)


def _exec(tape: Tape) -> None:
    program, directory = tape.word(), tape.word()
    arguments, environment = tape.words(), tape.words()
    with _At("directory", directory):
        os.chdir(directory)
    # Nothing of ours and nothing of the caller's goes along, but for standard input, output and error.
    _must("descriptors", b"", "syscall", _CLOSE_RANGE, 3, _EVERY, _CLOSE_ON_EXEC)
    _forget_handlers()
    if _state.memory is not None:
        _set_limit(resource.RLIMIT_DATA, _state.memory)
    signal.pthread_sigmask(signal.SIG_SETMASK, _state.mask)
    _libc.execve(program, arguments, environment)
    number = ctypes.get_errno()
    raise Failure(number, "exec", program, NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE)


def _forget_handlers() -> None:
    """Undo what Python did to signals when it started; what the caller ignored stays ignored."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _was_sent_to_us(code: int) -> bool:
    """A signal that the terminal sent reached the program by itself; one that somebody sent to us alone did not."""
    return code <= 0


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except OSError:
        return


def _forked() -> int:
    with _At("fork"):
        return os.fork()


def _end_as(status: int) -> NoReturn:
    """End as the child ended, so that whoever waits for us learns it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL has no other anyway
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def _left_over() -> list[int]:
    """Return our children: all that is left of the program, where no namespace ends with it."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _end_the_rest() -> None:
    """End whatever the program left behind. Its orphans become our children, since we are their subreaper."""
    while rest := _left_over():
        for process in rest:
            _kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _keep(init: int) -> NoReturn:
    signals = _signals_of_ours()
    watched = select.poll()
    watched.register(signals, select.POLLIN)
    watched.register(_state.control, 0)
    while True:
        ready = dict(watched.poll())
        if _state.control in ready:  # whoever started us is gone
            _kill(init, signal.SIGKILL)
            watched.unregister(_state.control)
        if signals in ready:
            got = os.read(signals, _SIGNALFD_SIGINFO)
            number, _errno, code = struct.unpack_from("=Iii", got)
            _attend(init, number, code)


def _signals_of_ours() -> int:
    mask = sum(1 << (number - 1) for number in _ALL)
    return _must("keeper", b"", "signalfd", -1, _sigset(mask), _CLOEXEC)


def _sigset(mask: int) -> bytes:
    return struct.pack("=Q", mask).ljust(128, b"\0")


def _attend(init: int, number: int, code: int) -> None:
    if number == signal.SIGCHLD:
        ended, status = os.waitpid(init, os.WNOHANG)
        if ended == init:
            _end_the_rest()
            _end_as(_told_status(status))
    elif number in _STOPPED_WITH_US:
        os.kill(os.getpid(), signal.SIGSTOP)  # with the program, which got it as well
    elif number != signal.SIGCONT and _was_sent_to_us(code):
        _kill(init, number)


def _told_status(status: int) -> int:
    """Return how the program ended; an init cannot end by a signal itself, so it is told in shared memory."""
    told = -1 if _state.status is None else int(struct.unpack_from("=i", _state.status)[0])
    return told if told >= 0 else status


def _fork(_tape: Tape) -> None:
    with _At("keeper"):
        _state.status = mmap.mmap(-1, 4)
    struct.pack_into("=i", _state.status, 0, -1)
    signal.pthread_sigmask(signal.SIG_SETMASK, _ALL)
    _prctl("keeper", _SET_CHILD_SUBREAPER, 1)
    with _At("keeper"):
        reading, writing = os.pipe()  # its writing end is the keeper's alone
    init = _forked()
    if init:
        _keep(init)
    _prctl("init", _SET_PDEATHSIG, signal.SIGKILL)
    os.close(writing)
    watched = select.poll()
    watched.register(reading, 0)
    if watched.poll(0):  # the keeper died before that, so nobody would tell us
        os._exit(NOT_SET_UP)
    os.close(reading)


def _spawn(_tape: Tape) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _ALL)
    init = os.getpid()
    program = _forked()
    if program == 0:
        # Where no namespace ends with the init, the program at least does.
        _prctl("program", _SET_PDEATHSIG, 0 if init == 1 else signal.SIGKILL)
        if init != 1 and os.getppid() != init:
            os._exit(NOT_SET_UP)
        if _state.leads_group:
            with _At("program"):
                os.setpgid(0, 0)
        return
    if _state.leads_group:
        with suppress(OSError):  # whichever of us comes first
            os.setpgid(program, program)
    _libc.prctl(*[ctypes.c_long(word) for word in (_SET_DUMPABLE, 0, 0, 0, 0)])
    # Let go of the caller's streams: only the program and its children keep them open.
    os.closerange(0, 3)
    while True:
        got = signal.sigwaitinfo(_ALL)
        if got.si_signo != signal.SIGCHLD:
            if got.si_signo == _NEWS:
                _renew()
            elif _was_sent_to_us(got.si_code):
                _pass_on_to(program, got.si_signo)
        else:
            _reap(program)


def _pass_on_to(program: int, number: int) -> None:
    """What somebody sent to us alone is for the program alone; what a terminal sent to us is for all of its group."""
    if _FOR_ALL - signal.SIGTSTP <= number < _FOR_ALL:
        _kill(-program if _state.leads_group else program, _FOR_ALL - number)
    else:
        _kill(program, number)


def _has_no_terminal() -> bool:
    """Whether we are in a session without a terminal: then nobody misses the program in the foreground of one."""
    try:
        os.close(os.open(b"/dev/tty", os.O_RDWR | os.O_NOCTTY | _CLOEXEC))
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


def _reap(program: int) -> None:
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended == 0:
            return
        if ended == program:
            _tell_status(status)
            os._exit(0)  # the kernel ends whatever is left in here


def _tell_status(status: int) -> None:
    if _state.status is not None:
        struct.pack_into("=i", _state.status, 0, status)
    else:
        _send(b"S%d" % status)


def _report(_tape: Tape) -> None:
    """We are process 1 of a sandbox that somebody else made: hand out what signals are sent by, and be sent some."""
    _state.mask = set()
    with _At("report"):
        process = _must("report", b"", "syscall", _PIDFD_OPEN, os.getpid(), 0)
        _hand_out(b"P", process)
        os.close(process)


def _not_here(name: str) -> Callable[[Tape], None]:
    def refuse(_tape: Tape) -> None:
        raise Failure(errno.ENOSYS, name, b"the launcher in Python cannot do this; install a C compiler")

    return refuse


# In the order of tape.STEPS and of STEPS in launcher.c: a test compares all three.
STEPS: dict[str, Callable[[Tape], None]] = {
    "namespaces": _namespaces,
    "fork": _fork,
    "root": _root,
    "directory": _directory,
    "link": _link,
    "file": _file,
    "bind": _bind,
    "cover": _cover,
    "mount": _mount,
    "pivot": _pivot,
    "loopback": _loopback,
    "listen": _listen,
    "setting": _setting,
    "hostname": _hostname,
    "spawn": _spawn,
    "limit": _limit,
    "drop": _drop,
    "landlock": _landlock,
    "grant": _grant,
    "restrict": _restrict,
    "seccomp": _seccomp,
    "exec": _exec,
    "streams": _streams,
    "seal": _seal,
    "trace": _not_here("trace"),
    "report": _report,
    "noexec": _noexec,
    "apart": _not_here("apart"),
    "broker": _not_here("broker"),
    "guard": _guard,
    "watch": _watch,
    "shade": _shade,
}


def _send(message: bytes) -> None:
    try:
        with socket.socket(fileno=os.dup(_state.control)) as line:
            line.send(message, socket.MSG_NOSIGNAL)
    except OSError:  # nobody listens any more
        return


def _load(descriptor: int) -> bytes:
    with _At("tape"):
        size = os.fstat(descriptor).st_size
        content = b""
        while len(content) < size and (more := os.pread(descriptor, size - len(content), len(content))):
            content += more
        return content


def _play(tape: Tape) -> None:
    steps = list(STEPS.values())
    while tape:
        number = tape.number()
        if number >= len(steps):
            raise Failure(errno.EBADMSG, "tape", b"step")
        steps[number](tape)
    raise Failure(errno.EBADMSG, "tape", b"end")


def _start(tape: int, control: int) -> None:
    _state.control = control
    os.set_inheritable(control, False)
    # What the caller left open is none of ours; descriptor 5 may be a lock, which is held as long as we are there.
    _must("descriptors", b"", "syscall", _CLOSE_RANGE, LAST_OF_OURS + 1, _EVERY, 0)
    content = _load(tape)
    _state.mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    _state.leads_group = _has_no_terminal()
    sys.meta_path.clear()
    sys.path_hooks.clear()
    _play(Tape(content))


def main(words: list[str]) -> NoReturn:
    """Do what the tape says; never come back."""
    if len(words) != 3:
        os._exit(NOT_SET_UP)
    try:
        _start(int(words[1]), int(words[2]))
    except Failure as failure:
        told = b"E%d %d %s %s" % (failure.code, failure.number, failure.step.encode(), failure.what[:_LONGEST_WHAT])
        _send(told)
        os._exit(failure.code)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, nothing runs in less than was asked for
        number = getattr(error, "errno", None) or errno.EIO
        _send(b"E%d %d launcher %s" % (NOT_SET_UP, number, type(error).__name__.encode()))
    os._exit(NOT_SET_UP)


if __name__ == "__main__":
    main(sys.argv)
