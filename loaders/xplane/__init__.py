"""JAX and XLA profiles (`*.xplane.pb`): protocol buffers that `jax.profiler` writes. `loader.load_xplane` reads one."""
