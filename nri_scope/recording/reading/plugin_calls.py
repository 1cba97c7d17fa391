# SPDX-License-Identifier: Apache-2.0
"""Read the calls of plugins by the runtime's own metrics, beside those that were recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from nri_scope.events import Role
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.plain import Plain
from nri_scope.nri.plugin_metrics import CallCounts

from ..file.schema import STARTS_MAX
from ..file.sqlite_text import NAME_MAX, cut_sql
from .reader import Recording
from .rows import Row, RowError
from .sqlite_errors import query_rows, recording_errors

ROWS_MAX = 50_000
"""Maximum number of rows: those of 100 plugins and `STARTS_MAX` starts."""
_QUERY = (
    f"SELECT since_ns, {cut_sql('plugin', NAME_MAX)}, {cut_sql('operation', NAME_MAX)}, until_ns, "
    "calls, errors, took_ns FROM plugin_calls ORDER BY since_ns, plugin, operation LIMIT ?"
)
_RECORDED = (
    "SELECT s.plugin_index, s.plugin_name, n.text, count(*), avg(e.took_ns) FROM event AS e "
    "JOIN session AS s ON s.id = e.session JOIN name AS n ON n.id = e.event "
    "WHERE ({}) AND s.role IN (?, ?, ?) "
    "GROUP BY s.plugin_index, s.plugin_name, n.text LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class PluginCalls:
    """Calls of one plugin for one operation, between two readings of one runtime process."""

    since_ns: int
    """Wall clock of the first reading, in ns."""
    until_ns: int
    plugin: str
    operation: str
    counts: CallCounts


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Calls of one plugin, as measured by the runtime and as recorded."""

    plugin: str
    operation: str
    """The operation; "" for all."""
    calls: int
    errors: int
    took_ns: int
    """Total time by the runtime, in ns."""
    recorded: int = 0
    """Number of calls in sessions of the plugin, between the same readings; 0: none recorded."""
    recorded_ns: int = 0
    """Their total time."""

    @property
    def mean_ns(self) -> int:
        """Mean time of a call, measured by the runtime."""
        return self.took_ns // max(1, self.calls)

    @property
    def recorded_mean_ns(self) -> int:
        """Mean time of a recorded call."""
        return self.recorded_ns // max(1, self.recorded)

    def record(self) -> dict[str, Plain]:
        """Return the values for JSON."""
        return {
            "plugin": self.plugin,
            "operation": self.operation,
            "calls": self.calls,
            "errors": self.errors,
            "mean_us": self.mean_ns // 1000,
            "recorded": self.recorded,
            "recorded_mean_us": self.recorded_mean_ns // 1000 if self.recorded else None,
        }


def plugin_calls(recording: Recording) -> list[PluginCalls]:
    """Return the calls by the runtime's metrics, in order; [] if none were recorded.

    Raises RecordingError.
    """
    return [
        PluginCalls(since_ns, until_ns, plugin, operation, CallCounts(*counts))
        for since_ns, plugin, operation, until_ns, *counts in _checked(
            recording,
            query_rows(recording, _QUERY, ROWS_MAX),
            (int, str, str, int, int, int, int),
        )
    ]


def measured_times(recording: Recording) -> list[MeasuredTimes]:
    """Return the calls of each plugin and operation, beside those recorded meanwhile.

    Raises RecordingError.
    """
    calls = plugin_calls(recording)
    if not calls:
        return []
    spans = _spans(calls)
    query = _RECORDED.format(" OR ".join(["e.at_ns BETWEEN ? AND ?"] * len(spans)))
    roles = (Role.LOGGER, Role.PROBE, Role.TAP)
    rows = query_rows(recording, query, *chain.from_iterable(spans), *roles, ROWS_MAX)
    recorded = {
        (plugin_id(index, name), event): (count, int(count * mean))
        for index, name, event, count, mean in _checked(
            recording, rows, (str, str, str, int, float)
        )
    }
    totals: dict[tuple[str, str], list[int]] = {}
    for call in calls:
        total = totals.setdefault((call.plugin, call.operation), [0, 0, 0])
        total[0] += call.counts.calls
        total[1] += call.counts.errors
        total[2] += call.counts.took_ns
    return [
        MeasuredTimes(
            plugin,
            operation,
            total[0],
            total[1],
            total[2],
            *recorded.get((plugin, operation), (0, 0)),
        )
        for (plugin, operation), total in totals.items()
        if total[0]
    ]


def by_plugin(times: Iterable[MeasuredTimes]) -> list[MeasuredTimes]:
    """Return the sums of all operations, for each plugin in order."""
    sums: dict[str, MeasuredTimes] = {}
    for measured in times:
        total = sums.get(measured.plugin, MeasuredTimes(measured.plugin, "", 0, 0, 0))
        sums[measured.plugin] = replace(
            total,
            calls=total.calls + measured.calls,
            errors=total.errors + measured.errors,
            took_ns=total.took_ns + measured.took_ns,
            recorded=total.recorded + measured.recorded,
            recorded_ns=total.recorded_ns + measured.recorded_ns,
        )
    return [sums[plugin] for plugin in sorted(sums)]


def _spans(calls: Iterable[PluginCalls]) -> list[tuple[int, int]]:
    """Return when metrics were read, as wall clocks of the first and the newest reading."""
    ends: dict[int, int] = {}
    for call in calls:
        ends[call.since_ns] = max(call.until_ns, ends.get(call.since_ns, 0))
    return [*ends.items()][-STARTS_MAX:]


def _checked(recording: Recording, rows: list[Row], types: tuple[type, ...]) -> list[Row]:
    with recording_errors(recording):
        for row in rows:
            if tuple(map(type, row)) != types or any(cell < 0 for cell in row if type(cell) is int):
                raise RowError("the calls of plugins have values that no recorder writes")
    return rows
