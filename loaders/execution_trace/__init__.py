"""Loading PyTorch's execution traces: JSON of the observer of operators, in every schema met."""
