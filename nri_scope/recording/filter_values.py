# SPDX-License-Identifier: Apache-2.0
"""Completion candidates for the fields of a filter, from a recording's values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nri_scope.specs import label

from .reader import Recording, Value
from .sqlite_errors import query_rows
from .sqlite_text import characters_sql
from .subject_queries import texts

_MAX_CANDIDATES = 500
"""Maximum number of candidates for one field."""
_MAX_NAME = 253
"""Maximum number of characters of a name, as in Kubernetes."""
_MAX_EVENTS = 50_000
"""Number of newest events whose lists of changes and owners are read."""
_MAX_LISTS = 2_000
"""Maximum number of different lists that are decoded."""
_MAX_LIST_CHARACTERS = 20_000
"""Maximum number of characters of a list that is decoded."""
_MAX_PATH = 200
"""Maximum number of characters of a path or owner."""


def completion_values(recording: Recording) -> dict[str, list[str]]:
    """Return completion candidates by field of the filter language. Raises RecordingError."""
    sessions = recording.sessions()
    return {
        "pod": _names(recording, "name", "pod"),
        "ns": _names(recording, "namespace", "pod"),
        "container": _names(recording, "name", "container"),
        "plugin": _sorted(session.plugin for session in sessions),
        "owner": _listed(recording, "owners"),
        "changed": _sorted(map(label, _listed(recording, "changed"))),
        "index": _sorted(session.plugin_index for session in sessions),
        "runtime": _sorted(session.runtime_name for session in sessions),
        "session": [str(session.id) for session in sessions[-_MAX_CANDIDATES:]],
    }


def _names(recording: Recording, column: str, table: str) -> list[str]:
    # Not from `Recording.containers`, which may return hundreds of thousands.
    return _sorted(
        _strings(
            recording,
            f"SELECT DISTINCT {column} FROM {table} "
            f"WHERE {characters_sql(column)} BETWEEN 1 AND ? LIMIT ?",
            _MAX_NAME,
            _MAX_CANDIDATES,
        )
    )


def _listed(recording: Recording, column: str) -> list[str]:
    """Return the members of the JSON lists in a column of the newest events."""
    lists = _strings(
        recording,
        f"SELECT DISTINCT {column} FROM changes WHERE {column} IS NOT NULL "
        f"AND id > (SELECT max(id) FROM event) - ? AND {characters_sql(column)} <= ? LIMIT ?",
        _MAX_EVENTS,
        _MAX_LIST_CHARACTERS,
        _MAX_LISTS,
    )
    found = {text for encoded in lists for text in texts(encoded) if len(text) <= _MAX_PATH}
    return _sorted(found)


def _strings(recording: Recording, query: str, *values: Value) -> Iterator[str]:
    rows = query_rows(recording, query, *values)
    return (value for (value,) in rows if isinstance(value, str))


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})[:_MAX_CANDIDATES]
