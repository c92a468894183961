"""The learned policy: an ONNX model run by onnxruntime on one thread."""

from __future__ import annotations

import errno
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import Decision, Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import ModelSchemaMismatch, ModelUnreadable, PolicyError, ScoreInvalid
from slurm_rl_plugin.features.columns import feature_columns
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.features.history.past_runs import (
    ForetoldRuns,
    KnownPast,
    PastRuns,
    known_past,
    quantiles_now,
)
from slurm_rl_plugin.features.history.run_history import ARRIVAL_MEMORY, recent_arrivals
from slurm_rl_plugin.features.probe import known_schema
from slurm_rl_plugin.features.site import SITE, FeatureSchema, longest_wait
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import LONGEST_FILE, read_whole

#: Numbers of a memory before the graph's own: `recent_arrivals`, and the longest wait.
_BEFORE_GRAPH = ARRIVAL_MEMORY + 1
#: Number of last starts that step a graph's memory; a reservoir has forgotten earlier ones.
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """A model's metadata: its schema, its training and its goals."""

    path: Path
    sha256: str  #: of the file, hexadecimal
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weights of the model's training; {} where the file has none that can be read.

        They are only compared with the site's weights, so no model is refused for them.
        """
        try:
            weights = json.loads(self.metadata.get("reward_weights", "{}"))
            return {name: float(weight) for name, weight in weights.items()}
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembered:
    """The parts of a memory; `arrived` is None before the first decision.

    `longest` is the longest recent wait, seconds, at the time of `arrived`. `graph` is the graph's
    own memory; `queue` are the queue features of the last decision.
    """

    graph: NDArray[np.float32]
    queue: NDArray[np.float32]
    arrived: FloatArray | None = None
    longest: float = 0.0
    past: PastRuns = field(default_factory=PastRuns)
    foretold: ForetoldRuns = field(default_factory=ForetoldRuns)


@dataclass(frozen=True, slots=True, kw_only=True)
class QNetworkPolicy:
    """Scores a queue with an ONNX Q-network; thread-safe, the caller keeps its memory.

    Its memory is that of `recent_arrivals` and the longest recent wait; then the graph's own, if
    any (2011, section 3.2: the state of the reservoir, and the queue features of the last
    decision); then, on the `site` schema, `ForetoldRuns` and `PastRuns` of varying length.
    """

    name: str  #: of the file
    card: ModelCard
    schema: FeatureSchema  #: of the graph's inputs
    estimates: RunTimeEstimate  #: of run times
    session: Any  #: of onnxruntime
    memory_size: int = 0  #: numbers in the graph's own memory
    holds: bool = False  #: whether the graph gives a reserve free of batch work
    goals: Goals = AS_TRAINED  #: of the site

    @property
    def knows_past(self) -> bool:
        """Whether its graph uses past runs."""
        return self.schema == SITE

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score every pending job by the ONNX graph, which may also give a reserve and a memory."""
        inputs, known, after = self._ready(snapshot, memory)
        answers = self._run(inputs, len(snapshot.pending))
        return Decision(
            scores=_as_scores(answers),
            reserve=self._processors(answers, snapshot.capacity),
            memory=self._memory(after),
            run_times=partial(quantiles_now, known, after.foretold) if self.knows_past else None,
        )

    def job_features(
        self, snapshot: QueueSnapshot, memory: Memory | None = None
    ) -> NDArray[np.float32]:
        """Inputs of the graph for each pending job, shape [n, Fj]; names in `schema.jobs`."""
        features: NDArray[np.float32] = self._ready(snapshot, memory)[0]["jobs"]
        return features

    def scores_of(
        self,
        snapshot: QueueSnapshot,
        memory: Memory | None,
        tables: Iterable[NDArray[np.float32]],
    ) -> Iterator[FloatArray]:
        """Scores of the pending jobs with other features, for each table of features."""
        inputs, _, _ = self._ready(snapshot, memory)
        for jobs in tables:
            yield _as_scores(self._run({**inputs, "jobs": jobs}, len(jobs)))

    def _ready(
        self, snapshot: QueueSnapshot, memory: Memory | None
    ) -> tuple[dict[str, Any], KnownPast | None, _Remembered]:
        """Inputs of the graph, the known past of the pending jobs, and the memory afterwards."""
        before = self._remembered(memory)
        arrived = recent_arrivals(snapshot, before.arrived)
        past, foretold, longest = before.past, before.foretold, 0.0
        if self.knows_past:
            past = past.after(snapshot)
            foretold = foretold.after(snapshot, past)
            longest = _longest_wait(before, snapshot)
        known = self._known(snapshot, past)
        inputs = self._features(snapshot, arrived[1:], known, longest)
        graph = before.graph
        if self.memory_size:
            graph = inputs["memory_in"] = self._stepped(snapshot, before, past)
        after = _Remembered(
            arrived=arrived,
            longest=longest,
            graph=graph,
            queue=inputs["queue"],
            past=past,
            foretold=foretold,
        )
        return inputs, known, after

    def _stepped(
        self, snapshot: QueueSnapshot, before: _Remembered, past: PastRuns
    ) -> NDArray[np.float32]:
        """The graph's memory after one step for each job that started since the last decision.

        As in training, a step takes the features of the started job and those of the queue at the
        decision before the start. A cycle without a start changes nothing.
        """
        graph, started = before.graph, snapshot.started
        if before.arrived is None or len(started) == 0:
            return graph
        order = np.lexsort((started.jobs.job_id, started.start))[-_MOST_STEPS:]
        jobs = started.jobs.select(order)
        accrued = np.maximum(started.start[order] - jobs.eligible, 0.0)
        chosen = replace(snapshot, pending=replace(PendingJobs.untouched(jobs), accrued=accrued))
        known = self._known(chosen, past)
        for row in self._features(chosen, before.arrived[1:], known, before.longest)["jobs"]:
            inputs = {"queue": before.queue, "jobs": row[None], "memory_in": graph}
            graph = self._run(inputs, 1, ["memory_out"])["memory_out"]
        return graph

    def _known(self, snapshot: QueueSnapshot, past: PastRuns) -> KnownPast | None:
        """Features of the pending jobs from past runs; None if the graph or the queue has none."""
        jobs = snapshot.pending.jobs
        if not self.knows_past or len(jobs) == 0:
            return None
        return known_past(snapshot, jobs, past, snapshot.each_waits_as)

    def _remembered(self, memory: Memory | None) -> _Remembered:
        """The parts of a memory; empty for the memory of another model."""
        behind_graph = _BEFORE_GRAPH + self.memory_size
        whole = behind_graph + (len(self.schema.queue) if self.memory_size else 0)
        past: PastRuns | None = PastRuns()
        foretold = ForetoldRuns()
        if memory is not None and self.knows_past:
            foretold, behind = ForetoldRuns.from_memory(memory[whole:])
            past = None if behind is None else PastRuns.from_memory(behind)
            memory = memory[:whole]
        if memory is None or past is None or len(memory) != whole:
            nothing = np.zeros(self.memory_size, dtype=np.float32)
            return _Remembered(graph=nothing, queue=nothing[:0])
        return _Remembered(
            arrived=memory[:ARRIVAL_MEMORY],
            longest=float(memory[ARRIVAL_MEMORY]),
            graph=memory[_BEFORE_GRAPH:behind_graph].astype(np.float32),
            queue=memory[behind_graph:].astype(np.float32),
            past=past,
            foretold=foretold,
        )

    def _memory(self, after: _Remembered) -> Memory:
        assert after.arrived is not None
        parts = [after.arrived, np.array([after.longest])]
        if self.memory_size:
            parts += [np.asarray(each, np.float64) for each in (after.graph, after.queue)]
        if self.knows_past:
            parts += [after.foretold.to_memory(), *after.past.to_memory()]
        return np.concatenate(parts)

    def _features(
        self,
        snapshot: QueueSnapshot,
        arrived: FloatArray,
        told: KnownPast | None,
        longest: float,
    ) -> dict[str, Any]:
        waiting, running = (
            self.estimates.estimate(jobs.time_limit, jobs.interactive)
            for jobs in (snapshot.pending.jobs, snapshot.running.jobs)
        )
        goals = self.goals.resolved(snapshot.shares)
        queue, jobs = feature_columns(
            self.schema, snapshot, waiting, running, arrived, told, goals, longest
        )
        return {"queue": queue, "jobs": jobs}

    def _run(
        self, inputs: Mapping[str, Any], jobs: int, wanted: Sequence[str] = ()
    ) -> dict[str, Any]:
        wanted = wanted or ["score", *["reserve"] * self.holds]
        try:
            return dict(zip(wanted, self.session.run(wanted, inputs), strict=True))
        except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
            raise PolicyError(
                f"model {self.card.path} failed on {jobs} jobs ({error}): retrain it."
            ) from None

    def _processors(self, answers: Mapping[str, Any], capacity: int) -> int | None:
        if not self.holds:
            return None
        wanted = float(np.asarray(answers["reserve"]).reshape(-1)[0])
        if not math.isfinite(wanted):
            raise ScoreInvalid(
                f"model {self.card.path} asks for a reserve of {wanted}: retrain it."
            )
        return int(min(max(math.floor(wanted + 0.5), 0), capacity))


def _longest_wait(before: _Remembered, snapshot: QueueSnapshot) -> float:
    """The longest recent wait of jobs that wait for the machine, seconds.

    A clock that was set back shortens it by the same time.
    """
    last = snapshot.now if before.arrived is None else float(before.arrived[0])
    known = max(before.longest - max(last - snapshot.now, 0.0), 0.0)
    waited = np.nan_to_num(snapshot.unserved_wait)[snapshot.waits_for_machine]
    since = max(snapshot.now - last, 0.0)
    return float(longest_wait(known, since, float(waited.max(initial=0.0))))


def _as_scores(answers: Mapping[str, Any]) -> FloatArray:
    return np.asarray(answers["score"], dtype=np.float64).reshape(-1)


def with_goals(policy: Policy, goals: Goals) -> Policy:
    """The policy with the site's goals; a rule has no goals."""
    return replace(policy, goals=goals) if isinstance(policy, QNetworkPolicy) else policy


def load_q_network(path: Path) -> QNetworkPolicy:
    """Read and check a model.

    Raises:
        ModelUnreadable: missing, too large, or no ONNX model that onnxruntime can run.
        ModelSchemaMismatch: trained for other features than this release computes.
        PolicyError: onnxruntime itself cannot be loaded.
    """
    content = _content(path)
    onnxruntime = _onnxruntime(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_mem_pattern = False  # it keeps a plan for each length of the queue
    try:
        session = onnxruntime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # it would try again and print to standard output
        )
        metadata = dict(session.get_modelmeta().custom_metadata_map)
        inputs = _check_inputs(path, session)
    except PolicyError:
        raise
    except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
        raise ModelUnreadable(
            f"model {path} cannot be read as ONNX ({type(error).__name__}): copy it again or "
            "retrain."
        ) from None
    schema = known_schema(path, metadata)
    card = ModelCard(path=path, sha256=hashlib.sha256(content).hexdigest(), metadata=metadata)
    return QNetworkPolicy(
        name=path.stem,
        card=card,
        schema=schema,
        estimates=_estimates(path, metadata),
        session=session,
        memory_size=inputs.get("memory_in", 0),
        holds=any(each.name == "reserve" for each in session.get_outputs()),
    )


def _content(path: Path) -> bytes:
    """The bytes of a model, up to the size that a model may have."""
    try:
        return read_whole(path)
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        if error.errno == errno.EFBIG:
            what = f"has more than {LONGEST_FILE // 1024**2} MB, the limit for a model"
        raise ModelUnreadable(f"model {path} {what}: give the path of a model.") from None


def _onnxruntime(path: Path) -> Any:
    """The inference library, loaded only for a model, so that nothing else fails with it."""
    try:
        from slurm_rl_plugin.policies.silent_onnxruntime import onnxruntime  # noqa: PLC0415
    except Exception as error:  # noqa: BLE001 - a broken library may raise anything
        words = " ".join(str(error).split()) or type(error).__name__
        raise PolicyError(
            f"model {path} cannot be used: onnxruntime cannot be loaded ({words}): install "
            "slurm_rl_plugin again, or name a rule in [policy] model."
        ) from None
    return onnxruntime


def _check_inputs(path: Path, session: Any) -> dict[str, int]:
    """Refuse a graph that this release cannot feed; the length of each input's last axis."""
    inputs = {each.name: each.shape[-1] for each in session.get_inputs()}
    outputs = {each.name for each in session.get_outputs()}
    remembers = isinstance(inputs.get("memory_in"), int) and "memory_out" in outputs
    wanted = {"queue", "jobs", "memory_in"} if remembers else {"queue", "jobs"}
    if set(inputs) != wanted or "score" not in outputs or remembers != ("memory_out" in outputs):
        raise ModelSchemaMismatch(
            f"model {path} takes {sorted(inputs)} and gives {sorted(outputs)} instead of queue "
            "and jobs to score (and memory_in to memory_out): retrain it."
        )
    return inputs


def _estimates(path: Path, metadata: Mapping[str, str]) -> RunTimeEstimate:
    """The run-time estimates of the model's training; the oracle is not available online."""
    if metadata.get("estimates") != "class-median":
        return RequestedLimit()
    try:
        medians = json.loads(metadata["class_medians"])
        return ClassMedian(
            interactive_median=float(medians["interactive"]), batch_median=float(medians["batch"])
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise ModelSchemaMismatch(
            f"model {path} names class medians as its estimates but holds none: retrain it."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureEffect:
    """The effect of one feature of one job on its score."""

    name: str  #: as in the schema
    value: float  #: of the job, the input of the graph
    median: float  #: of all pending jobs
    effect: float  #: score less that with the median; effects do not add up, as features interact


def feature_effects(
    policy: QNetworkPolicy, snapshot: QueueSnapshot, memory: Memory | None, place: int
) -> list[FeatureEffect]:
    """The effect of each feature on the score of the job at `place`, the largest first.

    The graph runs on the whole queue once for each feature, so this works for any graph.
    """
    jobs = policy.job_features(snapshot, memory)
    median = np.median(jobs, axis=0)

    def tables() -> Iterator[NDArray[np.float32]]:
        """The features, then tables with one of the job's features replaced."""
        yield jobs
        for column in range(jobs.shape[1]):
            changed = jobs.copy()
            changed[place, column] = median[column]
            yield changed

    scores = policy.scores_of(snapshot, memory, tables())
    own = float(next(scores)[place])
    effects = [
        FeatureEffect(
            name=name,
            value=float(jobs[place, column]),
            median=float(median[column]),
            effect=own - float(without[place]),
        )
        for column, (name, without) in enumerate(zip(policy.schema.jobs, scores, strict=True))
    ]
    return sorted(effects, key=lambda each: -abs(each.effect))
