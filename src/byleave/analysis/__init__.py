"""What a policy means, before it is used and after: test, lint, diff, replay, learn, import.

Modules here take a compiled policy and records, and return values; `cli` reads the arguments, opens the logs, prints,
and writes files. Nothing here decides an action by itself: every answer comes from `policy.live_policy`.
"""
