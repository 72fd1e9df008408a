"""What was decided and done: appended before the answer leaves, chained, kept, searched. Start at `log`."""
