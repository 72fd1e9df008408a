"""Ready-made matchers: one class for each group of commands, as the rules of a Python program name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.ruleset import Matcher

if TYPE_CHECKING:
    from typing import ClassVar


class CommandGroup:
    """A group of commands under the name that the configuration gives it."""

    name: ClassVar[str]

    @classmethod
    def matcher(cls) -> Matcher:
        """Return the matcher of this group."""
        return Matcher.group(cls.name)


def _group(name: str, about: str) -> type[CommandGroup]:
    class_name = name.title().replace("_", "")
    return type(class_name, (CommandGroup,), {"name": name, "__doc__": about, "__module__": __name__})


ReadOnlyGit = _group("read_only_git", "Git commands that only read.")
Compilation = _group("compilation", "Compilers and build tools.")
SafeNpm = _group("safe_npm", "npm commands that only read.")
PackageListing = _group("package_listing", "Commands that list packages and install none.")
Tests = _group("tests", "Test runners.")
ReadOnlyFiles = _group("read_only_files", "Programs that only read files.")
Network = _group("network", "Programs that use the network.")
Destructive = _group("destructive", "Commands that destroy work.")
Privilege = _group("privilege", "Commands that change the rights of users and programs.")
Installing = _group("installing", "Commands that bring packages and programs in, or remove them.")
Publishing = _group("publishing", "Commands that publish, push or deploy.")
Remote = _group("remote", "Programs that work on another machine, or through a service with rights of its own.")
Administration = _group("administration", "Commands that change the machine itself, or act as another user.")
