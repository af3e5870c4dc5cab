"""The names that users of TraceLens know, over the same graph."""
