"""The resident service: one process per user and installation that answers hooks, checks, runs and calls quickly.

    directory   where its socket is, and by which name: the same context, the same service
    protocol    what the front sends, read strictly
    server      accepts requests, and hands each to the worker of its directory
    worker      one process per directory that is worked in; forks a process for every request
    client      asks a service for its state, and has it end

The front is a native program (sandbox/native/front.c). Where there is no service, or it does not take a request, the
front runs the command itself: the answers are the same, only slower. docs/service.md says how it works.
"""
