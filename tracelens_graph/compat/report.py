"""TraceLens's calls that write a report, `generate_perf_report_pytorch` and `generate_perf_report_jax`, from the graph.

The calls, sheets, columns and defaults are TraceLens's.

frames = generate_perf_report_pytorch("trace.json.gz", output_csvs_dir="report", kernel_summary=True)
frames["ops_summary"]
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.report.report_tables import ReportOptions
from tracelens_graph.compat.cells import in_python
from tracelens_graph.compat.options import Device, device, loaded, refuse, warn_of_damage
from tracelens_graph.compat.sheets import Asked, jax_sheets, pytorch_sheets
from tracelens_graph.errors import AnalysisError, OutputError
from tracelens_graph.extensions.extension import Extension, combined
from tracelens_graph.extensions.loading import load_extension
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import replacing
from tracelens_graph.perf.model import OpModel
from tracelens_graph.reports.csv import write_folder
from tracelens_graph.reports.xlsx import workbook as packed
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd


def generate_perf_report_pytorch(
    profile_json_path: Any,
    output_xlsx_path: str | os.PathLike[str] | None = None,
    output_csvs_dir: str | os.PathLike[str] | None = None,
    include_unlinked_kernels: bool = False,
    enable_pseudo_ops: bool = False,
    micro_idle_thresh_us: float | None = None,
    collective_analysis: bool = True,
    include_overlap_info: bool = False,
    include_first_occurrence_time: bool = False,
    kernel_summary: bool = False,
    short_kernel_study: bool = False,
    short_kernel_threshold_us: float = 10,
    short_kernel_histogram_bins: int = 100,
    topk_short_kernels: int | None = None,
    topk_ops: int | None = None,
    topk_roofline_ops: int | None = None,
    comparison_json_path: Any = None,
    extension_file: str | None = None,
    python_path: str | None = None,
    gpu_arch_json_path: str | None = None,
    gpu_arch_platform: str | None = None,
    gpu_arch: Device | None = None,
    inductor_cache_dir: str | None = None,
    group_by_num_kernels: bool = False,
    enable_origami: bool = False,
    detect_recompute: bool = False,
    include_call_stack: bool = False,
    *,
    group_by_parent_module: bool = False,
    capture_folder: Any = None,
    disable_coll_analysis: bool = False,
    enable_kernel_summary: bool = False,
    use_kernel_name_categories: bool = False,
    models: Mapping[str, OpModel] | None = None,
) -> dict[str, pd.DataFrame]:
    """Write a report of a trace, and return its sheets.

    The tables of ops cover GPU events whose launch is in the trace, without communication; the kernel summary and
    the study of short kernels cover all kernels. Each family of modelled ops, such as GEMM, has a sheet; families
    that TraceLens has no sheets of come last.

    Args:
        profile_json_path: the trace, or whatever else `tracelens_graph.load` takes, or a loaded graph.
        output_xlsx_path: a workbook to write; needs the extra `xlsx`.
        output_csvs_dir: a folder to write one CSV file per sheet into. With neither, the workbook
            `<trace>_perf_report.xlsx` is written beside the trace.
        include_unlinked_kernels: let the timeline cover GPU events whose launch is not in the trace.
        micro_idle_thresh_us: split idle time into gaps shorter than this and the others.
        collective_analysis: with False there is no sheet coll_analysis; it is there only if the trace has any.
        include_overlap_info: add the sheet ops_unique_args_kl_overlap.
        include_first_occurrence_time: add first_occurrence_time to ops_unique_args.
        kernel_summary: add the sheet kernel_summary.
        short_kernel_study: add the sheets short_kernel_histogram and short_kernels_summary.
        short_kernel_threshold_us, short_kernel_histogram_bins: below what a kernel is short, and number of bins.
        topk_short_kernels, topk_ops: rows to keep of short_kernels_summary and of ops_unique_args; shares remain
            those in the whole table.
        topk_roofline_ops: rows to keep of each sheet of a family of ops.
        gpu_arch_json_path, gpu_arch_platform, gpu_arch: the device, for columns of the roofline: TraceLens's
            description of one in a file, a name such as `MI300X` (for which the vendor's figures hold), or the
            description itself.
        group_by_num_kernels: separate calls with different numbers of GPU events in ops_unique_args and in the
            sheets of families.
        detect_recompute: separate recomputation of activations from the rest.
        include_call_stack: add where calls come from to unified_perf_summary.
        group_by_parent_module: separate modules around ops. With this or the next, columns and sheets are those of
            TraceLens's report of inference.
        capture_folder: captures of the graphs that the trace replays: a folder, a file, or several.
        disable_coll_analysis, enable_kernel_summary: as the command spells `collective_analysis`, `kernel_summary`.
        use_kernel_name_categories: name what kernels do: adds the sheets kernel_category_detail and
            kernel_category_summary, and the column kernel_category to kernel_summary.
        extension_file: a Python file of your own that adds to the report, with TraceLens's hooks or an `Extension`.
        models: op name -> performance model; None for all there are.
        comparison_json_path: another trace to compare with: adds columns to unified_perf_summary, and the sheet
            diff_stats.
        enable_pseudo_ops: let the tables of models have ops for parts of fused work.
        python_path, inductor_cache_dir, enable_origami: not available.

    Returns:
        Name of a sheet -> DataFrame. Arguments of ops are tuples, details of kernels lists of dictionaries; `attrs`
        holds units, definitions and notes.

    Raises:
        TraceError: the trace cannot be read.
        LinkError: the captures hold no captured graph.
        AnalysisError: an argument asks for what is not available.
        OutputError: a file cannot be written.
        ExtensionError: the extension cannot be loaded, or its code fails.
        MissingExtraError: the workbook needs the extra `xlsx`.

    Warns:
        DamagedTraceWarning: the trace was broken; the message counts what was repaired and what was lost.
    """
    refuse(python_path=python_path, inductor_cache_dir=inductor_cache_dir, enable_origami=enable_origami)
    path = None if gpu_arch_json_path is None else Path(gpu_arch_json_path)
    arch = device(gpu_arch, path, gpu_arch_platform)
    workbook = workbook_for(profile_json_path, output_xlsx_path, output_csvs_dir)
    core = loaded(profile_json_path, capture_folder)
    warn_of_damage(core)
    options = ReportOptions(
        linked_only=True,
        micro_idle_us=micro_idle_thresh_us,
        short_kernels_us=short_kernel_threshold_us,
        histogram_bins=short_kernel_histogram_bins,
        first_occurrence=include_first_occurrence_time,
        recompute=detect_recompute,
        by_kernel_count=group_by_num_kernels,
        by_module=group_by_parent_module,
        kernel_categories=use_kernel_name_categories,
        arch=arch,
        compare_with=None if comparison_json_path is None else _window(comparison_json_path),
    )
    extensions = [] if extension_file is None else [load_extension(Path(extension_file))]
    if models is not None:
        extensions.append(Extension(registry=models, name="models"))
    w = combined(extensions).of(core) if extensions else whole_window(core)
    asked = Asked(
        options,
        unlinked=include_unlinked_kernels,
        call_stack=include_call_stack,
        overlap=include_overlap_info,
        kernels=kernel_summary or enable_kernel_summary,
        short=short_kernel_study,
        collectives=collective_analysis and not disable_coll_analysis,
        pseudo_ops=enable_pseudo_ops,
        inference=group_by_parent_module or bool(core.info.replays),
    )
    tables, families = pytorch_sheets(w, asked)
    shown = {"ops_unique_args": topk_ops, "short_kernels_summary": topk_short_kernels}
    for name, rows in (shown | dict.fromkeys(families, topk_roofline_ops)).items():
        if rows is not None and name in tables and 0 <= rows < len(tables[name]):
            left_out = f"{len(tables[name]) - rows:,} rows are left out"
            tables[name] = tables[name].take(np.arange(rows))
            tables[name].notes = [*tables[name].notes, left_out]
    write_sheets(tables, workbook, output_csvs_dir)
    return {name: table.to_pandas() for name, table in tables.items()}


def _window(source: Any) -> Window:
    core = source if isinstance(source, Core) else load_core(source)
    warn_of_damage(core)
    return whole_window(core)


def workbook_for(
    source: Any, xlsx: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None
) -> Path | None:
    """The workbook to write: the one named; if no folder is named either, one beside the trace.

    Raises:
        OutputError: nothing says where to.
    """
    if xlsx is not None or folder is not None:
        return None if xlsx is None else Path(xlsx)
    if not isinstance(source, str | os.PathLike) or os.fspath(source) == "-":
        raise OutputError("say where to write the report: output_xlsx_path or output_csvs_dir")
    path = Path(source)
    stem = path.name.rsplit(".xplane.pb", 1)[0].rsplit(".json", 1)[0]
    return path.with_name(f"{stem}_perf_report.xlsx")


def write_sheets(tables: Mapping[str, Table], workbook: Path | None, folder: str | os.PathLike[str] | None) -> None:
    """Write sheets to a workbook and a folder, where they are named."""
    if folder is not None:
        write_folder({name: in_python(table) for name, table in tables.items()}, folder)
    if workbook is not None:
        with replacing(workbook) as file:
            file.write(packed(tables))


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
