"""Tensors and memory of a trace that is linked with its execution trace."""
