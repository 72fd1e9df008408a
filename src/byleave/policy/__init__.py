"""From files to a compiled policy: `homes` (where), `layers` (what is read), `merge`, `compile`.

`shape`, `places`, `problems` and `schema` are only needed for a file that was not seen before, or that is wrong.
"""
