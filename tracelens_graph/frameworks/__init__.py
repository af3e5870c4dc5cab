"""What differs between the frameworks that traces come from, as data: `framework_of` gives the one of a trace.

Analyses ask it for the fact that they need, never which framework it is.
"""

from tracelens_graph.frameworks.framework import (
    EXECUTION_TRACE,
    GENERIC,
    NAMESPACES,
    NSYS,
    PROFILERS,
    PYTORCH,
    ROCPROF,
    SNAPSHOT,
    XLA,
    Framework,
    framework_of,
)

__all__ = [
    "EXECUTION_TRACE", "GENERIC", "NAMESPACES", "NSYS", "PROFILERS", "PYTORCH", "ROCPROF", "SNAPSHOT", "XLA",
    "Framework", "framework_of",
]  # fmt: skip
