"""What the package contains: a CycloneDX document, and a table of licences; run by build.sh.

    bill_of_materials.py PARTS REPORT LIBRARIES FOLDER

Args:
    PARTS: what cyclonedx-py says of the environment.
    REPORT: of `pip install --report`, which knows the hash of each wheel.
    LIBRARIES: where each package's licence lies.
    FOLDER: for slurm-rl.cdx.json and THIRD-PARTY-LICENSES.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

_OURS = "slurm_rl_plugin"
_CLASSIFIER = "License :: OSI Approved :: "


def licences(component: dict[str, Any], libraries: Path) -> str:
    """What the package says of its licence; else where its text lies."""
    said = [
        each.get("expression") or each["license"].get("id") or each["license"]["name"]
        for each in component.get("licenses", [])
    ]
    if said:
        return ", ".join(each.removeprefix(_CLASSIFIER) for each in said)
    name = component["name"].replace("-", "_")
    found = sorted(libraries.glob(f"*/site-packages/{name}-*.dist-info/**/LICEN[CS]E*"))
    if not found:
        sys.exit(f"bill_of_materials.py: {name} names no licence: look it up, and do not bundle it")
    return f"see /opt/slurm-rl/lib/{found[0].relative_to(libraries)}"


def main(parts: Path, report: Path, libraries: Path, folder: Path) -> None:
    """Write both files."""
    document = json.loads(parts.read_text())
    installed = json.loads(report.read_text())["install"]
    hashes = {
        canonicalize_name(each["metadata"]["name"]): each["download_info"]["archive_info"]["hashes"]
        for each in installed
    }
    lines = []
    for component in [*document["components"]]:
        if component["name"] == _OURS:
            document["components"].remove(component)
            # On a package index our name may be a stranger's.
            document["metadata"]["component"] = component | {"type": "application"}
            del document["metadata"]["component"]["purl"]
            continue
        digest = hashes[canonicalize_name(component["name"])]["sha256"]
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
        licence = licences(component, libraries)
        lines.append(f"{component['name']} {component['version']}: {licence}\n")
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    version = SchemaVersion.from_version(document["specVersion"])
    if (error := JsonStrictValidator(version).validate_str(text)) is not None:
        sys.exit(f"bill_of_materials.py: {error}")
    (folder / "slurm-rl.cdx.json").write_text(text)
    (folder / "THIRD-PARTY-LICENSES").write_text("".join(lines))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
