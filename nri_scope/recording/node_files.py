# SPDX-License-Identifier: Apache-2.0
"""What the agent of a node and its clients agree on about the node's recordings."""

from __future__ import annotations

import re

SUFFIX = ".nriscope.db"
"""End of a recording's file name."""
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)
"""Names, without `SUFFIX`, of recordings that are served."""
MAX_RECORDINGS = 64
"""Maximum number of recordings that are served, those that were written to last."""
AGENT_PORT = 9643
"""Default port of the agent's gRPC service."""
NUMBERS = 10**9
"""Numbers of events of one recording: a node's recordings are numbered from 0, and event E of
recording N has the number ``N * NUMBERS + E`` in what the agent sends."""
AUDIENCE = "nri-scope"
"""Audience of tokens for agents only, which the API server itself does not accept."""
