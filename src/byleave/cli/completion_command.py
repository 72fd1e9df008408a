"""`byleave completion SHELL`: completion scripts, made from the table of commands.

Names that only the workspace knows (its tools, agents, servers, sessions, mounts, approvals) a script asks for with
`byleave completion --values WHAT`. That never fails and never complains: where nothing can be read, nothing is offered.
A file that is not trusted may hold any name, so only names without a meaning to a shell are offered.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.commands import CHECK_KINDS, COMMON, DOORS, HOOKED, ROOT, SHELLS
from byleave.cli.output import say, say_verbose
from byleave.cli.workspace import load_policy, open_workspace
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.store.approvals import REVOKED
from byleave.text import sentence_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from byleave.cli.arguments import CommandSpec, OptionSpec, ParsedArguments, PositionalSpec
    from byleave.policy.compile import Compiled
    from byleave.policy.load import Workspace

_FILES = frozenset({"PATH", "FILE", "TO", "DIR"})  # names of values that are files
_PLAIN = frozenset("_-.@+/")  # beside letters and digits, what means the same in every shell
_LONGEST, _MOST = 100, 500  # characters of a name, and names: a person chooses from them
_CARRIED = ("--root", "--policy", "--session")  # what a workspace has depends on them


class Offer(Struct, frozen=True):
    """What can stand in one place of a command line: fixed words, names that the workspace has, or files."""

    words: tuple[str, ...] = ()
    names: str = ""  # one of COMPLETED
    files: bool = False


_BY_VALUE = {
    "AGENT": Offer(names="agents"),
    "TOOL": Offer(names="tools"),
    "SERVER": Offer(names="servers"),
    "DOOR": Offer(DOORS),
    "KIND": Offer(CHECK_KINDS),
}
_BY_OPTION = {
    "--session": Offer(names="sessions"),
    "--no-mount": Offer(names="mounts"),
    "--agent-profile": Offer(names="agents"),
    "--method": Offer(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")),
}
_BY_PLACE = {
    ("approvals", "approve", "ID"): Offer(names="pending"),
    ("approvals", "revoke", "ID"): Offer(names="approved"),
    ("unmount", "NAME"): Offer(names="mounts"),
    ("check", "call", "TOOL"): Offer(),  # a server's own tool, which is not known before the server is asked
}


def run(given: ParsedArguments) -> int:
    """Print the script for the shell that was named, or the names that a script asks for."""
    what, shell = given.one("values"), given.words.get("SHELL")
    if (what is None) == (shell is None):
        problem = "SHELL is missing" if shell is None else "--values needs no SHELL"
        raise InputError(problem, hint=f"it is one of {sentence_list(SHELLS)}" if shell is None else "keep one of them")
    if shell is not None:
        say_verbose(given, [f"to have it in every shell, see `byleave completion --help` ({shell})"])
        say(completion_script(shell).rstrip("\n"))
    else:
        for name in _names(given, what or ""):
            say(name)
    return 0


def _names(given: ParsedArguments, what: str) -> list[str]:
    """Return names in order, without those that a shell would read as something else."""
    try:
        workspace = open_workspace(given)
        found = set(_KNOWN[what](workspace, load_policy(given, workspace).compiled))
    except (ByleaveError, ConfigErrors, OSError):
        found = set(HOOKED) if what == "agents" else set()
    return sorted(name for name in found if _is_plain(name))[:_MOST]


def _is_plain(name: str) -> bool:
    marks = {char for char in name if not char.isalnum()}
    return 0 < len(name) <= _LONGEST and name.isascii() and marks <= _PLAIN and name[0] != "-"


def _agents(_workspace: Workspace, compiled: Compiled) -> Iterator[str]:
    yield from HOOKED
    for view in compiled.policy.views:
        yield from () if view.agents is None else (agent.name for agent in view.agents.agents)


def _tools(_workspace: Workspace, compiled: Compiled) -> Iterable[str]:
    return compiled.tools


def _servers(_workspace: Workspace, compiled: Compiled) -> Iterable[str]:
    return compiled.servers


def _sessions(workspace: Workspace, _compiled: Compiled) -> Iterator[str]:
    from byleave.mounts.session_layer import sessions_directory  # heavy: for this kind of word only

    yield "default"
    if os.path.isdir(directory := sessions_directory(workspace)):
        yield from os.listdir(directory)


def _mounts(workspace: Workspace, compiled: Compiled) -> Iterator[str]:
    from byleave.mounts.review import mounts_of  # heavy: for this kind of word only

    root = workspace.root.path
    return (os.path.relpath(os.path.join(root, each.name)) for each in mounts_of(compiled))


def _pending(workspace: Workspace, compiled: Compiled) -> Iterator[str]:
    from byleave.cli.approvals_command import unanswered  # heavy: for this kind of word only

    return (one.approval.id for one in unanswered(workspace, compiled))


def _approved(workspace: Workspace, _compiled: Compiled) -> Iterator[str]:
    return (one.id for one in workspace.approvals.all() if one.status != REVOKED)


_KNOWN: dict[str, Callable[[Workspace, Compiled], Iterable[str]]] = {
    "agents": _agents,
    "tools": _tools,
    "servers": _servers,
    "sessions": _sessions,
    "mounts": _mounts,
    "pending": _pending,
    "approved": _approved,
}


def _paths(command: CommandSpec = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CommandSpec]]:
    yield path, command
    for child in command.subcommands:
        yield from _paths(child, (*path, child.name))


def _flags(command: CommandSpec) -> Iterator[str]:
    return (name for option in (*command.options, *COMMON) for name in option.names)


def _option_offer(option: OptionSpec) -> Offer:
    if option.choices:
        return Offer(option.choices)
    known = _BY_OPTION.get(option.names[0]) or _BY_VALUE.get(option.value or "")
    return known or Offer(files=option.value in _FILES)


def _word_offer(path: tuple[str, ...], positional: PositionalSpec) -> Offer:
    if positional.choices:
        return Offer(positional.choices)
    place = _BY_PLACE.get((*path, positional.name))
    return place or _BY_VALUE.get(positional.name) or Offer(files=positional.name in _FILES)


def _valued() -> Iterator[tuple[tuple[str, ...], CommandSpec, OptionSpec]]:
    """Yield each option whose value may be the next word, with its command; the common ones once."""
    for path, command in _paths():
        options = command.options if path else (*command.options, *COMMON)
        yield from ((path, command, option) for option in options if option.value)


def _bash_offer(offer: Offer) -> str:
    parts = [f'words="{" ".join(offer.words)}"'] if offer.words else []
    parts += [f"names={offer.names}"] if offer.names else []
    return " ".join([*parts, *(["files=1"] if offer.files else [])])


def _bash_places() -> Iterator[str]:
    """Yield the cases of one script: after which option, or as which word of which command, what can stand."""
    for path, _command, option in _valued():
        if said := _bash_offer(_option_offer(option)):
            place = f'"{" ".join(path)}:"' if path else "*:"
            yield f"    {'|'.join(place + name for name in option.names)}) {said} ;;"
    for path, command in _paths():
        if command.subcommands:
            yield f'    "{" ".join(path)}:0") words="{" ".join(child.name for child in command.subcommands)}" ;;'
        for number, positional in enumerate(command.positionals):
            if said := _bash_offer(_word_offer(path, positional)):
                place = f'"{" ".join(path)}:"'
                yield f"    {place}{'[0-9]*' if positional.repeat else number}) {said} ;;"


def _bash() -> str:
    optional = {name for _path, _command, one in _valued() if one.optional for name in one.names}
    valued = dict.fromkeys(name for _path, _command, one in _valued() for name in one.names if name not in optional)
    known = "|".join(f'"{" ".join(path)}"' for path, _command in _paths() if path)
    places = "\n".join(_bash_places())
    options = "\n".join(f'    "{" ".join(path)}") words="{" ".join(_flags(command))}" ;;' for path, command in _paths())
    # `path` would be another name of PATH in zsh.
    return f"""\
# bash completion for byleave:  source <(byleave completion bash)
_byleave_files() {{
  local IFS=$'\\n'
  compopt -o filenames 2>/dev/null || true
  COMPREPLY+=($(compgen -f -- "$1"))
}}
_byleave_offer() {{
  local one
  while IFS= read -r one; do
    [[ $one == "$1"* ]] && COMPREPLY+=("$one")
  done
}}
_byleave() {{
  local here="${{COMP_WORDS[COMP_CWORD]}}" at="" word words="" names="" files="" last="" count=0 position
  local -a given
  given=(--quiet)
  COMPREPLY=()
  [[ $here == "=" ]] && here=""
  for ((position = 1; position < COMP_CWORD; position++)); do
    word="${{COMP_WORDS[position]}}"
    [[ $word == "=" ]] && continue
    if [[ -n $last ]]; then
      case "$last" in {"|".join(_CARRIED)}) given+=("$last=${{word/#"~/"/$HOME/}}") ;; esac
      last=""
      continue
    fi
    case "$word" in
      --) _byleave_files "$here"; return ;;
      {"|".join(valued)}) last="$word"; continue ;;
      {"|".join(sorted(optional))}) [[ ${{COMP_WORDS[position + 1]}} == "=" ]] && last="$word"; continue ;;
      -*) continue ;;
    esac
    case "${{at:+$at }}$word" in
      {known}) at="${{at:+$at }}$word" ;;
      *) count=$((count + 1)) ;;
    esac
  done
  if [[ -z $last && $here == -* ]]; then
    case "$at" in
{options}
    esac
  else
    case "$at:${{last:-$count}}" in
{places}
    esac
  fi
  [[ -n $words ]] && _byleave_offer "$here" < <(printf '%s\\n' $words)
  [[ -n $names ]] && _byleave_offer "$here" < <(command byleave completion --values $names "${{given[@]}}" 2>/dev/null)
  [[ -n $files ]] && _byleave_files "$here"
  return 0
}}
complete -F _byleave byleave"""


def _zsh() -> str:
    return f"""\
#compdef byleave
# zsh completion for byleave:  source <(byleave completion zsh)
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
autoload -Uz +X bashcompinit && bashcompinit
{_bash().partition(chr(10))[2]}
[[ $funcstack[1] != _byleave ]] || _bash_complete -F _byleave  # as a file in $fpath, it is run to complete a word"""


def _fish() -> str:
    valued = " ".join(dict.fromkeys(name for _p, _c, one in _valued() if not one.optional for name in one.names))
    head = f"""\
# fish completion for byleave:  byleave completion fish | source
function __byleave_words
    set -l last
    set -l count 0
    for word in (commandline -opc)[2..-1]
        if test -n "$last"
            set last
            continue
        end
        switch $word
            case {valued}
                set last $word
            case '-*'
            case '*'
                set count (math $count + 1)
        end
    end
    echo $count
end
function __byleave_names
    set -l last
    set -l given --quiet
    for word in (commandline -opc)[2..-1]
        if test -n "$last"
            set given $given "$last="(string replace -r '^~/' "$HOME/" -- $word)
            set last
        else if contains -- $word {" ".join(_CARRIED)}
            set last $word
        end
    end
    command byleave completion --values $argv[1] $given 2>/dev/null
end
complete -c byleave -f"""
    lines = [head]
    for path, command in _paths():
        here = _fish_condition(path, command)
        lines += [
            f"complete -c byleave -n '{here}' -a {child.name} -d '{_fish_text(child.help)}'"
            for child in command.subcommands
        ]
        for number, positional in enumerate(command.positionals, len(path)):
            at = f"test (__byleave_words) {'-ge' if positional.repeat else '-eq'} {number}"
            if said := _fish_offer(_word_offer(path, positional)):
                lines.append(f"complete -c byleave -n '{here}; and {at}'{said}")
        lines += [f"complete -c byleave -n '{here}' {_fish_option(option)}" for option in command.options]
    lines += [f"complete -c byleave {_fish_option(option)}" for option in COMMON]
    return "\n".join(lines)


def _fish_condition(path: tuple[str, ...], command: CommandSpec) -> str:
    if not path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
    children = " ".join(child.name for child in command.subcommands)
    return f"{seen}; and not __fish_seen_subcommand_from {children}" if children else seen


def _fish_offer(offer: Offer) -> str:
    if offer.words:
        return f" -a '{' '.join(offer.words)}'"
    return f" -a '(__byleave_names {offer.names})'" if offer.names else " -F" if offer.files else ""


def _fish_option(option: OptionSpec) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    offer = _option_offer(option)
    value = "" if option.value is None else f" -r{_fish_offer(offer)}" if offer.files else f" -x{_fish_offer(offer)}"
    return f"{names}{value} -d '{_fish_text(option.help)}'"


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def completion_script(shell: str) -> str:
    """Return the script of a shell, as a file; the wheel brings all of them along."""
    return f"{_WRITERS[shell]()}\n"
