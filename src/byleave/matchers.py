"""Ready-made matchers, one class for each group, as the rules of a Python program name them."""

from byleave.ruleset import Matcher


class _Group:
    """A group of commands under the name that the configuration gives it."""

    name = ""

    @classmethod
    def matcher(cls) -> Matcher:
        """Return the matcher of this group."""
        return Matcher.group(cls.name)


class ReadOnlyGit(_Group):
    """Git in its reading forms."""

    name = "read_only_git"


class Compilation(_Group):
    """Compilers and build tools."""

    name = "compilation"


class SafeNpm(_Group):
    """npm where it only looks."""

    name = "safe_npm"


class PackageListing(_Group):
    """Listing packages, never installing them."""

    name = "package_listing"


class Tests(_Group):
    """Test runners."""

    name = "tests"


class ReadOnlyFiles(_Group):
    """Programs that look at files."""

    name = "read_only_files"


class Network(_Group):
    """Programs that reach the network."""

    name = "network"


class Destructive(_Group):
    """Commands that destroy work."""

    name = "destructive"


class Privilege(_Group):
    """Commands that change who may do what."""

    name = "privilege"
