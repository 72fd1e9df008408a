"""Ways out of the workspace: a link, a grant and an approval that come and go together. Start at `mount`."""
