"""The files of no project at all: nothing exists, and nothing can be made."""

import errno

from byleave.workspace.in_memory import ProjectInMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from byleave.workspace.project import Where


class NoProject(ProjectInMemory):
    """An empty project that stays empty."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def display_root(self) -> str:
        """What stands for the path of a root."""
        return "(no project)"

    def write(self, where: "Where", data: bytes, *, create: bool, update: bool) -> None:
        """Refuse to make anything; what is to be updated does not exist."""
        if create:
            raise self._error(PermissionError, errno.EACCES, self._path(where))
        super().write(where, data, create=create, update=update)

    def materialize(self) -> "AbstractContextManager[str]":
        """Return an empty directory; what is written there is dropped."""
        from byleave.workspace.written_out import Scratch

        return Scratch()
