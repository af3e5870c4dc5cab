"""Loaders: one module per input format, each turns a file into columns of events."""
