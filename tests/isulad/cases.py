# SPDX-License-Identifier: Apache-2.0
"""Recordings of a real iSulad."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "cases" / "isulad"
