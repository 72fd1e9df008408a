"""What a redirection does: to a file, a descriptor, a process, the network; does it write?"""

from byleave.shell.cursor import is_decimal
from byleave.shell.model import Redirect
from byleave.shell.redirects import is_descriptor
from byleave.shell.syntax import Substitution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.syntax import RedirectNode

# Written to without changing any file.
NO_FILES = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"])
_STREAMS = frozenset(["/dev/stdin", "/dev/stdout", "/dev/stderr"])
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
WRITING = frozenset([">", ">>", ">|", "&>", "&>>", "<>", ">&"])


def redirect_of(node: "RedirectNode") -> Redirect:
    """Return a redirection as it is reported."""
    if node.body is not None:
        return Redirect(node.operator, node.fd, None, False, "text", "", node.body.text)
    word = node.target
    assert word is not None  # noqa: S101 -- only here-documents have none
    operator, text = node.operator, word.text
    if operator == "<<<":
        body = None if text is None else text + "\n"
        return Redirect(operator, node.fd, text, False, "text", word.prefix, body)
    if operator in (">&", "<&") and text is not None and is_descriptor(text):
        return Redirect(operator, node.fd, text, False, "descriptor", text)
    kind = "file"
    if any(isinstance(effect, Substitution) and effect.kind != "command" for effect in word.effects):
        kind = "process"
    elif word.prefix.startswith(("/dev/tcp/", "/dev/udp/")):
        kind = "network"
    quiet = text in NO_FILES or is_descriptor_file(text)
    writes = operator in WRITING and kind != "process" and not quiet
    return Redirect(operator, node.fd, text, writes, kind, word.prefix)


def is_descriptor_file(name: str | None) -> bool:
    """Whether a name stands for what is open already (`/dev/stdin`, `/dev/fd/3`), and was judged when it was opened."""
    if name is None or name in _STREAMS:
        return name is not None
    return any(name.startswith(start) and is_decimal(name[len(start) :]) for start in _DESCRIPTORS)
