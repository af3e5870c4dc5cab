"""Reports: pure functions from Tables and graphs to text; they compute nothing."""
