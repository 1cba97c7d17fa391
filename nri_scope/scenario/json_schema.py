# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of scenarios, from the shapes with which they are read."""

from __future__ import annotations

from .document import SCENARIO
from .model import VERSION
from .shapes import Definitions, Schema


def scenario_schema() -> Schema:
    """Return the schema of a whole document (draft 2020-12)."""
    definitions: Definitions = {}
    root = SCENARIO.schema(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Scenario of nri-scope, version {VERSION}",
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }
