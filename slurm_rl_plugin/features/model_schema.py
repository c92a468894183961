"""What a model's metadata say of its features, and whether this release computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.columns import KNOWN_SCHEMAS
from slurm_rl_plugin.features.probe import probe_digest
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.features.site import SITE

#: Entry of a model's metadata: digest of what its features were on the fixed queue of `probe`.
#: Older models have none.
PROBE_ENTRY = "feature_probe"


def schema_entries(schema: FeatureSchema) -> dict[str, str]:
    """What a new model says of its features; of a schema not computed here, no values."""
    entries = {
        "schema_name": schema.name,
        "schema_version": str(schema.version),
        "schema_digest": schema.digest,
    }
    if schema in KNOWN_SCHEMAS:
        entries[PROBE_ENTRY] = probe_digest(schema)
    return entries


def known_schema(path: Path, metadata: Mapping[str, str]) -> FeatureSchema:
    """The schema that a model's metadata name.

    Raises:
        ModelSchemaMismatch: trained for other features than this release computes, or for features
            of the same names that were computed in another way.
    """
    for schema in KNOWN_SCHEMAS:
        if metadata.get("schema_digest") == schema.digest:
            _check_values(path, metadata, schema)
            return schema
    name = metadata.get("schema_name", "unknown")
    computed = {schema.name: schema for schema in KNOWN_SCHEMAS}.get(name, SITE)
    raise ModelSchemaMismatch(
        f"model {path} was trained for schema {name} version "
        f"{metadata.get('schema_version', '?')}, this release computes {computed.name} version "
        f"{computed.version}: retrain it."
    )


def _check_values(path: Path, metadata: Mapping[str, str], schema: FeatureSchema) -> None:
    if metadata.get(PROBE_ENTRY) not in (None, probe_digest(schema)):
        raise ModelSchemaMismatch(
            f"model {path} was trained on features of schema {schema.name} version "
            f"{schema.version} that were computed in another way than by this release: retrain it."
        )
