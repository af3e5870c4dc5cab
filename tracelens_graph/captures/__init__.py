"""What a trace of captures says of the graphs that another trace replays: calls, modules, shapes of their kernels."""
