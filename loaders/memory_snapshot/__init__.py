"""Snapshots of PyTorch's CUDA allocator, as `torch.cuda.memory._dump_snapshot` writes them."""
