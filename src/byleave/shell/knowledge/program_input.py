"""What does a program make of its input: data, or a script that it runs? None where that is not known.

Shells, other interpreters and programs that start a shell are known by name. So are the programs that take their words
and their input as data: none of them starts a program that its operands name. What executes because of an option (`tar
--to-command`, `sed e`) is in the tables of options. A program on no list, without a table as a wrapper, may start what
its words spell, and may run what it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command


SYSTEM_PLACES = frozenset(
    ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/", "/opt/homebrew/bin/"]
)
DATA_PROGRAMS = frozenset(
    [
        # text
        *("echo", "printf", "cat", "tac", "rev", "nl", "head", "tail", "wc", "cut", "paste", "join", "tr", "sort"),
        *("comm", "diff", "cmp", "sdiff", "diff3", "colordiff", "grep", "egrep", "fgrep", "zgrep", "ggrep", "rg", "ag"),
        *("ack", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "gron", "xmllint", "column", "fold", "fmt"),
        *("expand", "unexpand", "iconv", "strings", "od", "xxd", "hexdump", "hd", "base64", "base32", "numfmt", "seq"),
        *("shuf", "split", "csplit", "tee", "sponge", "yes", "dos2unix", "unix2dos", "look", "bat", "batcat", "uniq"),
        *("pv", "figlet", "cowsay", "bc", "expr", "factor", "cal", "date", "glow", "delta", "dasel", "htmlq"),
        *("csvcut", "csvgrep", "csvjson", "in2csv", "mlr", "xsv", "qsv", "tsort", "envsubst", "html2text", "pr", "fx"),
        # files
        *("ls", "dir", "vdir", "exa", "eza", "lsd", "tree", "stat", "file", "du", "df", "pwd", "basename", "dirname"),
        *("realpath", "readlink", "mktemp", "mkdir", "rmdir", "touch", "cp", "mv", "ln", "rm", "unlink", "shred"),
        *("chown", "chgrp", "chmod", "install", "truncate", "dd", "sync", "find", "fd", "fdfind", "locate", "mkfifo"),
        *("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "shasum"),
        *("tar", "bsdtar", "gtar", "zip", "unzip", "gzip", "gunzip", "zcat", "bzip2", "bunzip2", "bzcat", "xz", "unxz"),
        *("xzcat", "zstd", "unzstd", "zstdcat", "lz4", "cpio", "ar", "7z", "7za", "unrar", "patch", "rsync", "scp"),
        *("chattr", "lsattr", "getfacl", "setfacl", "fallocate", "xattr", "rename", "trash", "mknod", "md5"),
        # the system
        *("true", "false", "sleep", "test", "[", "which", "whereis", "whatis", "apropos", "man", "info", "type"),
        *("uname", "hostname", "whoami", "id", "groups", "who", "w", "users", "uptime", "nproc", "tty"),
        *("printenv", "getconf", "getent", "logger", "ps", "pgrep", "pkill", "kill", "killall", "top", "htop", "lsof"),
        *("free", "vmstat", "iostat", "netstat", "ss", "ifconfig", "ping", "dig", "nslookup", "host", "whois"),
        *("lsblk", "lscpu", "lsusb", "lspci", "dmesg", "mount", "umount", "systemctl", "journalctl", "service"),
        *("curl", "wget", "http", "https", "xh", "nm", "objdump", "readelf", "ldd", "size", "strip", "otool", "lipo"),
        *("apt", "apt-get", "apt-cache", "dpkg", "rpm", "yum", "dnf", "apk", "pacman", "brew", "pip", "pip3"),
        *("openssl", "gpg", "ssh-keygen", "ssh-add", "git", "gh", "glab", "hub", "cloc", "tokei", "scc", "locale"),
        *("say", "notify-send", "pbcopy", "pbpaste", "xclip", "wl-copy", "clip", "less", "more", "pdftotext"),
    ]
)
# Builtins of the shell that start nothing which is not listed as a command of its own.
DATA_BUILTINS = frozenset(
    [
        *(
            ":",
            ".",
            "source",
            "alias",
            "bg",
            "break",
            "builtin",
            "caller",
            "cd",
            "chdir",
            "command",
            "continue",
            "declare",
        ),
        *("dirs", "disown", "eval", "exec", "exit", "export", "fg", "getopts", "hash", "history", "jobs", "let"),
        *("local", "mapfile", "popd", "pushd", "read", "readarray", "readonly", "return", "set", "shift", "shopt"),
        *("times", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "wait", "help", "suspend", "enable"),
    ]
)
# Subcommands of the programs above that do start what their words name.
STARTING = {
    "git": frozenset(
        [
            *("bisect", "submodule", "rebase", "filter-branch", "difftool", "mergetool", "for-each-repo", "hook"),
            *("remote-ext", "maintenance", "daemon", "instaweb", "web--browse", "credential", "send-email", "config"),
        ]
    ),
    "gh": frozenset(["alias", "extension", "ext", "codespace", "cs"]),
}


def takes_data(command: Command) -> bool:
    """Return whether a command is known to take its words and its input as data."""
    name, program = command.name, command.program
    if name is None or program is None:
        return False
    if "/" in name and name[: name.rfind("/") + 1] not in SYSTEM_PLACES:
        return False
    if program in STARTING:
        return STARTING[program].isdisjoint([word.text for word in command.words[1:]])
    return program in DATA_PROGRAMS or ("/" not in name and program in DATA_BUILTINS)


SHELL_NAMES = frozenset(
    [
        *("bash", "sh", "dash", "ash", "ksh", "mksh", "pdksh", "oksh", "loksh", "lksh", "zsh", "rbash", "rksh", "rzsh"),
        *("fish", "csh", "tcsh", "nu", "pwsh", "powershell", "xonsh", "yash", "posh", "hush", "mrsh", "osh", "ysh"),
        *("elvish", "rc", "es", "ion", "murex", "bosh", "pbosh", "sash", "gash", "lsh", "scsh", "xsh", "bsh", "jsh"),
    ]
)
INTERPRETERS = SHELL_NAMES | frozenset(
    [
        *(
            "python",
            "python2",
            "python3",
            "pypy",
            "pypy3",
            "ipython",
            "ipython3",
            "micropython",
            "jython",
            "perl",
            "raku",
        ),
        *(
            "ruby",
            "jruby",
            "irb",
            "node",
            "nodejs",
            "deno",
            "bun",
            "tsx",
            "ts-node",
            "qjs",
            "php",
            "lua",
            "luajit",
            "tclsh",
        ),
        *(
            "wish",
            "expect",
            "Rscript",
            "R",
            "julia",
            "osascript",
            "ghci",
            "runghc",
            "groovy",
            "groovysh",
            "jshell",
            "scala",
        ),
        *("kotlin", "swift", "clojure", "clj", "bb", "guile", "racket", "sbcl", "clisp", "ecl", "ocaml", "utop", "erl"),
        *(
            "iex",
            "elixir",
            "octave",
            "gnuplot",
            "gdb",
            "lldb",
            "ed",
            "ex",
            "sqlite3",
            "psql",
            "mysql",
            "mariadb",
            "mongosh",
        ),
    ]
)
# Without a command of their own these start a shell, or take commands from their input.
SHELL_STARTERS = frozenset(
    [
        *("sudo", "su", "doas", "pkexec", "runuser", "ssh", "chroot", "unshare", "nsenter", "newgrp", "sg", "script"),
        *(
            "login",
            "machinectl",
            "toolbox",
            "distrobox",
            "at",
            "batch",
            "crontab",
            "busybox",
            "toybox",
            "screen",
            "tmux",
        ),
        *("firejail", "bwrap", "proot", "fakeroot", "fakechroot", "setpriv", "docker", "podman", "kubectl", "vagrant"),
    ]
)
# Data, unless the script itself is read from the input: `sed -f -`.
SCRIPTED = frozenset(["awk", "gawk", "mawk", "nawk", "sed", "gsed", "make", "gmake", "jq", "bc"])
_QUIET = frozenset(["--version", "--help", "-V", "-h"])
_SHELL_VALUES = frozenset(["--rcfile", "--init-file", "-o", "+o", "-O", "+O"])
# Letters of short options behind which the script stands in the command itself.
_TEXT_LETTERS = {
    **dict.fromkeys(["python", "python2", "python3", "pypy", "pypy3", "ipython", "ipython3"], "cm"),
    **dict.fromkeys(["node", "nodejs", "lua", "luajit", "Rscript", "raku", "ruby", "jruby"], "e"),
    **dict.fromkeys(["perl"], "eE"),
    **dict.fromkeys(["php"], "rRBEF"),
    **dict.fromkeys(["psql", "osascript", "mysql", "mariadb"], "ce"),
}
_TEXT_OPTIONS = ("--eval", "--print", "--execute", "--run", "--command", "--expression")
# Their first operand is a file or a database, not the script.
_WITH_FILE = frozenset(["ed", "ex", "sqlite3", "psql", "mysql", "mariadb", "mongosh", "gdb", "lldb"])
# Modules of Python that run what they read.
_CONSOLES = frozenset(["code", "pdb", "IPython", "asyncio", "idlelib", "ptpython", "bpython", "runpy"])
_CONSOLE_WORDS = frozenset(["fsi", "repl", "console", "shell", "interactive"])  # `dotnet fsi`, `rails console`
_RUNNERS = frozenset(["run", "repl", "eval", "exec"])
# Words in a script by which it may run what it reads.
_RUNNING = ("exec", "eval", "system", "popen", "subprocess", "spawn", "compile", "runpy", "Function", "qx", "`")


def is_interpreter(name: str | None) -> bool:
    """Return whether a name, with or without directory and version, is that of an interpreter."""
    return name is not None and plain_name(name) in INTERPRETERS


def announces_code(words: Sequence[Word]) -> bool:
    """Return whether an option of an interpreter, or the verb of some, has code stand behind it."""
    for word in words[1:]:
        text = word.prefix
        if text.startswith("--"):
            if text.partition("=")[0] in ("--eval", "--print", "--execute", "--run"):
                return True
        elif text == "eval" or (text[:1] == "-" and not frozenset("ceErp").isdisjoint(text)):
            return True
    return False


def is_shell(name: str | None) -> bool:
    """Return whether a name, with or without directory and version, is that of a shell."""
    return name is not None and plain_name(name) in SHELL_NAMES


def plain_name(name: str) -> str:
    """Return a program's name without directory and version: `php` for `/usr/bin/php8.2`."""
    base = name[name.rfind("/") + 1 :].removesuffix(".exe")
    plain = base.rstrip("0123456789.-")
    return plain if base not in INTERPRETERS and plain in INTERPRETERS else base


def names_input(word: Word) -> bool | None:
    """Return whether a word names an open descriptor as a file, in any of its spellings."""
    text = word.text
    if text is None:
        return None if not word.prefix or word.prefix.startswith(("/", ".")) else False
    if text == "-":
        return True
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    if text.startswith("/"):
        return parts[:2] in (["dev", "stdin"], ["dev", "fd"]) or (parts[:1] == ["proc"] and "fd" in parts)
    return None if "fd" in parts[:-1] or parts[-1:] == ["stdin"] else False  # relative, or through links


def takes_script(command: Command, programs: ProgramTables) -> bool | None:
    """Return whether a command runs what it reads from its standard input, wherever that comes from."""
    if not command.words or command.wraps is not None:
        return False
    if command.name is None:
        return None
    program = plain_name(command.name)
    words = command.words[1:]
    if program in ("source", "."):
        return names_input(words[0]) if words else False
    if program in INTERPRETERS:
        return _interprets(program, words)
    if program in SCRIPTED:
        given = any((word.text or "-f").startswith(("-f", "--f")) for word in words)
        return given and any(names_input(_value(word)) is not False for word in words)
    if takes_data(command):
        return False
    if program in SHELL_STARTERS:
        return None
    if any(is_interpreter(word.text) or names_input(word) for word in words):
        return None  # `mywrap bash`
    if any(word.text in _CONSOLE_WORDS for word in words[:1]):
        return None
    return False if programs.table(program) is not None else None


def reads_script(command: Command, programs: ProgramTables) -> bool | None:
    """Return whether a command runs what comes through the pipe before it; None where it may."""
    taken = takes_script(command, programs)
    if taken is False:
        return False
    for item in command.redirects:
        if item.fd not in (None, 0) or item.operator.startswith((">", "&")):
            continue
        if item.kind == "text":
            return False
        if item.operator == "<" and item.kind == "file":
            named = Word(item.target, item.prefix)
            return taken if names_input(named) else None if names_input(named) is None else False
        if item.kind == "descriptor" and item.target != "0":
            return None
    return taken


def runs_anything(command: Command, programs: ProgramTables) -> bool:
    """Return whether a command is a shell whose script is not in the text: it may run whatever a rule names."""
    if not command.words or command.wraps is not None or command.name is None:
        return False
    program = plain_name(command.name)
    taken = takes_script(command, programs)
    if program in SHELL_NAMES or program in ("source", "."):
        return taken is not False
    fed = command.fed or any(item.operator.startswith("<") and item.fd in (None, 0) for item in command.redirects)
    if not fed or taken is False or program in INTERPRETERS:
        return False
    return program in SHELL_STARTERS or any(is_shell(word.text) for word in command.words[1:])


def _value(word: Word) -> Word:
    """Return the word, without the option that it begins with: `-` for `-f-` and `--file=-`."""
    text = word.text or ""
    if not text.startswith("-f") and not text.startswith("--f"):
        return word
    value = text.partition("=")[2] if text.startswith("--") else text[2:]
    return Word(value, value)


def _interprets(program: str, words: tuple[Word, ...]) -> bool | None:
    if words and words[0].text in _QUIET:
        return False
    shell = program in SHELL_NAMES
    taken = False
    index = 0
    while index < len(words):
        word = words[index]
        text = word.text
        index += 1
        named = names_input(word)
        if text is None or named is not False:
            return named
        if shell and text in _SHELL_VALUES:
            index += 1
        elif shell and text[:1] in ("-", "+") and len(text) > 1:
            if text[0] == "-" and text[1] != "-" and "s" in text:
                return True
        elif text[:1] != "-" or len(text) == 1:
            if program in _WITH_FILE and not taken:
                taken = True  # what it edits or asks; the commands come from its input
                continue
            return _with_operand(text, words[index:])
        elif not shell and (given := _carried(program, text, words[index:])) is not None:
            return given[0]
    return True


def _carried(program: str, text: str, rest: tuple[Word, ...]) -> tuple[bool | None] | None:
    """Return, in a tuple of one, the answer where an option brings the script along; None for another option."""
    script: str | None
    if text.startswith("--"):
        if not text.startswith(_TEXT_OPTIONS):
            return None
        script = text.partition("=")[2] or (rest[0].text if rest else "")
    else:
        letters = _TEXT_LETTERS.get(program, "ce")
        if "i" in text and program.startswith(("python", "pypy")):
            return (None,)  # it goes on with its input
        at = next((place for place, letter in enumerate(text) if place and letter in letters), 0)
        if not at:
            return None
        script = text[at + 1 :] or (rest[0].text if rest else "")
        if text[at] == "m" and script is not None:
            return (None if script.partition(".")[0] in _CONSOLES else False,)
    if script is None:
        return (None,)
    return (None if any(mark in script for mark in _RUNNING) else False,)


def _with_operand(text: str, rest: tuple[Word, ...]) -> bool | None:
    """Answer for an interpreter with a file, or with a subcommand such as `deno run -`."""
    found = [names_input(word) for word in rest]
    if text not in _RUNNERS:
        return False
    if True in found:
        return True
    return False if any((word.text or "-")[:1] != "-" for word in rest) else None
