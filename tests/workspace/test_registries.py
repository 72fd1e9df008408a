"""Which hosts package managers download from: read from their settings, never with what stands beside the host."""

import os
from pathlib import Path

import pytest

from byleave.launch.toolchain_view import Disk
from byleave.workspace.registries import RegistryHost, find_registries

SETTINGS = [
    ("npm", ".npmrc", "registry = https://r.example.org/\n", "r.example.org"),
    ("npm", ".npmrc", '@a:registry="https://a.example.org:8443/x"\n', "a.example.org"),
    ("npm", ".npmrc", "//r.example.org/:_authToken=t\n", ""),
    ("npm", ".npmrc", "registry=${REGISTRY}\n", ""),
    ("npm", ".npmrc", "registry=https://bad\x1b[2J.example.org/\n", ""),
    ("npm", ".npmrc", 'registry=https://x"y\nallow = true\n', ""),
    ("npm", ".npmrc", "registry=https://[::1\n", ""),
    ("yarn", ".yarnrc.yml", 'npmRegistryServer: "https://y.example.org"\n', "y.example.org"),
    ("yarn", ".yarnrc", 'registry "https://y.example.org"\n', "y.example.org"),
    ("uv", "uv.toml", '[[index]]\nurl = "https://u.example.org/simple"\n', "u.example.org"),
    ("uv", "uv.toml", "index-url = not toml", ""),
    (
        "poetry",
        "pyproject.toml",
        '[[tool.poetry.source]]\nname = "x"\nurl = "https://p.example.org"\n',
        "p.example.org",
    ),
    ("cargo", ".cargo/config.toml", '[source.x]\nregistry = "sparse+https://c.example.org/i/"\n', "c.example.org"),
    ("cargo", ".cargo/config.toml", '[registries.x]\nindex = "ssh://git@c.example.org/i"\n', ""),
    ("bundler", "Gemfile", 'source "https://g.example.org"\ngem "x"\n', "g.example.org"),
    ("maven", "pom.xml", "", ""),
]


@pytest.mark.parametrize(("manager", "file", "text", "host"), SETTINGS)
def test_the_host_is_read_from_the_settings(manager: str, file: str, text: str, host: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    found = find_registries([manager], str(tmp_path), "", {}, Disk())
    assert found == [RegistryHost(manager, host, file if host else "")]


def test_a_variable_names_a_host_and_each_host_is_named_once(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("registry=https://r.example.org\n@a:registry=https://r.example.org/a\n")
    environ = {"npm_config_registry": "https://u:p@v.example.org"}
    found = find_registries(["npm", "unknown"], str(tmp_path), "", environ, Disk())
    assert [(each.host, each.source) for each in found] == [
        ("v.example.org", "npm_config_registry"),
        ("r.example.org", ".npmrc"),
    ]


def test_settings_that_are_a_pipe_or_too_large_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".npmrc")
    (tmp_path / "uv.toml").write_text("# " + "x" * (1 << 19))
    found = find_registries(["npm", "uv"], str(tmp_path), "", {}, Disk())
    assert found == [RegistryHost("npm"), RegistryHost("uv")]
