"""What would this command line do? A sound reader of bash, and what is known of the programs it names.

Start at `read_command`. For rules over what it yields: `subcommand`, `has_flag`, `dangerous_options`,
`harmless_assignment`; `loose_words` for a text that was not understood.
"""
