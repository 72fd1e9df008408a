"""Which files programs read, write, delete and execute by name: data beside the option tables (`program_options.toml`).

An entry says what the operands are, one role each, the last one repeated; what the values of options are, by role; and
with which options a directory among the operands is walked. Roles:

- `read`, `write` (made or changed), `edit` (read and written), `delete`, `run` (read and executed)
- `bind`: `SOURCE:TARGET`, a directory that is read and written elsewhere with all that is in it
- `member`: `NAME=PLACE` or PLACE, a file or a directory whose files are read
- `data`: not a file, or one whose name is only listed or tested
- `other`: perhaps a file; it counts where it leads to a place that a rule or byleave closes
- `sent`, `encoded`, `form`: text, or the file of `@FILE`, `NAME@FILE`, `NAME=@FILE`
- `list`: files with commas between them; `manifests`: the same, and of a directory the files of its kinds are read
- `labelled`: `FILE#LABEL`; `joined`: files with bars between them, perhaps behind the name of a protocol
- `teed`: `FILE`, or several as `[OPTIONS]FILE|FILE`, which are written
- `code`: a text in some language; a string in it counts as `other`. `script`: the same for words of a shell script

`instead`: options that take the place of the first operand. `tree`: options with which directories are walked, `*` for
always, `-d=rec` for a value that starts so. `gone`: options with which a deleted directory goes away as a whole;
without the key it always does. `here`: without operands the working directory is walked. `only`: operands are `data`
unless such an option is given; `quiet`: or if one is, unless one of `loud` is given too. `whole`: options with which
everything in the repository is touched where no operand says what. `shape`: a way of naming files that roles do not
say; `named_file_shapes` knows it. `packing`: beginnings of the words behind the program with which it takes in, or
shows to others, everything below the working directory. `sub`: the same by subcommand; a subcommand without an entry
has operands of the role `other`. The values of options that no entry names are what the option tables say, else
`other`.

Formatters, clients of services, media tools and the like (`_TOOLS`) have more keys: `kinds` are the endings of the
files that a program touches in a directory that it walks, `skips` directories it leaves out there; `verbs` are first
operands, not counted; without one of them operands have the role `other`. More roles: `cookie` is text with an equals
sign, else a file; `at` is text, or holds a file behind `@`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Entry = dict[str, Any]


_SKIPPED = (
    *(".git", ".hg", ".svn", ".jj", ".sl", "node_modules", ".venv", "venv", ".tox", ".nox", ".direnv", ".eggs"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", "__pypackages__", "vendor", "target"),
)


def _entry(operands: str, **more: Any) -> Entry:
    return {"operands": tuple(operands.split()), **more}


def _formatter(kinds: str, *writing: str, dry: str = "", here: bool = False, **options: str) -> Entry:
    """Return the entry of a program that walks directories for files of its languages.

    It writes them with the options of `writing`; without any, unless one of `dry` is given.
    """
    known = {role: names.split() for role, names in options.items()}
    known["data"] = [*known.get("data", ()), *_PLAIN]
    entry = _entry(
        "read" if writing else "edit", tree=["*"], kinds=tuple(kinds.split()), skips=_SKIPPED, here=here, options=known
    )
    if writing:
        entry["read_and_write"] = list(writing)
    elif dry:
        entry["read_only"] = dry.split()
    entry["quiet"] = ["--check"]  # it says which files it would change, and shows nothing of them
    entry["loud"] = ["--diff", *writing]
    return entry


# Options of many formatters whose values are no files.
_PLAIN = (
    *("--select", "--ignore", "--extend-select", "--line-length", "--target-version", "--output-format", "--parser"),
    *("--ext", "--max-warnings", "--log-level", "--loglevel", "--exclude", "--extend-exclude", "--style", "--edition"),
)
_PYTHON = ".py .pyi .ipynb"
_TOOL_SCRIPT = ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .astro"
_WEB = f"{_TOOL_SCRIPT} .json .json5 .jsonc .css .scss .less .html .htm .md .mdx .yaml .yml .graphql .gql .hbs"
_C = ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .proto .java .cs"
_PY_DRY = "--check --diff"

_BIOME: Entry = {
    **_entry("other"),
    "sub": dict.fromkeys(
        ["format", "check", "lint", "ci", "migrate"], _formatter(_WEB, "--write", "--fix", "--apply", here=True)
    ),
}
_TERRAFORM: Entry = {
    **_entry("other", options={"read": ["-var-file"], "write": ["-out", "-state-out"], "edit": ["-state"]}),
    "sub": {"fmt": _formatter(".tf .tfvars .hcl", dry="-check -write=false", here=True)},
}

_FORMATTERS: dict[str, Entry] = {
    "black": _formatter(_PYTHON, dry=_PY_DRY, read="--config", code="-c --code", data="-l -t"),
    "blue": _formatter(_PYTHON, dry=_PY_DRY),
    "isort": _formatter(".py .pyi", dry="--check --check-only -c --diff --stdout", data="--profile -l"),
    "pyupgrade": _formatter(".py"),
    "reorder-python-imports": _formatter(".py"),
    **dict.fromkeys(
        ["autopep8", "yapf", "autoflake", "docformatter"], _formatter(".py .pyi", "-i", "--in-place", "--inplace")
    ),
    "ruff": {
        **_entry("other"),
        "sub": {
            "format": _formatter(_PYTHON, dry=_PY_DRY, here=True, read="--config"),
            "check": _formatter(
                _PYTHON,
                *("--fix", "--fix-only", "--unsafe-fixes", "--add-noqa"),
                here=True,
                read="--config",
                write="-o --output-file",
            ),
        },
    },
    **dict.fromkeys(
        ["flake8", "pylint", "mypy", "pyright", "bandit"],
        _formatter(".py .pyi", "--fix", read="--config --config-file --rcfile", write="-o --output --output-file"),
    ),
    "prettier": _formatter(_WEB, "-w", "--write", read="--config --ignore-path", other="--plugin"),
    **dict.fromkeys(["prettierd", "eslint_d"], _formatter(_WEB, "--fix", "--write")),
    **dict.fromkeys(
        ["eslint", "standard", "xo", "ts-standard", "tslint", "oxlint", "semistandard"],
        _formatter(
            _TOOL_SCRIPT,
            *("--fix", "--fix-suggestions", "--fix-dangerously"),
            here=True,
            run="-c --config --rulesdir --resolve-plugins-relative-to",
            write="-o --output-file --cache-location --cache-file",
            other="-f --format",
            data="--plugin --rule --env --global",
        ),
    ),
    "stylelint": _formatter(
        ".css .scss .sass .less .vue .svelte .html", "--fix", read="--config", write="-o --output-file"
    ),
    **dict.fromkeys(["biome", "rome"], _BIOME),
    **dict.fromkeys(["markdownlint", "markdownlint-cli2"], _formatter(".md .markdown", "-f", "--fix")),
    "mdformat": _formatter(".md", dry="--check"),
    "gofmt": _formatter(".go", "-w", data="-r"),
    **dict.fromkeys(["goimports", "gofumpt", "golines"], _formatter(".go", "-w", data="-r")),
    "rustfmt": _formatter(".rs", dry="--check --emit=stdout --emit=checkstyle --emit=json"),
    "clang-format": _formatter(f"{_C} {_TOOL_SCRIPT} .json", "-i"),
    "google-java-format": _formatter(".java", "-i", "-r", "--replace"),
    "ktlint": _formatter(".kt .kts", "-F", "--format", here=True),
    **dict.fromkeys(["scalafmt", "scalafix"], _formatter(".scala .sbt .sc", dry="--test --check", here=True)),
    **dict.fromkeys(["swiftformat", "swift-format"], _formatter(".swift", dry="--lint --dryrun")),
    **dict.fromkeys(
        ["rubocop", "standardrb", "rufo"],
        _formatter(
            ".rb .rake .gemspec", "-a", "-A", "-x", "--autocorrect", "--autocorrect-all", "--fix", here=True, read="-c"
        ),
    ),
    **dict.fromkeys(["php-cs-fixer", "phpcbf", "pint"], _formatter(".php", dry="--dry-run --test", here=True)),
    "shfmt": _formatter(".sh .bash .bats", "-w", "--write"),
    "stylua": _formatter(".lua", dry="--check -c"),
    "elm-format": _formatter(".elm", dry="--validate"),
    **dict.fromkeys(["nixfmt", "alejandra", "nixpkgs-fmt"], _formatter(".nix", dry="--check -c")),
    **dict.fromkeys(["ormolu", "fourmolu", "cabal-fmt", "hindent"], _formatter(".hs .cabal", "-i", "--inplace")),
    **dict.fromkeys(["ocamlformat", "cmake-format"], _formatter(".ml .mli .cmake CMakeLists.txt", "-i", "--inplace")),
    "buildifier": _formatter("BUILD BUILD.bazel .bzl WORKSPACE"),
    "taplo": {**_entry("other"), "sub": dict.fromkeys(["fmt", "format"], _formatter(".toml", dry="--check"))},
    **dict.fromkeys(["terraform", "tofu", "packer"], _TERRAFORM),
    **dict.fromkeys(["sqlfluff", "sqlfmt"], _formatter(".sql", "fix", "format", "-f", "--force")),
    **dict.fromkeys(["djlint", "djhtml"], _formatter(".html .jinja .j2 .hbs", "--reformat")),
}
_TREE_OF_ALL: Entry = _entry("read", tree=["*"], here=True)
_SERVER: Entry = _entry(
    "read",
    tree=["*"],
    here=True,
    options={
        "read": ["-C", "-K", "--cert", "--key", "--ssl-cert", "--ssl-key", "-c", "--config"],
        "data": ["-p", "--port", "-l", "--listen", "-a", "-i", "--host", "-H", "--cors", "-d", "-t", "-e", "--open"],
    },
)
_SERVERS = (
    *("serve", "http-server", "live-server", "lite-server", "local-web-server", "browser-sync", "sirv", "miniserve"),
    *("darkhttpd", "thttpd", "webfsd", "simple-http-server", "servor", "static-server", "superstatic"),
)
# Programs that put whole directories into one text or somewhere else.
_PACKERS = (*("repomix", "files-to-prompt", "code2prompt", "gitingest", "yek", "hashdeep", "md5deep", "sha256deep"),)
_SENDERS = (  # the same behind a verb
    *("gitleaks", "trufflehog", "detect-secrets", "restic", "croc", "wormhole", "ffsend", "magic-wormhole"),
)
_DEPLOYERS = ("vercel", "netlify", "wrangler", "surge", "firebase", "flyctl", "fly", "eb", "gh-pages", "now", "railway")
_VERSIONS: Entry = {
    **_entry("other", options={"data": ["--cwd", "-R", "--repository", "--config"]}),
    "sub": {
        **dict.fromkeys(["add", "addremove", "import"], _TREE_OF_ALL),
        **dict.fromkeys(["commit", "ci"], _entry("other", tree=["-A", "--addremove"], shape="committed")),
    },
}
# Programs that build a package of the whole directory, or serve it, and the words with which they do.
_PACKING: dict[str, tuple[tuple[str, ...], ...]] = {
    "cargo": (("package",), ("publish",)),
    **dict.fromkeys(["poetry", "uv", "hatch", "flit", "pdm", "maturin"], (("build",), ("publish",), ("sdist",))),
    "gem": (("build",),),
    "hugo": (("server",), ("serve",), ("deploy",)),
    "jekyll": (("serve",), ("server",), ("s",), ("build",), ("b",)),
    "heroku": (("container:push",), ("builds:create",), ("deploy:jar",)),
    **dict.fromkeys(["sam", "serverless", "sls", "chalice", "zappa", "cf", "copilot"], (("deploy",), ("push",))),
    **dict.fromkeys(["nixpacks", "s2i", "pack", "earthly"], (("build",),)),
}
_CLOUD: Entry = _entry(
    "",
    shape="cloud_copy",
    packing=(
        *(("app", "deploy"), ("run", "deploy"), ("functions", "deploy"), ("builds", "submit")),
        *(("webapp", "up"), ("webapp", "deploy"), ("containerapp", "up"), ("acr", "build")),
    ),
    options={
        "member": ["--source", "--rc-files"],
        "read": [
            *("--body", "--cli-input-json", "--cli-input-yaml", "--zip-file", "--template-file", "--template-body"),
            *("--file", "-f", "--data-file", "--env-vars-file", "--config", "--key-file", "--files-from"),
        ],
        "write": ["--outfile", "--output-file", "--log-file", "--destination"],
        "data": ["--region", "--profile", "--output", "--query", "--project", "--exclude", "--include", "--acl"],
    },
)

_TOOLS: dict[str, Entry] = {
    **_FORMATTERS,
    **dict.fromkeys(_SERVERS, _SERVER),
    **dict.fromkeys(_PACKERS, _TREE_OF_ALL),
    **dict.fromkeys(_SENDERS, _entry("data read", tree=["*"], here=True)),
    **dict.fromkeys(_DEPLOYERS, _entry("read", verbs=("deploy", "pages", "up", "publish"), tree=["*"], here=True)),
    **dict.fromkeys(["make", "gmake"], _entry("other", shape="made")),
    **dict.fromkeys(
        ["lftp", "smbclient", "sftp", "cadaver"],
        _entry("other", shape="fetched", options={"script": ["-e", "-c"], "read": ["-b", "-f", "-i", "-A"]}),
    ),
    "expect": _entry("run other", options={"script": ["-c"], "run": ["-f"]}),
    **dict.fromkeys(["tclsh", "wish"], _entry("run other")),
    "swaks": _entry(
        "data",
        options={"at": ["--attach", "--attach-body", "--body", "--data"], "read": ["--tls-cert", "--tls-key"]},
    ),
    **dict.fromkeys(
        ["http.server", "SimpleHTTPServer", "CGIHTTPServer", "RangeHTTPServer", "uploadserver", "pyftpdlib"],
        _entry(
            "data",
            tree=["*"],
            shape="served",
            options={"data": ["-b", "--bind", "-d", "--directory", "-p", "--protocol", "--port"]},
        ),
    ),
    "httpd": _entry("data", shape="served", serves=["-h"], options={"data": ["-h", "-p", "-u", "-c", "-r"]}),
    "caddy": {
        **_entry("other", options={"data": ["-r", "--root"]}),
        "sub": {"file-server": _entry("data", shape="served", serves=["-r", "--root"])},
    },
    **dict.fromkeys(["php", "ruby"], _entry("other", shape="serves")),
    "jupyter": {**_entry("other"), "sub": dict.fromkeys(["notebook", "lab", "server"], _TREE_OF_ALL)},
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun"], _entry("other", shape="packs")),
    **{name: _entry("other", shape="loosely", packing=first) for name, first in _PACKING.items()},
    "twistd": _entry(
        "data",
        shape="served",
        serves=["--path", "-r", "--root"],
        options={"run": ["-y", "--python"], "data": ["--path", "-r", "--root", "-p", "--port", "--listen"]},
    ),
    "esbuild": _entry("other", shape="loosely", options={"member": ["--servedir"]}),
    "webpack": _entry("other", shape="loosely", options={"member": ["--static"]}),
    **dict.fromkeys(
        ["mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "genext2fs", "hdiutil", "dagger", "kaniko", "buildctl"],
        _entry("other", shape="loosely", options={"member": ["-d", "-srcfolder", "--source", "--context", "--local"]}),
    ),
    "debugfs": _entry("other", shape="loosely", options={"script": ["-R"], "run": ["-f"]}),
    **dict.fromkeys(["dpkg-deb", "gpgtar"], _entry("read write", tree=["*"])),
    **dict.fromkeys(["zipfile", "tarfile"], _entry("read", shape="python_archive")),
    "zipapp": _entry(
        "read", tree=["*"], options={"write": ["-o", "--output"], "data": ["-p", "--python", "-m", "--main"]}
    ),
    "jar": _entry("other", shape="jar"),
    **dict.fromkeys(
        ["mksquashfs", "ditto", "rdiff-backup", "unison", "duplicity"], _entry("", shape="copy", tree=["*"])
    ),
    **dict.fromkeys(["borg", "kopia", "zpaq"], _entry("data read", tree=["*"])),
    **dict.fromkeys(
        ["genisoimage", "mkisofs", "xorriso", "pax"],
        _entry("read", tree=["*"], options={"write": ["-o", "-f", "-output", "-outdev"], "data": ["-as", "-V", "-A"]}),
    ),
    **dict.fromkeys(["hg", "sl", "fossil", "bzr", "brz"], _VERSIONS),
    "parallel": _entry("other", shape="parallel"),
    "mount": _entry("other", shape="mounted"),
    "ansible": _entry("other", options={"script": ["-a", "--args"], "read": ["-i", "--inventory", "--key-file"]}),
    "gh": {
        **_entry("other"),
        "sub": {
            "gist": _entry(
                "read",
                verbs=("create", "new", "edit"),
                options={"read": ["-a", "--add"], "data": ["-d", "--desc"]},
            ),
            "release": _entry(
                "data labelled",
                verbs=("create", "upload", "new"),
                options={
                    "read": ["-F", "--notes-file"],
                    "write": ["-O", "--output", "-D", "--dir"],
                    "data": ["-t", "--title", "-n", "--notes", "--target", "-p", "--pattern"],
                },
            ),
            "api": _entry(
                "data",
                options={
                    "form": ["-F", "--field"],
                    "read": ["--input"],
                    "data": ["-f", "--raw-field", "-H", "--header", "-X", "--method", "-q", "--jq", "-t", "--template"],
                },
            ),
            "workflow": _entry(
                "data", options={"form": ["-F", "--field"], "data": ["-f", "--raw-field", "-r", "--ref"]}
            ),
            **dict.fromkeys(
                ["pr", "issue", "discussion"],
                _entry(
                    "data",
                    options={
                        "read": ["-F", "--body-file", "-T", "--template"],
                        "data": ["-t", "--title", "-b", "--body", "-l", "--label", "-B", "--base", "-H", "--head"],
                    },
                ),
            ),
            **dict.fromkeys(
                ["secret", "variable"],
                _entry("data", options={"read": ["-f", "--env-file"], "data": ["-b", "--body", "-e", "--env", "-o"]}),
            ),
            **dict.fromkeys(["ssh-key", "gpg-key"], _entry("read", verbs=("add",))),
            "alias": _entry("script"),
            "run": _entry("data", options={"write": ["-D", "--dir"], "data": ["-n", "--name", "-w", "-L", "-b"]}),
        },
    },
    "glab": _entry("other", options={"read": ["--file", "-F"], "form": ["--field", "--form"]}),
    **dict.fromkeys(
        [
            "aws",
            "gsutil",
            "gcloud",
            "az",
            "rclone",
            "s3cmd",
            "s4cmd",
            "s5cmd",
            "mc",
            "azcopy",
            "b2",
            "doctl",
            "ossutil",
        ],
        _CLOUD,
    ),
    **dict.fromkeys(
        ["http", "https", "xh", "xhs"],
        _entry(
            "data at",
            options={
                "write": ["-o", "--output"],
                "read": ["--cert", "--cert-key", "--verify"],
                "edit": ["--session", "--session-read-only"],
            },
        ),
    ),
    "socat": _entry("data", shape="addresses"),
    **dict.fromkeys(
        ["ffmpeg", "avconv"],
        _entry(
            "teed",
            options={
                "joined": ["-i"],
                "run": ["-filter_script", "-filter_complex_script"],
                "other": [
                    "-vf",
                    "-af",
                    "-filter_complex",
                    "-lavfi",
                    "-attach",
                    "-metadata",
                    "-progress",
                    "-passlogfile",
                ],
                "data": [
                    *("-c", "-c:v", "-c:a", "-codec", "-vcodec", "-acodec", "-b:v", "-b:a", "-r", "-s", "-t", "-ss"),
                    *("-to", "-f", "-map", "-preset", "-crf", "-pix_fmt", "-ar", "-ac", "-q:v", "-q:a", "-vframes"),
                    *("-frames:v", "-aspect", "-threads", "-loglevel", "-v", "-movflags", "-g", "-tune", "-loop"),
                ],
            },
        ),
    ),
    "helm": _entry(
        "other", shape="loosely", packing=(("package",),), options={"list": ["-f", "--values"], "other": ["--set-file"]}
    ),
    "gio": {**_entry("other"), "sub": {"trash": _entry("delete", tree=["*"]), "remove": _entry("delete", tree=["*"])}},
    **dict.fromkeys(["ffprobe", "ffplay", "mediainfo", "mpv", "vlc", "mplayer", "aplay", "zbarimg"], _entry("read")),
    **dict.fromkeys(["sox", "qpdf", "wkhtmltopdf", "wkhtmltoimage", "dwebp", "gif2webp"], _entry("", shape="copy")),
    "HandBrakeCLI": _entry("data", options={"read": ["-i", "--input"], "write": ["-o", "--output"]}),
    **dict.fromkeys(
        ["cwebp", "avifenc", "cavif", "svgo", "inkscape", "rsvg-convert"],
        _entry("read", options={"write": ["-o", "--output", "--export-filename"], "read": ["-i", "--input"]}),
    ),
    **dict.fromkeys(["optipng", "jpegoptim", "pngquant", "oxipng", "gifsicle", "mp3gain", "id3v2"], _entry("edit")),
    "tesseract": _entry("read write"),
    **dict.fromkeys(
        ["yt-dlp", "youtube-dl"],
        _entry(
            "data",
            options={
                "write": ["-o", "--output", "-P"],
                "read": ["-a", "--batch-file", "--cookies", "--config-location"],
            },
        ),
    ),
    **dict.fromkeys(
        ["mysql", "mariadb"],
        _entry(
            "data",
            options={
                "read": ["--defaults-file", "--defaults-extra-file", "--ssl-key", "--ssl-ca"],
                "write": ["--tee"],
                "inline": ["-e", "--execute"],
                "data": ["-u", "-h", "-P", "-D"],
            },
        ),
    ),
    **dict.fromkeys(
        ["mysqldump", "mariadb-dump"],
        _entry(
            "data",
            options={
                "write": ["-r", "--result-file", "-T", "--tab"],
                "read": ["--defaults-file"],
                "data": ["-u", "-h", "-P"],
            },
        ),
    ),
    **dict.fromkeys(
        ["pg_dump", "pg_dumpall"],
        _entry("data", options={"write": ["-f", "--file"], "data": ["-h", "-p", "-U", "-d", "-t", "-n", "-F", "-j"]}),
    ),
    "pg_restore": _entry(
        "read", options={"write": ["-f", "--file"], "data": ["-h", "-p", "-U", "-d", "-t", "-n", "-j"]}
    ),
    **dict.fromkeys(
        ["mongodump", "mongoexport"], _entry("data", options={"write": ["-o", "--out"], "read": ["--config"]})
    ),
    **dict.fromkeys(["mongorestore", "mongoimport"], _entry("read", options={"read": ["--file", "--config", "--dir"]})),
    **dict.fromkeys(
        ["redis-cli", "valkey-cli"],
        _entry(
            "data", options={"write": ["--rdb", "--functions-rdb"], "read": ["--eval", "--cert", "--key", "--cacert"]}
        ),
    ),
    "duckdb": _entry("edit inline", options={"inline": ["-c", "-cmd", "-s"], "run": ["-init", "-f"]}),
    **dict.fromkeys(["rar", "unrar", "unar"], _entry("data read", shape="whole")),
    "lsar": _entry("read"),
    **dict.fromkeys(
        ["mutt", "neomutt", "s-nail", "msmtp"],
        _entry(
            "data",
            options={
                "read": ["-a", "-A", "-i", "-F", "--attach", "--attachment", "--body", "--data"],
                "data": ["-s", "-c", "-b"],
            },
        ),
    ),
    **dict.fromkeys(["sops", "ansible-vault", "crudini", "rpl", "sd", "ambr", "fastmod", "codemod"], _entry("edit")),
    "sd": _entry("data data edit"),
    "crudini": _entry("edit data"),
    "ansible-vault": _entry("data edit", options={"read": ["--vault-password-file"], "write": ["--output"]}),
    **dict.fromkeys(
        ["signify", "cosign"],
        _entry("other", options={"read": ["-m", "-s", "-p", "--key"], "write": ["-x", "--output-signature"]}),
    ),
    "keytool": _entry(
        "data",
        options={
            "read": ["-file", "-importfile", "-srckeystore"],
            "edit": ["-keystore", "-destkeystore"],
            "data": ["-alias"],
        },
    ),
    "ssh-copy-id": _entry("data", options={"read": ["-i", "-F"], "data": ["-p"]}),
    "op": _entry("other", options={"read": ["-i", "--in-file", "--env-file"], "write": ["-o", "--out-file"]}),
    **dict.fromkeys(["dotenv", "dotenvx", "env-cmd"], _entry("data", options={"read": ["-f", "-e", "--env-file"]})),
    **dict.fromkeys(["xdg-open", "open", "hexyl", "delta", "enscript", "a2ps", "crontab"], _entry("read")),
    **dict.fromkeys(["asciinema", "script"], _entry("write", options={"script": ["-c"]})),
    **dict.fromkeys(
        ["espeak", "say", "logger", "at", "batch"], _entry("data", options={"read": ["-f"], "write": ["-o", "-w"]})
    ),
    **dict.fromkeys(["codespell", "typos"], _entry("read", tree=["*"], read_and_write=["-w", "--write-changes"])),
    **dict.fromkeys(["csvsql", "csvjson", "csvgrep", "csvsort", "csvstat", "in2csv", "xsv", "qsv"], _entry("read")),
    **dict.fromkeys(["dasel", "fx", "jless", "gron", "htmlq", "xq", "pup", "xmlstarlet", "tidy"], _entry("other read")),
}


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
    "edit",
    shape="unpacked",
    read_only=["-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list"],
    tree=["-r"],
    options={"data": ["-S", "--suffix"], "read": ["--files", "--files0", "--filelist", "-D"], "write": ["-o"]},
)
_SCRIPT = _entry("run other")
_NO_OPTION_FILES = {"data": ["*"]}
_CHANGE_MODE = _entry(
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

_GIT: dict[str, Entry] = {
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
        _entry(
            "write",
            shape="repository",
            options={
                "write": ["--separate-git-dir"],
                "run": ["--template"],
                "data": ["-b", "--initial-branch", "--object-format", "--ref-format", "--shared"],
            },
        ),
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
    **dict.fromkeys(["daemon", "instaweb"], _entry("data", shape="served", serves=["--base-path"])),
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

_CLUSTER: Entry = {
    **_entry(
        "other",
        options={
            "manifests": ["-f", "--filename"],
            "read": ["--from-env-file", "--kubeconfig", "--patch-file"],
            "member": ["--from-file"],
            "run": ["-k"],
        },
    ),
    "sub": {
        "cp": _entry("", shape="cluster_copy"),
        "config": _entry("data", options={"edit": ["--kubeconfig"]}),
        "proxy": _entry("data", options={"member": ["-w", "--www"]}),
    },
}

FILES: dict[str, Entry] = {
    **_TOOLS,
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
        options={
            "data": [
                *("-b", "-l", "-n", "-a", "-C", "-t", "--bytes", "--lines", "--number", "--suffix-length"),
                *("--line-bytes", "--separator", "--additional-suffix"),
            ],
            "script": ["--filter"],
        },
    ),
    "csplit": _entry(
        "read data", shape="pieces", options={"data": ["-f", "--prefix", "-b", "--suffix-format", "-n", "--digits"]}
    ),
    "xxd": _entry("read write"),
    "ptx": _entry("read other"),  # with -G the second is written
    "zcompile": _entry("read", shape="derived"),
    "minisign": _entry(
        "other",
        shape="derived",
        options={"read": ["-m", "-s", "-p"], "write": ["-x"], "data": ["-c", "-t", "-P"]},
    ),
    **dict.fromkeys(["pdftotext", "pdftohtml", "ps2pdf", "pdf2ps"], _entry("read write")),
    "exiftool": _entry("edit", options={"read": ["-@", "-tagsFromFile"]}),
    "xmllint": _entry("read", options={"write": ["--output", "-o"], "data": ["--xpath", "--encode"]}),
    "iconv": _entry("read", options={"write": ["-o", "--output"], "data": ["-f", "-t", "--from-code", "--to-code"]}),
    **dict.fromkeys(
        ["gpg", "gpg2"],
        _entry(
            "read",
            shape="derived",
            options={
                "write": ["-o", "--output", "--logger-file", "--log-file", "--status-file", "--attribute-file"],
                "read": ["--passphrase-file", "--options"],
                "data": ["-r", "--recipient", "-u", "--local-user", "--keyserver", "--recv-keys", "--passphrase"],
            },
        ),
    ),
    "openssl": _entry(
        "other",
        shape="serves",
        options={
            "read": ["-in", "-inkey", "-key", "-CAfile", "-certfile", "-config", "-cert", "-sign", "-verify", "-kfile"],
            "write": ["-out", "-keyout", "-writerand"],
            "data": ["-connect", "-subj", "-days", "-servername", "-K", "-iv", "-k"],
        },
    ),
    "ssh": _entry(
        "data",
        options={
            "read": ["-i", "-F"],
            "write": ["-E"],
            "script": ["-o"],
            "other": ["-L", "-R", "-D", "-S"],  # a socket may be one end
            "data": ["-p", "-l", "-J", "-W"],
        },
    ),
    **dict.fromkeys(["less", "more", "most", "zless", "zmore", "bzless", "xzless"], _entry("read", shape="pager")),
    "ssh-keygen": _entry(
        "other", shape="derived", options={"edit": ["-f"], "data": ["-t", "-b", "-C", "-N", "-P", "-m"]}
    ),
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
    **dict.fromkeys(["kubectl", "oc"], _CLUSTER),
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
        options={
            "read": ["--from-file", "--split-exp-file"],
            "code": ["-s", "--split-exp"],
            "data": ["-o", "-p", "--output-format", "--input-format"],
        },
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
    **dict.fromkeys(["find", "gfind"], _entry("data", shape="find", options=_NO_OPTION_FILES)),
    **dict.fromkeys(["fd", "fdfind"], _entry("data", options={"read": ["--ignore-file"], "data": ["*"]})),
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
    **dict.fromkeys(["pgrep", "pkill"], _entry("data", options={"read": ["-F", "--pidfile"], "data": ["*"]})),
    "env": _entry("data", options={"data": ["-u", "--unset", "-C", "--chdir", "-S"]}),
    "date": _entry("data", options={"read": ["-f", "--file", "-r", "--reference"], "data": ["-d", "--date", "-s"]}),
    "ls": _entry("data", options={"data": ["*"]}),
    "byleave": _entry("data", options={"write": ["--cwd-file"], "read": ["--policy", "--access"], "data": ["*"]}),
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
    **dict.fromkeys(["rename", "prename", "file-rename", "perl-rename"], _entry("data edit", shape="renamed")),
    **dict.fromkeys(["zmv", "zcp", "zln", "mmv", "mcp", "mln"], _entry("data", shape="renamed")),
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
        _entry(
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
        _entry(
            "edit",
            shape="editor",
            options={"script": ["-c", "--cmd"], "run": ["-S", "-u"], "data": ["-p", "--prompt"], "write": ["-w", "-W"]},
        ),
    ),
    **dict.fromkeys(["gdb", "lldb"], _entry("other", shape="inner")),
    "sqlite3": _entry("edit inline", shape="sqlite", options={"inline": ["-cmd"], "run": ["-init"]}),
    **dict.fromkeys(["source", "."], _SCRIPT),
    **dict.fromkeys(["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "rbash", "fish", "csh", "tcsh"], _SCRIPT),
    **dict.fromkeys(
        ["docker", "podman", "nerdctl", "finch", "docker-compose", "podman-compose"],
        _entry("data", shape="volumes", options=_NO_OPTION_FILES),
    ),
    "buildah": {
        **_entry("other", options={"bind": ["-v", "--volume"]}),
        "sub": dict.fromkeys(
            ["bud", "build"], _entry("read", tree=["*"], here=True, options={"read": ["-f", "--file"]})
        ),
    },
    **dict.fromkeys(
        ["proot", "apptainer", "singularity", "systemd-nspawn"],
        _entry(
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
    "chroot": _entry("bind data"),
    "sudo": _entry("data", shape="loosely", options={"bind": ["-R", "--chroot"]}),
    "bwrap": _entry(
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
        _entry("other", shape="spoken"),
    ),
    "xargs": _entry("data", options={"read": ["-a", "--arg-file"], "data": ["*"]}),
    "git": {
        "operands": ("other",),
        "sub": _GIT,
        "options": {
            "script": ["-c", "--upload-pack", "--receive-pack", "--exec"],  # programs that git starts
            "data": ["--config-env"],
        },
    },
}

MODULES: dict[str, Entry] = {"build": _TREE_OF_ALL}
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
