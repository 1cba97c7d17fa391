# SPDX-License-Identifier: Apache-2.0
"""The recording that `nri-scope demo` shows."""

from __future__ import annotations

DEMO_EVENTS = 88
