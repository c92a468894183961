"""What jobs asked nodes for, as columns: ReqTRES first, the rest from what else a dump holds.

Distinct texts are read once each, as in `sacct.values`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.port import NOT_READ
from slurm_rl_plugin.accounting.resource_amounts import resources_text
from slurm_rl_plugin.accounting.sacct.layout import Layout
from slurm_rl_plugin.accounting.sacct.values import counts, of_each, value_of
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
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Any of these fields tells of more than processors.
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
#: How names of resources begin -> options of a submit line that ask for such.
_ASKED_BY = {
    "gres/": r"\s(?:--gres|--gpus|-G|--ntasks-per-gpu|--tres-per-task)",
    "license/": r"\s(?:--licenses|-L|--tres-per-task)",
}
#: `4Gn` for each node, `2Gc` for each CPU, as sacct wrote before 21.08; `8G` for the whole job.
_REQMEM = re.compile(r"(?P<size>[\d.]+[KMGTP]?)(?P<each>[nc]?)", re.ASCII)
_NNODES = re.compile(r"([\d.]+)([KM])", re.ASCII)
_NODES_OF = {"K": 1e3, "M": 1e6}
#: Options before the script, some with a word behind them; then the one that is looked for.
_CPUS_PER_TASK = (
    r"^\S*(?:sbatch|srun|salloc)(?:\s+(?:--[\w-]+=\S*|-\w\S+|(?:-\w|--[\w-]+)(?:\s+[^-\s]\S*)?))*?"
    r"\s+(?:--cpus-per-task[= ]|-c\s?)([0-9]{1,6})(?:\s|$)"
)
_WHOLE_NODES = r"\s--exclusive(\s|$)"


def request_columns(
    fields: pl.DataFrame, layout: Layout, processors: FloatArray
) -> dict[str, pl.Series | np.ndarray]:
    """Columns as in `stored.log` of rows of a dump; none where it tells of processors alone.

    Args:
        fields: as `sacct.batches` cuts them.
        processors: of each row, shape [rows]; NaN where none are told.
    """
    if not any(name in layout.column for name in _TELLING):
        return {}
    tres = value_of(fields, layout, "reqtres", "alloctres")
    memory = value_of(fields, layout, "reqmem")
    line = value_of(fields, layout, "submitline")
    nodes = _nodes(fields, layout, tres)
    tres = _with_memory(tres, memory, nodes, processors)
    tres = _with_gres(tres, fields, layout, nodes)
    tres = _with_options(tres, line, nodes, processors)
    constraint = value_of(fields, layout, "constraints")
    return {
        "resources": _each_text(tres, _resources),
        "nodes": nodes,
        "cpus_per_task": _cpus_per_task(line, processors),
        "memory_per_cpu": _holds(line, " --mem-per-cpu") | memory.str.ends_with("c").to_numpy(),
        "exclusive": _exclusive(line, value_of(fields, layout, "exclusive")),
        "constraint": constraint.replace("(null)", ""),
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


def _each_text(texts: pl.Series, meaning: Callable[[str], str]) -> pl.Series:
    distinct = texts.unique()
    told = pl.Series([meaning(text) for text in distinct.to_list()], dtype=pl.String)
    return texts.replace_strict(distinct, told, return_dtype=pl.String)


def _nodes(fields: pl.DataFrame, layout: Layout, tres: pl.Series) -> IntArray:
    """Nodes that each job got; where that is not told those of its TRES, else 0."""
    texts = value_of(fields, layout, "nnodes")
    nodes = counts(fields, texts)
    for meaning, where in ((_short_count, texts), (_nodes_of_tres, tres)):
        absent = ~(nodes > 0)
        if absent.any():
            nodes = nodes.copy()
            nodes[absent] = of_each(where.filter(absent), meaning, np.float64)
    return nodes.astype(np.int64)


def _short_count(text: str) -> float:
    found = _NNODES.fullmatch(text)
    try:
        return 0.0 if found is None else round(float(found[1]) * _NODES_OF[found[2]])
    except ValueError:
        return 0.0


def _nodes_of_tres(text: str) -> float:
    return float(int(parse_tres(text).get("node", 0.0)))


def _with_memory(
    tres: pl.Series, memory: pl.Series, nodes: IntArray, processors: FloatArray
) -> pl.Series:
    """TRES, with the memory that ReqMem tells where they have none."""
    short = ((memory != "") & ~tres.str.contains("mem=", literal=True)).to_numpy()
    if not short.any():
        return tres
    each = {"nodes": np.maximum(nodes, 1), "processors": np.nan_to_num(processors)}
    rows = pl.DataFrame({"tres": tres, "memory": memory, **each}).with_columns(
        pl.concat_str("tres", "memory", "nodes", "processors", separator="|").alias("key")
    )
    filled = _each_text(rows["key"], _tres_with_memory)
    return filled.zip_with(pl.Series(short), tres)


def _tres_with_memory(key: str) -> str:
    tres, memory, nodes, processors = key.rsplit("|", 3)
    found = _REQMEM.fullmatch(memory)
    if found is None:
        return tres
    try:
        size = parse_memory(found["size"])
    except ValueError:
        return tres
    cpus = parse_tres(tres).get("cpu") or float(processors)
    times = {"n": float(nodes), "c": cpus, "": 1.0}[found["each"]]
    return f"{tres},mem={size * times:f}"


def _with_gres(tres: pl.Series, fields: pl.DataFrame, layout: Layout, nodes: IntArray) -> pl.Series:
    """TRES, with what sacct up to Slurm 20.02 has in ReqGRES and AllocGRES, and with Licenses."""
    each, whole = (value_of(fields, layout, name) for name in ("reqgres", "allocgres"))
    licences = value_of(fields, layout, "licenses")
    gres = ~(each.is_in(_NOTHING) & whole.is_in(_NOTHING))
    tres = _lacking(tres, gres, "gres/", _tres_with_gres, (nodes, each, whole))
    return _lacking(tres, ~licences.is_in(_NOTHING), "license/", _tres_with_licences, (licences,))


def _with_options(
    tres: pl.Series, line: pl.Series, nodes: IntArray, processors: FloatArray
) -> pl.Series:
    """TRES, with what options of the submit line ask for and accounting does not track."""
    beside = (nodes, np.nan_to_num(processors), line)
    for known, pattern in _ASKED_BY.items():
        asked = line.str.contains(pattern)
        tres = _lacking(tres, asked, known, partial(_tres_with_options, known), beside)
    return tres


def _lacking(
    tres: pl.Series,
    asked: pl.Series,
    known: str,
    meaning: Callable[[str], str],
    beside: Sequence[pl.Series | np.ndarray],
) -> pl.Series:
    """TRES, of rows that ask for a kind of resource and whose TRES name none of it as one says.

    Args:
        tres: of each row.
        asked: whether other fields ask for such.
        known: how the names of such resources begin.
        meaning: the TRES of a row, of its own and those other fields with bars between.
        beside: other fields, the last of them the only one that may hold a bar.
    """
    short = asked & ~tres.str.contains(known, literal=True)
    if not short.any():
        return tres
    rows = pl.DataFrame({"tres": tres, **{str(n): each for n, each in enumerate(beside)}})
    key = rows.filter(short).select(pl.concat_str(pl.all(), separator="|")).to_series()
    found = pl.DataFrame({"place": short.arg_true(), "found": _each_text(key, meaning)})
    return tres.clone().scatter(found["place"], found["found"])


def _tres_with_gres(key: str) -> str:
    """ReqGRES is of each node, AllocGRES of the whole job; of two counts the larger."""
    tres, nodes, each, whole = key.split("|", 3)
    found: dict[str, float] = {}
    for text, times in ((each, max(int(nodes), 1)), (whole, 1)):
        words = _SOCKETS.sub("", text).replace(_GPU_NUMBER, "gpu")
        try:
            counts = parse_gres("" if words in _NOTHING else words)
        except ValueError:
            continue
        for name, count in counts.items():
            found[name] = max(found.get(name, 0.0), times * count)
    return _more(tres, found)


def _tres_with_licences(key: str) -> str:
    tres, licences = key.split("|", 1)
    try:
        # of several any one would do
        return _more(tres, {} if "|" in licences else parse_licences(licences))
    except ValueError:
        return tres


def _tres_with_options(known: str, key: str) -> str:
    tres, nodes, processors, line = key.split("|", 3)
    try:
        options, _ = cut_options(shlex.split(line)[1:])
        tasks = max(int(float(processors)) // asked_count(options, "cpus-per-task"), 1)
        got = {"ntasks": str(tasks), **options, **({"nodes": nodes} if int(nodes) else {})}
        found = asked_counts(got).gres | amount_of(got, "licenses", parse_licences, NO_TRES)
    except ValueError:
        return tres
    return _more(tres, {name: count for name, count in found.items() if name.startswith(known)})


def _more(tres: str, counts: Mapping[str, float]) -> str:
    told = (f"{name}={count:f}" for name, count in counts.items())
    return ",".join([*([tres] if tres else []), *told])


def _cpus_per_task(line: pl.Series, processors: FloatArray) -> IntArray:
    told = np.ones(len(line), dtype=np.int64)
    likely = _holds(line, " --cpus-per-task") | _holds(line, " -c")
    if likely.any():
        found = line.filter(likely).str.extract(_CPUS_PER_TASK).cast(pl.Int64).fill_null(1)
        told[likely] = np.clip(
            found.to_numpy(), 1, np.maximum(np.nan_to_num(processors[likely]), 1)
        )
    return told


def _exclusive(line: pl.Series, told: pl.Series) -> BoolArray:
    found = _holds(line, " --exclusive")
    if found.any():
        found[found] = line.filter(found).str.contains(_WHOLE_NODES).to_numpy()
    found |= (told == "NODE").to_numpy()
    return found


def _holds(texts: pl.Series, part: str) -> BoolArray:
    found: BoolArray = texts.str.contains(part, literal=True).to_numpy().copy()
    return found
