"""What bounds a step over all ranks: binding causes, the path along them, and what would change it."""
