"""What a sandbox shows and allows, as a value: `build` puts a plan together, `plan` is its form."""
