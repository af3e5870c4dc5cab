"""What operations and kernels are, told by their names: rules as data, and one engine."""
