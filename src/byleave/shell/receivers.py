"""What does a program make of its input: data, or a script that it runs? None where that is not known.

Shells, other interpreters and programs that start a shell are known by name. Programs that take data are a closed list
(`data_programs`); what is on no list may be an interpreter.
"""

from byleave.shell.data_programs import takes_data
from byleave.shell.model import Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Command
    from byleave.shell.programs import Programs

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


def takes_script(command: "Command", programs: "Programs") -> bool | None:
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


def reads_script(command: "Command", programs: "Programs") -> bool | None:
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


def runs_anything(command: "Command", programs: "Programs") -> bool:
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


def _carried(program: str, text: str, rest: tuple[Word, ...]) -> "tuple[bool | None] | None":
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
