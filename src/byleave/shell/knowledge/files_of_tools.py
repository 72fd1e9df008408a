"""Which files servers, packers, clients of services, media tools and the like name. The keys: `file_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_entries import entry
from byleave.shell.knowledge.files_of_formatters import FORMATTERS

if TYPE_CHECKING:
    from byleave.shell.knowledge.file_entries import Entry

TREE_OF_ALL: Entry = entry("read", tree=["*"], here=True)
_SERVER: Entry = entry(
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
    **entry("other", options={"data": ["--cwd", "-R", "--repository", "--config"]}),
    "sub": {
        **dict.fromkeys(["add", "addremove", "import"], TREE_OF_ALL),
        **dict.fromkeys(["commit", "ci"], entry("other", tree=["-A", "--addremove"], shape="committed")),
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
_CLOUD: Entry = entry(
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

TOOLS: dict[str, Entry] = {
    **FORMATTERS,
    **dict.fromkeys(_SERVERS, _SERVER),
    **dict.fromkeys(_PACKERS, TREE_OF_ALL),
    **dict.fromkeys(_SENDERS, entry("data read", tree=["*"], here=True)),
    **dict.fromkeys(_DEPLOYERS, entry("read", verbs=("deploy", "pages", "up", "publish"), tree=["*"], here=True)),
    **dict.fromkeys(["make", "gmake"], entry("other", shape="made")),
    **dict.fromkeys(
        ["lftp", "smbclient", "sftp", "cadaver"],
        entry("other", shape="fetched", options={"script": ["-e", "-c"], "read": ["-b", "-f", "-i", "-A"]}),
    ),
    "expect": entry("run other", options={"script": ["-c"], "run": ["-f"]}),
    **dict.fromkeys(["tclsh", "wish"], entry("run other")),
    "swaks": entry(
        "data",
        options={"at": ["--attach", "--attach-body", "--body", "--data"], "read": ["--tls-cert", "--tls-key"]},
    ),
    **dict.fromkeys(
        ["http.server", "SimpleHTTPServer", "CGIHTTPServer", "RangeHTTPServer", "uploadserver", "pyftpdlib"],
        entry(
            "data",
            tree=["*"],
            shape="served",
            options={"data": ["-b", "--bind", "-d", "--directory", "-p", "--protocol", "--port"]},
        ),
    ),
    "httpd": entry("data", shape="served", serves=["-h"], options={"data": ["-h", "-p", "-u", "-c", "-r"]}),
    "caddy": {
        **entry("other", options={"data": ["-r", "--root"]}),
        "sub": {"file-server": entry("data", shape="served", serves=["-r", "--root"])},
    },
    **dict.fromkeys(["php", "ruby"], entry("other", shape="serves")),
    "jupyter": {**entry("other"), "sub": dict.fromkeys(["notebook", "lab", "server"], TREE_OF_ALL)},
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun"], entry("other", shape="packs")),
    **{name: entry("other", shape="loosely", packing=first) for name, first in _PACKING.items()},
    "twistd": entry(
        "data",
        shape="served",
        serves=["--path", "-r", "--root"],
        options={"run": ["-y", "--python"], "data": ["--path", "-r", "--root", "-p", "--port", "--listen"]},
    ),
    "esbuild": entry("other", shape="loosely", options={"member": ["--servedir"]}),
    "webpack": entry("other", shape="loosely", options={"member": ["--static"]}),
    **dict.fromkeys(
        ["mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "genext2fs", "hdiutil", "dagger", "kaniko", "buildctl"],
        entry("other", shape="loosely", options={"member": ["-d", "-srcfolder", "--source", "--context", "--local"]}),
    ),
    "debugfs": entry("other", shape="loosely", options={"script": ["-R"], "run": ["-f"]}),
    **dict.fromkeys(["dpkg-deb", "gpgtar"], entry("read write", tree=["*"])),
    **dict.fromkeys(["zipfile", "tarfile"], entry("read", shape="python_archive")),
    "zipapp": entry(
        "read", tree=["*"], options={"write": ["-o", "--output"], "data": ["-p", "--python", "-m", "--main"]}
    ),
    "jar": entry("other", shape="jar"),
    **dict.fromkeys(
        ["mksquashfs", "ditto", "rdiff-backup", "unison", "duplicity"], entry("", shape="copy", tree=["*"])
    ),
    **dict.fromkeys(["borg", "kopia", "zpaq"], entry("data read", tree=["*"])),
    **dict.fromkeys(
        ["genisoimage", "mkisofs", "xorriso", "pax"],
        entry("read", tree=["*"], options={"write": ["-o", "-f", "-output", "-outdev"], "data": ["-as", "-V", "-A"]}),
    ),
    **dict.fromkeys(["hg", "sl", "fossil", "bzr", "brz"], _VERSIONS),
    "parallel": entry("other", shape="parallel"),
    "mount": entry("other", shape="mounted"),
    "ansible": entry("other", options={"script": ["-a", "--args"], "read": ["-i", "--inventory", "--key-file"]}),
    "gh": {
        **entry("other"),
        "sub": {
            "gist": entry(
                "read",
                verbs=("create", "new", "edit"),
                options={"read": ["-a", "--add"], "data": ["-d", "--desc"]},
            ),
            "release": entry(
                "data labelled",
                verbs=("create", "upload", "new"),
                options={
                    "read": ["-F", "--notes-file"],
                    "write": ["-O", "--output", "-D", "--dir"],
                    "data": ["-t", "--title", "-n", "--notes", "--target", "-p", "--pattern"],
                },
            ),
            "api": entry(
                "data",
                options={
                    "form": ["-F", "--field"],
                    "read": ["--input"],
                    "data": ["-f", "--raw-field", "-H", "--header", "-X", "--method", "-q", "--jq", "-t", "--template"],
                },
            ),
            "workflow": entry(
                "data", options={"form": ["-F", "--field"], "data": ["-f", "--raw-field", "-r", "--ref"]}
            ),
            **dict.fromkeys(
                ["pr", "issue", "discussion"],
                entry(
                    "data",
                    options={
                        "read": ["-F", "--body-file", "-T", "--template"],
                        "data": ["-t", "--title", "-b", "--body", "-l", "--label", "-B", "--base", "-H", "--head"],
                    },
                ),
            ),
            **dict.fromkeys(
                ["secret", "variable"],
                entry("data", options={"read": ["-f", "--env-file"], "data": ["-b", "--body", "-e", "--env", "-o"]}),
            ),
            **dict.fromkeys(["ssh-key", "gpg-key"], entry("read", verbs=("add",))),
            "alias": entry("script"),
            "run": entry("data", options={"write": ["-D", "--dir"], "data": ["-n", "--name", "-w", "-L", "-b"]}),
        },
    },
    "glab": entry("other", options={"read": ["--file", "-F"], "form": ["--field", "--form"]}),
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
        entry(
            "data at",
            options={
                "write": ["-o", "--output"],
                "read": ["--cert", "--cert-key", "--verify"],
                "edit": ["--session", "--session-read-only"],
            },
        ),
    ),
    "socat": entry("data", shape="addresses"),
    **dict.fromkeys(
        ["ffmpeg", "avconv"],
        entry(
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
    "helm": entry(
        "other", shape="loosely", packing=(("package",),), options={"list": ["-f", "--values"], "other": ["--set-file"]}
    ),
    "gio": {**entry("other"), "sub": {"trash": entry("delete", tree=["*"]), "remove": entry("delete", tree=["*"])}},
    **dict.fromkeys(["ffprobe", "ffplay", "mediainfo", "mpv", "vlc", "mplayer", "aplay", "zbarimg"], entry("read")),
    **dict.fromkeys(["sox", "qpdf", "wkhtmltopdf", "wkhtmltoimage", "dwebp", "gif2webp"], entry("", shape="copy")),
    "HandBrakeCLI": entry("data", options={"read": ["-i", "--input"], "write": ["-o", "--output"]}),
    **dict.fromkeys(
        ["cwebp", "avifenc", "cavif", "svgo", "inkscape", "rsvg-convert"],
        entry("read", options={"write": ["-o", "--output", "--export-filename"], "read": ["-i", "--input"]}),
    ),
    **dict.fromkeys(["optipng", "jpegoptim", "pngquant", "oxipng", "gifsicle", "mp3gain", "id3v2"], entry("edit")),
    "tesseract": entry("read write"),
    **dict.fromkeys(
        ["yt-dlp", "youtube-dl"],
        entry(
            "data",
            options={
                "write": ["-o", "--output", "-P"],
                "read": ["-a", "--batch-file", "--cookies", "--config-location"],
            },
        ),
    ),
    **dict.fromkeys(
        ["mysql", "mariadb"],
        entry(
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
        entry(
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
        entry("data", options={"write": ["-f", "--file"], "data": ["-h", "-p", "-U", "-d", "-t", "-n", "-F", "-j"]}),
    ),
    "pg_restore": entry(
        "read", options={"write": ["-f", "--file"], "data": ["-h", "-p", "-U", "-d", "-t", "-n", "-j"]}
    ),
    **dict.fromkeys(
        ["mongodump", "mongoexport"], entry("data", options={"write": ["-o", "--out"], "read": ["--config"]})
    ),
    **dict.fromkeys(["mongorestore", "mongoimport"], entry("read", options={"read": ["--file", "--config", "--dir"]})),
    **dict.fromkeys(
        ["redis-cli", "valkey-cli"],
        entry(
            "data", options={"write": ["--rdb", "--functions-rdb"], "read": ["--eval", "--cert", "--key", "--cacert"]}
        ),
    ),
    "duckdb": entry("edit inline", options={"inline": ["-c", "-cmd", "-s"], "run": ["-init", "-f"]}),
    **dict.fromkeys(["rar", "unrar", "unar"], entry("data read", shape="whole")),
    "lsar": entry("read"),
    **dict.fromkeys(
        ["mutt", "neomutt", "s-nail", "msmtp"],
        entry(
            "data",
            options={
                "read": ["-a", "-A", "-i", "-F", "--attach", "--attachment", "--body", "--data"],
                "data": ["-s", "-c", "-b"],
            },
        ),
    ),
    **dict.fromkeys(["sops", "ansible-vault", "crudini", "rpl", "sd", "ambr", "fastmod", "codemod"], entry("edit")),
    "sd": entry("data data edit"),
    "crudini": entry("edit data"),
    "ansible-vault": entry("data edit", options={"read": ["--vault-password-file"], "write": ["--output"]}),
    **dict.fromkeys(
        ["signify", "cosign"],
        entry("other", options={"read": ["-m", "-s", "-p", "--key"], "write": ["-x", "--output-signature"]}),
    ),
    "keytool": entry(
        "data",
        options={
            "read": ["-file", "-importfile", "-srckeystore"],
            "edit": ["-keystore", "-destkeystore"],
            "data": ["-alias"],
        },
    ),
    "ssh-copy-id": entry("data", options={"read": ["-i", "-F"], "data": ["-p"]}),
    "op": entry("other", options={"read": ["-i", "--in-file", "--env-file"], "write": ["-o", "--out-file"]}),
    **dict.fromkeys(["dotenv", "dotenvx", "env-cmd"], entry("data", options={"read": ["-f", "-e", "--env-file"]})),
    **dict.fromkeys(["xdg-open", "open", "hexyl", "delta", "enscript", "a2ps", "crontab"], entry("read")),
    **dict.fromkeys(["asciinema", "script"], entry("write", options={"script": ["-c"]})),
    **dict.fromkeys(
        ["espeak", "say", "logger", "at", "batch"], entry("data", options={"read": ["-f"], "write": ["-o", "-w"]})
    ),
    **dict.fromkeys(["codespell", "typos"], entry("read", tree=["*"], read_and_write=["-w", "--write-changes"])),
    **dict.fromkeys(["csvsql", "csvjson", "csvgrep", "csvsort", "csvstat", "in2csv", "xsv", "qsv"], entry("read")),
    **dict.fromkeys(["dasel", "fx", "jless", "gron", "htmlq", "xq", "pup", "xmlstarlet", "tidy"], entry("other read")),
}
