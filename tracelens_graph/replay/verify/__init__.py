"""Whether replayed operations are recorded as those of the trace that they stand for."""
