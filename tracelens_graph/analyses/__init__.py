"""Analyses: pure functions from a graph to Tables, one file per question."""
