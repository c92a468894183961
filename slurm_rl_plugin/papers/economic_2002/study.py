"""`economic`: the market of 2002 against FCFS and EASY, as a study."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.claims import economic_claims
from slurm_rl_plugin.papers.economic_2002.experiment import (
    HOPS,
    QUICK_JOBS,
    TABULATED,
    Economic,
    forwarded,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.economic_2002.figures import drawings_of
from slurm_rl_plugin.papers.economic_2002.logs import EXTRACT_JOBS, read_ctc
from slurm_rl_plugin.papers.economic_2002.markets import (
    CONFIGURATIONS,
    EASY,
    EASY_EXACT,
    EXACT,
    RESCHEDULED,
    Market,
)
from slurm_rl_plugin.papers.study.claim_tables import TextTable, judged_claims
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome


def run(asked: Asked) -> Outcome:
    """Simulate every market and the conventional schedulers, and measure."""
    asked.refuse_policy("it has no network")
    needed = "economic needs CTC-SP2: give the directory of the traces."
    traces, seeds = asked.traces_or_refuse(needed), asked.number_of_seeds()
    jobs = QUICK_JOBS if asked.quick else EXTRACT_JOBS
    log = read_ctc(traces, jobs)
    with asked.bar("simulating", steps(seeds)) as add:
        found = reproduce(log, seeds, jobs, ResultStore(asked.models), partial(add, 1))
    rows = list(_combinations(found))
    cells = [[f"{x:.4f}" if isinstance(x, float) else x for x in row.values()] for row in rows]
    shown = TextTable(["WORKLOAD", "MACHINES", "WAY", "MF", *USER_FUNCTIONS], cells)
    controls = list(_controls(found))
    hops = list(_hops(found))
    against = [
        [f"{x:.4f}" if isinstance(x, float) else x for x in row.values()] for row in controls
    ]
    return Outcome(
        claims=economic_claims(found),
        seeds=range(seeds),
        table=lambda claims: judged_claims([each for each in claims if each.printed is not None]),
        more=[
            "\nFig. 10: AWRT of the best functions over FCFS with backfilling, exact times:",
            TextTable(["WORKLOAD", "MACHINES", "SAME MACHINES", "ONE OF 512"], against),
            "\nAWRT of MF1 UF1 on m128 by hops between four domains, over that on one of 512:",
            TextTable(
                ["WORKLOAD", *(f"{each} HOPS" for each in HOPS)],
                [[row["workload"], *(f"{row[str(each)]:.4f}" for each in HOPS)] for row in hops],
            ),
            "\nAWRT over EASY's with user estimates:",
            shown,
        ],
        facts={"combinations": rows, "controls": controls, "hops": hops},
        drawings=drawings_of(found.logs),
        manifest={
            "workloads": list(found.logs),
            "jobs": jobs,
            "full_size": jobs == EXTRACT_JOBS,
        },
    )


def _controls(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT of the best functions over that of either control, exact times."""
    for workload, results in found.logs.items():
        for machines in CONFIGURATIONS:
            best = results.best(machines, EXACT)[1].response
            yield {
                "workload": workload,
                "machines": machines,
                "same_machines": best / results.control(machines, EXACT)[1],
                "one_machine": best / results.conventional[EASY_EXACT],
            }


def _hops(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT on m128 where requests are forwarded so often, over that on one machine of 512."""
    for workload, results in found.logs.items():
        one = results.response(Market(configuration="m512", way=EXACT))
        ratios = {str(each): results.response(forwarded(each)) / one for each in HOPS}
        yield {"workload": workload, **ratios}


def _combinations(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT over that of EASY with user estimates by user function, a row a machine function."""
    for workload, results in found.logs.items():
        easy = results.conventional[EASY]
        for machines in TABULATED:
            for way in (EXACT, RESCHEDULED):
                for owner in MACHINE_FUNCTIONS:
                    ratios = {
                        user: results.response(
                            Market(configuration=machines, owner=owner, user=user, way=way)
                        )
                        / easy
                        for user in USER_FUNCTIONS
                    }
                    row = {"workload": workload, "machines": machines, "way": way, "owner": owner}
                    yield {**row, **ratios}
