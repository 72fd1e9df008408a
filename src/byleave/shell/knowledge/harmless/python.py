"""Python's programs: the interpreter, package managers, test runners, checkers."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

_PIP_INDEX = "!-i,--index-url= !--extra-index-url= --no-index !-f,--find-links= --pre"
_UV_INDEX = """
!--index= !--default-index= !-i,--index-url= !--extra-index-url= !-f,--find-links= --no-index --index-strategy= !--keyring-provider=
-p,--python=~python --python-platform= --python-version=~python --no-sources -U,--upgrade -P,--upgrade-package= --resolution= --prerelease= --exclude-newer=
--locked --frozen --no-build --no-binary --link-mode= --refresh --refresh-package= --reinstall --reinstall-package= --compile-bytecode
"""
_UV_SYNC = (
    _UV_INDEX
    + """
--extra= --all-extras --no-extra= --no-dev --dev --only-dev --group= --no-group= --no-default-groups --only-group= --all-groups --no-editable
--exact --inexact --active --no-sync --all-packages --package= --no-install-project --no-install-workspace --no-install-package= --check --dry-run --isolated
--no-project --no-env-file --raw-sources --optional= --tag= --branch= --rev= --no-progress --bounds=
!--with= !-w= !--with-editable= !--with-requirements= !--env-file=< !--script= !--gui-script
"""
)
_UV_PIP = "--format= --outdated -e,--editable --exclude-editable --exclude= --strict --system --no-strict -f,--files !--python= !-p= !-t,--target=</ !--prefix=</"
_PYTEST = """
-k= -m= --markers -x,--exitfirst --maxfail= --strict-config --strict-markers --strict --fixtures,--funcargs --fixtures-per-test --capture= -s
--runxfail --lf,--last-failed --ff,--failed-first --nf,--new-first --cache-show[=] --cache-clear --lfnf,--last-failed-no-failures= --sw,--stepwise
--sw-skip,--stepwise-skip --sw-reset,--stepwise-reset --durations= --durations-min= -v,--verbose --no-header --no-summary --no-fold-skipped --force-short-summary
-q,--quiet --verbosity= -r= --disable-warnings,--disable-pytest-warnings -l,--showlocals --no-showlocals --tb= --xfail-tb --show-capture= --full-trace
--color= --code-highlight= !--junit-xml,--junitxml=> --junit-prefix= -W,--pythonwarnings=~filter --collect-only,--co --pyargs --ignore= --ignore-glob=
--deselect= --noconftest --keep-duplicates --collect-in-virtualenv --continue-on-collection-errors --import-mode=prepend|append|importlib
--doctest-modules --doctest-report= --doctest-glob= --doctest-ignore-import-errors --doctest-continue-on-failure -V,--version -h,--help -p=~plugin
--disable-plugin-autoload --assert=plain|rewrite --setup-only --setup-show --setup-plan --log-level= --log-format= --log-date-format= --log-cli-level=
--log-cli-format= --log-cli-date-format= --log-file-level= --log-auto-indent= --log-disable= --trace-config
--cov[=] --cov-report=~coverage --cov-fail-under= --cov-branch --no-cov --cov-append --cov-context= --no-cov-on-fail --cov-reset
-n,--numprocesses= --dist= --maxprocesses= --max-worker-restart= --looponfail -f --forked --timeout= --timeout-method= --reruns= --reruns-delay= --only-rerun=
--randomly-seed= --randomly-dont-reorganize --asyncio-mode= --benchmark-skip --benchmark-only --benchmark-disable --benchmark-enable --hypothesis-seed=
--hypothesis-profile= --hypothesis-show-statistics --hypothesis-verbosity= --count= --snapshot-update --no-migrations --nomigrations --reuse-db --create-db --flake-finder
--headed --browser= --slowmo= --instafail --picked --testmon --sugar --no-success-flaky-report --random-order --strict-paths --exitfirst --record-mode= --inline-snapshot=
!-c,--config-file=! -o,--override-ini=~ini !--rootdir=! !--confcutdir=! !--pdb !--pdbcls= !--trace !--basetemp=>/ !--pastebin= !--debug[=>] !--log-file=>
!--cov-config=! !--resultlog,--result-log=> !--ds= !--dc= !--plugins= !-d= !--tx= !--rsyncdir= !--px= !--report-log=> !--html=> !--json-report-file=> !--alluredir=>/
"""

OPTIONS: dict[str, dict[str, str]] = {
    "python": {
        "": """:exact
-b -bb -B -d -E -h,--help -I -O -OO -P -q -s -S -u -v -V,--version -VV -x -W=~filter -m= --check-hash-based-pycs=
!-c= !-i -X=dev|utf8|utf8=0|utf8=1|faulthandler|importtime|tracemalloc|showrefcount|no_debug_ranges
"""
    },
    "json.tool": {
        "": ":safe --sort-keys --no-ensure-ascii --json-lines --indent= --tab --no-indent --compact -h,--help"
    },
    "compileall": {
        "": "-l -r= -f -q -b -s= -p= -x= -j,--workers= --invalidation-mode= -o= --hardlink-dupes -h,--help !-i=< !-d= !-e="
    },
    "unittest": {
        "": "-v,--verbose -q,--quiet --locals --durations= -f,--failfast -c,--catch -b,--buffer -k= -h,--help -s,--start-directory=~inside -p,--pattern= -t,--top-level-directory=~inside"
    },
    "py_compile": {"": "-q,--quiet -h,--help"},
    "venv": {
        "": "--system-site-packages --symlinks --copies --clear --upgrade --without-pip --prompt= --upgrade-deps -h,--help --without-scm-ignore-files"
    },
    "timeit": {"": "!-s= !-n= -h,--help"},
    "pip": {
        "": """:subs
-h,--help --isolated --require-virtualenv -v,--verbose -V,--version -q,--quiet --no-input --retries= --timeout= --disable-pip-version-check --no-color
--no-cache-dir --no-python-version-warning !--debug !--python=! !--log,--log-file=> !--keyring-provider= !--proxy= !--exists-action= !--trusted-host= !--cert=<
!--client-cert=< !--cache-dir=>/ !--use-feature= !--use-deprecated= !--build-option=
""",
        "list": f"-o,--outdated -u,--uptodate -e,--editable -l,--local --user --path=</ --format= --not-required --exclude-editable --include-editable --exclude= {_PIP_INDEX}",
        "show": "-f,--files",
        "freeze": "-r,--requirement=< -l,--local --user --path=</ --all --exclude-editable --exclude=",
        "check": "",
        "index": f"--json {_PIP_INDEX} --python-version=",
        "debug": "",
        "inspect": "--local --user --path=</",
        "install": f"""
-r,--requirement=< -c,--constraint=< --no-deps -e,--editable= --dry-run --user -U,--upgrade --upgrade-strategy= --force-reinstall -I,--ignore-installed
--no-build-isolation --use-pep517 --break-system-packages --compile --no-compile --no-warn-script-location --no-warn-conflicts --no-binary= --only-binary=
--prefer-binary --require-hashes --progress-bar= --root-user-action= {_PIP_INDEX} !-t,--target=>/ !--root=>/ !--prefix=>/ !--src=>/ !--report=>
!-C,--config-settings= !--global-option= !--platform= !--python-version=
""",
        "uninstall": "-y,--yes -r,--requirement=< --break-system-packages --root-user-action=",
        "download": f"--no-deps -r,--requirement=< -d,--dest=>/ {_PIP_INDEX} --only-binary= --no-binary=",
    },
    "uv": {
        "": """:subs
-n,--no-cache -q,--quiet -v,--verbose --color= --native-tls --system-certs --offline --no-progress --no-config -h,--help -V,--version --managed-python
--no-managed-python --no-python-downloads --directory= --project=~inside !--config-file=! !--cache-dir=>/ !--allow-insecure-host= !-p,--python=!
""",
        "run": _UV_SYNC + "-q,--quiet -v,--verbose -n,--no-cache --offline --no-config !-m,--module !-s,--script",
        "sync": _UV_SYNC,
        "lock": _UV_INDEX + "--check --check-exists --dry-run",
        "add": _UV_SYNC + "-r,--requirements=< --editable --no-editable",
        "remove": _UV_SYNC,
        "tree": _UV_INDEX
        + "--universal --format= -d,--depth= --prune= --package= --no-dedupe --invert --outdated --show-sizes --no-dev --only-dev --group= --no-group= --no-default-groups --only-group= --all-groups",
        "export": _UV_SYNC + "--format= --no-hashes --no-header --no-annotate --no-emit-project -o,--output-file=>",
        "version": "--short --output-format=",
        "pip": ":subs",
        "pip list": _UV_PIP,
        "pip show": _UV_PIP,
        "pip freeze": _UV_PIP,
        "pip check": _UV_PIP,
        "pip tree": _UV_PIP + " --show-version-specifiers -d,--depth= --prune= --package= --no-dedupe --invert",
        "pip install": _UV_INDEX
        + "-r,--requirements,--requirement=< -e,--editable= -c,--constraints,--constraint=< --extra= --all-extras --no-deps --system --dry-run --group= --strict !-t,--target=>/ !--prefix=>/",
        "python": ":subs",
        "python list": "--all-versions --all-platforms --only-installed --only-downloads --output-format=",
        "python find": "--system --no-project",
        "venv": "--seed --clear --allow-existing --system-site-packages --prompt= -p,--python=~python --relocatable --no-project",
        "build": "--sdist --wheel --package= --all-packages -o,--out-dir=>/",
    },
    "poetry": {
        "": ":subs -n,--no-interaction -q,--quiet -v,-vv,-vvv,--verbose --no-ansi --ansi --no-plugins --no-cache -V,--version -h,--help -C,--directory=~inside -P,--project=~inside",
        "show": "--without= --with= --only= -t,--tree --why -l,--latest -o,--outdated -a,--all -T,--top-level --no-truncate -f,--format= --all-groups",
        "check": "--lock --strict",
        "install": "--without= --with= --only= --sync --no-root --no-directory --dry-run -E,--extras= --all-extras --all-groups --only-root --compile",
        "env": "--full-path -p --path",
        "lock": "--no-update --regenerate",
        "add": "-G,--group= -D,--dev -e,--editable -E,--extras= --optional --python= --dry-run --lock --allow-prereleases",
        "version": "-s,--short --dry-run",
        "build": "-f,--format=",
    },
    "pytest": {"": _PYTEST},
    "mypy": {
        "": """
-h,--help -v,--verbose -V,--version -O,--output=json --warn-unused-configs --no-namespace-packages --namespace-packages --ignore-missing-imports --follow-untyped-imports --follow-imports=
--no-site-packages --no-silence-site-packages --python-version= --platform= --always-true= --always-false= --disallow-any-expr --disallow-any-decorated
--disallow-any-explicit --disallow-any-generics --disallow-any-unimported --disallow-subclassing-any --disallow-untyped-calls --untyped-calls-exclude=
--disallow-untyped-defs --disallow-incomplete-defs --check-untyped-defs --disallow-untyped-decorators --implicit-optional --no-implicit-optional --no-strict-optional
--strict-optional --warn-redundant-casts --warn-unused-ignores --no-warn-no-return --warn-return-any --warn-unreachable --allow-untyped-globals --allow-redefinition
--no-implicit-reexport --implicit-reexport --strict-equality --extra-checks --strict --disable-error-code= --enable-error-code= --show-error-context --hide-error-context --show-column-numbers
--show-error-end --hide-error-codes --show-error-codes --show-error-code-links --pretty --no-pretty --no-color-output --no-error-summary --show-absolute-path --no-incremental
--sqlite-cache --cache-fine-grained --skip-version-check --skip-cache-mtime-checks --show-traceback,--tb --raise-exceptions --warn-incomplete-stub --scripts-are-modules
--explicit-package-bases --exclude= --exclude-gitignore -m,--module= -p,--package= -c,--command= --enable-incomplete-feature= --report-deprecated-as-note --local-partial-types
--allow-untyped-calls --allow-untyped-defs --allow-untyped-decorators --no-check-untyped-defs --no-warn-unreachable --no-warn-unused-ignores --strict-bytes --no-strict-bytes
!--config-file=! !--python-executable=! !--cache-dir=>/ !--custom-typeshed-dir=</ !--custom-typing-module= !--shadow-file= !--install-types !--non-interactive !--pdb !--junit-xml=>
!--any-exprs-report=>/ !--cobertura-xml-report=>/ !--html-report=>/ !--linecount-report=>/ !--linecoverage-report=>/ !--lineprecision-report=>/ !--txt-report=>/ !--xml-report=>/
"""
    },
    "dmypy": {"": ":subs --status-file=> -h -V"},
    "pyright": {
        "": "-p,--project=~inside --stats --verbose --warnings --outputjson --level= --skipunannotated --version -h,--help --pythonversion= --pythonplatform= --threads[=] --dependencies"
    },
    "ruff": {
        "": ":subs -v,--verbose -q,--quiet -s,--silent --isolated --color= -h,--help -V,--version !--config=",
        "check": """
--show-fixes --diff --ignore-noqa --output-format= --target-version= --preview --no-preview --extension= --statistics --show-files --show-settings --select= --ignore=
--extend-select= --per-file-ignores= --extend-per-file-ignores= --fixable= --unfixable= --extend-fixable= --exclude= --extend-exclude= --respect-gitignore
--no-respect-gitignore --force-exclude --no-force-exclude -n,--no-cache --stdin-filename= -e,--exit-zero --exit-non-zero-on-fix --line-length= --no-fix --no-unsafe-fixes --no-fix-only
-w,--watch !--fix !--unsafe-fixes !--fix-only !--add-noqa[=] !-o,--output-file=> !--cache-dir=>/
""",
        "format": """
--check --diff --extension= --target-version= --preview --no-preview --output-format= -n,--no-cache --stdin-filename= --exit-non-zero-on-format --respect-gitignore
--no-respect-gitignore --exclude= --extend-exclude= --force-exclude --no-force-exclude --line-length= --range= !--cache-dir=>/
""",
        "rule": "--all --output-format=",
        "linter": "--output-format=",
        "version": "--output-format=",
    },
    "black": {
        "": """
-c,--code= -l,--line-length= -t,--target-version= --pyi --ipynb -x,--skip-source-first-line -S,--skip-string-normalization -C,--skip-magic-trailing-comma
--preview --unstable --check --diff --color --no-color --line-ranges= --fast --safe --required-version= --exclude= --extend-exclude= --force-exclude= --stdin-filename=
--include= -W,--workers= -q,--quiet -v,--verbose --version -h,--help --no-cache !--config= !--cache-dir=>/
"""
    },
    "isort": {
        "": "-c,--check,--check-only --diff -q,--quiet -v,--verbose --profile= -l,--line-length= --color --version -h,--help --show-files --skip= --skip-glob= --filter-files -df"
    },
    "flake8": {
        "": """
-h,--help -v,--verbose --isolated --version -q,--quiet --color= --count --exclude= --extend-exclude= --filename= --stdin-display-name= --format=default|pylint|quiet-filename|quiet-nothing
--hang-closing --ignore= --extend-ignore= --per-file-ignores= --max-line-length= --max-doc-length= --indent-size= --select= --extend-select= --disable-noqa
--show-source --no-show-source --statistics --exit-zero -j,--jobs= --benchmark --bug-report --max-complexity= --builtins= --doctests !--config=! !--append-config=!
!--output-file=> !--tee !--enable-extensions= !--require-plugins=
"""
    },
    "pylint": {
        "": "--errors-only -E --disable= --enable= -d= -e= -j,--jobs= --score= -s= --reports= -r= --version -h,--help --max-line-length= --fail-under= --fail-on= --ignore= --ignore-patterns= --recursive= --verbose -v --list-msgs -f,--output-format=text|json|json2|colorized|parseable|msvs"
    },
    "tox": {
        "": """
-e= -q,--quiet -v,--verbose -r,--recreate --notest -p,--parallel[=] -l,--listenvs -a,--listenvs-all --skip-missing-interpreters[=] --colored= -h,--help --version --skip-pkg-install
--no-recreate-pkg -f= -m= --skip-env= --parallel-no-spinner -o,--parallel-live --no-provision !-c,--conf=! !-x,--override= !--workdir=>/ !--root=</ !--runner= !--installpkg=!
!--result-json=> !--develop !--hashseed=
-- -k= -x,--exitfirst -v,--verbose -q,--quiet -s -l,--showlocals --lf,--last-failed --ff,--failed-first --sw,--stepwise --maxfail= --tb= --durations= -m= -n= --no-header --no-cov -vv -rA
"""
    },
    "nox": {
        "": """
-h,--help --version -k,--keywords= -s,-e,--sessions,--session= -t,--tags= -l,--list-sessions,--list -p,--pythons,--python= -r,--reuse-existing-virtualenvs
-N,--no-reuse-existing-virtualenvs --reuse-venv= -R -j= --error-on-external-run --no-error-on-external-run --error-on-missing-interpreters --no-error-on-missing-interpreters
-x,--stop-on-first-error --no-stop-on-first-error --install-only --no-install --non-interactive -v,--verbose --add-timestamp --nocolor,--no-color --forcecolor,--force-color
--usage= --json !-f,--noxfile=! !--envdir=>/ !--report=> !-d= !--default-venv-backend= !--force-venv-backend= !--extra-pythons= !--force-pythons= !--no-venv !-P=
-- -k= -x,--exitfirst -v,--verbose -q,--quiet -s -l,--showlocals --lf,--last-failed --ff,--failed-first --sw,--stepwise --maxfail= --tb= --durations= -m= -n= --no-header --no-cov -vv -rA
"""
    },
    "coverage": {
        "": ":subs -h,--help --version",
        "report": "-m,--show-missing -i,--ignore-errors --include= --omit= --skip-covered --skip-empty --no-skip-covered --fail-under= --precision= --sort= --format= -q,--quiet",
        "html": "-d,--directory=>/ -i,--ignore-errors --include= --omit= --skip-covered --skip-empty --title= -q,--quiet --show-contexts",
        "xml": "-o=> -i,--ignore-errors --include= --omit= -q,--quiet",
        "json": "-o=> -i,--ignore-errors --include= --omit= --pretty-print -q,--quiet",
        "combine": "-a,--append --keep -q,--quiet",
        "erase": "",
    },
}
for _version in ("2", "3", *(f"3.{number}" for number in range(6, 16))):
    OPTIONS[f"python{_version}"] = OPTIONS["python"]
OPTIONS["pypy3"], OPTIONS["pip3"], OPTIONS["py.test"] = OPTIONS["python"], OPTIONS["pip"], OPTIONS["pytest"]
