"""`python -m inventory FILE` prints the value of a stock that is kept as CSV."""

import csv
import sys

from inventory.stock import Item, Stock


def main(arguments):
    stock = Stock()
    with open(arguments[0], newline="") as lines:
        for row in csv.DictReader(lines):
            stock.add(Item(row["name"], int(row["price"])), int(row["count"]))
    print(stock.value())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
