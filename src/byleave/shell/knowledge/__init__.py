"""PURE. What is known of programs: options, commands they run, files they name. Start at `command_facts`."""
