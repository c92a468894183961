"""Options of sbatch as words of a command: long names, values, counts.

A ValueError names the option that is not understood.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from slurm_rl_plugin.accounting.slurm.resources import (
    parse_gpus,
    parse_gres,
    parse_licences,
    parse_memory,
    parse_task_tres,
    requested,
)
from slurm_rl_plugin.whole_file import read_whole

_TABLES = tomllib.loads(read_whole(Path(__file__).with_name("sbatch_options.toml")).decode())
#: Letter of an option -> its long name.
VALUED_LETTERS: Mapping[str, str] = _TABLES["valued_letters"]
FLAG_LETTERS: Mapping[str, str] = _TABLES["flag_letters"]
#: Long options with no value, or one that follows an equals sign.
FLAGS = frozenset(_TABLES["flags"])
#: Long options whose value is the next word where no equals sign follows.
VALUED = frozenset({*_TABLES["valued"], *VALUED_LETTERS.values()})
#: Variable of sbatch -> the option that it sets.
VARIABLES: Mapping[str, str] = _TABLES["variables"]
_Value = TypeVar("_Value")

_COUNT = re.compile(r"(\d{1,8})([kKmM]?)(?![\w.])", re.ASCII)
_NAMES = sorted(FLAGS | VALUED)
_THOUSANDS = {"": 1, "k": 1024, "m": 1024**2}
_GPU = "gres/gpu"
NO_TRES: dict[str, float] = {}
#: No machine has as many CPUs.
_MOST = 2**31
#: Nodes are shared with other jobs, though of few.
_SHARED = frozenset({"user", "mcs"})


def cut_options(words: Sequence[str]) -> tuple[dict[str, str], int]:
    """Long name -> value, the last one of each, and the place of the first word behind them."""
    found: dict[str, str] = {}
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word = words[place]
        place += 1
        if word == "--":
            break
        follows = words[place] if place < len(words) else None
        taken = False
        for name, value in _read(word):
            if value is None:
                if follows is None:
                    raise ValueError(f"{word} wants a value.")
                taken = True
            found[name] = follows or "" if value is None else value
        place += taken
    return found, place


def _read(word: str) -> Iterator[tuple[str, str | None]]:
    """Options of one word; the value is None where it is the next word."""
    if word.startswith("--"):
        yield _long_option(word)
        return
    letters = word[1:]
    for place, letter in enumerate(letters):
        if letter in VALUED_LETTERS:
            rest = letters[place + 1 :].removeprefix("=")
            yield VALUED_LETTERS[letter], rest or None
            return
        if letter in FLAG_LETTERS:
            yield FLAG_LETTERS[letter], ""


def _long_option(word: str) -> tuple[str, str | None]:
    name, sign, value = word[2:].partition("=")
    if name not in FLAGS and name not in VALUED:
        for meant in _NAMES:
            if meant.startswith(name):  # sbatch takes --clust=x for --clusters=x
                raise ValueError(f"--{name} may be --{meant}: write its full name.")
    if sign:
        return name, value
    if name in FLAGS:
        return name, ""
    if name in VALUED:
        return name, None
    raise ValueError(f"--{name} is not known here: write --{name}=VALUE, or its full name.")


class AskedCounts(NamedTuple):
    """What options ask for in all, each rate times what it is a rate of."""

    tasks: int  #: at least 1
    cpus_per_task: int  #: at least 1
    processors: int  #: CPUs of all tasks, or of all GPUs where these ask for more
    nodes: int  #: at least 1 if given, no more than tasks; 0 for as few as hold the job
    #: Generic resources of the whole job, by Slurm's names; of two options for one the larger.
    gres: dict[str, float]


def asked_counts(options: Mapping[str, str]) -> AskedCounts:
    """What a job asks for, at least.

    A task a node where it names no tasks, unless GPUs imply the number: slurmctld counts
    `--ntasks-per-gpu` and `--gpus-per-task` so.
    """
    of_task = amount_of(options, "tres-per-task", parse_task_tres, NO_TRES)
    cpus_per_task = max(asked_count(options, "cpus-per-task"), int(of_task.get("cpu", 1)))
    whole = asked_count(options, "nodes")
    tasks = asked_count(options, "ntasks", whole * asked_count(options, "ntasks-per-node"))
    gres = _gres_beside_tasks(options, max(_nodes(options, tasks), 1))
    per_gpu = asked_count(options, "ntasks-per-gpu", 0)
    by_task = amount_of(options, "gpus-per-task", parse_gpus, NO_TRES)
    if gpus := gres.get(_GPU, 0.0):
        if "ntasks" not in options:
            tasks = max(tasks, int(gpus * per_gpu), int(gpus / (by_task.get(_GPU) or gpus)))
    elif per_gpu:
        gres[_GPU] = float(math.ceil(tasks / per_gpu))
    for asked in (by_task, of_task):
        for name, count in asked.items():
            if name != "cpu":
                gres[name] = max(gres.get(name, 0.0), tasks * count)
    with_gpus = int(gres.get(_GPU, 0.0)) * asked_count(options, "cpus-per-gpu", 0)
    processors = max(tasks * cpus_per_task, with_gpus)
    if processors > _MOST:
        raise ValueError(f"--ntasks asks with --cpus-per-task for {processors} CPUs: give fewer.")
    return AskedCounts(tasks, cpus_per_task, processors, _nodes(options, tasks), gres)


def _nodes(options: Mapping[str, str], tasks: int) -> int:
    """Nodes that a job asks for, 0 for as few as hold it; no more than it has tasks."""
    if "nodes" in options:
        return min(asked_count(options, "nodes"), tasks)
    if "ntasks-per-node" in options:
        return math.ceil(tasks / asked_count(options, "ntasks-per-node"))
    return 0


def _gres_beside_tasks(options: Mapping[str, str], nodes: int) -> dict[str, float]:
    shape = options.get("extra-node-info", "").partition(":")[0].replace("*", "")  # of -B
    sockets = asked_count({"sockets-per-node": shape, **options}, "sockets-per-node")
    found: dict[str, float] = {}
    for name, parse, times in (
        ("gres", parse_gres, nodes),
        ("gpus-per-node", parse_gpus, nodes),
        ("gpus-per-socket", parse_gpus, nodes * sockets),
        ("gpus", parse_gpus, 1),
    ):
        for each, count in amount_of(options, name, parse, NO_TRES).items():
            found[each] = max(found.get(each, 0.0), times * count)
    return found


def amount_of(
    options: Mapping[str, str], name: str, parse: Callable[[str], _Value], default: _Value
) -> _Value:
    """What an option asks for."""
    if not options.get(name):
        return default
    try:
        return parse(options[name])
    except ValueError as error:
        raise ValueError(f"--{name} {error}.") from None


def asked_count(options: Mapping[str, str], name: str, default: int = 1) -> int:
    """The number of an option, the least of a range."""
    text = options.get(name, "")
    if not text:
        return default
    least = _COUNT.match(text)
    if least is None or int(least[1]) < 1:
        raise ValueError(f"--{name} {text!r} is no number: give one of at least 1.")
    return int(least[1]) * _THOUSANDS[least[2].lower()]


class Asked(NamedTuple):
    """What one job asks for; see `domain.resources.ResourceRequests`."""

    processors: int  #: CPUs of all tasks
    amounts: dict[str, float]  #: of the whole job, by name; memory in MiB
    nodes: int
    cpus_per_task: int
    memory_per_cpu: bool
    exclusive: bool
    constraint: str


def asked_of(options: Mapping[str, str]) -> Asked:
    """What a job asks for, of options by their long names."""
    counts = asked_counts(options)
    by_cpu = amount_of(options, "mem-per-cpu", parse_memory, 0.0)
    by_node = amount_of(options, "mem", parse_memory, 0.0)
    by_gpu = amount_of(options, "mem-per-gpu", parse_memory, 0.0)
    if "mem-per-cpu" in options:
        memory, with_cpus = by_cpu * counts.processors, True
    elif "mem" in options:
        memory, with_cpus = by_node * max(counts.nodes, 1), False
    else:  # on the nodes of the GPUs: where it is as few nodes as hold the job, those of its CPUs
        memory = by_gpu * counts.gres.get(_GPU, 0.0)
        with_cpus = "mem-per-gpu" in options and counts.nodes == 0
    tres = {"cpu": float(counts.processors), "mem": memory, **counts.gres}
    tres |= amount_of(options, "licenses", parse_licences, NO_TRES)
    exclusive = "exclusive" in options and options["exclusive"] not in _SHARED
    # that much of a node is all that it has
    exclusive |= any(options.get(name) == "0" for name in ("mem", "mem-per-cpu"))
    return Asked(
        processors=counts.processors,
        amounts=requested(tres),
        nodes=counts.nodes,
        cpus_per_task=counts.cpus_per_task,
        memory_per_cpu=with_cpus,
        exclusive=exclusive,
        constraint=options.get("constraint", ""),
    )
