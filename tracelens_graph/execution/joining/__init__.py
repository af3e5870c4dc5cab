"""Joining a graph with the execution trace of its run: pairs of nodes, and what the graph takes from it."""
