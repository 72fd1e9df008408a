"""The command line: the table of commands (`commands`), its reader (`arguments`), and one module for each command.

The only place that wires parts together and turns errors into text and exit codes.
"""
