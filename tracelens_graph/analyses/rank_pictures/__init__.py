"""What pictures of ranks show: waits by rank and step, bandwidths by size, a step over all ranks."""
