"""Do it: nothing here runs without a `Permit`, which only an allowed verdict makes."""
