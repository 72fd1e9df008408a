"""Which values of options and operands are harmless. A spec names a reader of this module (`=~config`) or lists words.

Each reader accepts what it knows and nothing else. Patterns are loaded when a value needs one: `re` takes longer than
everything else here.

Which variables leave alone what a command runs, reads or writes. The lists are in `program_options.toml`.

In front of a command, or exported, a variable is harmless when a list says so, or when neither its name nor its value
can mean anything to a program: the name is of no known family, and the value is a plain word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from byleave.shell.knowledge.program_options_table import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Patterns = tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def is_harmless_value(check: str, value: str) -> bool:
    """Return whether a value passes a check of a spec: `~name`, or the words of a list."""
    if not check.startswith("~"):
        return value in check.split("|")
    return READERS[check[1:]](value)


def is_inside(value: str) -> bool:
    """Return whether a literal name of a file stays below the directory that it is relative to, as far as text says."""
    if value in ("", "-", "/dev/null", "/dev/stdout", "/dev/stderr"):
        return True
    return value[0] not in "/~@-" and ".." not in value.split("/") and "\0" not in value


def is_scratch(value: str) -> bool:
    """Return whether a literal name is one below /tmp, as far as text says."""
    return value.startswith("/tmp/") and ".." not in value.split("/") and "\0" not in value  # noqa: S108 -- checked, not used


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _only(more: str = "", *, first: str = LETTERS + DIGITS) -> Callable[[str], bool]:
    """Return a reader of words of letters, digits and a few other characters, none of these at the beginning."""
    accepted = frozenset(LETTERS + DIGITS + more)
    return lambda value: not value or (value[0] in first and accepted.issuperset(value))


# Variables of make that name programs or change how make itself works, and ends of such names.
_MAKE_PROGRAMS = _words(
    "AR AS CC CXX CPP FC M2C PC CO GET LEX YACC LINT MAKEINFO TEX TEXI2DVI WEAVE CWEAVE TANGLE CTANGLE RM "
    "LD NM CP MV OBJCOPY OBJDUMP RANLIB STRIP SHELL PYTHON PYTHON3 PIP PERL RUBY NODE NPM NPX YARN GO "
    "CARGO JAVA JAVAC DOCKER GIT SUDO HOSTCC LAUNCHER RUNNER WRAPPER EDITOR PAGER BROWSER PYTEST INSTALL "
    "LN MKDIR SED AWK GREP CURL IFS PATH HOME ENV "
)
_MAKE_FAMILIES = (
    *("MAKE", "GNUMAKE", "SHELL", "LD_", "DYLD_", "GIT_", "PYTHON", "NODE_", "NPM_", "RUBY", "PERL", "BASH", "GCC_"),
    *("CARGO", "RUSTC", "JAVA", "PIP_", "UV_", "PYTEST_", "DOCKER_", "KUBE", "VPATH", "SUFFIXES", "CURDIR"),
)
_MAKE_ENDS = (
    *("CMD", "COMMAND", "PROG", "PROGRAM", "SHELL", "EXEC", "RUN", "BIN", "TOOL", "WRAPPER", "LAUNCHER", "RUNNER"),
    *("CC", "CXX", "LINKER", "COMPILER", "PAGER", "EDITOR", "HOOK", "SCRIPT"),
)
_MAKE_OPTIONS = ("FLAGS", "FLAG", "OPTS", "OPT", "OPTIONS", "ARGS", "ARG", "PARAMS")
_MAKE_PATHS = _words("TEST TESTS TEST_FILE T FILE FILES SRC DIR PKG PACKAGE TARGET MODULE FILTER PREFIX DESTDIR")


def _assignment(value: str) -> bool:
    """`NAME=value` as an operand of make: a word that is no option; a path only where the name says that it is one."""
    name, _, text = value.partition("=")
    upper = name.upper()
    if not name.isidentifier() or not name.isascii() or upper in _MAKE_PROGRAMS or upper.startswith(_MAKE_FAMILIES):
        return False
    if upper.endswith(_MAKE_ENDS):
        return False
    if upper.endswith(_MAKE_OPTIONS):
        return text.isalnum() or not text
    if name in _MAKE_PATHS:
        return _only("_./:,+@-", first=LETTERS + DIGITS + "_.")(text) and is_inside(text)
    return _only("_.,:+-", first=LETTERS + DIGITS + "_")(text)


_BOOL = r"(true|false|yes|no|on|off|0|1)"
# Keys of git's configuration whose values start nothing, and those values. Sections and keys know no case.
_GIT_CONFIG = (
    r"color\.[a-z.-]+=[A-Za-z0-9# ]*",
    r"advice\.[a-z]+=" + _BOOL,
    r"user\.(name|email)=[^\n]*",
    (
        r"core\.(quotepath|autocrlf|filemode|longpaths|safecrlf|eol|ignorecase|precomposeunicode|abbrev|whitespace|symlinks)"
        r"=[A-Za-z0-9,=-]*"
    ),
    r"core\.(pager|editor)=(cat|true|:|)",
    r"sequence\.editor=(true|:)",
    r"pager\.[a-z-]+=(false|cat|no|0)",
    r"init\.defaultbranch=[A-Za-z0-9._/-]+",
    r"log\.(date|decorate|abbrevcommit|follow|showroot|mailmap|graphcolors)=[A-Za-z0-9:,-]*",
    (
        r"diff\.(renames|renamelimit|noprefix|mnemonicprefix|colormoved|context|algorithm|interhunkcontext|relative|submodule"
        r"|indentheuristic)=[A-Za-z0-9-]*"
    ),
    r"(commit|tag)\.gpgsign=false",
    r"(fetch|gc)\.(prune|prunetags|auto|parallel)=[A-Za-z0-9]*",
    r"push\.(default|followtags|autosetupremote)=[a-z]*",
    r"pull\.(rebase|ff)=(true|false|merges|only)",
    r"merge\.(conflictstyle|renamelimit|renames|ff)=[A-Za-z0-9]*",
    r"rebase\.(autosquash|autostash|updaterefs)=" + _BOOL,
    (
        r"(grep|status|branch|tag|column|blame)\.(linenumber|column|patterntype|fullname|short|branch|showuntrackedfiles"
        r"|relativepaths|sort|ui|date|showemail)=[A-Za-z0-9:,-]*"
    ),
    r"http\.(lowspeedlimit|lowspeedtime|postbuffer)=[0-9]+",
)


def _git_config(value: str) -> bool:
    key, equals, text = value.partition("=")
    return any(re.fullmatch(pattern, key.lower() + equals + text) for pattern in _GIT_CONFIG)


def _go_ldflags(value: str) -> bool:
    """What the linker of go may get: stripped symbols, and strings put into variables of the program."""
    words = value.split(" ")
    variable = _only("_./-:@+=")
    while words:
        word = words.pop(0)
        if word in ("", "-s", "-w", "-s=true", "-w=true", "-w=false", "-s=false"):
            continue
        if word != "-X" or not words or not variable(words[0]) or words.pop(0).count("=") != 1:
            return False
    return True


def _coverage_report(value: str) -> bool:
    kind, _, place = value.partition(":")
    if kind in ("term", "term-missing"):
        return place in ("", "skip-covered")
    return kind in ("html", "xml", "json", "lcov", "annotate", "") and is_inside(place)


_JAVA_PROPERTIES = _words(
    "test it.test groups excludedGroups surefire.failIfNoSpecifiedTests failIfNoTests skipTests skipITs "
    "maven.test.skip maven.test.failure.ignore maven.javadoc.skip checkstyle.skip spotbugs.skip pmd.skip "
    "spotless.check.skip "
    "jacoco.skip enforcer.skip style.color surefire.useFile trimStackTrace surefire.printSummary forkCount reuseForks "
    "parallel threadCount revision"
)


def _java_property(value: str) -> bool:
    """`-DNAME=VALUE` of Maven: which tests run, and what is left out."""
    name, _, text = value.partition("=")
    return name in _JAVA_PROPERTIES and frozenset(LETTERS + DIGITS + "_.,*#+!-").issuperset(text)


def _define(value: str) -> bool:
    """`-DNAME=VALUE` of a compiler: any text, for it only becomes text of the program."""
    return "\n" not in value


# Variables of cmake that choose no program, no script and no place.
_CMAKE = _words(
    "CMAKE_BUILD_TYPE CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_CXX_STANDARD CMAKE_C_STANDARD BUILD_TESTING "
    "BUILD_SHARED_LIBS CMAKE_VERBOSE_MAKEFILE "
    "CMAKE_POSITION_INDEPENDENT_CODE CMAKE_COLOR_MAKEFILE CMAKE_INTERPROCEDURAL_OPTIMIZATION "
    "CMAKE_CXX_EXTENSIONS CMAKE_CXX_STANDARD_REQUIRED"
)
_SWITCH = _words("ON OFF TRUE FALSE YES NO 0 1 on off true false yes no")


def _cmake_variable(value: str) -> bool:
    key, equals, text = value.partition("=")
    name, _, kind = key.partition(":")
    if not equals or kind not in ("", "BOOL", "STRING", "PATH"):
        return False
    if name == "CMAKE_INSTALL_PREFIX":
        return is_inside(text)
    if name in _CMAKE:
        return _only("_.+-")(text)
    return not name.startswith("CMAKE") and _only("_")(name) and text in _SWITCH


_CODEGEN = _words(
    "opt-level debuginfo panic lto codegen-units target-cpu overflow-checks debug-assertions strip relocation-model "
    "embed-bitcode force-frame-pointers prefer-dynamic"
)


def _codegen(value: str) -> bool:
    """`-C NAME=VALUE` of rustc."""
    name, _, text = value.partition("=")
    return name in _CODEGEN and _only("-")(text)


def _warning_filter(value: str) -> bool:
    """`-W` of Python: a category with a dot in it is imported from a module."""
    parts = value.split(":")
    return _only("_")(parts[0]) and (len(parts) < 3 or _only("_")(parts[2]))


# Keys of pytest's configuration that choose no file and load nothing.
_INI = _words(
    "log_cli log_cli_level log_level log_file_level asyncio_mode asyncio_default_fixture_loop_scope xfail_strict "
    "console_output_style junit_family junit_logging junit_suite_name junit_duration_report timeout "
    "truncation_limit_lines truncation_limit_chars verbosity_assertions verbosity_test_cases faulthandler_timeout "
    "tmp_path_retention_count"
)


def _ini(value: str) -> bool:
    """`-o NAME=VALUE` of pytest."""
    name, _, text = value.partition("=")
    return name in _INI and _only("_.-")(text)


def _classpath(value: str) -> bool:
    return all(is_inside(place) for place in value.split(":"))


_LOGGERS = frozenset(
    f"console;verbosity={level}" for level in ("quiet", "minimal", "normal", "detailed", "diagnostic")
) | {"console", "trx", "html"}


READERS: Mapping[str, Callable[[str], bool]] = {
    "archive": lambda value: ":" not in value,  # tar takes what stands before a colon for another machine
    "assignment": _assignment,
    "classpath": _classpath,
    "cmake": _cmake_variable,
    "codegen": _codegen,
    "collector": lambda value: value in ("XPlat Code Coverage", "Code Coverage"),
    "config": _git_config,
    "coverage": _coverage_report,
    "define": _define,
    "filter": _warning_filter,
    "gcflags": lambda value: value in ("-N -l", "all=-N -l", "-m", "-m -m", "-m=2", "-l", "-N"),
    "ini": _ini,
    "inside": is_inside,
    "ldflags": _go_ldflags,
    "lint": _only(",-"),
    "logger": lambda value: value in _LOGGERS,
    "number": lambda value: not value or value.isdecimal(),
    "plugin": lambda value: value.startswith("no:"),
    "property": _java_property,
    "python": _only(".", first=DIGITS),
    "triple": _only("_-"),
    "warning": _only("+=-"),
    "word": _only("_.+=-", first=LETTERS + DIGITS + "_"),
    "writeout": lambda value: not value.startswith("@") and "%output" not in value,
}


def _sorted_patterns(patterns: Iterable[str]) -> Patterns:
    """Return the plain names, the beginnings and the ends."""
    names, beginnings, ends = [], [], []
    for pattern in patterns:
        if pattern.endswith("*"):
            beginnings.append(pattern[:-1])
        elif pattern.startswith("*"):
            ends.append(pattern[1:])
        else:
            names.append(pattern)
    return frozenset(names), tuple(beginnings), tuple(ends)


CHANGING = _sorted_patterns(VARIABLES["changing"])
# Of endings, only those that a program would find in its environment: `DIR=src` is a name of the line's own.
CHANGING_IF_EXPORTED = (
    CHANGING[0],
    CHANGING[1],
    ("PAGER", "EDITOR", "PATH", "ASKPASS", "BROWSER", "FLAGS", "_PRELOAD", "_PROXY", "_SHELL", "_COMMAND", "_WRAPPER"),
)
HARMLESS = _sorted_patterns(VARIABLES["harmless"])
FREE = _sorted_patterns(VARIABLES["free"])
EXPANDING = frozenset(VARIABLES["expanding"])
DIRECTORIES = frozenset(VARIABLES["directories"])
HARMLESS_VALUES: dict[str, list[str]] = VARIABLES["harmless_values"]
NODE_OPTIONS: list[str] = VARIABLES["node_options"]
PLAIN = frozenset(LETTERS + DIGITS + "_.,:+@%-")


def harmless_assignment(name: str, value: str | None, program: str | None = None) -> bool:
    """Return whether setting the variable leaves alone what a command runs, reads or writes.

    With its `value`, None for one known only at run time: `GIT_PAGER=cat` is harmless, `GIT_PAGER=x` is not. `program`
    is the one it is set for, if that is known: what make finds in its environment becomes text of its commands.
    """
    if not name.isidentifier() or not name.isascii():
        return False
    if _listed(name, FREE) and program not in EXPANDING:
        return True
    if value is None:
        return False
    if value in HARMLESS_VALUES.get(name, ()) or _special(name, value):
        return True
    if name.endswith(("_URL", "_URI", "_DSN")) and not _listed(name.upper(), CHANGING) and _is_local_service(value):
        return program not in EXPANDING
    plain = PLAIN.issuperset(value) and not value.startswith("-")
    return plain and (_listed(name, FREE) or _listed(name, HARMLESS) or not _listed(name.upper(), CHANGING))


def harmless_in_shell(name: str) -> bool:
    """Return whether a variable of the shell itself, not given to programs, changes nothing that is run later."""
    if not name.isidentifier() or not name.isascii():
        return False
    return _listed(name, FREE) or _listed(name, HARMLESS) or not _listed(name, CHANGING_IF_EXPORTED)


def _special(name: str, value: str) -> bool:
    """Whether the value is of the form that is harmless for this very variable."""
    if name in DIRECTORIES:
        return bool(value) and PLAIN.union("/").issuperset(value) and all(is_inside(each) for each in value.split(":"))
    return name == "NODE_OPTIONS" and all(_is_node_option(word) for word in value.split(" "))


# Protocols of databases, queues and the like, whose clients take nothing else from an address of this form.
_SERVICES = _words(
    "postgres postgresql postgresql+asyncpg postgresql+psycopg postgresql+psycopg2 mysql mysql2 mariadb mysql+pymysql "
    "mongodb redis valkey memcached amqp nats mssql sqlserver cockroachdb clickhouse http https ws wss"
)
_LOOPBACK = frozenset(["localhost", "127.0.0.1", "[::1]"])


def _is_local_service(value: str) -> bool:
    """Whether a text is the address of a service on this machine, without parameters."""
    scheme, mark, rest = value.partition("://")
    place, _, path = rest.partition("/")
    login, at, host = place.rpartition("@")
    name, colon, port = host.rpartition(":") if host[-1:] != "]" else (host, "", "")
    if not colon:
        name, port = host, ""
    letters = _only("_.+-:")
    return (
        bool(mark)
        and scheme in _SERVICES
        and name in _LOOPBACK
        and (not colon or port.isdecimal())
        and ((not at or letters(login)) and _only("_.-/")(path))
    )


def _is_node_option(word: str) -> bool:
    option, equals, number = word.partition("=")
    return word in NODE_OPTIONS or (f"{option}{equals}" in NODE_OPTIONS and number.isdecimal())


def _listed(name: str, patterns: Patterns) -> bool:
    names, beginnings, ends = patterns
    return name in names or name.startswith(beginnings) or name.endswith(ends)
