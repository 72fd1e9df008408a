"""Which files programs read, write, delete and execute by name: one table of all programs.

What an entry says: `file_entries`. Which programs have one: here, in `files_of_everyday`, `files_of_git`,
`files_of_tools` and `files_of_formatters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_entries import entry
from byleave.shell.knowledge.files_of_everyday import EVERYDAY, NO_OPTION_FILES, SCRIPT
from byleave.shell.knowledge.files_of_git import GIT
from byleave.shell.knowledge.files_of_tools import TOOLS, TREE_OF_ALL

if TYPE_CHECKING:
    from byleave.shell.knowledge.file_entries import Entry

FILES: dict[str, Entry] = {
    **TOOLS,
    **EVERYDAY,
    "curl": entry(
        "",
        shape="curl",
        options={
            "write": [
                *(
                    "-o",
                    "--output",
                    "-D",
                    "--dump-header",
                    "-c",
                    "--cookie-jar",
                    "--trace",
                    "--trace-ascii",
                    "--stderr",
                ),
                *("--etag-save", "--hsts", "--alt-svc", "--libcurl"),
            ],
            "read": [
                *(
                    "-T",
                    "--upload-file",
                    "-K",
                    "--config",
                    "--netrc-file",
                    "--etag-compare",
                    "--key",
                    "--cacert",
                    "--proxy-cacert",
                ),
                *(
                    "-E",
                    "--cert",
                    "--proxy-cert",
                    "--capath",
                    "--proxy-key",
                    "--pubkey",
                    "--crlfile",
                    "--unix-socket",
                    "--abstract-unix-socket",
                ),
            ],
            "data": ["--output-dir", "--url", "--proto-default", "--data-raw", "--form-string"],
            "sent": [
                "-d",
                "--data",
                "--data-ascii",
                "--data-binary",
                "--json",
                "-H",
                "--header",
                "--proxy-header",
                "-w",
            ],
            "cookie": ["-b", "--cookie"],
            "encoded": ["--data-urlencode", "--url-query"],
            "form": ["-F", "--form"],
        },
    ),
    "wget": entry(
        "",
        shape="wget",
        options={
            "write": [
                *("-o", "--output-file", "-a", "--append-output", "--save-cookies", "--warc-file", "--rejected-log"),
                *("--hsts-file",),
            ],
            "read": [
                *("--post-file", "--body-file", "-i", "--input-file", "--load-cookies", "--config", "--private-key"),
                *("--certificate", "--ca-certificate", "--crl-file"),
            ],
            "data": ["-O", "--output-document", "-P", "--directory-prefix"],
        },
    ),
    **dict.fromkeys(
        [
            "vi",
            "vim",
            "nvim",
            "nano",
            "emacs",
            "pico",
            "micro",
            "hx",
            "kak",
            *("gvim", "rvim", "rgvim", "gview", "rview", "vimx", "mvim", "nvi", "elvis", "vis", "lvim", "neovide"),
            *("vim.tiny", "vim.basic", "vim.nox", "vim.gtk3", "jmacs", "mg", "zile", "ne", "nvim-qt"),
            *(
                "code",
                "codium",
                "cursor",
                "zed",
                "subl",
                "joe",
                "jed",
                "mcedit",
                "gedit",
                "kate",
                "emacsclient",
                "helix",
            ),
            "dos2unix",
            "unix2dos",
            "expand-tabs",
        ],
        entry(
            "edit",
            shape="editor",
            options={
                "script": ["-c", "--cmd"],
                "code": ["--eval", "--execute", "--remote-expr"],
                "run": ["-S", "-u", "-l", "--load", "--script"],
                "edit": ["-s"],  # in `vim -es FILE` it has no value
                "write": ["-w", "-W"],
            },
        ),
    ),
    **dict.fromkeys(
        ["ed", "ex", "red"],  # here -s says nothing of a script
        entry(
            "edit",
            shape="editor",
            options={"script": ["-c", "--cmd"], "run": ["-S", "-u"], "data": ["-p", "--prompt"], "write": ["-w", "-W"]},
        ),
    ),
    **dict.fromkeys(["gdb", "lldb"], entry("other", shape="inner")),
    "sqlite3": entry("edit inline", shape="sqlite", options={"inline": ["-cmd"], "run": ["-init"]}),
    **dict.fromkeys(["source", "."], SCRIPT),
    **dict.fromkeys(["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "rbash", "fish", "csh", "tcsh"], SCRIPT),
    **dict.fromkeys(
        ["docker", "podman", "nerdctl", "finch", "docker-compose", "podman-compose"],
        entry("data", shape="volumes", options=NO_OPTION_FILES),
    ),
    "buildah": {
        **entry("other", options={"bind": ["-v", "--volume"]}),
        "sub": dict.fromkeys(
            ["bud", "build"], entry("read", tree=["*"], here=True, options={"read": ["-f", "--file"]})
        ),
    },
    **dict.fromkeys(
        ["proot", "apptainer", "singularity", "systemd-nspawn"],
        entry(
            "other",
            options={
                "bind": [
                    *("-b", "-B", "--bind", "--bind-ro", "-D", "--directory"),
                    *("-r", "-R", "-S", "--rootfs", "--mount"),
                ]
            },
        ),
    ),
    # Another root, or other names for directories: names that lead elsewhere here reach all that lies there.
    "chroot": entry("bind data"),
    "sudo": entry("data", shape="loosely", options={"bind": ["-R", "--chroot"]}),
    "bwrap": entry(
        "data",
        shape="loosely",
        options={
            "bind": [
                *("--bind", "--bind-try", "--ro-bind", "--ro-bind-try", "--dev-bind", "--dev-bind-try"),
                *("--overlay-src", "--symlink"),
            ],
        },
    ),
    # Their words are in a language of their own, in which names stand without quotes.
    **dict.fromkeys(
        [
            *("tex", "etex", "pdftex", "latex", "pdflatex", "xelatex", "lualatex", "luatex", "xetex", "context"),
            *("gnuplot", "gs", "ghostscript", "tmux", "nix", "nix-instantiate", "nix-build", "nix-shell", "entr"),
        ],
        entry("other", shape="spoken"),
    ),
    "xargs": entry("data", options={"read": ["-a", "--arg-file"], "data": ["*"]}),
    "git": {
        "operands": ("other",),
        "sub": GIT,
        "options": {
            "script": ["-c", "--upload-pack", "--receive-pack", "--exec"],  # programs that git starts
            "data": ["--config-env"],
        },
    },
}

MODULES: dict[str, Entry] = {"build": TREE_OF_ALL}
"""Modules of Python (`python -m build`) whose names say nothing about a program of the same name."""

MOVES = {
    "git": ("-C", "--git-dir", "--work-tree", "--super-prefix"),
    "make": ("-C", "--directory"),
    "gmake": ("-C", "--directory"),
    "npm": ("--prefix", "-C", "--workspace-root", "--globalconfig", "--userconfig"),
    "pnpm": ("-C", "--dir", "--prefix", "--store-dir", "--global-dir"),
    "yarn": ("--cwd", "--prefix", "--modules-folder", "--global-folder"),
    "bun": ("--cwd",),
    "cargo": ("-C", "--manifest-path", "--target-dir", "--root", "--path"),
    "pip": ("--root", "--prefix", "-t", "--target", "--src"),
    "pip3": ("--root", "--prefix", "-t", "--target", "--src"),
    "uv": ("--directory", "--project", "--target", "--prefix"),
    "poetry": ("-C", "--directory", "-P", "--project"),
    "go": ("-C", "-modfile", "-o", "-pkgdir"),
    "tar": ("-C", "--directory", "--cd"),
    "gtar": ("-C", "--directory", "--cd"),
    "bsdtar": ("-C", "--directory", "--cd"),
    "ninja": ("-C",),
    "cmake": ("-S", "-B", "--build", "--install", "--prefix"),
    "gradle": ("-p", "--project-dir"),
    "mvn": ("-f", "--file"),
    "composer": ("-d", "--working-dir"),
    "bundle": ("--gemfile", "--path"),
    "docker-compose": ("--project-directory",),
    "docker": ("--project-directory",),
    "just": ("-d", "--working-directory"),
    "terraform": ("-chdir",),
    "rake": ("-C", "--directory", "-f"),
    "ctest": ("--test-dir",),
    "meson": ("-C",),
    "hg": ("-R", "--repository", "--cwd"),
    "dotnet": ("--project",),
    "mix": ("--prefix",),
}
"""Options that move a program to another directory, or have it work there. A bare allow stays in the workspace."""

MOVING_OPERANDS = frozenset(
    [
        *("cmake", "just", "pytest", "py.test", "unittest", "nose2", "rspec", "bats", "mocha", "phpunit", "tox", "nox"),
        *("ava", "tap", "jasmine", "vitest", "jest", "pest", "behave", "robot", "cucumber", "busted"),
        *("dotnet", "msbuild", "xbuild", "go", "deno", "bun", "zig", "swift", "flutter", "dart"),
        *("eslint", "eslint_d", "prettier", "prettierd", "stylelint", "xo", "standard", "ts-standard", "semistandard"),
        *("rubocop", "standardrb", "phpstan", "psalm", "phpcs", "php-cs-fixer", "golangci-lint"),
        *("vite", "next", "nuxt", "astro", "parcel", "ansible-playbook", "ansible-lint"),
    ]
)
"""Programs whose operands are projects, directories or tests, with the configuration beside them, which is run."""
