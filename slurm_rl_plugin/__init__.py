"""A Slurm and PBS plugin that orders the queue by a model made offline, such as a Q-network."""

from importlib.metadata import PackageNotFoundError, version

#: The release that this checkout is or leads to. setup.py makes a build's version from it and git.
RELEASE = "0.2.0"
try:
    __version__ = version(__name__)
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = RELEASE
