"""Memory over time: what allocators took and gave back, as the profiler's `[memory]` instants show it."""
