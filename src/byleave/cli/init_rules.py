"""The rules that `byleave init` writes: text with comments that teach, in the order in which the rules decide.

Pure: what was found in the project comes in, the text of the file comes out. Everything that varies is an argument of
`rules_text`; the rest is meant to be read as the file that it becomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.suggest import toml_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.workspace.registries import RegistryHost

_SHELL = """
# What agents may do. The first rule that matches decides; what no rule matches needs your approval, for instance a web
# page or a call of an MCP server.
#
# Commands that are allowed run confined: they see this project and installed programs, write to nothing but this
# project, have no network, and find no secret. An agent that needs more runs `byleave outside -- CMD`: you are asked.
[shell]
confine = "auto"        # auto | require | off: what to do where the agent's hook cannot confine a command
"""

_SECRETS = """
# Secrets are closed: not to be read, written or copied, here and at home. Exceptions come first.
[[rules]]
allow = { path = ["**/.env.example", "**/.env.sample", "**/.env.template"]<WHO> }

[[rules]]
allow = { path = ["**/node_modules/**", "**/site-packages/**"]<WHO> }      # packages bring certificates along

[[rules]]
deny = { path = [
    "**/.env", "**/.env.*", "**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/*.jks", "**/.git-credentials",
    "**/id_rsa", "**/id_ecdsa", "**/id_ed25519", "**/.netrc", "**/.pgpass",
] }
why = "it may hold a secret"

[[rules]]
deny = { path = ["~/.ssh/**", "~/.gnupg/**", "~/.aws/**", "~/.azure/**", "~/.config/gcloud/**", "~/.config/gh/**"] }
why = "it holds keys and credentials"

[[rules]]
deny = { path = ["~/.kube/**", "~/.docker/**", "~/.netrc", "~/.git-credentials", "~/.npmrc", "~/.pypirc"] }
why = "it holds keys and credentials"

[[rules]]
deny = { path = ["~/.cargo/credentials*", "~/.m2/settings*.xml", "~/.gem/credentials", "~/.config/pip/pip.conf"] }
why = "it holds keys and credentials"
"""

_DESTROYING = """
# What cannot be undone is refused, and the agent is shown why.
[[rules]]
deny = { group = "administration" }     # sudo, mkfs, mount, shutdown, crontab, systemctl and their like
why = "the machine itself is yours to change"

[[rules]]
deny = { path = ["/*", "~", ".git"], ops = ["delete"] }
why = "it cannot be brought back"

[[rules]]
deny = { path = ["/dev/sd*", "/dev/nvme*", "/dev/disk*"] }
why = "it overwrites a disk"

[[rules]]
deny = { command = "git", subcommand = "push", flags = ["--force"] }
why = "it rewrites what others have pulled"
match = ["git push -f origin main"]     # examples are tried when this file is loaded
not_match = ["git push origin main"]

[[rules]]
deny = { command = ["curl", "wget"], piped_to_shell = true }
why = "it runs a script before the user can read it"
"""

_ASKING = """
# What reaches others, or brings in what others wrote, needs your approval. With `sandbox = false` it then runs as the
# agent would run it, with your network and your credentials.
[[rules]]
ask = { any = [{ group = "publishing" }, { group = "installing" }, { group = "remote" }] }
why = "it reaches others, or brings in what others wrote"
sandbox = false

[[rules]]
ask = { any = [
    { command = "git", subcommand = "reset", flags = ["--hard"] },
    { command = "git", subcommand = "clean", flags = ["--force"] },
] }
why = "work that is not committed may be lost"
"""

_EDITING = """
# The agent's own tools read and edit the files of the project. What starts programs by itself (.git/hooks, .vscode,
# shell profiles, agents' settings) still needs your approval, and byleave's own files stay closed.
[[rules]]
allow = { path = "**", ops = ["read", "create", "update", "delete"]<WHO> }
"""

_EDITING_STRICT = """
# The agent's own tools read the files of the project; to write them, they need your approval.
[[rules]]
allow = { path = "**", ops = ["read"]<WHO> }
"""

_COMMANDS = """
# Changing the directory does nothing by itself, so it may stand beside what does not run confined.
[[rules]]
allow = { command = "cd"<WHO> }
sandbox = false

# Looking at the project's history: allowed also where the agent's hook cannot confine a command.
[[rules]]
allow = { group = "read_only_git"<WHO> }

# What prints files would print those outside of this project, too; building, testing and listing packages may run
# programs of the project: allowed only confined.
[[rules]]
allow = { any = [
    { group = "read_only_files" }, { group = "package_listing" }, { group = "compilation" }, { group = "tests" },
]<WHO> }
sandbox = true
"""

_EVERYTHING = """
# Everything else is confined, too: what a command does is held by the kernel, not guessed from its text. `unread` is
# for lines that byleave cannot read to the end, `options` for options that execute or write.
[[rules]]
allow = { any_command = true, options = "any"<WHO> }
sandbox = true
unread = true
"""

_STRICT_END = """
# Everything else needs your approval. `byleave check command '...'` suggests a rule for what you want to allow.
"""

_NET = """
# The network of confined commands is closed. To open a host that your package manager needs, take the # away:
"""


_CASES = """\
# What byleave.toml should decide. `byleave policy test` tries every case, here and in each other file of this ending
# that git does not ignore, whether byleave.toml is trusted or not; `--watch` tries them again when a file changes.
# A case is an action and its decision. It may also name the rule that decides, or the reason; * stands for anything.

[[case]]
name = "agents read the project"
read = "README.md"
<WHO>decision = "allow"

[[case]]
name = "secrets stay closed"
read = ".env"
<WHO>decision = "deny"
reason = "*secret*"

[[case]]
name = "what prints a secret is refused as well"
command = "cat .env"
<WHO>decision = "deny"

[[case]]
name = "agents look at the history"
command = "git log --oneline"
<WHO>decision = "allow"
rule = "allow group read_only_git*"

[[case]]
name = "tests run, but only confined"
command = "make test"
<WHO>decision = "allow"
sandbox = true

[[case]]
name = "publishing needs approval"
command = "git push origin main"
<WHO>decision = "ask"

[[case]]
name = "history that others have pulled is not rewritten"
command = "git push --force origin main"
<WHO>decision = "deny"
rule = "deny git push --force"
"""

_CASES_OPEN = """
[[case]]
name = "an unknown command is held by the sandbox"
command = "frobnicate --all"
<WHO>decision = "allow"
sandbox = true
"""

_CASES_STRICT = """
[[case]]
name = "an unknown command needs approval"
command = "frobnicate --all"
<WHO>decision = "ask"
"""


def cases_text(*, strict: bool, agents: Sequence[str]) -> str:
    """Return the cases that the rules of `rules_text` pass, for the same arguments."""
    agent = f"agent = {toml_string(agents[0])}\n" if agents else ""
    return f"{_CASES}{_CASES_STRICT if strict else _CASES_OPEN}".replace("<WHO>", agent)


EXAMPLE_HOST = "registry.example.org"


def rules_text(*, strict: bool, agents: Sequence[str], hosts: Sequence[RegistryHost]) -> str:
    """Return the part of byleave.toml about agents. With `agents`, what is allowed is allowed to them alone."""
    return "".join(_parts(strict=strict, hosts=hosts)).replace("<WHO>", _who(agents))


def _parts(*, strict: bool, hosts: Sequence[RegistryHost]) -> Iterator[str]:
    yield _SHELL
    if hosts:
        yield from _net(hosts)
    yield from (_SECRETS, _DESTROYING, _ASKING)
    yield _EDITING_STRICT if strict else _EDITING
    yield _COMMANDS
    yield _STRICT_END if strict else _EVERYTHING


def _who(agents: Sequence[str]) -> str:
    if not agents:
        return ""
    names = ", ".join(map(toml_string, agents))
    return f", agent = {names if len(agents) == 1 else f'[{names}]'}"


def _net(hosts: Sequence[RegistryHost]) -> Iterator[str]:
    """Yield the lines that would open hosts; where no file names one, how to find it."""
    yield _NET
    for each in hosts:
        if each.host:
            yield _opened(each.host, f"    # {each.manager}, from {each.source}")
    unknown = [each.manager for each in hosts if not each.host]
    yield from (f"# {name}: {HOW_TO_FIND[name]}\n" for name in unknown)
    if unknown:
        yield _opened(EXAMPLE_HOST, "")


def _opened(host: str, about: str) -> str:
    return f"# [[shell.access.net]]{about}\n# host = {toml_string(host)}\n# allow = true\n"


HOW_TO_FIND = {
    "npm": "`npm config get registry` names its host",
    "pnpm": "`pnpm config get registry` names its host",
    "yarn": "`yarn config get registry`, or npmRegistryServer, names its host",
    "pip": "`pip config get global.index-url` names its host, if you have set one",
    "uv": "`index-url` in uv.toml or UV_INDEX_URL names its host, if you have set one",
    "poetry": "`poetry source show` names its hosts",
    "cargo": "`cargo config get source`, or the message of a refused build, names its host",
    "go": "`go env GOPROXY` names its host",
    "maven": "`mvn help:effective-settings` names its hosts",
    "gradle": "`repositories` in the build file names its hosts",
    "composer": "`composer config repositories` names its hosts",
    "bundler": "`source` in the Gemfile names its host",
}
