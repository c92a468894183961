"""Metadata and extras of slurm_rl_plugin."""

from pathlib import Path

from setuptools import find_packages, setup

TOP = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (TOP / "slurm_rl_plugin" / "__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)
SIMULATE = ["numba>=0.60", "matplotlib>=3.8", "rich>=13", "polars>=2.1"]
TRAIN = [
    *SIMULATE,
    "onnx>=1.16",
    "cmaes>=0.10",
    "scikit-learn>=1.4",
    "submitit>=1.5",
]
TEST = [
    *TRAIN,
    "pytest>=8",
    "hypothesis>=6.100",
    "pytest-benchmark>=4",
    "pytest-rerunfailures>=14",
    "scipy>=1.15",
    "import-linter>=2",
    "ruff>=0.8",
    "mypy>=1.13",
    "shtab>=1.13",
]

setup(
    name="slurm_rl_plugin",
    version=VERSION,
    description=(
        "Reorders a Slurm or PBS queue with a Q-network trained on accounting logs, within a bound "
        "that leaves Slurm's fair share in force; the shipped model gives shares no weight"
    ),
    long_description=(TOP / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="GPL-2.0-or-later",
    python_requires=">=3.11",
    packages=find_packages(include=["slurm_rl_plugin", "slurm_rl_plugin.*"]),
    package_data={"slurm_rl_plugin": ["py.typed", "cli/demo/logs/*"]},
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
    install_requires=["numpy>=1.26", "onnxruntime>=1.17", "prometheus-client>=0.20", "cheroot>=11"],
    extras_require={"slurm": ["pyslurm"], "simulate": SIMULATE, "train": TRAIN, "test": TEST},
    entry_points={"console_scripts": ["slurm-rl = slurm_rl_plugin.cli.entry:main"]},
)
