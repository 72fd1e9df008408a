"""A human's yes, remembered: targets of external paths, project files. `store` keeps it, `fingerprint` says of what."""
