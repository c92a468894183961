"""What jobs asked nodes for, as columns: ReqTRES first, the rest from what else a dump holds.

Distinct texts are read once each, as in `sacct.batches`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.port import NOT_READ, resources_text
from slurm_rl_plugin.accounting.sacct.batches import value_of
from slurm_rl_plugin.accounting.sacct.fields import Layout
from slurm_rl_plugin.accounting.slurm.options import (
    NO_TRES,
    amount_of,
    asked_count,
    asked_counts,
    cut_options,
)
from slurm_rl_plugin.accounting.slurm.resources import (
    parse_gres,
    parse_licences,
    parse_memory,
    parse_tres,
    requested,
)
from slurm_rl_plugin.units import BoolArray, FloatArray

#: Any of these fields requests more than processors.
_TELLING = (
    *("reqtres", "alloctres", "reqmem", "reqgres", "allocgres"),
    *("licenses", "constraints", "submitline"),
)
#: Fields of what a job asks for that decide nothing here, as sacct calls them.
_UNREAD = {"reservation": "Reservation", "segmentsize": "SegmentSize", "mcslabel": "MCSLabel"}
_NOTHING = ("", "0", "None", "none", "(null)", "N/A")
#: What Slurm 20.02 and before wrote for `gpu` where it did not know the word.
_GPU_NUMBER = "7696487"
_SOCKETS = re.compile(r"\([^)]*\)")
#: How names of resources begin -> options of a submit line that ask for such, and other fields.
_ASKED_BY = {
    "gres/": (r"\s(?:--gres|--gpus|-G|--ntasks-per-gpu|--tres-per-task)", "reqgres", "allocgres"),
    "license/": (r"\s(?:--licenses|-L|--tres-per-task)", "licenses"),
}
#: `4Gn` for each node, `2Gc` for each CPU, as sacct wrote before 21.08; `8G` for the whole job.
_REQMEM = re.compile(r"(?P<size>[\d.]+[KMGTP]?)(?P<each>[nc]?)", re.ASCII)
#: Options before the script, some with a word behind them; then the one that is looked for.
_CPUS_PER_TASK = (
    r"^\S*(?:sbatch|srun|salloc)(?:\s+(?:--[\w-]+=\S*|-\w\S+|(?:-\w|--[\w-]+)(?:\s+[^-\s]\S*)?))*?"
    r"\s+(?:--cpus-per-task[= ]|-c\s?)([0-9]{1,6})(?:\s|$)"
)
_WHOLE_NODES = r"\s--exclusive(\s|$)"


def request_columns(
    fields: pl.DataFrame, layout: Layout, processors: FloatArray
) -> dict[str, pl.Series | np.ndarray]:
    """Columns as in `stored.log` of rows of a dump; none if it has processors alone.

    Fields are as `sacct.batches` cuts them; processors of a row are NaN if unknown.
    """
    processors = np.nan_to_num(processors)
    if not any(name in layout.column for name in _TELLING):
        return {}
    tres = value_of(fields, layout, "reqtres", "alloctres")
    memory = value_of(fields, layout, "reqmem")
    line = value_of(fields, layout, "submitline")
    nodes = _nodes(fields, layout, tres)
    others = {name: value_of(fields, layout, name) for name in ("reqgres", "allocgres", "licenses")}
    short = (memory != "") & ~tres.str.contains("mem=", literal=True)
    options = line == ""  # lines that may ask for any: of others each would make a row unlike all
    for known, (pattern, *told) in _ASKED_BY.items():
        asked = line.str.contains(pattern)
        options |= asked
        for name in told:
            asked |= ~others[name].is_in(_NOTHING)
        short |= asked & ~tres.str.contains(known, literal=True)
    texts = tres.unique()
    amounts = pl.Series([_resources(text) for text in texts.to_list()], dtype=pl.String)
    resources = tres.replace_strict(texts, amounts, return_dtype=pl.String)
    if short.any():
        columns = {"memory": memory, "nodes": nodes, "processors": processors, **others}
        words = pl.select(pl.when(options).then(line).otherwise(pl.lit(""))).to_series()
        rows = pl.DataFrame({"tres": tres, **columns, "line": words}).filter(short)
        completed = cache(_completed)  # of these rows alone: who submits chooses how long lines are
        found = [completed(*row) for row in rows.iter_rows()]
        resources.scatter(short.arg_true(), pl.Series(found, dtype=pl.String))
    # the pattern takes its time, and few lines have such an option
    likely = line.str.contains(r" --cpus-per-task| -c")
    cpus = pl.when(likely).then(line).str.extract(_CPUS_PER_TASK).cast(pl.Int64).fill_null(1)
    told_cpus = pl.select(cpus).to_series().to_numpy()
    whole = line.str.contains(_WHOLE_NODES) | (value_of(fields, layout, "exclusive") == "NODE")
    return {
        "resources": resources,
        "nodes": nodes,
        "cpus_per_task": np.clip(told_cpus, 1, np.maximum(processors, 1)).astype(np.int64),
        "memory_per_cpu": line.str.contains(" --mem-per-cpu") | memory.str.ends_with("c"),
        "exclusive": whole,
        "constraint": value_of(fields, layout, "constraints").replace("(null)", ""),
    }


def unread_requests(fields: pl.DataFrame, layout: Layout) -> Iterator[tuple[str, BoolArray]]:
    """Fields of what jobs ask for that nothing here reads, and which rows have one."""
    for name, written in _UNREAD.items():
        if name in layout.column:
            there = ~value_of(fields, layout, name).is_in(_NOTHING)
            yield f"{written}{NOT_READ}", there.to_numpy()


@lru_cache(maxsize=1 << 16)
def _resources(tres: str) -> str:
    return resources_text(requested(parse_tres(tres)))


def _nodes(fields: pl.DataFrame, layout: Layout, tres: pl.Series) -> pl.Series:
    """Nodes that each job got, such as 12 or 1.2K; if unknown those of its TRES, else 0."""
    text = value_of(fields, layout, "nnodes")
    number = text.str.extract(r"^([0-9.]+)[KM]?$").cast(pl.Float64, strict=False)
    factor = pl.when(text.str.ends_with("K")).then(1e3).when(text.str.ends_with("M")).then(1e6)
    named = tres.str.extract(r"(?:^|,)node=([0-9]{1,15})(?:,|$)").cast(pl.Float64)
    known = (number * pl.select(factor.otherwise(1.0)).to_series()).round()
    found = pl.select(pl.when(known > 0).then(known).otherwise(named)).to_series()
    return found.cast(pl.Int64, strict=False).fill_null(0)  # a damaged number may be any


def _completed(
    tres: str,
    memory: str,
    nodes: int,
    processors: float,
    each: str,
    whole: str,
    licences: str,
    line: str,
) -> str:
    """What one row asks for by its TRES and its other fields; what these cannot say is left out.

    Memory is ReqMem; `each` is ReqGRES of Slurm up to 20.02, of each node, `whole` its AllocGRES,
    of the whole job. Accounting does not track all that the options of the submit line ask for.
    """
    asked = parse_tres(tres)
    found = _REQMEM.fullmatch(memory)
    with suppress(ValueError):
        if found is not None and "mem=" not in tres:
            cpus = asked.get("cpu") or processors
            times = {"n": float(max(nodes, 1)), "c": cpus, "": 1.0}[found["each"]]
            asked["mem"] = parse_memory(found["size"]) * times
    if "gres/" not in tres:
        asked |= _old_gres(nodes, each, whole)
    with suppress(ValueError):
        if "license/" not in tres and licences not in _NOTHING and "|" not in licences:
            asked |= parse_licences(licences)  # of several with bars any one would do
    for known, (pattern, *_) in _ASKED_BY.items():
        with suppress(ValueError):
            if not any(name.startswith(known) for name in asked) and re.search(pattern, line):
                options = _by_options(line, nodes, processors)
                asked |= {name: n for name, n in options.items() if name.startswith(known)}
    return resources_text(requested(asked))


def _old_gres(nodes: int, each: str, whole: str) -> dict[str, float]:
    """Of ReqGRES and AllocGRES the larger count."""
    found: dict[str, float] = {}
    for text, times in ((each, max(nodes, 1)), (whole, 1)):
        words = _SOCKETS.sub("", text).replace(_GPU_NUMBER, "gpu")
        with suppress(ValueError):
            for name, count in parse_gres("" if words in _NOTHING else words).items():
                found[name] = max(found.get(name, 0.0), times * count)
    return found


def _by_options(line: str, nodes: int, processors: float) -> dict[str, float]:
    options, _ = cut_options(shlex.split(line)[1:])
    tasks = max(int(processors) // asked_count(options, "cpus-per-task"), 1)
    got = {"ntasks": str(tasks), **options, **({"nodes": str(nodes)} if nodes else {})}
    return asked_counts(got).gres | amount_of(got, "licenses", parse_licences, NO_TRES)
