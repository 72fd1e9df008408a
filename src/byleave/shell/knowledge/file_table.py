"""Which files programs read, write, delete and execute by name: data beside the option tables (`programs.toml`).

An entry says what the operands are, one role each, the last one repeated; what the values of options are, by role; and
with which options a directory among the operands is walked. Roles:

- `read`, `write` (made or changed), `edit` (read and written), `delete`, `run` (read and executed)
- `data`: not a file, or one whose name is only listed or tested
- `other`: perhaps a file; it counts where it leads to a place that a rule or byleave closes
- `sent`, `encoded`, `form`: text, or the file of `@FILE`, `NAME@FILE`, `NAME=@FILE`
- `code`: a text in some language; a string in it counts as `other`. `script`: the same for words of a shell script

`instead`: options that take the place of the first operand. `tree`: options with which directories are walked, `*` for
always, `-d=rec` for a value that starts so. `gone`: options with which a deleted directory goes away as a whole;
without the key it always does. `here`: without operands the working directory is walked. `only`: operands are `data`
unless such an option is given; `quiet`: or if one is, unless one of `loud` is given too. `whole`: options with which
everything in the repository is touched. `shape`: a way of naming files that roles do not say; `named_shapes` knows it.
`sub`: the same by subcommand; a subcommand without an entry has operands of the role `other`. The values of options
that no entry names are what the option tables say, else `other`.
"""

from byleave.shell.knowledge.file_table_tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]


def _entry(operands: str, **more: "Any") -> "Entry":
    return {"operands": tuple(operands.split()), **more}


_READ = _entry("read")
_DATA = _entry("data", options={"data": ["*"]})
_GREP = _entry(
    "data read",
    instead=["-e", "--regexp", "-f", "--file"],
    tree=["-r", "-R", "--recursive", "--dereference-recursive", "-d=rec", "--directories=rec"],
    here=True,
    options={
        "read": ["-f", "--file", "--exclude-from"],
        "data": [
            *("-e", "--regexp", "-A", "-B", "-C", "-m", "--include", "--exclude", "--exclude-dir", "--color"),
            *(
                "--after-context",
                "--before-context",
                "--context",
                "--max-count",
                "--label",
                "-d",
                "-D",
                "--binary-files",
            ),
        ],
    },
)
_RG = _entry(
    "data read",
    instead=["-e", "--regexp", "-f", "--file", "--files", "--type-list"],
    tree=["*"],
    here=True,
    options={
        "read": ["-f", "--file", "--ignore-file"],
        "run": ["--pre"],
        "data": [
            *("-e", "--regexp", "-g", "--glob", "--iglob", "-t", "-T", "--type", "--type-not", "-A", "-B", "-C", "-m"),
            *("--after-context", "--before-context", "--context", "--max-count", "-r", "--replace", "--color", "-j"),
            *("--colors", "--sort", "--sortr", "-E", "--encoding", "--max-depth", "-d", "--max-filesize", "--pre-glob"),
        ],
    },
)
_PACK = _entry(
    "edit", shape="unpacked", read_only=["-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list"], tree=["-r"]
)
_SCRIPT = _entry("run other")
_NO_OPTION_FILES = {"data": ["*"]}
_CHANGE_MODE = _entry(
    "data write", instead=["--reference"], options={"read": ["--reference"]}, tree=["-R", "--recursive"]
)
_COPY_OPTIONS: "Entry" = {
    "read": [],
    "data": [
        *("-m", "--mode", "-o", "--owner", "-g", "--group", "-S", "--suffix", "--backup", "--sparse", "--preserve"),
        *("-t", "--target-directory"),
    ],
}

# With `-d` and `-P` a link is copied as a link, and leads to all that the first one leads to.
_WALKING_COPY = ["-r", "-R", "--recursive", "-a", "--archive", "-d", "-P", "--no-dereference"]

_GIT: "dict[str, Entry]" = {
    "diff": _entry(
        "read",
        shape="difference",
        loud=["-p", "-u", "--patch", "-U", "--patch-with-stat", "--patch-with-raw"],
        quiet=["--stat", "--name-only", "--name-status", "--numstat", "--shortstat"],
        options={"write": ["--output"], "read": ["-O"], "data": ["-U", "-S", "-G", "--diff-filter"]},
    ),
    "difftool": _entry("read", shape="difference", options={"script": ["-x", "--extcmd"], "data": ["-t", "--tool"]}),
    **dict.fromkeys(
        ["diff-tree", "diff-index", "diff-files", "range-diff"],
        _entry(
            "read",
            shape="difference",
            only=["-p", "-u", "--patch", "-U", "-c", "--cc", "--patch-with-stat", "--patch-with-raw"],
            options={"write": ["--output"], "read": ["-O"]},
        ),
    ),
    "show": _entry("read", shape="revisions", options={"write": ["--output"], "data": ["--format", "--pretty"]}),
    "log": _entry(
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
    "whatchanged": _entry("read", shape="revisions"),
    "blame": _entry("read", options={"read": ["--contents", "-S", "--ignore-revs-file"], "data": ["-L", "--since"]}),
    "annotate": _entry("read", options={"read": ["--contents", "-S"], "data": ["-L"]}),
    "grep": _entry(
        "data read",
        shape="revisions",
        instead=["-e", "-f"],
        tree=["*"],
        here=True,
        options={"read": ["-f"], "data": ["-e", "-A", "-B", "-C", "-m", "--max-depth", "--threads"]},
    ),
    "cat-file": _entry("read", shape="revisions"),
    "archive": _entry(
        "read",
        shape="archive",
        options={"write": ["-o", "--output"], "read": ["--add-file"], "data": ["--format", "--prefix"]},
    ),
    "add": _entry(
        "read",
        tree=["*"],
        whole=["-A", "--all", "-u", "--update"],
        options={"read": ["--pathspec-from-file"], "data": ["--chmod"]},
    ),
    "stage": _entry("read", tree=["*"], whole=["-A", "--all", "-u", "--update"]),
    "commit": _entry(
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
    "stash": _entry("read", shape="stash", options={"data": ["-m", "--message"], "read": ["--pathspec-from-file"]}),
    "hash-object": _entry("read", options={"data": ["-t", "--path"]}),
    "apply": _entry("read", shape="patch", options={"data": ["-p", "-C", "--include", "--exclude", "--whitespace"]}),
    "am": _entry("read", shape="patch"),
    "checkout": _entry(
        "write",
        shape="checkout",
        tree=["*"],
        options={"data": ["-b", "-B", "--orphan", "--conflict"], "read": ["--pathspec-from-file"]},
    ),
    "restore": _entry(
        "write",
        tree=["*"],
        whole=["--pathspec-from-file"],
        quiet=["-S", "--staged"],
        loud=["-W", "--worktree"],
        options={"data": ["-s", "--source", "--conflict"], "read": ["--pathspec-from-file"]},
    ),
    "reset": _entry("data", options={"read": ["--pathspec-from-file"]}),
    "rm": _entry(
        "delete",
        tree=["*"],
        gone=[],  # of a directory, only what git knows
        options={"read": ["--pathspec-from-file"]},
        quiet=["--cached", "-n", "--dry-run"],
    ),
    "mv": _entry("", shape="move"),
    "clean": _entry(
        "delete", tree=["*"], gone=[], here=True, quiet=["-n", "--dry-run"], options={"data": ["-e", "--exclude"]}
    ),
    "clone": _entry(
        "",
        shape="clone",
        options={
            "read": ["--reference", "--reference-if-able"],
            "write": ["--separate-git-dir"],
            "run": ["--template", "-u", "--upload-pack"],
            "data": [
                "-b",
                "--branch",
                "--depth",
                "-o",
                "--origin",
                "-c",
                "--config",
                "-j",
                "--jobs",
                "--filter",
                "--shallow-since",
                "--server-option",
                "--bundle-uri",
            ],
        },
    ),
    "init": _entry(
        "write",
        options={
            "write": ["--separate-git-dir"],
            "run": ["--template"],
            "data": ["-b", "--initial-branch", "--object-format", "--shared"],
        },
    ),
    "worktree": _entry("data write", options={"data": ["-b", "-B", "--reason"]}),
    "submodule": _entry(
        "data script write", options={"data": ["-b", "--branch", "--name", "--depth"], "read": ["--reference"]}
    ),
    "bundle": _entry("data write"),
    "format-patch": _entry(
        "read",
        shape="revisions",
        options={
            "write": ["-o", "--output-directory", "--output"],
            "data": ["--subject-prefix", "--suffix", "--start-number", "-v", "--reroll-count"],
        },
    ),
    "config": _entry("data", shape="git_config", options={"write": ["-f", "--file"], "data": ["--type", "--default"]}),
    "tag": _entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "-u", "--local-user"]}),
    "notes": _entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "--ref"]}),
    "merge": _entry("data", options={"read": ["-F", "--file"], "data": ["-m", "--message", "-s", "-X"]}),
    "send-email": _entry("read"),
    "mailinfo": _entry("write"),
    "mailsplit": _entry("read", options={"write": ["-o"]}),
    "fast-export": _entry("data", options={"write": ["--export-marks"], "read": ["--import-marks"]}),
    "fast-import": _entry(
        "data", options={"write": ["--export-marks", "--export-pack-edges"], "read": ["--import-marks"]}
    ),
    "checkout-index": _entry("write", shape="index_files", options={"data": ["--prefix", "--stage"]}),
    "update-index": _entry("edit", options={"data": ["--cacheinfo", "--chmod"]}),
    "ls-files": _entry("data", options={"read": ["-X", "--exclude-from"], "data": ["-x", "--exclude"]}),
    "rebase": _entry("data", options={"script": ["-x", "--exec"], "data": ["--onto", "-s", "-X"]}),
    **dict.fromkeys(["bisect", "filter-branch"], _entry("data", shape="inner")),
    "sparse-checkout": _entry("data"),
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
        _entry("data", options={"write": ["--output"], "read": ["--file", "-F"]}),
    ),
}

FILES: "dict[str, Entry]" = {
    **TOOLS,
    **dict.fromkeys(
        [
            *(
                "cat",
                "tac",
                "head",
                "tail",
                "less",
                "more",
                "most",
                "nl",
                "od",
                "hexdump",
                "hd",
                "strings",
                "wc",
                "cut",
            ),
            *("paste", "join", "comm", "cmp", "diff3", "fold", "fmt", "pr", "expand", "unexpand", "rev", "column"),
            *(
                "md5sum",
                "sha1sum",
                "sha224sum",
                "sha256sum",
                "sha384sum",
                "sha512sum",
                "cksum",
                "sum",
                "b2sum",
                "b3sum",
            ),
            *("shasum", "base64", "base32", "basenc", "bat", "batcat", "zcat", "gzcat", "bzcat", "xzcat", "zstdcat"),
            *(
                "lzcat",
                "zless",
                "zmore",
                "lesspipe",
                "shuf",
                "tsort",
                "ptx",
                "look",
                "file",
                "bzless",
                "xzless",
                "view",
            ),
            *(
                "readelf",
                "objdump",
                "nm",
                "ldd",
                "size",
                "xmllint",
                "csvlook",
                "csvcut",
                "pdftotext",
                "exiftool",
                "identify",
            ),
            *(
                "highlight",
                "pygmentize",
                "glow",
                "mdcat",
                "lolcat",
                "cowsay",
                "wdiff",
                "vimdiff",
                "ccze",
                "ul",
                "tree-sitter",
            ),
            *("lpr", "lp", "mail", "mailx", "sendmail", "xclip", "xsel", "pbcopy", "clip", "wl-copy", "qrencode"),
        ],
        _READ,
    ),
    **dict.fromkeys(
        ["diff", "sdiff", "colordiff", "icdiff"],
        _entry(
            "read",
            tree=["*"],  # of two directories, it reads the files of the same name
            options={
                "read": ["--from-file", "--to-file", "-X", "--exclude-from"],
                "write": ["-o", "--output"],
                "data": ["-U", "-C", "-W", "-x", "--exclude", "-I", "--label", "-L", "-F", "--color"],
            },
        ),
    ),
    "sort": _entry(
        "read",
        options={
            "write": ["-o", "--output"],
            "read": ["--files0-from", "--random-source"],
            "data": [
                *("-k", "--key", "-t", "--field-separator", "-S", "--buffer-size", "--parallel"),
                *("-T", "--temporary-directory"),
            ],
        },
    ),
    "uniq": _entry("read write"),
    "split": _entry(
        "read data",
        shape="pieces",
        options={"data": ["-b", "-l", "-n", "-a", "-C", "--additional-suffix"], "script": ["--filter"]},
    ),
    "csplit": _entry("read data", shape="pieces", options={"data": ["-f", "--prefix", "-b", "-n"]}),
    "xxd": _entry("read write"),
    "iconv": _entry("read", options={"write": ["-o", "--output"], "data": ["-f", "-t", "--from-code", "--to-code"]}),
    **dict.fromkeys(
        ["gpg", "gpg2"],
        _entry(
            "read",
            options={
                "write": ["-o", "--output"],
                "data": ["-r", "--recipient", "-u", "--local-user", "--keyserver", "--recv-keys", "--passphrase"],
            },
        ),
    ),
    "openssl": _entry(
        "other",
        options={
            "read": ["-in", "-inkey", "-key", "-CAfile", "-certfile", "-config", "-cert", "-sign", "-verify", "-kfile"],
            "write": ["-out", "-keyout", "-writerand"],
            "data": ["-connect", "-subj", "-days", "-passin", "-passout", "-pass", "-servername", "-K", "-iv", "-k"],
        },
    ),
    "ssh": _entry(
        "data", options={"read": ["-i", "-F"], "write": ["-E"], "data": ["-p", "-l", "-L", "-R", "-D", "-J", "-W"]}
    ),
    "ssh-keygen": _entry("other", options={"edit": ["-f"], "data": ["-t", "-b", "-C", "-N", "-P", "-m"]}),
    "ssh-add": _entry("read", options={"data": ["-t", "-E"]}),
    "psql": _entry(
        "other",
        options={
            "run": ["-f", "--file"],
            "write": ["-o", "--output", "-L", "--log-file"],
            "inline": ["-c", "--command"],
            "data": ["-h", "--host", "-p", "--port", "-U", "--username", "-d", "--dbname", "-v", "--set", "-P", "-F"],
        },
    ),
    "kubectl": _entry(
        "other",
        options={"read": ["-f", "--filename", "--from-env-file", "--kubeconfig", "--patch-file"], "run": ["-k"]},
    ),
    "pandoc": _entry("read", options={"write": ["-o", "--output"], "data": ["-f", "-t", "--from", "--to", "-V", "-M"]}),
    **dict.fromkeys(["age", "rage"], _entry("read", options={"write": ["-o", "--output"], "data": ["-r"]})),
    **dict.fromkeys(["convert", "magick", "mogrify"], _entry("edit")),
    "flock": _entry("write data", shape="first"),
    "tr": _DATA,
    "seq": _DATA,
    "numfmt": _DATA,
    "factor": _DATA,
    **dict.fromkeys(["jq", "gojq", "jaq"], _entry("data read", instead=["-f", "--from-file"], shape="jq")),
    "yq": _entry(
        "data read",
        shape="yq",
        read_and_write=["-i", "--inplace"],
        instead=["--from-file"],
        options={"read": ["--from-file"], "data": ["-o", "-p", "--output-format", "--input-format"]},
    ),
    "sed": _entry(
        "data read",
        shape="sed",
        instead=["-e", "--expression", "-f", "--file"],
        options={"run": ["-f", "--file"], "data": ["-e", "--expression", "-l", "--line-length"]},
    ),
    **dict.fromkeys(
        ["awk", "gawk", "mawk", "nawk"],
        _entry(
            "code read",
            instead=["-f", "--file", "-E", "--exec"],
            options={
                "code": ["-e", "--source"],
                "run": ["-f", "--file", "-E", "--exec", "-i", "--include"],
                "data": ["-F", "-v", "--assign", "--field-separator"],
            },
        ),
    ),
    **dict.fromkeys(["grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "ggrep", "pcregrep", "pcre2grep"], _GREP),
    "rgrep": {**_GREP, "tree": ["*"]},
    **dict.fromkeys(["rg", "ag", "ack", "ugrep", "ug"], _RG),
    **dict.fromkeys(["find", "gfind"], _entry("data", shape="find", options=_NO_OPTION_FILES)),
    **dict.fromkeys(["fd", "fdfind"], _entry("data", options={"read": ["--ignore-file"], "data": ["*"]})),
    **dict.fromkeys(
        [
            *("ls", "dir", "vdir", "ll", "stat", "du", "df", "exa", "eza", "realpath", "readlink", "basename"),
            *("dirname", "pwd", "cd", "pushd", "popd", "test", "[", "echo", "printf", "true", "false", ":", "export"),
            *("declare", "local", "readonly", "typeset", "unset", "read", "set", "shift", "exit", "return", "which"),
            *("type", "hash", "whereis", "command", "help", "date", "cal", "sleep", "whoami", "id"),
            *(
                "uname",
                "groups",
                "ps",
                "pgrep",
                "kill",
                "jobs",
                "wait",
                "umask",
                "ulimit",
                "getfacl",
            ),
            *("lsattr", "namei", "pathchk", "expr", "yes", "getopts", "alias", "break", "continue", "let", "times"),
            *("tput", "clear", "nproc", "free", "uptime", "env", "printenv", "shopt", "trap", "mapfile"),
        ],
        _DATA,
    ),
    "env": _entry("data", options={"data": ["-u", "--unset", "-C", "--chdir", "-S"]}),
    "date": _entry("data", options={"read": ["-f", "--file", "-r", "--reference"], "data": ["-d", "--date", "-s"]}),
    "ls": _entry("data", options={"data": ["*"]}),
    "byleave": _entry("data", options={"write": ["--cwd-file"], "data": ["*"]}),
    **dict.fromkeys(["man", "info", "hostname"], _entry("other")),
    "tree": _entry("read", only=["--fromfile", "--fromtabfile"]),  # else it lists names
    "locate": _entry("data"),
    "du": _entry("data", options={"read": ["--files0-from", "-X", "--exclude-from"], "data": ["*"]}),
    **dict.fromkeys(["tee", "sponge"], _entry("write")),
    "touch": _entry("write", options={"data": ["-d", "--date", "-t", "--time"], "data_file": ["-r", "--reference"]}),
    "truncate": _entry("write", options={"data": ["-s", "--size"]}),
    "mkdir": _entry("write", options={"data": ["-m", "--mode"]}),
    "mkfifo": _entry("write", options={"data": ["-m", "--mode"]}),
    "mknod": _entry("write data", options={"data": ["-m", "--mode"]}),
    "mktemp": _entry("write", shape="template"),
    **dict.fromkeys(
        ["rm", "rmdir", "unlink", "srm"],
        _entry(
            "delete",
            tree=["*"],
            gone=["-r", "-R", "--recursive"],
            options={"data": ["--interactive", "--preserve-root"]},
        ),
    ),
    **dict.fromkeys(["trash", "trash-put", "gio-trash", "rimraf", "del-cli"], _entry("delete", tree=["*"])),
    "shred": _entry("write", options={"data": ["-n", "-s", "--iterations", "--size"]}),
    **dict.fromkeys(["chmod", "chown", "chgrp", "chattr", "setfattr", "chcon"], _CHANGE_MODE),
    "setfacl": _entry("write", options={"data": ["-m", "-x", "--modify", "--remove"]}, tree=["-R", "--recursive"]),
    "cp": _entry("", shape="copy", tree=_WALKING_COPY, options=_COPY_OPTIONS),
    "gcp": _entry("", shape="copy", tree=_WALKING_COPY, options=_COPY_OPTIONS),
    "scp": _entry(
        "",
        shape="copy",
        tree=["-r"],
        remote=True,
        options={"read": ["-i", "-F"], "data": ["-P", "-c", "-l", "-J"], "run": ["-S"]},
    ),
    "install": _entry("", shape="copy", options=_COPY_OPTIONS),
    "ginstall": _entry("", shape="copy", options=_COPY_OPTIONS),
    "rsync": _entry(
        "",
        shape="copy",
        tree=["-r", "-a", "--recursive", "--archive", "-l", "--links"],
        remote=True,
        options={
            "read": ["--files-from", "--include-from", "--exclude-from", "--password-file"],
            "write": ["--log-file", "--backup-dir", "--partial-dir", "--temp-dir", "-T"],
            "script": ["-e", "--rsh", "--rsync-path", "-f", "--filter"],
            "data": ["--exclude", "--include"],
        },
    ),
    "mv": _entry("", shape="move", options=_COPY_OPTIONS),
    "rename": _entry("data edit"),
    "ln": _entry("", shape="link", options=_COPY_OPTIONS),
    "link": _entry("", shape="link"),
    "dd": _entry("", shape="dd"),
    **dict.fromkeys(
        ["tar", "gtar", "bsdtar"],
        _entry(
            "",
            shape="tar",
            options={
                "data": [
                    "-f",
                    "--file",
                    "-C",
                    "--directory",
                    "-T",
                    "--files-from",
                    "-X",
                    "--exclude-from",
                    "--exclude",
                    "--transform",
                    "--strip-components",
                    "--owner",
                    "--group",
                    "--mode",
                ]
            },
        ),
    ),
    "zip": _entry(
        "write read",
        shape="zip",
        tree=["-r", "-R", "--recurse-paths"],
        options={"data": ["-x", "--exclude", "-i", "--include", "-P"]},
    ),
    "unzip": _entry("", shape="unzip"),
    **dict.fromkeys(
        [
            "gzip",
            "gunzip",
            "bzip2",
            "bunzip2",
            "xz",
            "unxz",
            "lzma",
            "zstd",
            "unzstd",
            "compress",
            "pigz",
            "unpigz",
            "pbzip2",
            "pixz",
            "lz4",
            "lzop",
            "brotli",
            "zopfli",
        ],
        _PACK,
    ),
    **dict.fromkeys(["7z", "7za", "7zr"], _entry("", shape="seven")),
    "cpio": _entry("other", shape="whole"),
    "ar": _entry("data edit"),
    "patch": _entry(
        "",
        shape="patch_file",
        options={
            "read": ["-i", "--input"],
            "write": ["-o", "--output", "-r", "--reject-file"],
            "data": ["-p", "--strip", "-F", "-B", "-z", "-V"],
        },
    ),
    "curl": _entry(
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
    "wget": _entry(
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
            "ed",
            "ex",
            "pico",
            "micro",
            "hx",
            "kak",
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
        _entry(
            "edit",
            shape="editor",
            options={
                "script": ["-c", "--cmd"],
                "code": ["--eval", "--execute"],
                "run": ["-S", "-s", "-u", "-l", "--load", "--script"],
                "write": ["-w", "-W"],
            },
        ),
    ),
    **dict.fromkeys(["gdb", "lldb"], _entry("other", shape="inner")),
    "sqlite3": _entry("edit inline", options={"inline": ["-cmd"], "run": ["-init"]}),
    **dict.fromkeys(["source", "."], _SCRIPT),
    **dict.fromkeys(["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "rbash", "fish", "csh", "tcsh"], _SCRIPT),
    **dict.fromkeys(["docker", "podman", "nerdctl"], _entry("data", shape="volumes", options=_NO_OPTION_FILES)),
    "xargs": _entry("data", options={"read": ["-a", "--arg-file"], "data": ["*"]}),
    "git": {"operands": ("other",), "sub": _GIT, "options": {"script": ["-c"], "data": ["--config-env"]}},
}

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
    ["cmake", "just", "pytest", "py.test", "unittest", "nose2", "rspec", "bats", "mocha", "phpunit", "tox", "nox"]
)
"""Programs whose operands are directories or files of tests, with the configuration beside them, which is run."""
