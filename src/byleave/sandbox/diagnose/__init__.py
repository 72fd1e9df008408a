"""What a program was refused in a sandbox, by which rule, and what would allow it (`byleave run --diagnose`)."""
