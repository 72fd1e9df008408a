"""The policy as a value: actions in, verdicts out. Pure: no files, no clock, no environment.

Start at `decide.decide`. The families of rules: `fs`, `net`, `env`, `commands`; what a tool may do at all: `access`;
what nobody may touch: `protected` and `selfguard`; how a verdict becomes prose: `explain`.
"""
