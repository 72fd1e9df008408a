"""What is known of one command's words, as the rules of `core` ask for it. None is "it depends" (on run time)."""

from byleave.shell.aliases import is_alias, may_be_args, may_have_flag
from byleave.shell.dangers import UNKNOWN, Danger, dangerous_options
from byleave.shell.options import canonical_flags, has_flag, scan, subcommand, subcommand_is_unknown
from byleave.shell.scripts import EXECUTES
from byleave.shell.spelled import names_of, started_as, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command, Word
    from byleave.shell.programs import Programs

ANYTHING = "**"

# Beginnings of words that execute or write, where the tables know an option only as a word of its own.
_COMPILER = (
    *(
        "@",
        "-B",
        "-fplugin",
        "-fpass-plugin",
        "-fuse-ld",
        "-load",
        "-specs",
        "--specs",
        "-wrapper",
        "--config",
        "-ccc-",
    ),
    *("-Wl,", "-Wp,", "-Wa,", "-Xlinker", "-Xclang", "-Xpreprocessor", "-Xassembler", "-o", "--output", "-MF", "-MD"),
    *("-save-temps", "--save-temps", "-fdump", "-dump", "-aux-info", "--serialize-diagnostics", "-fprofile", "-ftime-"),
)
_GO = tuple(
    f"--{name}"
    for name in (
        *("exec", "toolexec", "overlay", "modfile", "vettool", "ldflags", "gcflags", "gccgoflags", "compiler", "o"),
        *("coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "outputdir", "pkgdir"),
    )
)
_SCRIPTED = ("-c", "--config", "-r", "--require", "--import", "--loader", "--node-option", "-u", "--update")
BEGINNINGS: "dict[str, tuple[str, ...]]" = {
    **dict.fromkeys(["gcc", "g++", "cc", "c++", "clang", "clang++"], _COMPILER),
    "rustc": ("@", "--codegen", "--emit"),
    "javac": ("@", "-J", "-Xplugin", "-processor", "--processor", "-s", "-h", "-d"),
    "tsc": ("@", "-out", "-init", "-declarationDir", "-tsBuildInfoFile", "-generate", "--clean", "-clean", "--outd"),
    "cmake": (
        *("-DCMAKE_C", "-DCMAKE_MAKE_PROGRAM", "-DCMAKE_TOOLCHAIN", "-DCMAKE_PROJECT_", "-DCMAKE_LINKER", "-DCMAKE_AR"),
        *("CMAKE_C", "CMAKE_MAKE_PROGRAM", "CMAKE_TOOLCHAIN", "CMAKE_PROJECT_", "CMAKE_LINKER", "CMAKE_AR"),
        *("--install", "--trace-redirect", "--graphviz", "--debugger", "--profiling-output", "-f", "--eval", "SHELL="),
    ),
    "ninja": ("-t",),
    "go": _GO,
    "gradle": ("-Dorg.gradle", "-p", "--project", "-g", "--gradle-user-home"),
    "mvn": ("-DargLine", "-Dexec", "-Dmaven", "-Djvm", "-Dsurefire"),
    "npx": ("-p", "--package"),
    "bunx": ("-p", "--package"),
    **dict.fromkeys(
        ["bazel", "buck", "buck2"],
        (
            *("--run_under", "--bazelrc", "--config", "--compiler", "--action_env", "--override", "--repo_env"),
            *(
                "--shell_executable",
                "--strategy",
                "--spawn_strategy",
                "--host_jvm",
                "--out",
                "--profile",
                "--crosstool",
            ),
        ),
    ),
    "git": ("--filters",),
    "cargo": ("--open",),
    "diff": ("-l", "--paginate"),
    "tree": ("--output",),
    "file": ("-C", "--compile", "-m", "--magic"),
    "npm": ("--fix",),
    "pnpm": ("--config", "--shell"),
    "gem": ("--config-file",),
    "pytest": ("@", "--pastebin", "--cov-config", "--cov-report"),
    "jest": (*_SCRIPTED, "--global", "--setup", "--test", "--runner", "--output", "--resolver", "--reporters", "--env"),
    "vitest": (*_SCRIPTED, "--output", "--reporter", "--env", "--global", "--run", "--pool", "-"),
    "mocha": (*_SCRIPTED, "--file", "--ui", "--reporter", "-R", "-O", "--opts", "--package", "-n", "--node"),
    "tox": ("-c", "--conf", "-x", "--override", "--workdir", "--root", "e", "--", "--installpkg", "--result-json"),
    "nox": ("-f", "--noxfile", "--", "--report", "--envdir", "-db", "--extra-pythons"),
    "rspec": ("-r", "--require", "-o", "--out", "-I", "-O", "--options", "-f", "--format"),
    "phpunit": ("--bootstrap", "-c", "--configuration", "--log", "--coverage", "-d", "--include-path", "--extension"),
    "ctest": ("-S", "--script", "--build", "-O", "--output-log", "-D", "-M", "-T", "--overwrite", "--dashboard"),
    "bats": ("-F", "--formatter", "-o", "--output", "--report", "--gather", "--code-quote"),
    "dotnet": (
        "--logger",
        "-l",
        "--settings",
        "-s",
        "-r",
        "--results",
        "-o",
        "--output",
        "--test-adapter",
        "-p:",
        "/p:",
    ),
    "swift": ("-X", "--package-path", "--toolchain", "--sdk", "--scratch-path", "--build-path", "--xunit-output"),
}
_PASSING = frozenset({"cmake"})  # what stands behind `--` goes to another program
_MODULE = "-m"


class Known:
    """Answers about one command; what is slow to find out is found out once."""

    __slots__ = ("_command", "_dangers", "_flags", "_looks_inside", "_programs", "_spelled", "_subcommand", "_tokens")

    def __init__(self, command: "Command", programs: "Programs", *, looks_inside: bool = True) -> None:
        self._command = command
        self._programs = programs
        self._dangers: tuple[Danger, ...] | None = None
        self._flags: dict[str, bool | None] = {}
        self._subcommand: tuple[str | None, bool] | None = None
        self._looks_inside = looks_inside
        self._tokens: tuple[Word, ...] = ()
        self._spelled: frozenset[str] | None = None

    @property
    def spelled(self) -> frozenset[str]:
        """The names of programs that its words hold, where it may be a wrapper that starts one of them."""
        if self._spelled is None:
            if self._looks_inside:
                self._tokens = tokens(self._command, executes=self.uncovered((), ()) is not None)
            self._spelled = frozenset(name for word in self._tokens for name in names_of(word))
        return self._spelled

    def started_as(self, name: str) -> "Iterator[Known]":
        """Yield what is known of the commands that its words spell from a program's name on."""
        for command in started_as(self._command, self._tokens, name):
            yield Known(command, self._programs, looks_inside=False)

    def is_subcommand(self, wanted: str) -> bool | None:
        """Whether the subcommand is `wanted`, or one is an alias of the other."""
        if self._subcommand is None:
            unknown = subcommand_is_unknown(self._command, self._programs)
            self._subcommand = subcommand(self._command, self._programs), unknown
        given, unknown = self._subcommand
        if unknown:
            return None
        if given is None:
            return False
        answer = is_alias(self._command, self._programs, given, wanted)
        return None if answer is False and self._may_follow(given, wanted) else answer

    def _may_follow(self, given: str, wanted: str) -> bool:
        """Whether `given` may be the value of an option in front that is not known, and `wanted` the subcommand."""
        texts = [word.text for word in self._command.words]
        place = texts.index(given) if given in texts else len(texts)
        unknown = [option for option in scan(self._command, self._programs).given if not option.known]
        if not any(option.index < place for option in unknown):
            return False
        return any(
            text is None or is_alias(self._command, self._programs, text, wanted) is not False
            for text in texts[place + 1 :]
            if text is None or not text.startswith("-")
        )

    def has_flag(self, flag: str) -> bool | None:
        """Whether a flag is given, in any of its spellings."""
        if flag not in self._flags:
            given = has_flag(self._command, flag, self._programs)
            if given is False:
                found = scan(self._command, self._programs)
                canonical = found.table.canonical if found.table is not None else {}
                given = None if may_have_flag(self._command, found, flag, canonical) else False
            self._flags[flag] = given
        return self._flags[flag]

    def has_operands(self, *, most: int, behind: bool) -> bool | None:
        """Whether there are at most so many words that are no options; `behind` a subcommand, without that one."""
        found = scan(self._command, self._programs)
        counted = found.operands[1:] if behind and found.subcommand is None else found.operands
        certain = [index for index in counted if not self._command.words[index].many]
        if len(certain) > most:
            return False
        depends = len(certain) < len(counted) or found.unknown or found.subcommand_unknown
        return None if depends else True

    def args_match(self, wanted: tuple[str, ...]) -> bool | None:
        """Whether the words after the program are exactly these, a last `**` being anything after."""
        words = self._command.words[1:]
        open_end = wanted[-1:] == (ANYTHING,)
        literal = wanted[:-1] if open_end else wanted
        for number, text in enumerate(literal):
            if number >= len(words):
                return False
            word = words[number]
            if word.many:
                return None  # from here on nobody knows which word stands where
            if word.text is None:
                return None if text.startswith(word.prefix) else False
            if word.text != text:
                return False
        if open_end or len(words) == len(literal):
            return True
        return None if all(word.many for word in words[len(literal) :]) else False

    def may_be_args(self, wanted: tuple[str, ...]) -> bool:
        """Whether options in front or between, or another name, make the words mean the same as these."""
        return may_be_args(self._command, scan(self._command, self._programs), self._programs, wanted)

    def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None:
        """Return an option that executes or writes and that a rule with these flags and arguments does not name."""
        if self._dangers is None:
            self._dangers = _dangers(self._command, self._programs)
        if not self._dangers:
            return None
        named = frozenset(name for flag in flags for name in canonical_flags(self._command, flag, self._programs))
        spelled = len(args) - (args[-1:] == (ANYTHING,))
        for danger in self._dangers:
            if danger.kind == UNKNOWN:
                return "a word known only at run time, which could be an option that executes or writes"
            if danger.option not in named and danger.index > spelled:
                return danger.option
        return None


def _dangers(command: "Command", programs: "Programs") -> "tuple[Danger, ...]":
    found = (*dangerous_options(command, programs), *_begun(command, programs, 0))
    module = _module_at(command)
    if module == 0:
        return found
    inner = command.replace(words=command.words[module:])  # `python -m pytest` takes the options of pytest
    own = [danger.replace(index=danger.index + module) for danger in dangerous_options(inner, programs)]
    return (*found, *own, *_begun(inner, programs, module))


def _begun(command: "Command", programs: "Programs", offset: int) -> "Iterator[Danger]":
    """Yield the words that begin as none may that a plain rule covers, and those that could."""
    beginnings = BEGINNINGS.get(command.program or "")
    if beginnings is None:
        return
    for index, word in enumerate(command.words[1:], start=1):
        if word.text is None and word.could_be_option:
            if programs.table(command.program or "") is None:  # else the table says which of them are values
                yield Danger(UNKNOWN, word.prefix, index + offset)
        elif word.prefix.startswith(beginnings) if word.text is None else word.text.startswith(beginnings):
            yield Danger(EXECUTES, word.prefix.partition("=")[0], index + offset)
        if word.text == "--" and command.program not in _PASSING:
            return


def _module_at(command: "Command") -> int:
    """Return the place of the module that Python is told to run, 0 if there is none."""
    if not (command.program or "").startswith("python"):
        return 0
    for index, word in enumerate(command.words[1:-1], start=1):
        if word.text == _MODULE:
            return index + 1
        if word.text is None or not word.text.startswith("-"):
            return 0
    return 0
