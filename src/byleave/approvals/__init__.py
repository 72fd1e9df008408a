"""A human's yes, remembered: targets of external paths, and project files. `store` keeps it, `fingerprint` says of what."""
