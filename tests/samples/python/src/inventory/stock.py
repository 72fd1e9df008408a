"""Items and how many of them there are."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    name: str
    price: int


@dataclass
class Stock:
    counts: dict = field(default_factory=dict)

    def add(self, item, count=1):
        if count < 1:
            raise ValueError(f"cannot add {count} of {item.name}")
        self.counts[item] = self.counts.get(item, 0) + count

    def remove(self, item, count=1):
        left = self.counts.get(item, 0) - count
        if left < 0:
            raise ValueError(f"not enough of {item.name}")
        self.counts[item] = left

    def value(self):
        return sum(item.price * count for item, count in self.counts.items())  # TODO: currencies
