"""TraceLens's `generate_perf_report_jax`: the same call, sheets and columns, from the graph.

frames = generate_perf_report_jax("host.xplane.pb", output_csvs_dir="report")
frames["kernel_launchers_summary"]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracelens_graph.compat.notices import refuse, warn_of_damage
from tracelens_graph.compat.report import workbook_for, write_sheets
from tracelens_graph.compat.sheets import jax_sheets
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core

if TYPE_CHECKING:
    import pandas as pd


def generate_perf_report_jax(
    profile_path: Any,
    output_xlsx_path: str | os.PathLike[str] | None = None,
    output_csvs_dir: str | os.PathLike[str] | None = None,
    kernel_metadata_keyword_filters: Sequence[str] | None = None,
) -> dict[str, pd.DataFrame]:
    """Write a report of a JAX profile, and return its sheets.

    Args:
        profile_path: the profile (`*.xplane.pb`), or whatever else `tracelens_graph.load` takes, or a loaded graph.
        output_xlsx_path: a workbook to write; needs the extra `xlsx`.
        output_csvs_dir: a folder to write one CSV file per sheet into. With neither, the workbook
            `<profile>_perf_report.xlsx` is written beside the profile.
        kernel_metadata_keyword_filters: not available; a window below a named scope takes a part of the program.

    Returns:
        Name of a sheet -> DataFrame. Operands are tuples, details of kernels lists of dictionaries; `attrs` holds
        units and definitions.

    Raises:
        TraceError: the profile cannot be read.
        AnalysisError: it is no profile of JAX, or an argument asks for what is not available.
        OutputError: a file cannot be written.
        MissingExtraError: the workbook needs the extra `xlsx`.

    Warns:
        DamagedTraceWarning: the profile was broken; the message counts what was lost.
    """
    refuse(kernel_metadata_keyword_filters=kernel_metadata_keyword_filters or None)
    workbook = workbook_for(profile_path, output_xlsx_path, output_csvs_dir)
    core = profile_path if isinstance(profile_path, Core) else load_core(profile_path)
    warn_of_damage(core)
    if not core.framework.compiles_programs:
        raise AnalysisError(f"{core.info.source}: no profile of JAX; generate_perf_report_pytorch reports on it")
    tables = jax_sheets(whole_window(core))
    write_sheets(tables, workbook, output_csvs_dir)
    return {name: table.to_pandas() for name, table in tables.items()}
