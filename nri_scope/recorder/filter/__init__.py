# SPDX-License-Identifier: Apache-2.0
"""The filter language: one parser for ``--where``, the filter bar, export and replay."""

from __future__ import annotations

from nri_scope.recorder.filter.fields import FIELDS, Field, Kind
from nri_scope.recorder.filter.filter import Filter, parse
from nri_scope.recorder.filter.sql import register

__all__ = ["FIELDS", "Field", "Filter", "Kind", "parse", "register"]
