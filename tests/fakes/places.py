"""A workspace without a disk: every path leads where it says."""

from byleave.core.fs_rules import FsTarget, RefusedPath


class PlainRoot:
    def __init__(self, path: str) -> None:
        self.path = path

    def resolve_rule(self, path: str) -> FsTarget | RefusedPath:
        return FsTarget(path, path)

    def resolve_any(self, path: str) -> FsTarget | RefusedPath:
        return RefusedPath("absolute", path)
