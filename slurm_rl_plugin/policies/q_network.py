"""The learned policy: an ONNX model run by onnxruntime on one thread beside the batch system."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import ModelSchemaMismatch, ModelUnreadable, PolicyError
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.features.site import SITE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a model says of itself.

    Attributes:
        path: where it was read.
        sha256: of the file, hexadecimal.
        metadata: all entries of the file.
    """

    path: Path
    sha256: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weights the model was trained towards; {} where the file does not say."""
        return dict(json.loads(self.metadata.get("reward_weights", "{}")))


@dataclass(frozen=True, slots=True, kw_only=True)
class QNetworkPolicy:
    """Scores a queue with an ONNX Q-network; thread-safe, stateless between decisions."""

    name: str
    card: ModelCard
    estimates: RunTimeEstimate
    session: Any

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score every pending job.

        Raises:
            PolicyError: onnxruntime fails on these inputs.
        """
        waiting, running = snapshot.pending.jobs, snapshot.running.jobs
        estimate = self.estimates.estimate(waiting.time_limit, waiting.interactive)
        running_estimate = self.estimates.estimate(running.time_limit, running.interactive)
        inputs = {
            "queue": site_queue_features(snapshot, estimate, running_estimate),
            "jobs": site_job_features(snapshot, estimate),
        }
        try:
            (scores,) = self.session.run(["score"], inputs)
        except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
            raise PolicyError(
                f"model {self.card.path} failed on {len(waiting)} jobs ({error}): retrain it."
            ) from None
        return Decision(scores=np.asarray(scores, dtype=np.float64).reshape(-1), memory=memory)


def load_q_network(path: Path) -> QNetworkPolicy:
    """Read and check a model.

    Raises:
        ModelUnreadable: missing, or no ONNX model that onnxruntime can run.
        ModelSchemaMismatch: trained for other features than this release computes.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelUnreadable(
            f"model {path} cannot be read ({error.strerror}): give the path of a model."
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
        raise ModelUnreadable(
            f"model {path} cannot be read as ONNX ({type(error).__name__}): copy it again or "
            "retrain."
        ) from None
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    _check_schema(path, session, metadata)
    card = ModelCard(path=path, sha256=hashlib.sha256(content).hexdigest(), metadata=metadata)
    return QNetworkPolicy(
        name=path.stem, card=card, estimates=_estimates(path, metadata), session=session
    )


def _check_schema(path: Path, session: Any, metadata: Mapping[str, str]) -> None:
    if metadata.get("schema_digest") != SITE.digest:
        raise ModelSchemaMismatch(
            f"model {path} was trained for schema {metadata.get('schema_name', 'unknown')} "
            f"version {metadata.get('schema_version', '?')}, this release computes {SITE.name} "
            f"version {SITE.version}: retrain it."
        )
    inputs = {each.name for each in session.get_inputs()}
    outputs = {each.name for each in session.get_outputs()}
    if inputs != {"queue", "jobs"} or "score" not in outputs:
        raise ModelSchemaMismatch(
            f"model {path} takes {sorted(inputs)} and gives {sorted(outputs)} instead of queue "
            "and jobs to score: retrain it."
        )


def _estimates(path: Path, metadata: Mapping[str, str]) -> RunTimeEstimate:
    """What the model was trained to believe of run times; the oracle has no place online."""
    if metadata.get("estimates") != "class-median":
        return RequestedLimit()
    try:
        medians = json.loads(metadata["class_medians"])
        return ClassMedian(
            interactive_median=float(medians["interactive"]), batch_median=float(medians["batch"])
        )
    except (KeyError, TypeError, ValueError):
        raise ModelSchemaMismatch(
            f"model {path} names class medians as its estimates but holds none: retrain it."
        ) from None
