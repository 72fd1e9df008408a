"""Mounts: a link in the workspace, a grant in the session and an approval of the target, together or not at all.

`spec` reads what the user typed, `plan` says what would be done, `act` does it and `unmount` takes it away; both change
things only through the `journal`, which settles what was left half done. `listing` says what is mounted, `review` asks
about targets that are not approved yet.
"""
