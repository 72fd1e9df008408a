"""The corpus of commands that agents really run, one per line; ␤ stands for a line end."""

import os


def corpus() -> list[str]:
    path = os.path.join(os.path.dirname(__file__), "corpus.txt")
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").replace("␤", "\n") for line in file]
