"""`byleave completion SHELL`: completion scripts, made from the table of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.commands import COMMON, ROOT
from byleave.cli.output import say, say_verbose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import CommandSpec, OptionSpec, ParsedArguments

_FILES = frozenset({"PATH", "FILE", "TO", "DIR"})  # names of values that are files


def run(given: ParsedArguments) -> int:
    """Print the script for the shell that was named."""
    shell = given.words["SHELL"]
    say_verbose(given, [f"to have it in every shell, see `byleave completion --help` ({shell})"])
    say(_WRITERS[shell]())
    return 0


def _paths(command: CommandSpec = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CommandSpec]]:
    yield path, command
    for child in command.subcommands:
        yield from _paths(child, (*path, child.name))


def _words(command: CommandSpec) -> list[str]:
    names = [child.name for child in command.subcommands]
    return names + [choice for positional in command.positionals for choice in positional.choices]


def _takes_files(command: CommandSpec) -> bool:
    return any(positional.name in _FILES for positional in command.positionals)


def _bash_case(path: tuple[str, ...], command: CommandSpec) -> str:
    options = " ".join(name for option in (*command.options, *COMMON) for name in option.names)
    files = " files=1" if _takes_files(command) else ""
    return f'    "{" ".join(path)}") words="{" ".join(_words(command))}" options="{options}"{files} ;;'


def _bash() -> str:
    valued = [option for _path, command in _paths() for option in (*command.options, *COMMON) if option.value]
    filed = "|".join(dict.fromkeys(name for one in valued if one.value in _FILES for name in one.names))
    other = "|".join(dict.fromkeys(name for one in valued if one.value not in _FILES for name in one.names))
    known = "|".join(f'"{" ".join(path)}"' for path, _command in _paths() if path)
    cases = "\n".join(_bash_case(path, command) for path, command in _paths())
    return f"""\
# bash completion for byleave:  source <(byleave completion bash)
_byleave_files() {{
  local IFS=$'\\n'
  compopt -o filenames 2>/dev/null || true
  COMPREPLY+=($(compgen -f -- "$1"))
}}
_byleave() {{
  local here="${{COMP_WORDS[COMP_CWORD]}}" path="" word words="" options="" files="" value="" position
  COMPREPLY=()
  [[ $here == "=" ]] && here=""
  for ((position = 1; position < COMP_CWORD; position++)); do
    word="${{COMP_WORDS[position]}}"
    [[ $word == "=" ]] && continue
    if [[ -n $value ]]; then value=""; continue; fi
    case "$word" in
      --) _byleave_files "$here"; return ;;
      {filed}) value=file; continue ;;
      {other}) value=other; continue ;;
      -*) continue ;;
    esac
    case "${{path:+$path }}$word" in
      {known}) path="${{path:+$path }}$word" ;;
    esac
  done
  case "$value" in
    file) _byleave_files "$here"; return ;;
    other) return ;;
  esac
  case "$path" in
{cases}
  esac
  if [[ $here == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$here"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$here"))
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
{_bash().partition(chr(10))[2]}"""


def _fish() -> str:
    lines = ["# fish completion for byleave:  byleave completion fish | source", "complete -c byleave -f"]
    for path, command in _paths():
        here = _fish_condition(path, command)
        lines += [
            f"complete -c byleave -n '{here}' -a {child.name} -d '{_fish_text(child.help)}'"
            for child in command.subcommands
        ]
        choices = [choice for positional in command.positionals for choice in positional.choices]
        lines += [f"complete -c byleave -n '{here}' -a '{' '.join(choices)}'"] if choices else []
        lines += [f"complete -c byleave -n '{here}' -F"] if _takes_files(command) else []
        lines += [f"complete -c byleave -n '{here}' {_fish_option(option)}" for option in command.options]
    lines += [f"complete -c byleave {_fish_option(option)}" for option in COMMON]
    return "\n".join(lines)


def _fish_condition(path: tuple[str, ...], command: CommandSpec) -> str:
    if not path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
    children = " ".join(child.name for child in command.subcommands)
    return f"{seen}; and not __fish_seen_subcommand_from {children}" if children else seen


def _fish_option(option: OptionSpec) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = "" if option.value is None else " -r -F" if option.value in _FILES else " -x"
    return f"{names}{value} -d '{_fish_text(option.help)}'"


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
