"""A made-up month of PBS accounting files, one a day, as a server writes them.

python -m tests.fakes.pbs_month FOLDER RECORDS [SEED]
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

FIRST_DAY = 1_793_491_200  # 2026-11-01 00:00:00 UTC
DAY = 86400
DAYS = 30


def stamp(epoch: float) -> str:
    """The local time (here UTC) in front of a record."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%m/%d/%Y %H:%M:%S")


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def job_records(rng: np.random.Generator, number: int, submit: int) -> Iterator[tuple[int, str]]:
    """The records of one job's life with their times: Q, maybe a, S, maybe R, E; or Q and D."""
    user, ncpus = int(rng.integers(1, 40)), int(2 ** rng.integers(0, 6))
    wait, run = int(rng.exponential(1800)), 1 + int(rng.exponential(3600))
    job = f"{number}.head" if number % 25 else f"{number}[{number % 7}].head"
    account = f'account="team {user % 4}" ' if number % 10 == 0 else ""
    who = f"user=u{user} group=g{user % 5} {account}project=_pbs_project_default"
    asked = (
        f"Resource_List.mem={ncpus}gb Resource_List.ncpus={ncpus} Resource_List.nodect=1 "
        f"Resource_List.place=free Resource_List.select=1:ncpus={ncpus}:mem={ncpus}gb "
        f"Resource_List.walltime={clock(2 * run)}"
    )
    times = f"ctime={submit} qtime={submit} etime={submit}"
    header = f"{who} jobname=train_{number % 50} queue=workq {times}"
    start, end = submit + wait, submit + wait + run
    yield submit, f"Q;{job};{header} {asked}"
    if number % 40 == 3:
        yield start, f"D;{job};requestor=u{user}@head"
        return
    if number % 4 == 0:
        yield submit + wait // 2, f"a;{job};Resource_List.rl_score={4000 + number % 1000}"
    node = f"n{number % 90}"
    where = f"start={start} exec_host={node}/0*{ncpus} exec_vnode=({node}:ncpus={ncpus})"
    yield start, f"S;{job};{header} {where} {asked} resource_assigned.ncpus={ncpus}"
    runs = 2 if number % 50 == 7 else 1
    if runs == 2:
        yield start + run // 2, f"R;{job};{header} {where} {asked} session=0 run_count=1"
    used = (
        f"session={number % 30000} end={end} Exit_status=0 resources_used.cpupercent=98 "
        f"resources_used.cput={clock(run * ncpus)} resources_used.mem=2097152kb "
        f"resources_used.ncpus={ncpus} resources_used.vmem=4194304kb "
        f"resources_used.walltime={clock(run)} run_count={runs}"
    )
    yield end, f"E;{job};{header} {where} {asked} {used}"


def write_month(folder: Path, records: int, *, seed: int = 1, packed: int = 3) -> dict[str, int]:
    """Write daily files of about `records` lines in all; the first `packed` days are gzipped.

    Returns:
        Type -> number of records written.
    """
    rng = np.random.default_rng(seed)
    jobs = max(records * 100 // 323, 1)
    submits = np.sort(rng.integers(FIRST_DAY, FIRST_DAY + (DAYS - 2) * DAY, jobs)).tolist()
    by_day: dict[int, list[tuple[int, str]]] = {day: [] for day in range(DAYS)}
    counts: dict[str, int] = {}
    for number, submit in enumerate(submits, start=1000):
        for when, text in job_records(rng, number, submit):
            counts[text[0]] = counts.get(text[0], 0) + 1
            by_day[min((when - FIRST_DAY) // DAY, DAYS - 1)].append((when, text))
    folder.mkdir(parents=True, exist_ok=True)
    for day, lines in by_day.items():
        lines.sort(key=lambda line: line[0])
        content = "".join(f"{stamp(when)};{text}\n" for when, text in lines).encode()
        name = datetime.fromtimestamp(FIRST_DAY + day * DAY, UTC).strftime("%Y%m%d")
        if day < packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, 1))
        else:
            (folder / name).write_bytes(content)
    return counts


if __name__ == "__main__":
    print(write_month(Path(sys.argv[1]), int(sys.argv[2]), seed=int((sys.argv[3:] or ["1"])[0])))  # noqa: T201
