"""Compilers and build tools."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

_C = """:word :exact
-c -S -E -w -v -g*~word -O*~word -W*~warning -std= --std= -ansi -pedantic -pedantic-errors -pipe -pthread -shared -static -static-libgcc
-static-libstdc++ -rdynamic -nostdlib -nostdinc -nostdinc++ -nodefaultlibs -nostartfiles -no-pie -pie -s -r -h --help --version
-dumpversion -dumpmachine -dumpfullversion -print-search-dirs -print-libgcc-file-name -print-file-name= -print-multiarch
-I+</ -isystem+</ -iquote+</ -idirafter+</ -include=< -D+~define -U+ -L+</ -l+~word -x+~word -M -MM -MD -MMD -MP -MG -MF+> -MT+ -MQ+
-o+> --output=> --coverage -framework= -target= --target=
-fPIC -fpic -fPIE -fpie -fopenmp -fstack-protector -fstack-protector-strong -fstack-protector-all -fvisibility= -fvisibility-inlines-hidden
-ffast-math -funroll-loops -fomit-frame-pointer -flto[=~word] -fexceptions -frtti -fwrapv -ftrapv -fstrict-aliasing -fcommon -fsigned-char
-funsigned-char -ffunction-sections -fdata-sections -fsyntax-only -fmax-errors= -fdiagnostics-color[=] -fcolor-diagnostics -fconcepts
-fcoroutines -fshort-enums -ferror-limit= -ffreestanding -fbuiltin -finline-functions -fmessage-length= -ftemplate-depth= -fconstexpr-depth=
-fcf-protection[=] -fstack-clash-protection -fanalyzer -ftree-vectorize -fsanitize= -fno-*~word -fsized-deallocation -faligned-new
-fprofile-arcs -ftest-coverage -fpermissive -fgnu89-inline -fms-extensions -fverbose-asm -fpack-struct -fchar8_t -fjump-tables
-m32 -m64 -march= -mtune= -mcpu= -mfpu= -mfloat-abi= -mabi= -mavx -mavx2 -mavx512f -msse -msse2 -msse3 -mssse3 -msse4 -msse4.1 -msse4.2
-mfma -mbmi -mbmi2 -mpopcnt -maes -mno-*~word -mthumb -marm -mmacosx-version-min= -mlong-double-64
!-wrapper= !-specs=< !--specs=< !-B+</ !-fplugin= !-T+ !-Xlinker= !-Xclang= !-Xpreprocessor= !-Xassembler= !-z= !-u=
!-gcc-toolchain= !-gen-cdb-fragment-path=>/ !-gen-reproducer[=]
"""
_CARGO = """
--message-format= --workspace --exclude= --all --lib --bins --bin= --examples --example= --tests --test= --benches --bench=
--all-targets -p,--package= -F,--features= --all-features --no-default-features -r,--release --profile= -j,--jobs= --keep-going
--target=~triple --unit-graph --timings[=] --ignore-rust-version --future-incompat-report --no-run --no-fail-fast --doc --no-deps
--document-private-items --manifest-path=~inside --target-dir=>/ --debug -d !--open !--artifact-dir=>/ !--out-dir=>/ !--lockfile-path=>
"""
_CARGO_TEST = """ --
-q,--quiet --nocapture --no-capture --test-threads= --exact --ignored --include-ignored --skip= --list --format= --color= --show-output --bench --test
--report-time --ensure-time --shuffle --shuffle-seed= --help -Z= !--logfile=>
"""
_LINTS = """ --
-D= -W= -A= -F= --cap-lints= --warn= --deny= --allow= --forbid=
"""
_GO_BUILD = """
-a -n -p= -race -msan -asan -v -work -x -buildmode= -buildvcs= -installsuffix= -ldflags=~ldflags -gcflags=~gcflags -tags= -trimpath
-mod=readonly|vendor|mod -modcacherw -linkshared -pgo=auto|off -json -cover -covermode= -coverpkg= -o=>
"""
_GO_TEST = (
    _GO_BUILD
    + """
-run,-test.run= -bench,-test.bench= -benchmem,-test.benchmem -benchtime,-test.benchtime= -count,-test.count= -cpu,-test.cpu=
-failfast,-test.failfast -fullpath -fuzz,-test.fuzz= -fuzztime,-test.fuzztime= -fuzzminimizetime= -list,-test.list=
-parallel,-test.parallel= -short,-test.short -shuffle,-test.shuffle= -skip,-test.skip= -timeout,-test.timeout= -vet=off|all
-test.v[=] -c -i -coverprofile=> !-cpuprofile=> !-memprofile=> !-blockprofile=> !-mutexprofile=> !-trace=> !-outputdir=>/ !-args
"""
)
_BAZEL = """
-c,--compilation_mode= -j,--jobs= -k,--keep_going --nokeep_going --test_output= --test_filter= --verbose_failures --noshow_progress
--show_progress --color= --curses= -s,--subcommands --nobuild --build --nocache_test_results --cache_test_results= -t --runs_per_test=
--test_timeout= --test_tag_filters= --build_tag_filters= --test_size_filters= --test_timeout_filters= --test_lang_filters=
--flaky_test_attempts= --test_summary= --build_tests_only --ui_event_filters= --show_timestamps --nostamp --announce_rc --noannounce_rc
--test_verbose_timeout_warnings --show_result= --check_up_to_date --test_keep_going --notest_keep_going --copt=~warning
"""
_BUCK = "-j,--num-threads= --show-output --show-full-output --console= -v,--verbose= --keep-going --build-report=> -m= --include= --exclude="
_GRADLE = """:exact
-q,--quiet -i,--info -d,--debug -s,--stacktrace -S,--full-stacktrace -w,--warn -m,--dry-run -x,--exclude-task= -a,--no-rebuild
-t,--continuous -v,--version -V,--show-version -h,-?,--help --offline --no-daemon --daemon --foreground --parallel --no-parallel --build-cache
--no-build-cache --configuration-cache --no-configuration-cache --continue --no-continue --rerun-tasks --rerun --refresh-dependencies
--console= --warning-mode= --max-workers= --no-scan --profile --status --stop --tests= --fail-fast --watch-fs --no-watch-fs --priority= --all
--configure-on-demand --no-configure-on-demand --test-dry-run --no-test-dry-run --group= --configuration= --dependency=
-p,--project-dir=~inside !-g,--gradle-user-home=</ !-I,--init-script=! !-b,--build-file=! !-c,--settings-file=! !--include-build=</
!-D= !-P= !--project-prop= !--system-prop= !--scan !-F,--dependency-verification= !-M,--write-verification-metadata= !--project-cache-dir=>/
"""
_MAVEN = """:word :exact
-D+~property --define=~property -q,--quiet -o,--offline -B,--batch-mode -e,--errors -X,--debug --verbose -U,--update-snapshots -N,--non-recursive
-am,--also-make -amd,--also-make-dependents -fae,--fail-at-end -ff,--fail-fast -fn,--fail-never -nsu,--no-snapshot-updates
-ntp,--no-transfer-progress -pl,--projects= -rf,--resume-from= -P+ --activate-profiles= -T+ --threads= -v,--version -V,--show-version
-C,--strict-checksums -c,--lax-checksums -h,--help --color= --no-color !-f,--file=! -l,--log-file=> !-s,--settings=! !-gs,--global-settings=!
!-t,--toolchains=! !-gt,--global-toolchains=! !-b,--builder=
"""
_DOTNET = """:word :exact :slash
-c,--configuration= -f,--framework= -r,--runtime= -v,--verbosity= -v:*~word --no-build --no-restore --nologo -nologo --filter= -t,--list-tests
--no-incremental --no-dependencies --self-contained -a,--arch= --os= -h,--help,-? --tl --interactive --logger,-l=~logger
--collect=~collector --blame-hang-timeout= -o,--output=>/ !--results-directory=>/ !--settings,-s=< !--test-adapter-path=</ !-d,--diag=>
!--artifacts-path=>/ !-e,--environment=
--
"""
_SWIFT = """
--filter= --skip= --parallel --no-parallel -c,--configuration= -v,--verbose -q,--quiet --list-tests,-l --skip-build --skip-update
--enable-code-coverage --disable-code-coverage -j,--jobs= --num-workers= --build-tests --sanitize= --product= --target= --help -h --version
"""

OPTIONS: dict[str, dict[str, str]] = {
    "gcc": {"": _C},
    "rustc": {
        "": """
-h,--help --cfg= --check-cfg= -l= --crate-type= --crate-name= --edition= --emit=asm|llvm-ir|llvm-bc|mir|obj|link|metadata|dep-info
--print=crate-name|file-names|sysroot|cfg|target-list|target-cpus|target-features|relocation-models|native-static-libs -g -O -o=>
--out-dir=>/ --explain= --test --target=~triple -A,--allow= -W,--warn= --force-warn= -D,--deny= -F,--forbid= --cap-lints=
-C,--codegen=~codegen -V,--version -v,--verbose --color= --error-format= --remap-path-prefix= !-L=</ !--extern=< !--sysroot=</ !-Z=
"""
    },
    "rustfmt": {
        "": "--check --edition= --emit=stdout -q,--quiet -v,--verbose -V,--version -h,--help -l,--files-with-diff --color="
    },
    "cargo": {
        "": """:subs
-V,--version --list --explain= +stable +beta +nightly -v,-vv,--verbose -q,--quiet --color= --locked --offline --frozen -h,--help !--config= !-Z=
""",
        "build": _CARGO,
        "check": _CARGO,
        "clippy": _CARGO + "--no-deps -W= -A= -D= --explain= !--fix !--allow-dirty !--allow-staged" + _LINTS,
        "test": _CARGO + _CARGO_TEST,
        "bench": _CARGO + _CARGO_TEST,
        "nextest": _CARGO
        + "-E,--filter-expr= --no-fail-fast --fail-fast --retries= --test-threads= --run-ignored= --no-capture --nocapture --status-level= --final-status-level= --failure-output= --success-output= --partition= --profile=",
        "doc": _CARGO,
        "run": _CARGO,
        "rustc": "",
        "fmt": "-q,--quiet -v,--verbose --version -p,--package= --message-format= --all --check -h,--help --manifest-path=~inside -- --check --edition=",
        "tree": """
-e,--edges= -i,--invert= --prune= --depth= --prefix= --no-dedupe -d,--duplicates --charset= -f,--format= -p,--package= --workspace
--exclude= -F,--features= --all-features --no-default-features --target= --manifest-path=~inside -a,--all
""",
        "metadata": "--filter-platform= --no-deps --format-version= -F,--features= --all-features --no-default-features --manifest-path=~inside",
        "search": "--limit= --index= --registry=",
        "update": "-p,--package= --precise= --dry-run -w,--workspace --aggressive --recursive",
        "clean": "-p,--package= -r,--release --profile= --doc --target= --dry-run -n",
        "add": "--dev -D --build -B --no-default-features --default-features --optional --no-optional --rename= --dry-run -n -p,--package= -F,--features= --manifest-path=~inside",
        "remove": "--dev --build -n --dry-run -p,--package= --manifest-path=~inside",
        "audit": "--json --deny= --ignore= --no-fetch --stale",
    },
    "go": {
        "": ":word :exact :subs :twodash -C= -h -help -version",
        "build": ":twodash " + _GO_BUILD,
        "test": ":twodash " + _GO_TEST,
        "vet": ":twodash " + _GO_BUILD + "-c= -printf -shadow -composites -copylocks -structtag -unusedresult",
        "list": ":twodash -m -json[=] -f= -deps -test -e -find -versions -u -export -compiled -retracted -reuse=< -tags= -mod=readonly|vendor|mod -buildvcs= -race -v",
        "env": ":twodash -json -changed",
        "version": ":twodash -m -v -json",
        "mod": ":twodash -v -x -e -go= -compat= -json -m -vendor -print -diff -reuse=< -fmt",
        "doc": ":twodash -all -src -u -c -short -cmd",
        "fmt": ":twodash -n -x -mod=readonly|vendor|mod",
        "get": ":twodash -u[=] -t -v -x",
        "clean": ":twodash -i -r -n -x -cache -testcache -modcache -fuzzcache",
        "run": ":twodash " + _GO_BUILD,
        "work": ":twodash -r -json -print",
        "help": "",
    },
    "gofmt": {"": ":word :exact :twodash -l -d -s -e -r= !-w !-cpuprofile=>"},
    "goimports": {
        "": ":word :exact :twodash -l -d -e -v -local= -format-only -srcdir=</ !-w !-cpuprofile=> !-memprofile=> !-trace=>"
    },
    "golangci-lint": {
        "": ":subs -h,--help --version --color= -v,--verbose -j,--concurrency= !-c,--config=!",
        "run": """
--timeout= --deadline= --disable= --enable= -E= -D= --disable-all --enable-all --enable-only= --default= --fast --fast-only --new -n --new-from-rev=
--new-from-merge-base= --max-issues-per-linter= --max-same-issues= --tests[=] --build-tags= --out-format=~lint --path-prefix= --sort-results
--issues-exit-code= --show-stats --whole-files --modules-download-mode= --allow-parallel-runners --allow-serial-runners --print-issued-lines[=]
--print-linter-name[=] --exclude= --skip-dirs= --skip-files= --no-config --presets= -p= --go= !--fix !--cpu-profile-path=> !--mem-profile-path=>
!--trace-path=>
""",
        "linters": "--json",
        "fmt": "-d,--diff --diff-colored --stdin -E,--enable=",
    },
    "make": {
        "": """
-b -B,--always-make -C,--directory= -d --debug[=] -h,--help -i,--ignore-errors -j,--jobs[=] -k,--keep-going
-l,--load-average,--max-load[=] -L,--check-symlink-times -m -n,--just-print,--dry-run,--recon -o,--old-file,--assume-old=
-O,--output-sync[=] -p,--print-data-base -q,--question -r,--no-builtin-rules -R,--no-builtin-variables -s,--silent,--quiet --no-silent
-S,--no-keep-going,--stop -t,--touch --trace -v,--version -w,--print-directory --no-print-directory -W,--what-if,--new-file,--assume-new=
--warn-undefined-variables --shuffle[=] !-e,--environment-overrides !-E,--eval= !-f,--file,--makefile=! !-I,--include-dir=</
"""
    },
    "ninja": {"": "--version -v,--verbose --quiet -C= -j= -k= -l= -n -d= -w= -h,--help !-f=! !-t="},
    "cmake": {
        "": """:word :exact
-S+</ -B+>/ -D+~cmake -U+ -G+ -A+ --build=~inside --target,-t= --config= -j* --parallel[=] --clean-first -v,--verbose --preset=
--list-presets[=] --fresh -Wdev -Wno-dev -Wdeprecated -Wno-deprecated -Werror=dev|deprecated -Wno-error=dev|deprecated --log-level= --log-context
-N -L -LA -LH -LAH --version,-version --help,-help,-h --help-command= --help-variable= --help-module= --help-policy= --help-property=
--trace --trace-expand --warn-uninitialized --no-warn-unused-cli --debug-output --debug-find --install-prefix=~inside
!-C+! !-P=! !-E !-T+ !--toolchain=! !--install=>/ !--graphviz=> !--trace-redirect=> !--profiling-output=> !--profiling-format= !--open=
!--find-package !--system-information=
-- -j[=] -k -v -s -V
"""
    },
    "ctest": {
        "": """:word :exact
--preset= --list-presets -C,--build-config= --progress -V,--verbose -VV,--extra-verbose --debug --output-on-failure --stop-on-failure
--test-output-size-passed= --test-output-size-failed= --test-output-truncation= -F -j+ --parallel= -Q,--quiet --output-junit=>
-N,--show-only[=] -L,--label-regex= -R,--tests-regex= -E,--exclude-regex= -LE,--label-exclude= -FA= -FS= -FC= -I,--tests-information=
-U,--union --rerun-failed --repeat= --repeat-until-fail= --max-width= --no-label-summary --no-subproject-summary --test-dir=~inside
--schedule-random --timeout= --stop-time= --print-labels --no-tests= -h,--help --version !-S=! !-D= !-M= !-T= !-A=< !-O=> !--output-log=>
!--build-and-test= !--overwrite=
"""
    },
    "javac": {
        "": """:word :exact
-d=>/ -cp,-classpath,--class-path=~classpath -sourcepath,--source-path=~classpath -source,--source= -target,--target= --release= -encoding=
-g -g:none -g:lines -g:vars -g:source -nowarn -verbose -deprecation -parameters -Werror -Xlint -Xlint:*~lint -Xdiags:* -Xmaxerrs= -Xmaxwarns=
-version,--version -help,--help,-? -X --enable-preview -proc:none -implicit:none -implicit:class -p,--module-path=~classpath
--module-source-path=~classpath --add-modules= -m,--module= --add-exports= --add-reads= --limit-modules=
!-processor= !-processorpath,--processor-path=</ !-J* !-A* !-s=>/ !-h=>/ !-Xplugin*
"""
    },
    "mvn": {"": _MAVEN},
    "gradle": {"": _GRADLE},
    "bazel": {
        "": ":subs --batch --nohome_rc --noworkspace_rc --ignore_all_rc_files --version --help",
        "build": _BAZEL,
        "test": _BAZEL,
        "query": "--output= --order_output= --noimplicit_deps --notool_deps --keep_going -k",
        "cquery": "--output= --noimplicit_deps --notool_deps --keep_going -k",
        "info": "",
    },
    "buck": {"": ":subs --version -V -h --help", "build": _BUCK, "test": _BUCK},
    "dotnet": {
        "": ":word :exact :subs :slash --version --info --list-sdks --list-runtimes -h,--help,-?",
        "build": _DOTNET,
        "test": _DOTNET,
        "restore": "-v,--verbosity= --force --no-cache --no-dependencies --locked-mode -r,--runtime=",
        "list": "--outdated --include-transitive --vulnerable --deprecated --highest-minor --highest-patch --format= --framework=",
        "format": "--verify-no-changes --no-restore -v,--verbosity= --severity= --include= --exclude= --diagnostics=",
        "run": "-c,--configuration= -f,--framework= --no-build --no-restore --project=~inside",
    },
    "swift": {"": ":subs --version --help", "build": _SWIFT, "test": _SWIFT},
}
for _name in ("g++", "cc", "c++", "clang", "clang++"):
    OPTIONS[_name] = OPTIONS["gcc"]
OPTIONS["gmake"], OPTIONS["buck2"] = OPTIONS["make"], OPTIONS["buck"]
OPTIONS["gradlew"], OPTIONS["mvnw"], OPTIONS["mvnd"] = OPTIONS["gradle"], OPTIONS["mvn"], OPTIONS["mvn"]
OPTIONS["bazelisk"] = OPTIONS["bazel"]
