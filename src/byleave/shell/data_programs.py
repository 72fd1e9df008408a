"""Programs that take their words and their input as data: none of them starts a program that its operands name.

A closed list. What executes because of an option (`tar --to-command`, `sed e`) is in the tables of options. A program
that is not here, and has no table as a wrapper, may start what its words spell, and may run what it reads.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Command

SYSTEM_PLACES = frozenset(
    ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/", "/opt/homebrew/bin/"]
)
DATA_PROGRAMS = frozenset(
    [
        # text
        *("echo", "printf", "cat", "tac", "rev", "nl", "head", "tail", "wc", "cut", "paste", "join", "tr", "sort"),
        *("comm", "diff", "cmp", "sdiff", "diff3", "colordiff", "grep", "egrep", "fgrep", "zgrep", "ggrep", "rg", "ag"),
        *("ack", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "gron", "xmllint", "column", "fold", "fmt"),
        *("expand", "unexpand", "iconv", "strings", "od", "xxd", "hexdump", "hd", "base64", "base32", "numfmt", "seq"),
        *("shuf", "split", "csplit", "tee", "sponge", "yes", "dos2unix", "unix2dos", "look", "bat", "batcat", "uniq"),
        *("pv", "figlet", "cowsay", "bc", "expr", "factor", "cal", "date", "glow", "delta", "dasel", "htmlq"),
        *("csvcut", "csvgrep", "csvjson", "in2csv", "mlr", "xsv", "qsv", "tsort", "envsubst", "html2text", "pr", "fx"),
        # files
        *("ls", "dir", "vdir", "exa", "eza", "lsd", "tree", "stat", "file", "du", "df", "pwd", "basename", "dirname"),
        *("realpath", "readlink", "mktemp", "mkdir", "rmdir", "touch", "cp", "mv", "ln", "rm", "unlink", "shred"),
        *("chown", "chgrp", "chmod", "install", "truncate", "dd", "sync", "find", "fd", "fdfind", "locate", "mkfifo"),
        *("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "shasum"),
        *("tar", "bsdtar", "gtar", "zip", "unzip", "gzip", "gunzip", "zcat", "bzip2", "bunzip2", "bzcat", "xz", "unxz"),
        *("xzcat", "zstd", "unzstd", "zstdcat", "lz4", "cpio", "ar", "7z", "7za", "unrar", "patch", "rsync", "scp"),
        *("chattr", "lsattr", "getfacl", "setfacl", "fallocate", "xattr", "rename", "trash", "mknod", "md5"),
        # the system
        *("true", "false", "sleep", "test", "[", "which", "whereis", "whatis", "apropos", "man", "info", "type"),
        *("uname", "hostname", "whoami", "id", "groups", "who", "w", "users", "uptime", "nproc", "tty"),
        *("printenv", "getconf", "getent", "logger", "ps", "pgrep", "pkill", "kill", "killall", "top", "htop", "lsof"),
        *("free", "vmstat", "iostat", "netstat", "ss", "ifconfig", "ping", "dig", "nslookup", "host", "whois"),
        *("lsblk", "lscpu", "lsusb", "lspci", "dmesg", "mount", "umount", "systemctl", "journalctl", "service"),
        *("curl", "wget", "http", "https", "xh", "nm", "objdump", "readelf", "ldd", "size", "strip", "otool", "lipo"),
        *("apt", "apt-get", "apt-cache", "dpkg", "rpm", "yum", "dnf", "apk", "pacman", "brew", "pip", "pip3"),
        *("openssl", "gpg", "ssh-keygen", "ssh-add", "git", "gh", "glab", "hub", "cloc", "tokei", "scc", "locale"),
        *("say", "notify-send", "pbcopy", "pbpaste", "xclip", "wl-copy", "clip", "less", "more", "pdftotext"),
    ]
)
# Builtins of the shell that start nothing which is not listed as a command of its own.
DATA_BUILTINS = frozenset(
    [
        *(":", ".", "source", "alias", "bg", "break", "builtin", "caller", "cd", "command", "continue", "declare"),
        *("dirs", "disown", "eval", "exec", "exit", "export", "fg", "getopts", "hash", "history", "jobs", "let"),
        *("local", "mapfile", "popd", "pushd", "read", "readarray", "readonly", "return", "set", "shift", "shopt"),
        *("times", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "wait", "help", "suspend", "enable"),
    ]
)
# Subcommands of the programs above that do start what their words name.
STARTING = {
    "git": frozenset(
        [
            *("bisect", "submodule", "rebase", "filter-branch", "difftool", "mergetool", "for-each-repo", "hook"),
            *("remote-ext", "maintenance", "daemon", "instaweb", "web--browse", "credential", "send-email", "config"),
        ]
    ),
    "gh": frozenset(["alias", "extension", "ext", "codespace", "cs"]),
}


def takes_data(command: "Command") -> bool:
    """Return whether a command is known to take its words and its input as data."""
    name, program = command.name, command.program
    if name is None or program is None:
        return False
    if "/" in name and name[: name.rfind("/") + 1] not in SYSTEM_PLACES:
        return False
    if program in STARTING:
        return STARTING[program].isdisjoint([word.text for word in command.words[1:]])
    return program in DATA_PROGRAMS or ("/" not in name and program in DATA_BUILTINS)
