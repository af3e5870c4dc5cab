"""The alignment of two traces: which GPU work of one is which of the other, and where their call trees part."""
