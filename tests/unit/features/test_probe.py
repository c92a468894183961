"""A formula that changes under its schema's version is found: here, and when a model loads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features import columns, probe
from slurm_rl_plugin.features.columns import KNOWN_SCHEMAS
from slurm_rl_plugin.features.probe import (
    PROBE_ENTRY,
    known_schema,
    probe_digest,
    probe_values,
    schema_entries,
)
from slurm_rl_plugin.features.site import SITE

#: Schema and version -> digest and values. An entry is never changed, only added.
STORED = json.loads((Path(__file__).parent / "feature_probe.json").read_text())
MODEL = Path("model.onnx")
EVERY = pytest.mark.parametrize(
    "schema", KNOWN_SCHEMAS, ids=lambda schema: f"{schema.name} {schema.version}"
)


@EVERY
def test_the_features_of_a_version_are_what_they_were(schema):
    # If this fails, a formula has changed: raise the schema's version, retrain, and add an entry
    # with `python -m tests.unit.features.test_probe`.
    stored, now = STORED[f"{schema.name} {schema.version}"], probe_values(schema)
    assert list(now) == list(stored["values"])
    for name, column in stored["values"].items():
        assert now[name] == pytest.approx(column, rel=1e-7, abs=1e-7), name
    assert probe_digest(schema) == stored["digest"]


@EVERY
def test_the_fixed_queue_tells_every_feature_from_0_and_job_features_from_each_other(schema):
    values = probe_values(schema)
    silent = [name for name, column in values.items() if not any(column)]
    assert silent in ([], ["queued_fraction_2"])
    columns_of_jobs = [tuple(column) for column in values.values() if len(column) > 1]
    assert len(set(columns_of_jobs)) == len(columns_of_jobs)


def test_a_changed_formula_changes_the_digest_and_refuses_new_models_only(monkeypatch):
    new, before = schema_entries(SITE), probe_digest(SITE)
    old = {name: value for name, value in new.items() if name != PROBE_ENTRY}
    assert known_schema(MODEL, new) == known_schema(MODEL, old) == SITE
    probe_digest.cache_clear()
    monkeypatch.setattr(columns, "SOON", 1210.0)
    assert probe_digest(SITE) != before
    assert known_schema(MODEL, old) == SITE
    with pytest.raises(ModelSchemaMismatch, match=r"schema site version 5 that were computed"):
        known_schema(MODEL, new)
    monkeypatch.undo()
    probe_digest.cache_clear()
    assert probe_digest(SITE) == before


def test_another_schema_is_refused_whatever_its_values():
    with pytest.raises(ModelSchemaMismatch, match="version 99, this release computes site"):
        known_schema(
            MODEL,
            schema_entries(SITE)
            | {"schema_version": "99", "schema_digest": replace(SITE, version=99).digest},
        )


def add_entries() -> None:
    """Store what is computed for schemas and versions that have no entry."""
    for schema in KNOWN_SCHEMAS:
        entry = {"digest": probe.probe_digest(schema), "values": probe_values(schema)}
        STORED.setdefault(f"{schema.name} {schema.version}", entry)
    path = Path(__file__).parent / "feature_probe.json"
    path.write_text(json.dumps(STORED, indent=1) + "\n")


if __name__ == "__main__":
    add_entries()
