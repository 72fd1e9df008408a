"""Which files the subcommands of git read, write and delete by name. The keys: `file_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_entries import entry

if TYPE_CHECKING:
    from byleave.shell.knowledge.file_entries import Entry

GIT: dict[str, Entry] = {
    "diff": entry(
        "read",
        shape="difference",
        loud=["-p", "-u", "--patch", "-U", "--patch-with-stat", "--patch-with-raw"],
        quiet=["--stat", "--name-only", "--name-status", "--numstat", "--shortstat"],
        options={"write": ["--output"], "read": ["-O"], "data": ["-U", "-S", "-G", "--diff-filter"]},
    ),
    "difftool": entry("read", shape="difference", options={"script": ["-x", "--extcmd"], "data": ["-t", "--tool"]}),
    **dict.fromkeys(
        ["diff-tree", "diff-index", "diff-files", "range-diff"],
        entry(
            "read",
            shape="difference",
            only=["-p", "-u", "--patch", "-U", "-c", "--cc", "--patch-with-stat", "--patch-with-raw"],
            options={"write": ["--output"], "read": ["-O"]},
        ),
    ),
    "show": entry("read", shape="revisions", options={"write": ["--output"], "data": ["--format", "--pretty"]}),
    "log": entry(
        "read",
        shape="revisions",
        only=[
            "-p",
            "-u",
            "--patch",
            "-L",
            "-c",
            "--cc",
            "-m",
            "-U",
            "--unified",
            "--patch-with-stat",
            "--patch-with-raw",
            "-W",
            "--function-context",
            "--word-diff",
            "--binary",
            "--full-diff",
            "--remerge-diff",
            "--dd",
        ],
        options={
            "write": ["--output"],
            "data": [
                "--format",
                "--pretty",
                "--author",
                "--grep",
                "--since",
                "--until",
                "--after",
                "--before",
                "-n",
                "--max-count",
                "-S",
                "-G",
                "--date",
                "--decorate",
            ],
            "line": ["-L"],
        },
    ),
    "whatchanged": entry("read", shape="revisions"),
    "blame": entry("read", options={"read": ["--contents", "-S", "--ignore-revs-file"], "data": ["-L", "--since"]}),
    "annotate": entry("read", options={"read": ["--contents", "-S"], "data": ["-L"]}),
    "grep": entry(
        "data read",
        shape="revisions",
        instead=["-e", "-f"],
        tree=["*"],
        here=True,
        options={"read": ["-f"], "data": ["-e", "-A", "-B", "-C", "-m", "--max-depth", "--threads"]},
    ),
    "cat-file": entry("read", shape="revisions"),
    "archive": entry(
        "read",
        shape="archive",
        options={"write": ["-o", "--output"], "read": ["--add-file"], "data": ["--format", "--prefix"]},
    ),
    "add": entry(
        "read",
        tree=["*"],
        whole=["-A", "--all", "-u", "--update"],
        options={"read": ["--pathspec-from-file"], "data": ["--chmod"]},
    ),
    "stage": entry("read", tree=["*"], whole=["-A", "--all", "-u", "--update"]),
    "commit": entry(
        "read",
        tree=["*"],
        whole=["-a", "--all"],
        options={
            "read": ["-F", "--file", "-t", "--template", "--pathspec-from-file"],
            "data": [
                "-m",
                "--message",
                "-C",
                "-c",
                "--reuse-message",
                "--reedit-message",
                "--fixup",
                "--squash",
                "--author",
                "--date",
                "--cleanup",
                "--trailer",
                "-S",
                "--gpg-sign",
            ],
        },
    ),
    "stash": entry("read", shape="stash", options={"data": ["-m", "--message"], "read": ["--pathspec-from-file"]}),
    "hash-object": entry("read", options={"data": ["-t", "--path"]}),
    "apply": entry("read", shape="patch", options={"data": ["-p", "-C", "--include", "--exclude", "--whitespace"]}),
    "am": entry("read", shape="patch"),
    "checkout": entry(
        "write",
        shape="checkout",
        tree=["*"],
        options={"data": ["-b", "-B", "--orphan", "--conflict"], "read": ["--pathspec-from-file"]},
    ),
    "restore": entry(
        "write",
        tree=["*"],
        whole=["--pathspec-from-file"],
        quiet=["-S", "--staged"],
        loud=["-W", "--worktree"],
        options={"data": ["-s", "--source", "--conflict"], "read": ["--pathspec-from-file"]},
    ),
    "reset": entry("data", options={"read": ["--pathspec-from-file"]}),
    "rm": entry(
        "delete",
        tree=["*"],
        gone=[],  # of a directory, only what git knows
        options={"read": ["--pathspec-from-file"]},
        quiet=["--cached", "-n", "--dry-run"],
    ),
    "mv": entry("", shape="move"),
    "clean": entry(
        "delete", tree=["*"], gone=[], here=True, quiet=["-n", "--dry-run"], options={"data": ["-e", "--exclude"]}
    ),
    "clone": entry(
        "",
        shape="clone",
        options={
            "read": ["--reference", "--reference-if-able"],
            "write": ["--separate-git-dir"],
            "run": ["--template"],
            "script": ["-u", "--upload-pack", "-c", "--config"],
            "data": [
                "-b",
                "--branch",
                "--depth",
                "-o",
                "--origin",
                "-j",
                "--jobs",
                "--filter",
                "--shallow-since",
                "--server-option",
                "--bundle-uri",
            ],
        },
    ),
    **dict.fromkeys(
        ["init", "init-db"],
        entry(
            "write",
            shape="repository",
            options={
                "write": ["--separate-git-dir"],
                "run": ["--template"],
                "data": ["-b", "--initial-branch", "--object-format", "--ref-format", "--shared"],
            },
        ),
    ),
    "worktree": entry("data write", options={"data": ["-b", "-B", "--reason"]}),
    "submodule": entry(
        "data script write", options={"data": ["-b", "--branch", "--name", "--depth"], "read": ["--reference"]}
    ),
    "bundle": entry("data write"),
    "format-patch": entry(
        "read",
        shape="revisions",
        options={
            "write": ["-o", "--output-directory", "--output"],
            "data": ["--subject-prefix", "--suffix", "--start-number", "-v", "--reroll-count"],
        },
    ),
    "config": entry("data", shape="git_config", options={"write": ["-f", "--file"], "data": ["--type", "--default"]}),
    "tag": entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "-u", "--local-user"]}),
    "notes": entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "--ref"]}),
    "merge": entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "-s", "-X"]}),
    "send-email": entry("read"),
    "mailinfo": entry("write"),
    "mailsplit": entry("read", options={"write": ["-o"]}),
    **dict.fromkeys(["daemon", "instaweb"], entry("data", shape="served", serves=["--base-path"])),
    "fast-export": entry("data", options={"write": ["--export-marks"], "read": ["--import-marks"]}),
    "fast-import": entry(
        "data", options={"write": ["--export-marks", "--export-pack-edges"], "read": ["--import-marks"]}
    ),
    "checkout-index": entry("write", shape="index_files", options={"data": ["--prefix", "--stage"]}),
    "update-index": entry("edit", options={"data": ["--cacheinfo", "--chmod"]}),
    "ls-files": entry("data", options={"read": ["-X", "--exclude-from"], "data": ["-x", "--exclude"]}),
    "rebase": entry("data", options={"script": ["-x", "--exec"], "data": ["--onto", "-s", "-X"]}),
    **dict.fromkeys(["bisect", "filter-branch"], entry("data", shape="inner")),
    "sparse-checkout": entry("data"),
    **dict.fromkeys(
        [
            *("status", "branch", "remote", "describe", "rev-parse", "ls-tree", "shortlog", "show-ref"),
            *("fetch", "pull", "push", "switch", "cherry-pick", "revert", "reflog", "gc", "fsck", "help"),
            *(
                "version",
                "name-rev",
                "merge-base",
                "rev-list",
                "for-each-ref",
                "symbolic-ref",
                "check-ignore",
            ),
            *("check-attr", "count-objects", "var", "cherry", "show-branch", "ls-remote"),
        ],
        entry("data", options={"write": ["--output"], "read": ["--file", "-F"]}),
    ),
}
