"""Every error of the product, sorted by what the operator does next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class SlurmRLError(Exception):
    """Base of all errors that a user can meet; the text is one sentence that says what to do."""


class ConfigurationError(SlurmRLError):
    """The configuration or the command line is wrong: correct it. Lists all faults at once."""

    def __init__(self, faults: str | Sequence[str]) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(self.faults))


class FormulaError(ConfigurationError, ValueError):
    """A formula is invalid, or has no value for this job: write another."""


class AccountingLogError(SlurmRLError):
    """An accounting log cannot be read: correct it. Names the file, the line and the field."""

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
    """A request to the batch system failed and was not carried out."""


class BatchSystemUnavailable(BatchSystemError):
    """The batch system does not answer: change nothing, back off, try again."""


class ChangeRejected(BatchSystemError):
    """The batch system refused a change permanently (permission, unknown job): do not retry."""


class NothingCarriesLimit(ChangeRejected):
    """The QOS or the licenses for a limit on batch jobs do not exist, so no limit applies."""


class JobNotAccepted(BatchSystemError):
    """The batch system refused a job: change the job, or submit it elsewhere."""


class SubmissionUnknown(BatchSystemError):
    """The batch system may have accepted a job: look for it before you submit it again."""


class RequestRefused(SlurmRLError):
    """A service refuses a request.

    Attributes:
        status: of HTTP, such as `404 Not Found`; "" if no service answered.
        retry_after: seconds after which the client may retry; None if a retry does not help.
    """

    def __init__(self, status: str, words: str, *, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(words)


class QueueFileError(SlurmRLError):
    """The daemon's queue file cannot be read: configure the daemon to write it."""


class JobNotPending(SlurmRLError):
    """The job is not pending: look at it with squeue, sacct or `slurm-rl audit`."""


class DisableFileError(SlurmRLError):
    """The disable file cannot be made or removed: do it as a user with permission."""


class LockHeld(SlurmRLError):
    """A process that is not our daemon holds the daemon's lock: end that process."""


class PolicyError(SlurmRLError):
    """The policy cannot decide: fall back to FIFO, and replace the model."""


class ModelUnreadable(PolicyError):
    """The file is not an ONNX model: copy it again or retrain."""


class ModelSchemaMismatch(PolicyError):
    """The model was trained for other features than this release computes: retrain."""


class ScoreInvalid(PolicyError):
    """The scores are not finite, or not one for each pending job."""


class PolicyTimeout(PolicyError):
    """The policy took longer than its deadline."""


class SimulationError(SlurmRLError):
    """An invariant of the simulator is violated: please report this bug."""
