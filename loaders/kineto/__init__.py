"""Kineto traces: the JSON that PyTorch's profiler writes, of every year and vendor. `loader.load_kineto` reads one."""
