"""Tools, run by byleave: a process in a sandbox whose every wish is a request, or a plain one that the kernel holds."""
