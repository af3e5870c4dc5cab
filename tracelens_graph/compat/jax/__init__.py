"""TraceLens's tables of JAX profiles."""
