"""How servers are installed: what an installer lays down starts in the sandbox without a word of configuration."""

import json
import sys
import venv
from pathlib import Path

from fakes.mcp_sdk import LEGACY, SHOP, Place, by_pipe, talking, words
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox


def test_a_console_script_of_a_virtual_environment_elsewhere_finds_its_modules(tmp_path: Path) -> None:
    """The script is met before its interpreter, and says nothing of an environment."""
    environment = tmp_path / "installed"
    venv.create(environment, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    modules = environment / "lib" / version / "site-packages"
    (modules / "tiny_server.py").write_text(Path(SHOP[1]).read_text())
    script = environment / "bin" / "tiny-server"
    script.write_text(f"#!{environment}/bin/python\nimport tiny_server\n")
    script.chmod(0o755)
    command = json.dumps([str(script), "tiny"])
    place = Place(tmp_path / "place", f'[servers.tiny]\ncommand = {command}\n[agents.ops]\nallow.servers = ["*"]\n')
    with talking(by_pipe(place, "--agent", "ops"), LEGACY) as talk:
        assert words(talk.call("tiny__close")) == "tiny: close done"
