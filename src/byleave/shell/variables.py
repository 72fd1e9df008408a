"""Which variables change what a command runs."""


def harmless_assignment(name: str) -> bool:
    return name != "PATH"
