"""Who a replayed kernel is, found without a capture: layers as repeats, roles by the grammar of kernel families."""
