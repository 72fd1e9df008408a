"""What a call would run: texts for a shell, and lists of arguments."""

from byleave.translate.lists import shell_of, texts_of
from byleave.translate.names import OTHER_LANGUAGES, bare
from byleave.translate.patch import BEGIN, END, UnreadableError, read_patch
from byleave.translate.places import plain_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.translate.told import Said
    from byleave.translate.work import Work

MOST_COMMANDS = 16  # names for one command, each with another
_PATCHES = ("apply_patch", "applypatch")
_BLANKS_AND_MARKS = frozenset(" \t\n;&|<>()$`\\\"'*?[]{}~#!")


def run_command(work: "Work") -> None:
    """Run every command that is named; nothing else of the input is a file of its own."""
    told = work.told
    if not told.runs:
        work.found.doubt("it does not tell the command")
    run_named(work)


def run_named(work: "Work") -> None:
    """Add the commands that the input names, and the doubts about how they would be run."""
    told = work.told
    tool = bare(work.call.tool) if isinstance(work.call.tool, str) else ""
    if any(language in tool for language in OTHER_LANGUAGES):
        work.found.doubt("its tool runs another language than a shell's")
    if not work.call.takes_directory and (told.cwds or told.directories or told.args):
        work.found.doubt("its input names what a command of this agent does not heed")
    if len(told.commands) + len(told.lists) > MOST_COMMANDS:
        work.found.doubt("it names too many commands")
    for said in told.commands[:MOST_COMMANDS]:
        _run_text(work, said)
    for words in told.lists[:MOST_COMMANDS]:
        _run_words(work, (*words.words, *_given_args(work)), words.source)
    work.found.doubt_all(told.doubts_of_running)
    run_scripts(work)


def run_scripts(work: "Work") -> None:
    """Add scripts as if they were for a shell, and doubt that they are."""
    for said in work.told.scripts:
        work.run(plain_text(said.text), said.source, work.shell)
    work.found.doubt_all(work.told.doubts_of_code)


def _given_args(work: "Work") -> tuple[str, ...]:
    args = work.told.args
    if len(args) > 1:
        work.found.doubt("it gives several lists of arguments")
    return args[0].words if args else ()


def _run_text(work: "Work", said: "Said") -> None:
    args = _given_args(work)
    if not args:
        if plain_text(said.text) != said.text or "\0" in said.text:
            work.found.doubt("its command holds characters that no command has")
        _run(work, plain_text(said.text), said.source, work.shell)
        if (script := _quoted_script(said.text)) is not None:
            work.found.doubt("its command is a whole script in quotes")
            _run(work, plain_text(script), said.source, work.shell)
        return
    if not _BLANKS_AND_MARKS.isdisjoint(said.text):
        work.found.doubt("its command is more than a name, and has arguments besides")
        _run(work, plain_text(said.text), said.source, work.shell)
    _run_words(work, (said.text, *args), said.source)


def _quoted_script(text: str) -> str | None:
    """Return the script that a command is, quoted as one word: some agents forget to take the quotes off again."""
    if not text.lstrip().startswith(("'", '"', "$'")):
        return None
    from byleave.shell.reader import read_command

    argv = [command.argv for command in read_command(text).commands]
    word = argv[0][0] if len(argv) == 1 and len(argv[0]) == 1 else None
    return word if word is not None and not _BLANKS_AND_MARKS.isdisjoint(word) else None


def _run_words(work: "Work", words: "tuple[str, ...]", source: str) -> None:
    words = tuple(plain_text(word) for word in words)
    if not words or not words[0]:
        work.found.doubt("its command is an empty list")
        return
    if not _BLANKS_AND_MARKS.isdisjoint(words[0]):
        work.found.doubt("its program has a name that a shell would read differently")
        if len(words) == 1:
            _run(work, words[0], source, work.shell)
    if any("\0" in word for word in words):
        work.found.doubt("its command holds characters that no command has")
    for text in texts_of(words):
        _run(work, text, source, "bash" if shell_of(words) == "bash" else None)
        if len(words) > 1 and (script := _quoted_script(text)) is not None:
            work.found.doubt("its command is a whole script in quotes")
            _run(work, script, source, work.shell)


def _run(work: "Work", text: str, source: str, shell: str | None) -> None:
    """Add a command. Some agents apply a patch themselves that is given like one, so that it changes files too."""
    work.run(text, source, shell)
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return
    if not before.lstrip().startswith(_PATCHES):
        work.found.doubt("its command holds a patch, and does other things besides")
    try:
        work.change(read_patch(f"{BEGIN}{rest.rpartition(END)[0]}{END}", source))
    except UnreadableError:
        work.found.doubt("its command holds a patch that cannot be read")
