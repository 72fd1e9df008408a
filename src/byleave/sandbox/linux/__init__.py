"""How Linux holds a plan: namespaces and mounts, Landlock, seccomp, or bubblewrap. `backends` picks one."""
