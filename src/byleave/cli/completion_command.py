"""`byleave completion SHELL`: completion scripts, made from the table of commands."""

from byleave.cli.arguments import Command
from byleave.cli.commands import COMMON, ROOT
from byleave.cli.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import Given, Option


def run(given: "Given") -> int:
    """Print the script for the shell that was named."""
    say(_WRITERS[given.words["SHELL"]]())
    return 0


def _paths(command: Command = ROOT, path: tuple[str, ...] = ()) -> "Iterator[tuple[tuple[str, ...], Command]]":
    yield path, command
    for child in command.subcommands:
        yield from _paths(child, (*path, child.name))


def _words(command: Command) -> "list[str]":
    names = [child.name for child in command.subcommands]
    names += [choice for positional in command.positionals for choice in positional.choices]
    return names + [name for option in (*command.options, *COMMON) for name in option.names]


def _bash() -> str:
    cases = "\n".join(f'    "{" ".join(path)}") words="{" ".join(_words(command))}" ;;' for path, command in _paths())
    valued = "|".join(name for option in _valued() for name in option.names)
    known = " ".join(dict.fromkeys(name for path, _command in _paths() for name in path))
    return f"""\
# bash completion for byleave:  source <(byleave completion bash)
_byleave() {{
  local path="" word words="" skip="" position
  COMPREPLY=()
  for ((position = 1; position < COMP_CWORD; position++)); do
    word="${{COMP_WORDS[position]}}"
    if [[ -n $skip ]]; then skip=""; continue; fi
    case "$word" in
      {valued}) skip=1 ;;
      --) COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")); return ;;
      -*) ;;
      *) [[ " {known} " == *" $word "* ]] && path="${{path:+$path }}$word" ;;
    esac
  done
  if [[ -n $skip ]]; then COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")); return; fi
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  [[ ${{#COMPREPLY[@]}} -eq 0 ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _byleave byleave"""


def _zsh() -> str:
    return f"""\
#compdef byleave
# zsh completion for byleave:  source <(byleave completion zsh)
autoload -U +X bashcompinit && bashcompinit
{_bash().partition(chr(10))[2]}"""


def _fish() -> str:
    lines = ["# fish completion for byleave:  byleave completion fish | source", "complete -c byleave -f"]
    for path, command in _paths():
        here = _fish_condition(path, command)
        lines += [
            f"complete -c byleave -n '{here}' -a {child.name} -d '{_fish_text(child.help)}'"
            for child in command.subcommands
        ]
        for positional in command.positionals:
            if positional.choices:
                lines.append(f"complete -c byleave -n '{here}' -a '{' '.join(positional.choices)}'")
            elif positional.name in ("PATH", "FILE", "TO"):
                lines.append(f"complete -c byleave -n '{here}' -F")
        lines += [f"complete -c byleave -n '{here}' {_fish_option(option)}" for option in command.options]
    lines += [f"complete -c byleave {_fish_option(option)}" for option in COMMON]
    return "\n".join(lines)


def _fish_condition(path: tuple[str, ...], command: Command) -> str:
    if not path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
    children = " ".join(child.name for child in command.subcommands)
    return f"{seen}; and not __fish_seen_subcommand_from {children}" if children else seen


def _fish_option(option: "Option") -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = " -r" if option.value else ""
    files = " -F" if option.value in ("FILE", "DIR") else ""
    return f"{names}{value}{files} -d '{_fish_text(option.help)}'"


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _valued() -> "Iterator[Option]":
    seen = {option.key: option for _path, command in _paths() for option in (*command.options, *COMMON) if option.value}
    yield from seen.values()


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
