"""What is in stock."""

from inventory.stock import Item, Stock

__all__ = ["Item", "Stock"]
