"""The policy as a value: actions in, verdicts out. Pure: no files, no clock, no environment.

Start at `decide.decide`. Values: `action` in, `decision` out; `policy` holds everything that was compiled.

| family | what it is about | precedence | module |
|---|---|---|---|
| fs | what a tool may do to a file | the longest path; on a tie the last rule | `fs_rules`, `file_decision` |
| net | where a tool may connect to | the rule that names most parts; on a tie the last rule | `net_rules` |
| env | which variables a tool reads | the longest name; on a tie the exact one | `env_rules` |
| commands | which programs a tool starts | one entry for each program | `command_rules` |
| rules | commands, files, URLs, calls | the first rule that matches | `rules`, `matchers`, `command_line` |
| agents | which server and tool an agent reaches | deny before allow, names before patterns | `agents`, `calls` |

Every family answers for itself, and the strictest answer wins. A tool's own families are its `access`. Protected places
(`protected`) and byleave's own commands (`self_protection`) stand above all of them. `explain` shows a verdict to a
person, `suggest` writes the rule that would allow the action.
"""
