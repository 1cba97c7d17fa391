# SPDX-License-Identifier: Apache-2.0
"""Recording of any number of events, written in seconds by repeating the rows of a small one.

Each round has its own pods and containers, but shares the requests and replies of the first round:
lists, filters and searches read realistic rows, only the messages repeat.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.recording.recordings import record

_EVENT_INTERVAL_NS = 2_000_000


def write(path: Path, events: int) -> None:
    """Write a recording with ``events`` events in one session."""
    record(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        _multiply(connection, events)
        connection.execute(
            "UPDATE session SET last_event = ?, ended_ns = (SELECT max(at_ns) + 1 FROM event)",
            (events,),
        )
        connection.execute("COMMIT")
        # As left by a recorder.
        connection.execute("PRAGMA journal_mode = WAL")


def _multiply(connection: sqlite3.Connection, events: int) -> None:
    rows = connection.execute("SELECT * FROM event ORDER BY id").fetchall()
    pods = connection.execute("SELECT * FROM pod ORDER BY key").fetchall()
    containers = connection.execute("SELECT * FROM container ORDER BY key").fetchall()
    rounds = -(-events // len(rows))
    for number in range(1, rounds):
        tail = f"{number:05x}"
        connection.executemany(
            "INSERT INTO pod VALUES (?, ?, ?, ?, ?)",
            [
                (key + number * len(pods), tail + pod_id[5:], namespace, f"{name}-{tail}", uid)
                for key, pod_id, namespace, name, uid in pods
            ],
        )
        connection.executemany(
            "INSERT INTO container VALUES (?, ?, ?, ?)",
            [
                (
                    key + number * len(containers),
                    tail + container_id[5:],
                    name,
                    None if pod is None else pod + number * len(pods),
                )
                for key, container_id, name, pod in containers
            ],
        )
    connection.executemany(
        f"INSERT INTO event VALUES ({', '.join('?' * len(rows[0]))})",
        _events(rows, events, len(pods), len(containers)),
    )


def _events(
    rows: list[tuple[int | str | None, ...]], events: int, pods: int, containers: int
) -> Iterator[tuple[int | str | None, ...]]:
    first_ns = rows[0][3]
    assert isinstance(first_ns, int)
    for number in range(len(rows), events):
        turn, position = divmod(number, len(rows))
        row = rows[position]
        pod, container = row[8], row[9]
        yield (
            number + 1,
            row[1],
            number + 1,
            first_ns + number * _EVENT_INTERVAL_NS,
            number * _EVENT_INTERVAL_NS,
            *row[5:8],
            pod + turn * pods if isinstance(pod, int) else None,
            container + turn * containers if isinstance(container, int) else None,
            *row[10:],
        )
