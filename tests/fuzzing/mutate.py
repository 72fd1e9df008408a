"""Damage texts and bytes: what a fuzzer feeds to a reader, made from things that the reader takes."""

import random
from collections.abc import Sequence

MOST = 20_000  # bytes
# Numbers at which sizes and signs go over, and bytes that mean something to some reader.
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
PIECES = (
    *(
        b"",
        b"\0",
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b'"',
        b"'",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"=",
        b";",
    ),
    *(
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        "\u202e".encode(),
        "é".encode(),
        b"-1",
        b"1e999",
        b"NaN",
        b"null",
        b"true",
    ),
    *(b"0x10", b"\\u0000", b"\\ud800", b"../", b"//", b"%2e%2e", b"%00", b"*", b"**", b"$(x)", b"chunked", b"#", b"[["),
)


class Mutator:
    """Makes one input after another from seeds: the same ones from the same number."""

    def __init__(self, number: int, seeds: Sequence[bytes]) -> None:
        self.random = random.Random(number)  # noqa: S311 -- the same inputs every time
        self._seeds = list(seeds)
        self._damaged: list[bytes] = []

    def next(self) -> bytes:
        """Return a damaged seed, or one that was damaged before and is damaged further."""
        again = self._damaged and self.random.random() < 0.2
        data = bytearray(self.random.choice(self._damaged if again else self._seeds))
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3, 8, 30))):
            self._damage(data)
        made = bytes(data[:MOST])
        if self.random.random() < 0.01:
            self._damaged = [*self._damaged[-99:], made]
        return made

    def _damage(self, data: bytearray) -> None:
        dice = self.random
        at = dice.randrange(len(data) + 1)
        size = dice.choice((1, 1, 2, 4, 8, 50))
        match dice.randrange(7):
            case 0:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = dice.choice(PIECES) * dice.choice((1, 1, 2, 1000))
            case 3:
                other = dice.choice(self._seeds)
                begin = dice.randrange(len(other) + 1)
                data[at : at + size] = other[begin : begin + size]
            case 4:
                data[at:at] = data[at : at + size] * dice.choice((1, 3))
            case 5:
                data[at : at + 8] = dice.choice(NUMBERS).to_bytes(8, "little")
            case _:
                data[at : at + 1] = bytes([byte ^ (1 << dice.randrange(8)) for byte in data[at : at + 1]])
