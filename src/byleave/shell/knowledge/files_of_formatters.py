"""Which files formatters and linters read and write. The keys: `file_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_entries import entry, formatter

if TYPE_CHECKING:
    from byleave.shell.knowledge.file_entries import Entry

_PYTHON = ".py .pyi .ipynb"
_TOOL_SCRIPT = ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .astro"
_WEB = f"{_TOOL_SCRIPT} .json .json5 .jsonc .css .scss .less .html .htm .md .mdx .yaml .yml .graphql .gql .hbs"
_C = ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .proto .java .cs"
_PY_DRY = "--check --diff"

_BIOME: Entry = {
    **entry("other"),
    "sub": dict.fromkeys(
        ["format", "check", "lint", "ci", "migrate"], formatter(_WEB, "--write", "--fix", "--apply", here=True)
    ),
}
_TERRAFORM: Entry = {
    **entry("other", options={"read": ["-var-file"], "write": ["-out", "-state-out"], "edit": ["-state"]}),
    "sub": {"fmt": formatter(".tf .tfvars .hcl", dry="-check -write=false", here=True)},
}

FORMATTERS: dict[str, Entry] = {
    "black": formatter(_PYTHON, dry=_PY_DRY, read="--config", code="-c --code", data="-l -t"),
    "blue": formatter(_PYTHON, dry=_PY_DRY),
    "isort": formatter(".py .pyi", dry="--check --check-only -c --diff --stdout", data="--profile -l"),
    "pyupgrade": formatter(".py"),
    "reorder-python-imports": formatter(".py"),
    **dict.fromkeys(
        ["autopep8", "yapf", "autoflake", "docformatter"], formatter(".py .pyi", "-i", "--in-place", "--inplace")
    ),
    "ruff": {
        **entry("other"),
        "sub": {
            "format": formatter(_PYTHON, dry=_PY_DRY, here=True, read="--config"),
            "check": formatter(
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
        formatter(".py .pyi", "--fix", read="--config --config-file --rcfile", write="-o --output --output-file"),
    ),
    "prettier": formatter(_WEB, "-w", "--write", read="--config --ignore-path", other="--plugin"),
    **dict.fromkeys(["prettierd", "eslint_d"], formatter(_WEB, "--fix", "--write")),
    **dict.fromkeys(
        ["eslint", "standard", "xo", "ts-standard", "tslint", "oxlint", "semistandard"],
        formatter(
            _TOOL_SCRIPT,
            *("--fix", "--fix-suggestions", "--fix-dangerously"),
            here=True,
            run="-c --config --rulesdir --resolve-plugins-relative-to",
            write="-o --output-file --cache-location --cache-file",
            other="-f --format",
            data="--plugin --rule --env --global",
        ),
    ),
    "stylelint": formatter(
        ".css .scss .sass .less .vue .svelte .html", "--fix", read="--config", write="-o --output-file"
    ),
    **dict.fromkeys(["biome", "rome"], _BIOME),
    **dict.fromkeys(["markdownlint", "markdownlint-cli2"], formatter(".md .markdown", "-f", "--fix")),
    "mdformat": formatter(".md", dry="--check"),
    "gofmt": formatter(".go", "-w", data="-r"),
    **dict.fromkeys(["goimports", "gofumpt", "golines"], formatter(".go", "-w", data="-r")),
    "rustfmt": formatter(".rs", dry="--check --emit=stdout --emit=checkstyle --emit=json"),
    "clang-format": formatter(f"{_C} {_TOOL_SCRIPT} .json", "-i"),
    "google-java-format": formatter(".java", "-i", "-r", "--replace"),
    "ktlint": formatter(".kt .kts", "-F", "--format", here=True),
    **dict.fromkeys(["scalafmt", "scalafix"], formatter(".scala .sbt .sc", dry="--test --check", here=True)),
    **dict.fromkeys(["swiftformat", "swift-format"], formatter(".swift", dry="--lint --dryrun")),
    **dict.fromkeys(
        ["rubocop", "standardrb", "rufo"],
        formatter(
            ".rb .rake .gemspec", "-a", "-A", "-x", "--autocorrect", "--autocorrect-all", "--fix", here=True, read="-c"
        ),
    ),
    **dict.fromkeys(["php-cs-fixer", "phpcbf", "pint"], formatter(".php", dry="--dry-run --test", here=True)),
    "shfmt": formatter(".sh .bash .bats", "-w", "--write"),
    "stylua": formatter(".lua", dry="--check -c"),
    "elm-format": formatter(".elm", dry="--validate"),
    **dict.fromkeys(["nixfmt", "alejandra", "nixpkgs-fmt"], formatter(".nix", dry="--check -c")),
    **dict.fromkeys(["ormolu", "fourmolu", "cabal-fmt", "hindent"], formatter(".hs .cabal", "-i", "--inplace")),
    **dict.fromkeys(["ocamlformat", "cmake-format"], formatter(".ml .mli .cmake CMakeLists.txt", "-i", "--inplace")),
    "buildifier": formatter("BUILD BUILD.bazel .bzl WORKSPACE"),
    "taplo": {**entry("other"), "sub": dict.fromkeys(["fmt", "format"], formatter(".toml", dry="--check"))},
    **dict.fromkeys(["terraform", "tofu", "packer"], _TERRAFORM),
    **dict.fromkeys(["sqlfluff", "sqlfmt"], formatter(".sql", "fix", "format", "-f", "--force")),
    **dict.fromkeys(["djlint", "djhtml"], formatter(".html .jinja .j2 .hbs", "--reformat")),
}
