"""The graph in memory: columns, traversals and the reading API. Knows nothing of networkx or pandas."""
