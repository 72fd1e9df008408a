"""Which files everyday programs name: those that show, search, copy, pack and delete. The keys: `file_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_entries import entry

if TYPE_CHECKING:
    from byleave.shell.knowledge.file_entries import Entry

_READ = entry("read")
_DATA = entry("data", options={"data": ["*"]})
_GREP = entry(
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
_RG = entry(
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
_PACK = entry(
    "edit",
    shape="unpacked",
    read_only=["-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list"],
    tree=["-r"],
    options={"data": ["-S", "--suffix"], "read": ["--files", "--files0", "--filelist", "-D"], "write": ["-o"]},
)
SCRIPT = entry("run other")
NO_OPTION_FILES = {"data": ["*"]}
_CHANGE_MODE = entry(
    "data write", instead=["--reference"], options={"read": ["--reference"]}, tree=["-R", "--recursive"]
)
_COPY_OPTIONS: Entry = {
    "read": [],
    "data": [
        *("-m", "--mode", "-o", "--owner", "-g", "--group", "-S", "--suffix", "--backup", "--sparse", "--preserve"),
        *("-t", "--target-directory"),
    ],
}

# With `-d` and `-P` a link is copied as a link, and leads to all that the first one leads to.
_WALKING_COPY = ["-r", "-R", "--recursive", "-a", "--archive", "-d", "-P", "--no-dereference"]

_CLUSTER: Entry = {
    **entry(
        "other",
        options={
            "manifests": ["-f", "--filename"],
            "read": ["--from-env-file", "--kubeconfig", "--patch-file"],
            "member": ["--from-file"],
            "run": ["-k"],
        },
    ),
    "sub": {
        "cp": entry("", shape="cluster_copy"),
        "config": entry("data", options={"edit": ["--kubeconfig"]}),
        "proxy": entry("data", options={"member": ["-w", "--www"]}),
    },
}

EVERYDAY: dict[str, Entry] = {
    **dict.fromkeys(
        [
            *(
                "cat",
                "tac",
                "head",
                "tail",
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
                "csvlook",
                "csvcut",
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
        entry(
            "read",
            tree=["*"],  # of two directories, it reads the files of the same name
            options={
                "read": ["--from-file", "--to-file", "-X", "--exclude-from"],
                "write": ["-o", "--output"],
                "data": ["-U", "-C", "-W", "-x", "--exclude", "-I", "--label", "-L", "-F", "--color"],
            },
        ),
    ),
    "sort": entry(
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
    "uniq": entry("read write"),
    "split": entry(
        "read data",
        shape="pieces",
        options={
            "data": [
                *("-b", "-l", "-n", "-a", "-C", "-t", "--bytes", "--lines", "--number", "--suffix-length"),
                *("--line-bytes", "--separator", "--additional-suffix"),
            ],
            "script": ["--filter"],
        },
    ),
    "csplit": entry(
        "read data", shape="pieces", options={"data": ["-f", "--prefix", "-b", "--suffix-format", "-n", "--digits"]}
    ),
    "xxd": entry("read write"),
    "ptx": entry("read other"),  # with -G the second is written
    "zcompile": entry("read", shape="derived"),
    "minisign": entry(
        "other",
        shape="derived",
        options={"read": ["-m", "-s", "-p"], "write": ["-x"], "data": ["-c", "-t", "-P"]},
    ),
    **dict.fromkeys(["pdftotext", "pdftohtml", "ps2pdf", "pdf2ps"], entry("read write")),
    "exiftool": entry("edit", options={"read": ["-@", "-tagsFromFile"]}),
    "xmllint": entry("read", options={"write": ["--output", "-o"], "data": ["--xpath", "--encode"]}),
    "iconv": entry("read", options={"write": ["-o", "--output"], "data": ["-f", "-t", "--from-code", "--to-code"]}),
    **dict.fromkeys(
        ["gpg", "gpg2"],
        entry(
            "read",
            shape="derived",
            options={
                "write": ["-o", "--output", "--logger-file", "--log-file", "--status-file", "--attribute-file"],
                "read": ["--passphrase-file", "--options"],
                "data": ["-r", "--recipient", "-u", "--local-user", "--keyserver", "--recv-keys", "--passphrase"],
            },
        ),
    ),
    "openssl": entry(
        "other",
        shape="serves",
        options={
            "read": ["-in", "-inkey", "-key", "-CAfile", "-certfile", "-config", "-cert", "-sign", "-verify", "-kfile"],
            "write": ["-out", "-keyout", "-writerand"],
            "data": ["-connect", "-subj", "-days", "-servername", "-K", "-iv", "-k"],
        },
    ),
    "ssh": entry(
        "data",
        options={
            "read": ["-i", "-F"],
            "write": ["-E"],
            "script": ["-o"],
            "other": ["-L", "-R", "-D", "-S"],  # a socket may be one end
            "data": ["-p", "-l", "-J", "-W"],
        },
    ),
    **dict.fromkeys(["less", "more", "most", "zless", "zmore", "bzless", "xzless"], entry("read", shape="pager")),
    "ssh-keygen": entry(
        "other", shape="derived", options={"edit": ["-f"], "data": ["-t", "-b", "-C", "-N", "-P", "-m"]}
    ),
    "ssh-add": entry("read", options={"data": ["-t", "-E"]}),
    "psql": entry(
        "other",
        options={
            "run": ["-f", "--file"],
            "write": ["-o", "--output", "-L", "--log-file"],
            "inline": ["-c", "--command"],
            "data": ["-h", "--host", "-p", "--port", "-U", "--username", "-d", "--dbname", "-v", "--set", "-P", "-F"],
        },
    ),
    **dict.fromkeys(["kubectl", "oc"], _CLUSTER),
    "pandoc": entry("read", options={"write": ["-o", "--output"], "data": ["-f", "-t", "--from", "--to", "-V", "-M"]}),
    **dict.fromkeys(["age", "rage"], entry("read", options={"write": ["-o", "--output"], "data": ["-r"]})),
    **dict.fromkeys(["convert", "magick", "mogrify"], entry("edit")),
    "flock": entry("write data", shape="first"),
    "tr": _DATA,
    "seq": _DATA,
    "numfmt": _DATA,
    "factor": _DATA,
    **dict.fromkeys(["jq", "gojq", "jaq"], entry("data read", instead=["-f", "--from-file"], shape="jq")),
    "yq": entry(
        "data read",
        shape="yq",
        read_and_write=["-i", "--inplace"],
        instead=["--from-file"],
        options={
            "read": ["--from-file", "--split-exp-file"],
            "code": ["-s", "--split-exp"],
            "data": ["-o", "-p", "--output-format", "--input-format"],
        },
    ),
    "sed": entry(
        "data read",
        shape="sed",
        instead=["-e", "--expression", "-f", "--file"],
        options={"run": ["-f", "--file"], "data": ["-e", "--expression", "-l", "--line-length"]},
    ),
    **dict.fromkeys(
        ["awk", "gawk", "mawk", "nawk"],
        entry(
            "code read",
            shape="awk",
            instead=["-f", "--file", "-E", "--exec", "-e", "--source"],
            options={
                "code": ["-e", "--source"],
                "run": ["-f", "--file", "-E", "--exec", "-i", "--include"],
                "data": ["-F", "-v", "--assign", "--field-separator"],
            },
        ),
    ),
    **dict.fromkeys(["grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "ggrep", "pcregrep", "pcre2grep"], _GREP),
    "rgrep": {**_GREP, "tree": ["*"]},
    **dict.fromkeys(["ag", "ack", "ugrep", "ug"], _RG),
    "rg": {**_RG, "quiet": ["--files", "--type-list"]},  # it lists names
    **dict.fromkeys(["find", "gfind"], entry("data", shape="find", options=NO_OPTION_FILES)),
    **dict.fromkeys(["fd", "fdfind"], entry("data", options={"read": ["--ignore-file"], "data": ["*"]})),
    **dict.fromkeys(
        [
            *("ls", "dir", "vdir", "ll", "stat", "du", "df", "exa", "eza", "realpath", "readlink", "basename"),
            *(
                "dirname",
                "pwd",
                "cd",
                "chdir",
                "pushd",
                "popd",
                "test",
                "[",
                "echo",
                "printf",
                "true",
                "false",
                ":",
                "export",
            ),
            *("declare", "local", "readonly", "typeset", "unset", "read", "set", "shift", "exit", "return", "which"),
            *("type", "hash", "whereis", "command", "help", "date", "cal", "sleep", "whoami", "id"),
            *(
                "uname",
                "groups",
                "ps",
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
    **dict.fromkeys(["pgrep", "pkill"], entry("data", options={"read": ["-F", "--pidfile"], "data": ["*"]})),
    "env": entry("data", options={"data": ["-u", "--unset", "-C", "--chdir", "-S"]}),
    "date": entry("data", options={"read": ["-f", "--file", "-r", "--reference"], "data": ["-d", "--date", "-s"]}),
    "ls": entry("data", options={"data": ["*"]}),
    "byleave": entry("data", options={"write": ["--cwd-file"], "read": ["--policy", "--access"], "data": ["*"]}),
    **dict.fromkeys(["man", "info", "hostname"], entry("other")),
    "tree": entry("read", only=["--fromfile", "--fromtabfile"]),  # else it lists names
    "locate": entry("data"),
    "du": entry("data", options={"read": ["--files0-from", "-X", "--exclude-from"], "data": ["*"]}),
    **dict.fromkeys(["tee", "sponge"], entry("write")),
    "touch": entry("write", options={"data": ["-d", "--date", "-t", "--time"], "data_file": ["-r", "--reference"]}),
    "truncate": entry("write", options={"data": ["-s", "--size"]}),
    "mkdir": entry("write", options={"data": ["-m", "--mode"]}),
    "mkfifo": entry("write", options={"data": ["-m", "--mode"]}),
    "mknod": entry("write data", options={"data": ["-m", "--mode"]}),
    "mktemp": entry("write", shape="template"),
    **dict.fromkeys(
        ["rm", "rmdir", "unlink", "srm"],
        entry(
            "delete",
            tree=["*"],
            gone=["-r", "-R", "--recursive"],
            options={"data": ["--interactive", "--preserve-root"]},
        ),
    ),
    **dict.fromkeys(["trash", "trash-put", "gio-trash", "rimraf", "del-cli"], entry("delete", tree=["*"])),
    "shred": entry("write", options={"data": ["-n", "-s", "--iterations", "--size"]}),
    **dict.fromkeys(["chmod", "chown", "chgrp", "chattr", "setfattr", "chcon"], _CHANGE_MODE),
    "setfacl": entry("write", options={"data": ["-m", "-x", "--modify", "--remove"]}, tree=["-R", "--recursive"]),
    "cp": entry("", shape="copy", tree=_WALKING_COPY, options=_COPY_OPTIONS),
    "gcp": entry("", shape="copy", tree=_WALKING_COPY, options=_COPY_OPTIONS),
    "scp": entry(
        "",
        shape="copy",
        tree=["-r"],
        remote=True,
        options={"read": ["-i", "-F"], "data": ["-P", "-c", "-l", "-J"], "run": ["-S"]},
    ),
    "install": entry("", shape="copy", options=_COPY_OPTIONS),
    "ginstall": entry("", shape="copy", options=_COPY_OPTIONS),
    "rsync": entry(
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
    "mv": entry("", shape="move", options=_COPY_OPTIONS),
    **dict.fromkeys(["rename", "prename", "file-rename", "perl-rename"], entry("data edit", shape="renamed")),
    **dict.fromkeys(["zmv", "zcp", "zln", "mmv", "mcp", "mln"], entry("data", shape="renamed")),
    "ln": entry("", shape="link", options=_COPY_OPTIONS),
    "link": entry("", shape="link"),
    "dd": entry("", shape="dd"),
    **dict.fromkeys(
        ["tar", "gtar", "bsdtar"],
        entry(
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
    "zip": entry(
        "write read",
        shape="zip",
        tree=["-r", "-R", "--recurse-paths"],
        options={"data": ["-x", "--exclude", "-i", "--include", "-P"]},
    ),
    "unzip": entry("", shape="unzip"),
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
    **dict.fromkeys(["7z", "7za", "7zr"], entry("", shape="seven")),
    "cpio": entry("other", shape="whole"),
    "ar": entry("data edit"),
    "patch": entry(
        "",
        shape="patch_file",
        options={
            "read": ["-i", "--input"],
            "write": ["-o", "--output", "-r", "--reject-file"],
            "data": ["-p", "--strip", "-F", "-B", "-z", "-V"],
        },
    ),
}
