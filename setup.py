"""Metadata and extras of slurm_rl_plugin."""

import os
import subprocess
from pathlib import Path

from setuptools import find_packages, setup

TOP = Path(__file__).parent
RELEASE = next(
    line.split('"')[1]
    for line in (TOP / "slurm_rl_plugin" / "__init__.py").read_text().splitlines()
    if line.startswith("RELEASE")
)


def build_version() -> str:
    """0.2.0 at its tag, 0.2.0.post3+gHASH three commits later, 0.2.0.dev900+gHASH before the tag."""
    given = os.environ.get("SLURM_RL_VERSION")  # a build of files that were copied out of git
    if given or not (TOP / ".git").exists():
        return given or RELEASE

    def git(*words: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(TOP), *words], capture_output=True, text=True, check=False
        )
        return found.stdout.strip()

    tag = f"v{RELEASE}"
    tagged = git("tag", "--list", tag, "--merged", "HEAD")
    count, commit = (
        git("rev-list", "--count", f"{tag}..HEAD" if tagged else "HEAD"),
        git("rev-parse", "--short=8", "HEAD"),
    )
    if not commit or (tagged and count == "0"):
        return RELEASE
    return f"{RELEASE}.{'post' if tagged else 'dev'}{count}+g{commit}"


# Lower bounds are the oldest versions that work: `make test-lowest` installs exactly these.
RUNTIME = [
    "numpy>=1.26",
    "onnxruntime>=1.17",
    "prometheus-client>=0.23.1",
    "cheroot>=11",
    "jinja2>=3.1",
]
# simulator/kernel/compilation.py uses private parts of numba, which any release may change: the
# upper bound is the release after the locked one, and `make lock` raises it (ADR 44).
SIMULATE = ["numba>=0.63,<0.69", "matplotlib>=3.8", "rich>=13", "polars>=2.1", "scipy>=1.15"]
TRAIN = [*SIMULATE, "onnx>=1.16", "cmaes>=0.11", "scikit-learn>=1.4"]
TEST = [
    *TRAIN,
    "pytest>=8",
    "hypothesis>=6.100",
    "pytest-rerunfailures>=14",
    "import-linter>=2.5",
    "ruff>=0.17",
    "mypy>=2.4",
    "shtab>=1.13",
    "codespell>=2.4",
    "selenium>=4.20",
    "axe-core-python>=0.1",
]
# Who orders a queue needs no published experiment: SLURM_RL_PAPERS=no packs none, as for a head node.
WING = ["slurm_rl_plugin.papers*"] if os.environ.get("SLURM_RL_PAPERS") == "no" else []

setup(
    name="slurm_rl_plugin",
    version=build_version(),
    description=(
        "Orders a Slurm or PBS queue by a model that is made offline, within a bound: by default a "
        "linear score with weights chosen on past logs, or a Q-network trained on accounting logs"
    ),
    long_description=(TOP / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="GPL-2.0-or-later",
    python_requires=">=3.11",
    packages=find_packages(include=["slurm_rl_plugin", "slurm_rl_plugin.*"], exclude=WING),
    package_data={
        "": ["*.toml", "model_card.md", "*.onnxtxt"],
        "slurm_rl_plugin": [
            "py.typed",
            "cli/demo/logs/*",
            "html_pages/templates/*",
        ],
    },
    data_files=[
        (
            "share/slurm-rl/policy_models",
            [str(p.relative_to(TOP)) for p in (TOP / "policy_models").glob("*.*")],
        ),
        (
            "share/slurm-rl/pbs",
            [str(p.relative_to(TOP)) for p in (TOP / "deploy" / "pbs").glob("*.*")],
        ),
        ("share/slurm-rl/pbs/systemd", ["deploy/pbs/systemd/pbs.conf"]),
    ],
    install_requires=RUNTIME,
    extras_require={"slurm": ["pyslurm"], "simulate": SIMULATE, "train": TRAIN, "test": TEST},
    entry_points={"console_scripts": ["slurm-rl = slurm_rl_plugin.cli.entry:main"]},
)
