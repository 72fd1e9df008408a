"""Node's programs: package managers, the compiler, test runners, formatters."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

# What may be handed on to a script of package.json: options that mean the same harmless thing to the usual runners.
_HANDED_ON = """
--coverage --no-coverage --watch=false --watchAll=false --watch-all=false --run --ci --silent --verbose --bail -t,--testNamePattern= --grep= --runInBand --run-in-band
--maxWorkers= --max-workers= --passWithNoTests --pass-with-no-tests --no-cache --findRelatedTests --onlyChanged --testPathPattern= --testPathPatterns= --testPathIgnorePatterns=
--quiet --max-warnings= --noEmit --pretty --check --no-color --color --mode=development|production|test|staging --detectOpenHandles --forceExit
--reporter=default|verbose|dot|spec|list|line|json|basic|tap --exit --updateSnapshot --update-snapshot --no-watch --related --help --version --port= --testTimeout=
-u --project= --headed --workers= --retries= --fix=false --if-present --json
"""
_NPM = f""":word :exact :subs :at :shell
--json --if-present --ignore-scripts --no-audit --audit --no-fund --fund --legacy-peer-deps --production --dry-run --offline --prefer-offline
--prefer-online -s,--silent -q,--quiet -d,--verbose -dd -ddd --loglevel= --depth= -a,--all -l,--long -p,--parseable --omit= --include=
-w,--workspace= -ws,--workspaces --include-workspace-root --no-color --no-progress --progress --no-unicode -v,--version -h,--help,-? -y,--yes
-f,--force -g,--global --tag= --audit-level= --no-update-notifier --timing --only= --searchlimit= --no-optional -C,--prefix= --foreground-scripts
--engine-strict --install-strategy= --no-package-lock --package-lock-only --prefer-dedupe --strict-peer-deps -E,--save-exact -D,--save-dev
-S,--save -O,--save-optional -P,--save-prod -B,--save-bundle --no-save --fetch-timeout= --maxsockets= --link --unicode --no-workspaces --description
--sbom-format= --sbom-type= --package-lock --no-bin-links --before= --otp= --access= --no-git-tag-version --preid= --diff= --diff-name-only
!--registry= !--scope= !--message,-m= !--auth-type= !--script-shell= !--shell= !--node-options= !--userconfig= !--globalconfig= !--editor= !--git=
!--init-module= !--viewer= !--browser= !--cache= !--pack-destination=>/ !--logs-dir=>/ !--cafile=< !--ca= !--cert= !--key= !--proxy= !--https-proxy=
!--user-agent= !--local-address= !--node-gyp= !--call= !--package= !--fix !--location= !--provenance-file=< !--umask= !--npm-version= !--heading=
-- {_HANDED_ON}
"""
_YARN_SCRIPT = f"{_HANDED_ON} -- {_HANDED_ON}"
_YARN = """:word :exact :subs :at :shell
--silent -s --json --offline --prefer-offline --non-interactive --no-progress --verbose --frozen-lockfile --immutable --ignore-scripts --ignore-engines --ignore-optional
--flat --force --no-lockfile --pure-lockfile --check-files --network-timeout= -v,--version -h,--help --no-default-rc --cwd=~inside
!--registry= !--modules-folder=>/ !--cache-folder=>/ !--mutex= !--use-yarnrc=! !--script-shell=! !--proxy= !--https-proxy= !--global-folder=>/ !--link-folder=>/
!--preferred-cache-folder=>/
"""
_PNPM = f""":word :exact :subs :at :shell
-r,--recursive -F,--filter= --filter-prod= -w,--workspace-root --silent -s --reporter= -C,--dir= --parallel --stream --if-present --no-bail --bail
--aggregate-output --workspace-concurrency= --loglevel= --no-color --json --depth= --long --parseable -g,--global -P,--prod -D,--dev --dev --prod --no-optional
--frozen-lockfile --no-frozen-lockfile --offline --prefer-offline --ignore-scripts -v,--version -h,--help --sort --no-sort --resume-from= --no-reporter-hide-prefix
--only-projects --lockfile-only -E,--save-exact -O,--save-optional --save-dev --save-prod --save-peer --sequential
!--registry= !--store-dir=>/ !--script-shell=! !--config= !--shell-emulator !--global-dir=>/ !--virtual-store-dir=>/ !--state-dir=>/ !--cache-dir=>/
!--modules-dir=>/ !--node-options= !--fix
-- {_HANDED_ON}
"""

OPTIONS: dict[str, dict[str, str]] = {
    "npm": {"": _NPM},
    "npx": {
        "": """:exact
-y,--yes -q,--quiet --no --no-install --prefer-offline --offline -v,--version -h,--help -w,--workspace= --workspaces --include-workspace-root --silent -s
--ignore-existing --loglevel= !-p,--package= !-c,--call= !--cache= !--userconfig= !--registry= !--node-options= !--script-shell= !--prefix= !--shell=
"""
    },
    "bunx": {"": ":exact --bun --silent --verbose -y,--yes --no-install --version !-p,--package="},
    "pnpm": {"": _PNPM},
    "yarn": {
        "": _YARN,
        "test": _YARN_SCRIPT,
        "run": _YARN_SCRIPT,
        "build": _YARN_SCRIPT,
        "lint": _YARN_SCRIPT,
        "list": "--depth= --pattern= --prod --production",
        "why": "--recursive -R --json --peers",
        "info": "--json --all -A --recursive -R --virtuals",
        "outdated": "--json",
        "audit": "--level= --groups= --json --summary",
        "install": "--production[=] --immutable --immutable-cache --check-cache --mode= --inline-builds",
        "add": "-D,--dev -P,--peer -O,--optional -E,--exact -T,--tilde -W,--ignore-workspace-root-check",
        "workspace": _YARN_SCRIPT,
        "workspaces": "--json -R --recursive --parallel --all -A --verbose -v --topological -t --include= --exclude=",
    },
    "bun": {
        "": ":subs :at :exact -v,--version --revision -h,--help --silent --cwd= !-c,--config= !-r,--preload=! !-e,--eval= !-p,--print= !--env-file=< !--hot !--inspect[=]",
        "test": "-t,--test-name-pattern= --timeout= --bail[=] --watch --only --todo --rerun-each= -u,--update-snapshots --coverage --coverage-reporter=text|lcov --coverage-dir=>/ --no-clear-screen --randomize --seed= --reporter=junit|dots --reporter-outfile=>",
        "run": f"--silent -F,--filter= --if-present --watch {_HANDED_ON}",
        "pm": "--all",
        "install": "--frozen-lockfile --no-save --production -p --dry-run --ignore-scripts --force -d,--dev --silent --verbose --no-progress",
        "add": "-d,--dev -D --optional -E,--exact --peer --ignore-scripts",
        "build": "--minify --target=browser|bun|node --format= --splitting --sourcemap[=] --outdir=>/ --outfile=> --watch -e,--external= --production",
    },
    "deno": {
        "": ":subs :at -h,--help -V,--version -q,--quiet -L,--log-level=",
        "test": """
--filter= --fail-fast[=] --coverage[=>/] --watch --parallel -j,--jobs= --no-check[=] --check[=] --doc --ignore= --shuffle[=] --reporter=pretty|dot|junit|tap --trace-leaks
--permit-no-files --no-run --allow-read[=] -R[=] --junit-path=> --no-prompt --cached-only --no-remote --no-npm --frozen --clean --hide-stacktraces
""",
        "check": "--all --doc --doc-only --remote --no-remote --cached-only",
        "lint": "--json --compact --rules --ignore= --rules-tags= --rules-include= --rules-exclude= !--fix",
        "fmt": "--check --ext= --ignore= --line-width= --use-tabs --no-semicolons --single-quote --indent-width= --prose-wrap=",
        "task": "",
        "info": "--json",
    },
    "node": {
        "": """:exact
--test --watch --test-name-pattern= --test-skip-pattern= --test-only --test-concurrency= --test-timeout= --test-reporter=spec|tap|dot|junit|lcov --test-force-exit
--test-shard= --experimental-test-coverage --experimental-test-module-mocks --no-warnings --trace-warnings --trace-deprecation --throw-deprecation
--enable-source-maps --experimental-vm-modules --experimental-strip-types --experimental-transform-types --max-old-space-size= --stack-trace-limit=
--expose-gc --unhandled-rejections= -c,--check -v,--version -h,--help --preserve-symlinks --no-deprecation --pending-deprecation --stack-size= --v8-options
--trace-uncaught --trace-exit --trace-sync-io --experimental-wasm-modules --experimental-json-modules --no-experimental-fetch --experimental-fetch
!-e,--eval= !-p,--print= !-r,--require=! !--import=! !--loader,--experimental-loader=! !--env-file=< !--run= !--snapshot-blob=! !-i,--interactive
!--inspect[=] !--inspect-brk[=] !--cpu-prof !--heap-prof !--prof !--diagnostic-dir=>/ !--redirect-warnings=> !--test-reporter-destination=>
"""
    },
    "tsc": {
        "": """:word :exact :inside
-p,--project=~inside -b,--build -w,--watch --noEmit --skipLibCheck --pretty --incremental -t,--target= -m,--module= --moduleResolution= --jsx= --lib=
--esModuleInterop --allowJs --checkJs -d,--declaration --emitDeclarationOnly --sourceMap --strict --noImplicitAny --strictNullChecks --noImplicitReturns
--noUnusedLocals --noUnusedParameters --noFallthroughCasesInSwitch --listFiles --listFilesOnly --showConfig --traceResolution --diagnostics
--extendedDiagnostics -v,--version -h,--help,-? --all --noEmitOnError --isolatedModules --resolveJsonModule -f,--force --verbose --dry --stopBuildOnErrors
--preserveWatchOutput --explainFiles --composite --experimentalDecorators --emitDecoratorMetadata --downlevelIteration --noResolve --types= --typeRoots=
--allowSyntheticDefaultImports --forceConsistentCasingInFileNames --useUnknownInCatchVariables --exactOptionalPropertyTypes --noUncheckedIndexedAccess
--noImplicitThis --alwaysStrict --removeComments --importHelpers --declarationMap --inlineSourceMap --skipDefaultLibCheck --customConditions= --verbatimModuleSyntax
--allowImportingTsExtensions --erasableSyntaxOnly --noErrorTruncation --assumeChangesOnlyAffectDirectDependencies --rootDir=~inside --baseUrl=~inside
!--outDir=>/ !--outFile=> !--declarationDir=>/ !--tsBuildInfoFile=> !--generateTrace=>/ !--generateCpuProfile=> !--init !--clean !--plugins=
"""
    },
    "jest": {
        "": """:exact :letters
--ci[=] -i,--runInBand,--run-in-band --coverage[=] --no-coverage --collectCoverage[=] --collectCoverageFrom=
--coverageProvider=babel|v8 --watch --watchAll[=]
-t,--testNamePattern,--test-name-pattern= --testPathPattern,--test-path-pattern= --testPathPatterns= --testPathIgnorePatterns= --silent[=] --verbose[=]
-w,--maxWorkers,--max-workers= --no-cache --cache[=] --clearCache --passWithNoTests,--pass-with-no-tests --findRelatedTests -o,--onlyChanged -f,--onlyFailures
--lastCommit --changedSince= --json --listTests --showConfig --forceExit,--force-exit --detectOpenHandles,--detect-open-handles --detectLeaks
-u,--updateSnapshot,--update-snapshot -e,--expand --errorOnDeprecated --logHeapUsage --noStackTrace --color[=] --colors[=] --no-color --no-colors -v,--version -h,--help
--testTimeout= --shard= --seed= --randomize --showSeed --selectProjects= --ignoreProjects= --runTestsByPath -b,--bail[=] --debug --all --clearMocks --resetMocks
--restoreMocks --resetModules --workerIdleMemoryLimit= --maxConcurrency= --testLocationInResults --useStderr --waitForUnhandledRejections --no-watchman --watchman[=]
--env,--testEnvironment=jsdom|node --outputFile=> --coverageDirectory=>/ --coveragePathIgnorePatterns= --notify[=]
--injectGlobals[=] --openHandlesTimeout= --changedFilesWithAncestor --no-notify --workerThreads
!--coverageReporters= !--reporters= !-c,--config= !--globalSetup= !--globalTeardown= !--setupFiles= !--setupFilesAfterEnv= !--testRunner= !--runner= !--resolver= !--transform= !--rootDir= !--roots= !--preset=
!--testResultsProcessor= !--testSequencer= !--globals= !--filter= !--moduleNameMapper= !--modulePaths= !--prettierPath= !--snapshotSerializers= !--projects=
!--cacheDirectory=>/ !--watchPlugins= !--testEnvironmentOptions=
"""
    },
    "vitest": {
        "": """:exact :letters
--run -t,--testNamePattern= --coverage[=] --no-coverage --coverage.enabled[=] --coverage.reporter=text|text-summary|lcov|json|html|json-summary|clover|cobertura --coverage.provider=v8|istanbul
--reporter=default|verbose|dot|json|junit|tap|tap-flat|basic|hanging-process|github-actions|tree --outputFile=> --silent[=] -w,--watch[=] --no-watch
-u,--update[=] --bail= --retry= --testTimeout= --hookTimeout= --teardownTimeout= --passWithNoTests --no-color --color --changed[=] --shard= --project= --exclude= --dir=~inside --mode= --globals --dom
--pool=threads|forks|vmThreads|vmForks --isolate[=] --no-isolate --maxWorkers= --minWorkers= --no-file-parallelism --fileParallelism[=] --sequence.shuffle[=] --sequence.seed=
--sequence.concurrent[=] --logHeapUsage --allowOnly[=] --typecheck[=] --hideSkippedTests --environment=node|jsdom|happy-dom|edge-runtime --maxConcurrency= --printConsoleTrace -v,--version -h,--help
--clearCache --slowTestThreshold= --expandSnapshotDiff --disableConsoleIntercept --no-threads --threads[=] --related --includeTaskLocation --clearScreen[=] --strictTags --tagsFilter=
!-c,--config= !-r,--root= !--api[=] !--ui[=] !--open[=] !--browser[=] !--inspect[=] !--inspectBrk[=] !--execArgv= !--diff= !--attachmentsDir=>/ !--mergeReports[=] !--configLoader=
"""
    },
    "mocha": {
        "": """:exact :letters
-A,--async-only -b,--bail -c,--color,--colors -C,--no-color,--no-colors --diff --no-diff --exit --forbid-only --forbid-pending --full-trace --inline-diffs -i,--invert
-p,--parallel --recursive -S,--sort -w,--watch -j,--jobs= -f,--fgrep= -g,--grep= -s,--slow= -t,--timeout,--timeouts= --retries= --check-leaks --dry-run
--delay --allow-uncaught --ignore,--exclude= --extension= -R,--reporter=spec|dot|min|list|json|tap|nyan|progress|landing|doc|markdown|json-stream|xunit
-u,--ui=bdd|tdd|qunit|exports --global,--globals= -h,--help -V,--version --list-reporters --list-interfaces --fail-zero --watch-files= --watch-ignore= --posix-exit-codes
!-r,--require=! !-n,--node-option= !-O,--reporter-option,--reporter-options= !--file=! !--config=! !--package=! !--spec= !--opts=! !--import=! !--loader=!
"""
    },
    "eslint": {
        "": """:exact
--ext= --quiet --max-warnings= --no-ignore --ignore-pattern= --stdin --stdin-filename= -f,--format=stylish|json|html|compact|unix|junit|json-with-metadata|visualstudio|checkstyle|tap
--color --no-color --cache --cache-strategy= --cache-location=> --report-unused-disable-directives --report-unused-disable-directives-severity= --no-inline-config
--no-error-on-unmatched-pattern --debug -h,--help -v,--version --print-config= --env-info --no-warn-ignored --stats --rule= --global= --env= --exit-on-fatal-error
--pass-on-no-patterns --no-eslintrc --no-config-lookup --ignore-path=< --concurrency= --flag= !-c,--config=! !--rulesdir=! !--plugin= !--parser= !--parser-options=
!--resolve-plugins-relative-to=</ !--fix !--fix-dry-run !--fix-type= !-o,--output-file=> !--init !--cache-file=> !--inspect-config !--mcp
"""
    },
    "prettier": {
        "": """:exact :letters
-c,--check -l,--list-different --ignore-path=< --parser=babel|babel-flow|babel-ts|flow|typescript|espree|meriyah|acorn|css|less|scss|json|json5|jsonc|json-stringify|graphql|markdown|mdx|vue|yaml|glimmer|html|angular|lwc
--arrow-parens= --bracket-same-line --no-bracket-spacing --embedded-language-formatting= --end-of-line= --html-whitespace-sensitivity= --jsx-single-quote --print-width= --prose-wrap=
--quote-props= --no-semi --single-attribute-per-line --single-quote --tab-width= --trailing-comma= --use-tabs --vue-indent-script-and-style --no-config --no-editorconfig
--loglevel= --log-level= --no-color --cache --cache-strategy= --cache-location=> -u,--ignore-unknown --stdin-filepath= --no-error-on-unmatched-pattern --with-node-modules -h,--help -v,--version
--support-info --file-info= --find-config-path= --require-pragma --insert-pragma --config-precedence= --object-wrap= !-w,--write !--plugin=! !--config=!
"""
    },
    "playwright": {
        "": ":subs -V,--version -h,--help",
        "test": """:exact
-g,--grep= -G,--grep-invert= --headed --project= -j,--workers= --reporter=list|line|dot|json|junit|html|github|null|blob --retries= --timeout= --global-timeout= --max-failures= -x
--quiet --list --last-failed --shard= --repeat-each= --forbid-only --fully-parallel --pass-with-no-tests --trace=on|off|on-first-retry|on-all-retries|retain-on-failure
--only-changed[=] --no-deps --fail-on-flaky-tests --ignore-snapshots --browser=chromium|firefox|webkit|all -h,--help --output=>/ -u,--update-snapshots[=]
!-c,--config=! !--tsconfig=! !--ui !--ui-host= !--ui-port= !--debug
""",
    },
}
OPTIONS["nodejs"] = OPTIONS["node"]
