"""PyTorch's execution trace in columns: nodes, arguments, and the tensors and storages in them."""
