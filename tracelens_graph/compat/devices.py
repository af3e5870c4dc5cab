"""The device that rooflines are computed for, as users of TraceLens name it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tracelens_graph.errors import AnalysisError
from tracelens_graph.perf.devices import Architecture, architecture

Device = Architecture | Mapping[str, Any] | str | os.PathLike[str]


def device(*given: Device | None) -> Architecture | None:
    """The one device that is given; None if none is.

    Args:
        given: a device, the parsed JSON that TraceLens describes one by, the path of such a file or of one of ours,
            or a name such as `MI300X` or `h100-sxm`.

    Raises:
        AnalysisError: there are two, or what is given is no device.
    """
    named = [one for one in given if one is not None]
    if len(named) > 1:
        raise AnalysisError("more than one device is given: gpu_arch, gpu_arch_json_path, gpu_arch_platform")
    if not named:
        return None
    try:
        return named[0] if isinstance(named[0], Architecture) else architecture(named[0])
    except OSError as error:
        raise AnalysisError(f"{error.filename}: {error.strerror}") from None
