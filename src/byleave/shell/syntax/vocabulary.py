"""Names that mean something to bash itself."""

# Every builtin and keyword: a function of that name would change the meaning of the language itself.
BUILTIN_NAMES = frozenset(
    [
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "bind",
        "break",
        "builtin",
        "caller",
        "cd",
        "chdir",
        "command",
        "compgen",
        "complete",
        "compopt",
        "continue",
        "declare",
        "dirs",
        "disown",
        "echo",
        "enable",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "help",
        "history",
        "jobs",
        "kill",
        "let",
        "local",
        "logout",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readarray",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "suspend",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
        "time",
        "coproc",
        "select",
        "function",
    ]
)
# Variables that change how this very shell reads or runs what follows.
SHELL_VARIABLES = frozenset(
    [
        "POSIXLY_CORRECT",
        "BASH_COMPAT",
        "SHELLOPTS",
        "BASHOPTS",
        "BASH_CMDS",
        "BASH_ALIASES",
        "PS4",
        "CDPATH",
        "DIRSTACK",
        "PWD",
        "OLDPWD",
        "BASH_ENV",
        "ENV",
        "BASH_XTRACEFD",
        "PROMPT_COMMAND",
        "PS0",
        "EXECIGNORE",
        "GLOBIGNORE",  # with it `*` means names that begin with a dot as well
        "FUNCNEST",
        "BASH_LOADABLES_PATH",
        "cdpath",
        "chpwd_functions",
        "precmd_functions",
        "preexec_functions",
        "fpath",
        "module_path",
        "options",
        "aliases",
        "functions",
        "commands",
    ]
)
# Variables that bash itself keeps as numbers.
COUNTERS = frozenset(["RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID", "BASHPID", "SRANDOM"])
# What a shell evaluates when it is set, whatever sets it: a subscript in the value runs commands.
EVALUATED = COUNTERS | {"HISTCMD", "OPTIND"}
EVALUATED_BY_ZSH = EVALUATED | {
    *("ARGC", "COLUMNS", "EGID", "ERRNO", "GID", "HISTSIZE", "KEYTIMEOUT", "LINES", "LISTMAX", "LOGCHECK", "MAILCHECK"),
    *("SAVEHIST", "SHLVL", "TRY_BLOCK_ERROR", "TRY_BLOCK_INTERRUPT", "TTYIDLE", "ZSH_SUBSHELL", "status"),
}
# Variables that a shell itself sets to words of the text, or of what it reads.
SET_BY_SHELL = frozenset(
    [
        *("_", "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_ARGV"),
        *("BASH_ARGV0", "BASH_SOURCE", "FUNCNAME", "COMP_LINE", "COMP_WORDS", "COPROC", "READLINE_LINE"),
        *("MATCH", "match", "reply", "mbegin", "mend", "argv", "psvar", "words", "0"),
    ]
)
SET_OPTIONS = frozenset("aebfhmuvxCET")
SET_NAMES = frozenset(
    [
        "allexport",
        "braceexpand",
        "errexit",
        "errtrace",
        "functrace",
        "hashall",
        "ignoreeof",
        "monitor",
        "noclobber",
        "noglob",
        "nolog",
        "notify",
        "nounset",
        "pipefail",
        "verbose",
        "xtrace",
    ]
)
SHOPT_NAMES = frozenset(
    [
        "nullglob",
        "failglob",
        "dotglob",
        "globstar",
        "nocaseglob",
        "nocasematch",
        "globasciiranges",
        "inherit_errexit",
        "checkwinsize",
        "huponexit",
        "cmdhist",
        "histappend",
    ]
)
UNARY_TESTS = frozenset(["-" + letter for letter in "abcdefghknoprstuwxzGLNOS"])
BINARY_TESTS = frozenset(
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o"]
)
