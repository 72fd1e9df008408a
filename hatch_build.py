"""Puts the documentation into the wheel, and the launcher of the sandbox and the front, where there is a C compiler.

Without one, or where it warns, the wheel is pure: the launcher is built on first use, or there is no sandbox.

With a front, the program `byleave` is the front itself, which hands commands to the resident service, and else starts
Python. It takes the place of the script that installers make of an entry point, so that entry point is left out: of two
scripts with one name, pip keeps its own, and other installers fail.
"""

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLACE = "byleave/sandbox/native"
_COMMAND = "byleave"


class LauncherHook(BuildHookInterface[Any]):
    """Adds the documentation, the launchers and the front, with which a wheel is for this kind of machine only."""

    PLUGIN_NAME = "launcher"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is to be added; an editable wheel needs nothing, as the sources are at hand."""
        if version != "standard":
            return
        build_data["force_include"][os.path.join(self.root, "docs")] = "byleave/docs"  # messages name its pages
        if sys.platform != "linux":
            return
        sys.path.insert(0, os.path.join(self.root, "src"))
        try:
            from byleave.errors import ByleaveError
            from byleave.sandbox.native.build import build_with_package, front_name
        finally:
            del sys.path[0]
        self._built = tempfile.TemporaryDirectory(prefix="byleave-launcher-")
        try:
            made = build_with_package(self._built.name)
        except ByleaveError as error:
            self.app.display_warning(f"no launcher in this wheel: {error.problem}")
            return
        if made:
            build_data["force_include"] |= {path: f"{_PLACE}/{os.path.basename(path)}" for path in made}
            build_data["shared_scripts"][os.path.join(self._built.name, front_name())] = _COMMAND
            del self.metadata.core.scripts[_COMMAND]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-linux_{os.uname().machine}"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove what was built."""
        built = getattr(self, "_built", None)
        if built is not None:
            built.cleanup()
