# SPDX-License-Identifier: Apache-2.0
"""The widgets: they draw what the model says, and tell the app what was asked for."""

from __future__ import annotations
