import unittest

from inventory import Item, Stock


class StockTest(unittest.TestCase):
    def test_value_counts_every_item(self):
        stock = Stock()
        stock.add(Item("tea", 450), 2)
        stock.add(Item("cup", 1200))
        self.assertEqual(stock.value(), 2100)

    def test_what_is_not_there_cannot_be_removed(self):
        with self.assertRaises(ValueError):
            Stock().remove(Item("tea", 450))


if __name__ == "__main__":
    unittest.main()
