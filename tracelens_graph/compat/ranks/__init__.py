"""TraceLens's tables of the collectives of all ranks."""
