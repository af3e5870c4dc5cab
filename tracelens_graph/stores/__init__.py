"""Graphs at rest: the graph's own file, and exports for other programs."""
