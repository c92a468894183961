"""What a class rule may look at to call a job interactive or batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """The words of one job, as the batch system gives them.

    Attributes:
        partition: where it was submitted; all, with commas, for a job that names several.
        qos: quality of service; empty where there is none.
        name: job name, any text.
        time_limit: requested run time in seconds; NaN where none is known.
        has_batch_script: False for a job started from a terminal; None where unknown.
        account: account that is charged.
        user: login name of the owner.
        words: what the user wrote for us with the job, as `words_for_us` finds it.
    """

    partition: str
    qos: str
    name: str
    time_limit: float
    has_batch_script: bool | None
    account: str
    user: str
    words: str = ""
