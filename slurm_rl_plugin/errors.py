"""Every error of the product, sorted by what the operator does next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class SlurmRLError(Exception):
    """Base of all errors that a user can meet; its text is one sentence that says what to do."""


class ConfigurationError(SlurmRLError):
    """The configuration or the command line is wrong: mend it. Lists every fault at once."""

    def __init__(self, faults: str | Sequence[str]) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(self.faults))


class FormulaError(ConfigurationError, ValueError):
    """A formula is refused, or has no value here: write another one."""


class AccountingLogError(SlurmRLError):
    """An accounting log cannot be read: mend the file. Names the file, the line and the field."""

    def __init__(
        self, path: str | Path, problem: str, *, line: int | None = None, field: str | None = None
    ) -> None:
        self.path = Path(path)
        self.line = line
        self.field = field
        where = str(path) + (f":{line}" if line is not None else "")
        what = f"field {field}: {problem}" if field is not None else problem
        super().__init__(f"{where}: {what}")


class BatchSystemError(SlurmRLError):
    """Talking to the batch system failed: what was asked of it was not done."""


class BatchSystemUnavailable(BatchSystemError):
    """The batch system does not answer: touch nothing, back off, try again."""


class ChangeRejected(BatchSystemError):
    """The batch system refused a change for good (permission, unknown job): do not repeat it."""


class NothingCarriesLimit(ChangeRejected):
    """What would carry a limit on batch jobs is not there, so no limit of ours can stand on it."""


class JobNotAccepted(BatchSystemError):
    """The batch system would not take a job as it is described: change the job, or go elsewhere."""


class SubmissionUnknown(BatchSystemError):
    """Nobody knows whether a job was submitted: look for it before you submit it again."""


class RequestRefused(SlurmRLError):
    """A service does not answer a request as it is made.

    Attributes:
        status: of HTTP, as `404 Not Found`; "" where no service answered.
        retry_after: seconds after which the client may ask again; None where that changes nothing.
    """

    def __init__(self, status: str, words: str, *, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(words)


class QueueFileError(SlurmRLError):
    """The daemon's look at the queue cannot be had: let it leave one where it is looked for."""


class JobNotPending(SlurmRLError):
    """The job has no place in the queue: look at it with squeue, sacct or `slurm-rl audit`."""


class DisableFileError(SlurmRLError):
    """The disable file cannot be made or removed: do it as a user who may."""


class LockHeld(SlurmRLError):
    """What holds the daemon's lock is no daemon of ours: end that process."""


class PolicyError(SlurmRLError):
    """The policy cannot decide: fall back to FIFO and mend the model."""


class ModelUnreadable(PolicyError):
    """The file is no ONNX model: copy it again or retrain."""


class ModelSchemaMismatch(PolicyError):
    """The model was trained for other features than this release computes: retrain."""


class ScoreInvalid(PolicyError):
    """The policy gave scores that are not finite or not one for each pending job."""


class PolicyTimeout(PolicyError):
    """The policy took longer than its deadline."""


class SimulationError(SlurmRLError):
    """An invariant of the simulator broke: our bug; please report it."""
