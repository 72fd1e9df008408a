"""Ready-made groups of commands, as data: tables in the very language of `rules`.

A group holds only what its name says. `read_only_git` has `git branch -a` in it, and neither `git branch -D x` nor
`git branch x`; options that execute or write are outside of every group unless a rule says `options = "any"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Table = dict[str, Any]


def _git(subcommand: str | list[str], **more: Any) -> Table:
    return {"command": "git", "subcommand": subcommand, **more}


def _without(table: Table, *flags: str) -> Table:
    """Return the table less the forms that any of the flags makes of it."""
    return {"all": [table, {"not": {"any": [{**_program(table), "flags": [flag]} for flag in flags]}}]}


def _program(table: Table) -> Table:
    return {key: table[key] for key in ("command", "subcommand") if key in table}


_BRANCH_WRITES = (
    *("-d", "-D", "-m", "-M", "-c", "-C", "-f", "-u", "-t", "--delete", "--move", "--copy", "--force", "--track"),
    *("--set-upstream-to", "--set-upstream", "--unset-upstream", "--edit-description", "--create-reflog", "--no-list"),
)
_TAG_WRITES = (
    *("-d", "-a", "-s", "-f", "-m", "-F", "-u", "-e", "--delete", "--annotate", "--sign", "--force", "--edit"),
    *("--no-list", "--local-user", "--message", "--file", "--create-reflog"),
)

# Each of them makes `git branch` and `git tag` list what matches, so that a word behind it is a pattern.
_LISTING = ("--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at")
_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "fat", "msdos", "ntfs", "exfat", "f2fs", "minix")
_PYTHONS = ["python", "python3", *[f"python3.{number}" for number in range(8, 16)]]
_ACTIVATES = [f"{start}{name}/bin/activate" for start in ("", "./") for name in (".venv", "venv", "env")]

_RECURSIVELY = [
    [*flags, *more]
    for flags in (["-rf"], ["-fr"], ["-r", "-f"], ["-f", "-r"], ["-r"], ["-R"], ["-Rf"], ["-fR"], ["-rfv"], ["-vrf"])
    for more in ([], ["--no-preserve-root"])
]
_INSTALLS = ("install", "i", "add", "remove", "rm", "uninstall", "un")

GROUPS: dict[str, Table] = {
    "read_only_git": {
        "any": [
            _git(
                [
                    *("status", "log", "diff", "show", "blame", "describe", "rev-parse", "ls-files", "ls-tree"),
                    *("cat-file", "shortlog", "show-ref"),
                ]
            ),
            _without(_git("branch", operands=0), *_BRANCH_WRITES),
            *[_without(_git("branch", flags=[flag]), *_BRANCH_WRITES) for flag in _LISTING],
            _without(_git("tag", operands=0), *_TAG_WRITES),
            *[_without(_git("tag", flags=[flag]), *_TAG_WRITES) for flag in _LISTING],
            _git("remote", operands=0),
            {"command": "git", "args": ["remote", "show"]},
            {"command": "git", "args": ["remote", "show", "-n", "**"]},  # without -n it asks the remote, or any address
            {"command": "git", "args": ["remote", "get-url", "**"]},
        ]
    },
    "compilation": {
        "any": [
            {"command": "cargo", "subcommand": ["build", "check", "test", "clippy", "bench", "doc"]},
            {"command": ["rustc", "tsc", "javac", "make", "cmake", "ninja"]},
            {"command": ["gcc", "g++", "cc", "c++", "clang", "clang++"]},
            {"command": "npx", "subcommand": "tsc"},
            {"command": "go", "subcommand": ["build", "test", "vet"]},
            {"command": "gradle", "subcommand": ["build", "test", "check"], "operands": 0},
            {"command": "mvn", "subcommand": ["compile", "test", "verify"], "operands": 0},
            {"command": ["bazel", "buck", "buck2"], "subcommand": ["build", "test"]},
        ]
    },
    "safe_npm": {
        "any": [
            {"command": "npm", "subcommand": ["list", "ls", "view", "search", "outdated", "explain", "fund", "help"]},
            {"command": "npm", "subcommand": "audit", "operands": 0},
        ]
    },
    "package_listing": {
        "any": [
            {"command": ["npm", "pnpm", "yarn"], "subcommand": ["list", "ls", "outdated", "why"]},
            {"command": ["pip", "pip3"], "subcommand": ["list", "show", "freeze", "check"]},
            {"command": "uv", "args": ["pip", "list", "**"]},
            {"command": "uv", "args": ["tree", "**"]},
            {"command": "cargo", "subcommand": ["tree", "metadata"]},
            {"command": "go", "subcommand": "list"},
            {"command": ["gem", "brew"], "subcommand": ["list", "info", "outdated"]},
        ]
    },
    "tests": {
        "any": [
            {
                "command": ["cargo", "npm", "pnpm", "yarn", "go", "dotnet", "swift"],
                "subcommand": "test",
            },
            {"command": ["gradle", "mvn"], "subcommand": "test", "operands": 0},
            {"command": ["npm", "pnpm", "yarn"], "args": ["run", "test", "**"]},
            {"command": ["pytest", "jest", "vitest", "mocha", "tox", "nox", "rspec", "phpunit", "ctest", "bats"]},
            {"command": _PYTHONS, "args": ["-m", "pytest", "**"]},
            {"command": _PYTHONS, "args": ["-m", "unittest", "**"]},
            *[{"command": ["source", "."], "args": [place], "within": "."} for place in _ACTIVATES],
            {"command": "uv", "args": ["run", "pytest", "**"]},
            {"command": "make", "args": ["test"]},
            {"command": "make", "args": ["check"]},
        ]
    },
    "read_only_files": {
        "any": [
            {"command": ["ls", "cat", "head", "tail", "wc", "file", "stat", "du", "df", "pwd", "which", "whoami"]},
            {"command": ["basename", "dirname", "realpath", "readlink", "tree", "cut", "sort", "tr", "diff", "cmp"]},
            {"command": ["md5sum", "sha1sum", "sha256sum", "grep", "egrep", "fgrep", "rg", "find", "fd", "jq", "nl"]},
            {
                "command": [
                    "rev",
                    "tac",
                    "column",
                    "echo",
                    "printf",
                    "test",
                    "[",
                    "true",
                    "false",
                    ":",
                    "uname",
                    "id",
                    "nproc",
                ]
            },
            {"command": ["comm", "paste", "join", "fold", "fmt", "expand", "od", "hexdump", "strings", "seq", "sleep"]},
            {"command": ["break", "continue", "return", "exit", "wait"]},  # they steer the shell itself
            {"command": "uniq", "operands": 1},
        ]
    },
    "network": {
        "any": [
            {
                "command": [
                    "curl",
                    "wget",
                    "ssh",
                    "scp",
                    "sftp",
                    "rsync",
                    "nc",
                    "ncat",
                    "netcat",
                    "socat",
                    "telnet",
                    "ftp",
                ]
            },
            {"command": ["dig", "nslookup", "host", "ping", "traceroute", "whois", "aria2c", "http", "https", "xh"]},
            _git(["clone", "fetch", "pull", "push", "ls-remote"]),
        ]
    },
    "destructive": {
        "any": [
            {"command": "rm", "flags": ["-r"]},
            {"command": "rm", "flags": ["-f"]},
            {"command": ["shred", "dd", "truncate", "wipefs", "fdisk", "parted", "mkswap", "blkdiscard"]},
            {"command": ["mkfs", *[f"mkfs.{kind}" for kind in _FILE_SYSTEMS], "mke2fs", "mkdosfs", "mkntfs", "sgdisk"]},
            _git("push", flags=["--force"]),
            _git("push", flags=["--force-with-lease"]),
            _git("push", flags=["--delete"]),
            _git("push", flags=["--mirror"]),
            _git("reset", flags=["--hard"]),
            _git("clean"),
            _git("branch", flags=["-D"]),
            _git("push", flags=["--prune"]),
            _git("checkout", flags=["--force"]),
            _git("switch", flags=["--discard-changes"]),
            _git("tag", flags=["--delete"]),
            _git("update-ref", flags=["-d"]),
            {"command": "git", "args": ["reflog", "expire", "**"]},
            {"command": "git", "args": ["reflog", "delete", "**"]},
            {"command": "git", "args": ["worktree", "remove", "**"]},
            {"command": "git", "args": ["stash", "drop", "**"]},
            {"command": "git", "args": ["stash", "clear", "**"]},
            {"command": "find", "flags": ["-delete"]},
            {"command": ["docker", "podman", "nerdctl"], "args": ["system", "prune", "**"]},
            {"command": ["docker", "podman", "nerdctl"], "subcommand": ["rm", "rmi"]},
            *[
                {"command": ["docker", "podman", "nerdctl"], "args": [kind, verb, "**"]}
                for kind in ("container", "image", "volume", "network", "builder", "buildx", "pod")
                for verb in ("rm", "remove", "prune")
            ],
            {"command": ["docker", "podman", "nerdctl"], "args": ["compose", "down", "**"], "flags": ["--volumes"]},
            {"command": ["docker", "podman", "nerdctl"], "args": ["compose", "down", "**"], "flags": ["-v"]},
            {"command": "kubectl", "subcommand": "delete"},
            {"command": ["terraform", "tofu"], "subcommand": "destroy"},
        ]
    },
    "privilege": {
        "any": [
            {"command": ["sudo", "doas", "su", "pkexec", "runuser", "setpriv", "chroot", "unshare", "nsenter"]},
            {"command": ["sg", "newgrp", "gosu", "su-exec", "sudoedit", "sudo-rs", "su-rs", "run0", "capsh", "runas"]},
            {"command": ["please", "calife", "super", "dzdo", "ksu", "sux", "gksu", "kdesu", "machinectl"]},
            {"command": ["chmod", "chown", "chgrp", "setcap", "setfacl", "passwd", "usermod", "useradd", "visudo"]},
            {"command": ["adduser", "addgroup", "groupadd", "groupdel", "groupmod", "userdel", "deluser", "gpasswd"]},
            {"command": ["chage", "chsh", "chfn", "chpasswd", "newusers", "vipw", "vigr", "rmmod", "kexec"]},
            {"command": ["iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "loginctl", "systemd-run"]},
            {"command": ["mount", "umount", "insmod", "modprobe", "sysctl", "systemctl", "service", "launchctl"]},
        ]
    },
    "installing": {
        "any": [
            {"command": ["npm", "pnpm", "bun"], "subcommand": [*_INSTALLS, "ci", "update", "up", "link"]},
            {"command": ["npm", "pnpm", "bun"], "subcommand": ["upgrade", "create", "init", "install-test", "dlx"]},
            {"command": "yarn", "args": []},
            {"command": "yarn", "subcommand": [*_INSTALLS, "upgrade", "up", "create", "dlx", "link"]},
            {"command": "deno", "subcommand": ["install", "add", "uninstall", "remove", "upgrade"]},
            {"command": ["pip", "pip3"], "subcommand": ["install", "uninstall", "download"]},
            *[
                {"command": _PYTHONS, "args": ["-m", "pip", verb, "**"]}
                for verb in ("install", "uninstall", "download")
            ],
            {"command": "uv", "subcommand": ["add", "remove", "sync"]},
            *[{"command": "uv", "args": ["pip", verb, "**"]} for verb in ("install", "uninstall", "sync")],
            *[{"command": "uv", "args": [kind, "install", "**"]} for kind in ("tool", "python")],
            {"command": ["poetry", "pdm", "pipenv"], "subcommand": ["add", "install", "update", "remove", "sync"]},
            {"command": "pipx", "subcommand": ["install", "upgrade", "inject", "uninstall", "reinstall"]},
            {"command": ["conda", "mamba", "micromamba"], "subcommand": ["install", "update", "create", "remove"]},
            {"command": "cargo", "subcommand": ["install", "uninstall", "add", "update", "fetch", "binstall"]},
            {"command": "rustup", "subcommand": ["install", "update", "toolchain", "target", "component", "self"]},
            {"command": "go", "subcommand": ["install", "get"]},
            {"command": "go", "args": ["mod", "download", "**"]},
            {"command": "gem", "subcommand": ["install", "update", "uninstall"]},
            {"command": "bundle", "subcommand": ["install", "update", "add", "remove"]},
            {
                "command": "composer",
                "subcommand": ["install", "update", "require", "remove", "create-project", "global"],
            },
            {"command": "dotnet", "subcommand": ["add", "remove", "restore", "tool", "workload"]},
            {
                "command": ["brew", "port", "snap", "flatpak"],
                "subcommand": ["install", "upgrade", "remove", "uninstall"],
            },
            {"command": ["apt", "apt-get", "aptitude", "dnf", "yum", "zypper", "apk", "pacman", "dpkg", "rpm"]},
            {
                "command": ["nvm", "fnm", "volta", "asdf", "mise", "sdk", "pyenv", "rbenv", "nodenv", "goenv"],
                "subcommand": ["install", "uninstall", "upgrade", "update"],
            },
            {"command": "pre-commit", "subcommand": ["install", "autoupdate"]},
        ]
    },
    "publishing": {
        "any": [
            _git("push"),
            {"command": "git", "args": ["lfs", "push", "**"]},
            {
                "command": ["npm", "pnpm", "yarn", "bun"],
                "subcommand": ["publish", "unpublish", "deprecate", "dist-tag", "owner", "access", "token", "login"],
            },
            {"command": "yarn", "args": ["npm", "**"]},
            {"command": ["npm", "pnpm"], "subcommand": ["adduser", "logout", "team", "org", "profile"]},
            {"command": ["uv", "poetry", "hatch", "flit", "pdm"], "subcommand": "publish"},
            {"command": "twine"},
            {"command": _PYTHONS, "args": ["-m", "twine", "**"]},
            {"command": "cargo", "subcommand": ["publish", "yank", "login", "logout", "owner"]},
            {"command": "gem", "subcommand": ["push", "yank", "owner", "signin"]},
            {"command": "mvn", "subcommand": "deploy"},
            {"command": "gradle", "subcommand": "publish"},
            {"command": "dotnet", "args": ["nuget", "push", "**"]},
            {"command": ["docker", "podman", "nerdctl", "helm"], "subcommand": ["push", "login"]},
            *[
                {"command": ["npm", "pnpm", "yarn", "bun"], "args": ["run", name, "**"]}
                for name in ("deploy", "publish", "release")
            ],
            *[{"command": "make", "args": [name, "**"]} for name in ("deploy", "publish", "release", "upload")],
            {"command": ["vercel", "netlify", "fly", "flyctl", "heroku", "firebase", "wrangler", "surge", "railway"]},
            {"command": ["serverless", "sls", "cdk", "sam", "pulumi", "ansible-playbook"]},
            {"command": ["terraform", "tofu"], "subcommand": ["apply", "destroy", "import", "taint", "login"]},
        ]
    },
    "remote": {
        "any": [
            _git(["clone", "fetch", "pull", "push", "ls-remote"]),
            *[{"command": "git", "args": ["submodule", verb, "**"]} for verb in ("add", "update", "foreach")],
            {"command": "git", "args": ["remote", "update", "**"]},
            {"command": "git", "args": ["lfs", "pull", "**"]},
            {"command": ["ssh", "scp", "sftp", "mosh", "ftp", "telnet", "sshpass", "ssh-copy-id"]},
            {"command": ["docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc", "minikube", "kind"]},
            {"command": ["aws", "gcloud", "gsutil", "bq", "az", "doctl", "oci", "gh", "glab", "hub"]},
        ]
    },
    "administration": {
        "any": [
            *[{"command": "rm", "args": [*flags, "/"]} for flags in _RECURSIVELY],
            *[{"command": "chmod", "args": ["-R", mode, "/"]} for mode in ("777", "0777", "000", "a+rwx", "ugo+rwx")],
            {"command": ["sudo", "doas", "su", "pkexec", "runuser", "sudoedit", "run0", "gosu", "su-exec"]},
            {"command": ["mkfs", *[f"mkfs.{kind}" for kind in _FILE_SYSTEMS], "mke2fs", "mkdosfs", "mkntfs", "mkswap"]},
            {"command": ["fdisk", "sfdisk", "sgdisk", "parted", "wipefs", "blkdiscard", "mount", "umount"]},
            {"command": ["shutdown", "reboot", "halt", "poweroff", "telinit", "kexec", "insmod", "rmmod", "modprobe"]},
            {"command": ["systemctl", "service", "launchctl", "systemd-run", "crontab", "at", "batch", "sysctl"]},
            {
                "command": [
                    "iptables",
                    "ip6tables",
                    "nft",
                    "ufw",
                    "firewall-cmd",
                    "setcap",
                    "visudo",
                    "passwd",
                    "chpasswd",
                ]
            },
            {"command": ["useradd", "userdel", "usermod", "adduser", "deluser", "groupadd", "groupdel", "chsh"]},
        ]
    },
}
