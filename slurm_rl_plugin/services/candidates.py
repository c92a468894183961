"""A policy by its name or path as the simulator takes it, for the verbs that compare policies."""

from __future__ import annotations

from slurm_rl_plugin.errors import ModelUnreadable
from slurm_rl_plugin.learning.evaluation.paired import Candidate, candidate_of_model
from slurm_rl_plugin.policies.registry import named_policy, unknown_policy
from slurm_rl_plugin.services.hook import load_policy, model_path


def candidate_of(model: str, *, name: str | None = None) -> Candidate:
    """A rule, a shipped model or the model of a path; in the compiled simulator where it can be."""
    named, path = named_policy(model), model_path(model)
    if named is not None and named.is_rule:
        return Candidate(name=model)
    if named is None and path.suffix != ".onnx" and not path.is_file():
        raise unknown_policy(model, live=False)
    try:
        return candidate_of_model(name or model, path)
    except (ModuleNotFoundError, ModelUnreadable):
        # a graph that we did not write: onnxruntime may still run it, decision by decision
        return Candidate(name=name or model, policy=load_policy(model).policy)
