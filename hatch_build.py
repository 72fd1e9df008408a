"""Puts into the wheel what its sources do not hold: documentation, manual pages, completions, and compiled programs.

The programs are the launcher of the sandbox and the front. Without a C compiler, or where it warns, the wheel is pure:
the launcher is built on first use, or there is no sandbox. BYLEAVE_WHEEL_MACHINE=aarch64 builds them for that kind of
machine, and fails where it cannot.

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
_COMPLETIONS = {
    "bash": "share/bash-completion/completions/byleave",
    "zsh": "share/zsh/site-functions/_byleave",
    "fish": "share/fish/vendor_completions.d/byleave.fish",
}
# Programs without a library of the system run wherever the kernel does: also beside an older glibc, or musl.
_EVERYWHERE = "manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"
_MACHINES = ("x86_64", "aarch64")


class LauncherHook(BuildHookInterface[Any]):
    """Adds what is made; with compiled programs, a wheel is for one kind of machine only."""

    PLUGIN_NAME = "launcher"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is to be added; an editable wheel needs nothing, as the sources are at hand."""
        if version != "standard":
            return
        self._made = tempfile.TemporaryDirectory(prefix="byleave-wheel-")
        build_data["force_include"][os.path.join(self.root, "docs")] = "byleave/docs"  # messages name its pages
        places = [os.path.join(self.root, name) for name in ("src", "tools")]
        sys.path[:0] = places
        try:
            self._add_texts(build_data)
            programs, compiler = self._add_programs(build_data) if sys.platform == "linux" else ([], "")
            self._add_sbom(build_data, programs, compiler)
        finally:
            del sys.path[: len(places)]

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove what was made."""
        made = getattr(self, "_made", None)
        if made is not None:
            made.cleanup()

    def _add_texts(self, build_data: dict[str, Any]) -> None:
        from manual import manual_pages

        from byleave.cli.completion_command import completion_script

        for name, text in manual_pages().items():
            build_data["shared_data"][self._write(name, text)] = f"share/man/man1/{name}"
        for shell, place in _COMPLETIONS.items():
            build_data["shared_data"][self._write(f"completion.{shell}", completion_script(shell))] = place

    def _add_programs(self, build_data: dict[str, Any]) -> tuple[list[str], str]:
        """Add the launchers and the front, and return them with their compiler; nothing where they cannot be built."""
        from byleave.errors import ByleaveError
        from byleave.sandbox.native.build import build_with_package, find_compiler, find_cross_compiler, front_name

        asked = os.environ.get("BYLEAVE_WHEEL_MACHINE", "")
        machine = asked or os.uname().machine
        other = "" if machine == os.uname().machine else machine
        compiler = (find_cross_compiler(other) if other else find_compiler()) or ""
        if asked and not compiler:
            package = f"gcc-{asked.replace('_', '-')}-linux-gnu" if other else "gcc"
            self.app.abort(f"there is no C compiler for {asked}: install {package}")
        built = os.path.join(self._made.name, "programs")
        os.mkdir(built)
        try:
            made = build_with_package(built, other)
        except ByleaveError as error:
            if asked:
                raise
            self.app.display_warning(f"no launcher in this wheel: {error.problem}")
            return [], ""
        if made:
            build_data["force_include"] |= {path: f"{_PLACE}/{os.path.basename(path)}" for path in made}
            build_data["shared_scripts"][os.path.join(built, front_name(machine))] = _COMMAND
            del self.metadata.core.scripts[_COMMAND]
            build_data["pure_python"] = False
            everywhere = machine in _MACHINES and not any(map(_names_interpreter, made))
            build_data["tag"] = f"py3-none-{_EVERYWHERE.format(machine) if everywhere else f'linux_{machine}'}"
        return made, compiler

    def _add_sbom(self, build_data: dict[str, Any], programs: list[str], compiler: str) -> None:
        from sbom import make_sbom

        core = self.metadata.core
        extras = {name: list(all_of) for name, all_of in core.optional_dependencies.items() if name != "dev"}
        text = make_sbom(self.metadata.version, {"": list(core.dependencies), **extras}, programs, compiler)
        build_data["sbom_files"].append(self._write("byleave.cdx.json", text))

    def _write(self, name: str, text: str) -> str:
        path = os.path.join(self._made.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def _names_interpreter(path: str) -> bool:
    """Whether a program needs a dynamic linker, and so the C library of the machine that it was built on."""
    with open(path, "rb") as file:
        content = file.read()
    offset = int.from_bytes(content[32:40], "little")  # of the program headers, in a 64-bit ELF file
    size, count = (int.from_bytes(content[at : at + 2], "little") for at in (54, 56))
    kinds = [int.from_bytes(content[at : at + 4], "little") for at in range(offset, offset + size * count, size)]
    return 3 in kinds  # PT_INTERP
