"""Jobs in the accounting of the fake Slurm, with every field that ours ask for."""

from __future__ import annotations

from typing import Any


def ended_job(number: int, submit: int, **values: Any) -> dict[str, Any]:
    """A record of a job that waited for 10 s and ran for 50; times in seconds since the epoch."""
    first = {"Submit": submit, "Start": submit + 10, "ElapsedRaw": 50, **values}
    never = first["Start"] == "None"
    job: dict[str, Any] = {
        "Cluster": "fake",
        "JobIDRaw": number,
        "User": "alice",
        "Account": "physics",
        "Partition": "batch",
        "QOS": "normal",
        "Eligible": first["Submit"],
        "End": submit if never else first["Start"] + first["ElapsedRaw"],
        "TimelimitRaw": 10,
        "Constraints": "",
        "NCPUS": 1,
        "NNodes": 1,
        "ReqCPUS": 1,
        "AllocCPUS": 1,
        "Flags": "SchedMain",
        "JobName": "trial",
        "State": "COMPLETED",
        "SubmitLine": "sbatch trial.sh",
        **first,
    }
    job["ReqTRES"] = f"billing={job['NCPUS']},cpu={job['NCPUS']},mem=1G,node=1"
    assert not values.keys() - job.keys(), values
    return job


def ended_load(count: int, first: int) -> list[dict[str, Any]]:
    """Jobs of two accounts, one every 30 s from `first` on, that run for 20 to 300 s."""
    return [
        ended_job(
            number + 1,
            first + 30 * number,
            ElapsedRaw=20 + 40 * (number % 8),
            NCPUS=1 + number % 3,
            **({"Account": "biology", "User": "bob"} if number % 3 == 0 else {}),
        )
        for number in range(count)
    ]
