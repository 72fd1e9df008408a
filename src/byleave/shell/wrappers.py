"""Wrappers."""


def unwrap(walker, name, words, assignments, redirects, state, start, end):
    return walker.plain(words, assignments, redirects, state, start, end)
