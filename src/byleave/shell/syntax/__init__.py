"""PURE. The reader of bash: text in, a tree of commands out. Start at `grammar`."""
