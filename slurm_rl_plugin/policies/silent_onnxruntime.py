"""onnxruntime without its telemetry; import it from here only.

From 1.29 on its builds for Linux send the name and a hash of every model that they load to their
maker, and keep an identifier of the machine in the home folder. These variables stop both; they
are read once, when the library is loaded.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["ORT_TELEMETRY_DISABLED"] = "1"  # as builds before the release called it

import onnxruntime  # noqa: TID251 - here, after the variables are set

__all__ = ["onnxruntime"]
