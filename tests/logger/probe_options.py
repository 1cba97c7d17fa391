# SPDX-License-Identifier: Apache-2.0
"""Options of probes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nri_scope.logger.probe_recorder import ProbeOptions


def probe_options(socket: Path, *indices: str, **options: Any) -> ProbeOptions:
    """Return the options of probes at ``indices``."""
    chosen = ProbeOptions(
        output=None,
        socket=socket,
        name="nri-scope",
        probes=indices,
        validate=False,
        cri=None,
        duration=None,
        once=False,
        wait=False,
        redact=None,
    )
    return replace(chosen, **options)
