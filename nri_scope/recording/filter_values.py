# SPDX-License-Identifier: Apache-2.0
"""Values in a recording for the fields of a filter, offered for completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .reader import Recording, Value
from .sqlite_errors import query_rows
from .sqlite_text import characters_sql
from .subject_queries import texts

_VALUES_MAX = 500
"""Maximum number of values of one field that are offered for completion."""
_LONGEST_NAME = 253
"""Maximum number of characters of a name that is offered, as in Kubernetes."""
_LOOKED_AT = 50_000
"""Number of newest events that are searched for changes."""
_LISTS_MAX = 2_000
"""Maximum number of different lists of changes that are examined."""
_LONGEST_LIST = 20_000
"""Maximum number of characters of a list that is examined."""
_LONGEST_PATH = 200
"""Maximum number of characters of a path that is offered."""


def completion_values(recording: Recording) -> dict[str, list[str]]:
    """Return a recording's values for the fields of a filter. Raises RecordingError."""
    sessions = recording.sessions()
    return {
        "pod": _names(recording, "name", "pod"),
        "ns": _names(recording, "namespace", "pod"),
        "container": _names(recording, "name", "container"),
        "plugin": _sorted(session.plugin for session in sessions),
        "owner": _listed(recording, "owners"),
        "changed": _listed(recording, "changed"),
        "index": _sorted(session.plugin_index for session in sessions),
        "runtime": _sorted(session.runtime_name for session in sessions),
        "session": [str(session.id) for session in sessions[-_VALUES_MAX:]],
    }


def _names(recording: Recording, column: str, table: str) -> list[str]:
    # Not through `Recording.containers`: there may be hundreds of thousands.
    return _sorted(
        _strings(
            recording,
            f"SELECT DISTINCT {column} FROM {table} "
            f"WHERE {characters_sql(column)} BETWEEN 1 AND ? LIMIT ?",
            _LONGEST_NAME,
            _VALUES_MAX,
        )
    )


def _listed(recording: Recording, column: str) -> list[str]:
    """Return the entries of the lists in a column, in the newest events."""
    lists = _strings(
        recording,
        f"SELECT DISTINCT {column} FROM event WHERE {column} IS NOT NULL "
        f"AND id > (SELECT max(id) FROM event) - ? AND {characters_sql(column)} <= ? LIMIT ?",
        _LOOKED_AT,
        _LONGEST_LIST,
        _LISTS_MAX,
    )
    found = {one for encoded in lists for one in texts(encoded) if len(one) <= _LONGEST_PATH}
    return _sorted(found)[:_VALUES_MAX]


def _strings(recording: Recording, query: str, *values: Value) -> Iterator[str]:
    rows = query_rows(recording, query, *values)
    return (value for (value,) in rows if isinstance(value, str))


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})
