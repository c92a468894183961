"""What Slurm's administrators write and its commands print: slurm.conf, and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    QUEUE_FIELDS,
    parse_queue,
    request_fields,
)
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import (
    best_terms,
    parse_lines,
    parse_terms,
)
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import (
    RowNumbers,
    TableBuilder,
    first_of_each_array,
    waiting_tasks,
)
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from tests.assets.record_slurm_answers import MARK


def read_conf(content: bytes, folder: Path) -> bool:
    """A slurm.conf, for `--cluster`."""
    path = folder / "slurm.conf"
    path.write_bytes(content)
    try:
        machine = read_machine(path)
    except ConfigurationError as error:
        said = str(error)
    else:
        assert machine.partitions
        return True
    assert said.strip()
    return False


def read_priorities(content: bytes, folder: Path) -> bool:
    """What sprio prints in each cycle."""
    text = content.decode("utf-8", "replace")
    try:
        lines = parse_lines(text, {})
        parse_terms(text, range(100))
    except BatchSystemError:
        return False
    terms = best_terms(lines.values(), {})
    columns = np.array([(each.native, each.site, each.spread) for each in terms.values()], np.int64)
    return bool(len(columns))


def read_queue(content: bytes, folder: Path) -> bool:
    """What squeue prints in each cycle, as far as columns; also where memory and GPUs count."""
    text = content.decode("utf-8", "replace")
    plain, with_requests = (
        _read(text, fields) for fields in (QUEUE_FIELDS, request_fields((24, 11)))
    )
    return plain or with_requests


def _read(text: str, fields: Sequence[str]) -> bool:
    try:
        rows = whole_jobs(parse_queue(text, MARK, fields))
    except BatchSystemError:
        return False
    numbers = RowNumbers(JobClassifier())
    table = TableBuilder((), numbers, BASIC_RESOURCES).jobs(first_of_each_array(rows))
    assert len(table.job_id) <= len(rows)
    assert all(tasks > 0 for tasks in waiting_tasks(rows).values())
    return bool(rows)
