import csv
import json

with open("stock.csv", newline="") as lines:
    rows = list(csv.DictReader(lines))
print(json.dumps({row["name"]: int(row["price"]) * int(row["count"]) for row in rows}, sort_keys=True))
