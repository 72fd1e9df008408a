"""Which programs execute what they are told: interpreters, and programs that start the program their words name.

Where `access.commands` lists one of them, the programs that it starts are judged like those of the tool. The table is
for names; a version, or the way a program was built, may stand behind one (`python3.11`, `bash-static`).
"""

import os

_SHELLS = (
    "ash bash csh dash elvish fish ksh mksh nu oksh osh pdksh posh powershell pwsh rbash sash sh tcsh xonsh yash zsh"
)
_LANGUAGES = (
    "awk bun clisp d8 deno elixir erl escript expect gawk ghci gjs groovy groovysh guile iex ipython irb jrunscript "
    "jshell julia jython lli lua luajit m4 mawk micropython nawk node nodejs ocaml octave original-awk perl php pypy "
    "python qjs racket rscript ruby runghc runhaskell sbcl scala tcl tclsh ts-node tsx wish"
)
_OF_THE_KERNEL = (  # a priority, a namespace, a limit, a lock, another user: then what the words name
    "capsh cgexec choom chpst chroot chrt coresched doas dumb-init firejail flock gosu i386 ionice ld-linux ld-musl "
    "linux32 linux64 ld.so newgrp nice nsenter numactl pkexec prlimit proot runcon runuser setarch setpgrp "
    "setpriv setuidgid sg softlimit su su-exec sudo systemd-nspawn systemd-run taskset tini uclampset uname26 unshare "
    "x86_64 bwrap switch_root pivot_root pipesz setpgid enosys envuidgid fghack pgrphack supervise tcpserver tcpclient "
    "runsv catatonit conmon cpulimit trickle schedtool hugectl sandbox-exec apptainer singularity"
)
_OF_TIME_AND_STREAMS = (
    "caffeinate chronic dbus-launch dbus-run-session dtach entr env envdir execlineb fakechroot fakeroot faketime "
    "find fd fdfind ifne ltrace mispipe nohup parallel pee rlwrap run-one run-parts run-this-one screen script "
    "scriptlive sem setlock setsid ssh-agent sshpass start-stop-daemon stdbuf strace time timeout tmux torify "
    "torsocks tsocks unbuffer valgrind watch xargs xvfb-run proxychains gdb gdbtui lldb perf catchsegv fakeroot-sysv "
    "fakeroot-tcp heaptrack logsave luit memusage msgexec msgfilter pg_virtualenv sotruss systemd-cat systemd-inhibit "
    "systemd-socket-activate systemd-notify run0 gpg-agent lckdo zrun nodemon watchexec hyperfine daemon daemonize nq "
    "tsp reptyr xinit startx xterm flatpak-spawn direnv mise dotenv doppler foreman honcho socat ncat rr gprofng operf "
    "ocount samply bpftrace"
)
_OF_BUILDS = "bear intercept-build scan-build ccache sccache distcc icecc libtool eatmydata"
_SEVERAL_IN_ONE = "busybox toybox coreutils"
_NAMES = frozenset(
    name
    for names in (_SHELLS, _LANGUAGES, _OF_THE_KERNEL, _OF_TIME_AND_STREAMS, _OF_BUILDS, _SEVERAL_IN_ONE)
    for name in names.split()
)
_BUILDS = ("-static", "-dbg", "-debug", "-minimal")
_VERSION = "0123456789.-_"
_MACHINES = ("-gnu", "-musl")  # what a program was built for, as in `perl5.36-x86_64-linux-gnu`
_LOADERS = ("ld-linux", "ld-musl", "ld.so")  # a processor's name stands behind it


def interprets(path: str) -> bool:
    """Whether a program executes what it is told, by its own name or by that of the file which a link leads to."""
    return any(_is_known(os.path.basename(each).lower()) for each in (path, os.path.realpath(path)))


def _is_known(name: str) -> bool:
    for build in _BUILDS:
        name = name.removesuffix(build)
    if name.endswith(_MACHINES):
        name = name.partition("-")[0]
    return name in _NAMES or name.rstrip(_VERSION) in _NAMES or name.startswith(_LOADERS)
