"""Which files formatters, clients of services, media tools and the like name: data with the keys of `file_table`.

More keys: `kinds` are the endings of the files that a program touches in a directory that it walks, `skips` directories
it leaves out there; `verbs` are first operands, not counted, without which no operand is a
file. More roles: `cookie` is text with an equals sign, else a file; `at` is text, or holds a file behind `@`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

_SKIPPED = (
    *(".git", ".hg", ".svn", ".jj", ".sl", "node_modules", ".venv", "venv", ".tox", ".nox", ".direnv", ".eggs"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", "__pypackages__", "vendor", "target"),
)


def _entry(operands: str, **more: "Any") -> "Entry":
    return {"operands": tuple(operands.split()), **more}


def _formatter(kinds: str, *writing: str, dry: str = "", here: bool = False, **options: str) -> "Entry":
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
_SCRIPT = ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .astro"
_WEB = f"{_SCRIPT} .json .json5 .jsonc .css .scss .less .html .htm .md .mdx .yaml .yml .graphql .gql .hbs"
_C = ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .proto .java .cs"
_PY_DRY = "--check --diff"

_BIOME: "Entry" = {
    **_entry("other"),
    "sub": dict.fromkeys(
        ["format", "check", "lint", "ci", "migrate"], _formatter(_WEB, "--write", "--fix", "--apply", here=True)
    ),
}
_TERRAFORM: "Entry" = {
    **_entry("other", options={"read": ["-var-file", "-state"], "write": ["-out", "-state-out"]}),
    "sub": {"fmt": _formatter(".tf .tfvars .hcl", dry="-check -diff", here=True)},
}

_FORMATTERS: "dict[str, Entry]" = {
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
        _formatter(".py .pyi", "--fix", read="--config --config-file --rcfile", write="--output-file"),
    ),
    "prettier": _formatter(_WEB, "-w", "--write", read="--config --ignore-path", data="--plugin"),
    **dict.fromkeys(["prettierd", "eslint_d"], _formatter(_WEB, "--fix", "--write")),
    **dict.fromkeys(
        ["eslint", "standard", "xo", "ts-standard", "tslint", "oxlint", "semistandard"],
        _formatter(
            _SCRIPT,
            *("--fix", "--fix-suggestions", "--fix-dangerously"),
            here=True,
            run="-c --config --rulesdir --resolve-plugins-relative-to",
            write="-o --output-file --cache-location --cache-file",
            data="-f --format --plugin --rule --env --global",
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
    "rustfmt": _formatter(".rs", dry="--check --emit"),
    "clang-format": _formatter(f"{_C} {_SCRIPT} .json", "-i"),
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
_TREE_OF_ALL: "Entry" = _entry("read", tree=["*"], here=True)
_SERVER: "Entry" = _entry(
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
_CLOUD: "Entry" = _entry(
    "",
    shape="cloud_copy",
    options={
        "read": [
            *("--body", "--cli-input-json", "--cli-input-yaml", "--zip-file", "--template-file", "--template-body"),
            *("--source", "--file", "-f", "--data-file", "--env-vars-file", "--config", "--key-file", "--files-from"),
        ],
        "write": ["--outfile", "--output-file", "--log-file", "--destination"],
        "data": ["--region", "--profile", "--output", "--query", "--project", "--exclude", "--include", "--acl"],
    },
)

TOOLS: "dict[str, Entry]" = {
    **_FORMATTERS,
    **dict.fromkeys(_SERVERS, _SERVER),
    **dict.fromkeys(_PACKERS, _TREE_OF_ALL),
    **dict.fromkeys(_SENDERS, _entry("data read", tree=["*"], here=True)),
    **dict.fromkeys(_DEPLOYERS, _entry("read", verbs=("deploy", "pages", "up", "publish"), tree=["*"], here=True)),
    "http.server": _entry(
        "data", tree=["*"], shape="served", options={"data": ["-b", "--bind", "-d", "--directory", "-p", "--protocol"]}
    ),
    "gh": {
        **_entry("other"),
        "sub": {
            "gist": _entry(
                "read",
                verbs=("create", "new", "edit"),
                options={"read": ["-a", "--add"], "data": ["-d", "--desc"]},
            ),
            "release": _entry(
                "data read",
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
                        "read": ["-F", "--body-file"],
                        "data": ["-t", "--title", "-b", "--body", "-l", "--label", "-B", "--base", "-H", "--head"],
                    },
                ),
            ),
            **dict.fromkeys(
                ["secret", "variable"],
                _entry("data", options={"read": ["-f", "--env-file"], "data": ["-b", "--body", "-e", "--env", "-o"]}),
            ),
            **dict.fromkeys(["ssh-key", "gpg-key"], _entry("read", verbs=("add",))),
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
    **dict.fromkeys(["http", "https", "xh", "xhs"], _entry("data at", options={"write": ["-o", "--output"]})),
    "socat": _entry("data", shape="addresses"),
    **dict.fromkeys(["ffmpeg", "avconv"], _entry("write", options={"read": ["-i"], "run": ["-filter_script", "-f:x"]})),
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
        ["mutt", "neomutt", "s-nail", "swaks", "msmtp"],
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
        ["minisign", "signify", "cosign"],
        _entry("other", options={"read": ["-m", "-s", "-p", "--key"], "write": ["-x", "--output-signature"]}),
    ),
    "keytool": _entry("data", options={"read": ["-file", "-importfile"], "edit": ["-keystore"], "data": ["-alias"]}),
    "ssh-copy-id": _entry("data", options={"read": ["-i", "-F"], "data": ["-p"]}),
    "op": _entry("other", options={"read": ["-i", "--in-file", "--env-file"], "write": ["-o", "--out-file"]}),
    **dict.fromkeys(["dotenv", "dotenvx", "env-cmd"], _entry("data", options={"read": ["-f", "-e", "--env-file"]})),
    **dict.fromkeys(["xdg-open", "open", "gio", "hexyl", "delta", "enscript", "a2ps", "crontab"], _entry("read")),
    **dict.fromkeys(["asciinema", "script"], _entry("write", options={"script": ["-c"]})),
    **dict.fromkeys(
        ["espeak", "say", "logger", "at", "batch"], _entry("data", options={"read": ["-f"], "write": ["-o", "-w"]})
    ),
    **dict.fromkeys(["codespell", "typos"], _entry("read", tree=["*"], read_and_write=["-w", "--write-changes"])),
    **dict.fromkeys(["csvsql", "csvjson", "csvgrep", "csvsort", "csvstat", "in2csv", "xsv", "qsv"], _entry("read")),
    **dict.fromkeys(["dasel", "fx", "jless", "gron", "htmlq", "xq", "pup", "xmlstarlet", "tidy"], _entry("other read")),
}
