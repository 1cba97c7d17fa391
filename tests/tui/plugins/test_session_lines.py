# SPDX-License-Identifier: Apache-2.0
"""Sessions, reconnects and gaps in their order."""

from __future__ import annotations

from nri_scope.events import Gap, Role, Session
from nri_scope.tui.plugins.session_board import ConnectionRow, RuntimeRow, entries

DAY = 86_400 * 10**9


def session(
    number: int, started: int, ended: int | None, *, plugin: str = "a", runtime: str = "containerd"
) -> Session:
    return Session(
        number, Role.LOGGER, plugin, "00", runtime, "2.1", "0.8.0", False, 0, 0, 0,
        started, ended, "",
    )  # fmt: skip


def gap(number: int, at: int) -> Gap:
    return Gap(number, None, at, at + 1, "queue full", None)


def entry_names(sessions: list[Session], gaps: list[Gap]) -> list[str]:
    """Return the entries in short form."""
    names: list[str] = []
    for entry in entries(sessions, gaps, {}):
        match entry:
            case RuntimeRow(text, _):
                names.append(text.split()[0])
            case Gap():
                names.append(f"gap {entry.id}")
            case ConnectionRow():
                again = "" if entry.before is None else f" after {entry.before.id}"
                names.append(f"{entry.session.id}{again}")
    return names


def test_runtime_precedes_its_first_session() -> None:
    sessions = [
        session(1, 0, 10),
        session(2, 20, 30),
        session(3, 40, 50, runtime="cri-o"),
        session(4, 60, 70),
    ]
    assert entry_names(sessions, []) == [
        "containerd", "1", "2 after 1", "CRI-O", "3 after 2", "containerd", "4 after 3",
    ]  # fmt: skip


def test_runtime_is_repeated_on_a_new_day() -> None:
    assert entry_names([session(1, 0, 10), session(2, 2 * DAY, None)], []) == [
        "containerd", "1", "containerd", "2 after 1",
    ]  # fmt: skip


def test_gaps_are_ordered_by_their_start() -> None:
    sessions = [session(1, 10, 20), session(2, 40, 50)]
    assert entry_names(sessions, [gap(3, 60), gap(1, 5), gap(2, 30)]) == [
        "gap 1", "containerd", "1", "gap 2", "2 after 1", "gap 3",
    ]  # fmt: skip
    assert entry_names([], [gap(1, 5)]) == ["gap 1"]


def test_concurrent_sessions_are_not_reconnects() -> None:
    sessions = [session(1, 0, 100), session(2, 50, None), session(3, 0, 20, plugin="b")]
    assert entry_names(sessions, []) == ["containerd", "1", "3", "2"]


def test_time_away_is_computed_from_the_previous_end() -> None:
    known = entries([session(1, 0, 10), session(2, 25, None), session(3, 90, None)], [], {})
    connections = [entry for entry in known if isinstance(entry, ConnectionRow)]
    # The end of the second session was not recorded.
    assert [connection.away_ns for connection in connections] == [None, 15, None]
    assert connections[2].before is not None
