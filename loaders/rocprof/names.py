"""Names that rocprofiler-sdk gives to kinds of records."""

COPY_NAME = (
    "REPLACE(REPLACE(REPLACE(REPLACE(REPLACE({}, 'MEMORY_COPY_', 'Memcpy '), 'HOST_TO_DEVICE', 'HtoD'), "
    "'DEVICE_TO_HOST', 'DtoH'), 'DEVICE_TO_DEVICE', 'DtoD'), 'HOST_TO_HOST', 'HtoH')"
)
"""SQL for the name that PyTorch's profiler gives to a copy."""


def is_range(kind: str) -> bool:
    """Whether a kind of records is of ranges that the program marked with roctx."""
    return kind.startswith("MARKER_CORE")
