"""Mounts: a link in the workspace, a grant in the session and an approval of the target, together or not at all.

`spec` reads what the user typed, `plan` says what would be done, `apply` does it or takes it away again. It changes
things only through the `journal`, which settles what was left half done. `review` lists what is mounted, and asks about
targets that are not approved yet.
"""
