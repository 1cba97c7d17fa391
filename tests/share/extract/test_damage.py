# SPDX-License-Identifier: Apache-2.0
"""Extracts of damaged and hostile recordings."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import RecordingError, UsageError
from nri_scope.filter import parse
from nri_scope.recording.file.schema import TABLES
from nri_scope.recording.file.schema_check import check_schema
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from nri_scope.share.extract.extraction import DAMAGED
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import a_synchronize, an_item, lifecycles, one_stream, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "whole.db"
    record(path, [an_item("Synchronize", a_synchronize(3)), *lifecycles(4)])
    return path


def damage_rows(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_events_before_the_damage_are_kept_with_a_gap(path: Path, tmp_path: Path) -> None:
    damage_rows(
        path,
        "UPDATE object SET data = x'00' WHERE id = "
        "(SELECT container_object FROM event WHERE id = 28)",
    )
    with Recording.open(path) as whole:
        result = extract(whole, tmp_path / "new.db")
        first = list(islice(whole.exchanges(), 27))
    assert result.damage.startswith("it is damaged at event 28: ")
    with Recording.open(tmp_path / "new.db") as kept:
        assert list(kept.exchanges()) == first
        gaps = [(gap.from_ns, gap.lost) for gap in kept.gaps() if gap.reason == DAMAGED]
    assert gaps == [(first[-1][0].at_ns, None)]
    assert (result.counts.events, result.counts.left_out) == (27, 0)


def test_events_before_a_damaged_page_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    record(path, lifecycles(200))
    last = _damage_a_leaf_of_events(path)
    selections = (Selection(), Selection(where=parse("event:*")), Selection(pod="shop/web-3"))
    for number, selection in enumerate(selections):
        with Recording.open(path) as whole:
            result = extract(whole, tmp_path / f"{number}.db", selection)
        with Recording.open(tmp_path / f"{number}.db") as kept:
            numbers = [event.id for event in kept.events()]
            assert kept.gaps()[-1].reason == DAMAGED
        assert result.damage.startswith("it is damaged")
        assert result.counts.events + result.counts.left_out == last > 500
        assert len(numbers) == result.counts.events
        if not selection.pod:
            assert numbers == list(range(1, last + 1))


def _damage_a_leaf_of_events(path: Path) -> int:
    """Make a page in the middle unreadable; return the last event before it."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'event'"
        ).fetchone()
    content = bytearray(path.read_bytes())
    start = (root - 1) * 4096
    assert content[start] == 5
    middle = int.from_bytes(content[start + 3 : start + 5], "big") // 2
    last, child = 0, b""
    for cell in (middle - 1, middle):
        pointer = start + 12 + 2 * cell
        at = start + int.from_bytes(content[pointer : pointer + 2], "big")
        key, child = content[at + 4 : at + 6], bytes(content[at : at + 4])
        if cell == middle - 1:
            # SQLite's variable-length integer: two bytes of seven bits each.
            last = (key[0] & 0x7F) << 7 | key[1]
    page = int.from_bytes(child, "big")
    content[(page - 1) * 4096] = 0
    path.write_bytes(content)
    return last


def test_damage_outside_of_the_part_is_ignored(path: Path, tmp_path: Path) -> None:
    damage_rows(path, "UPDATE object SET data = x'00' WHERE id = (SELECT max(id) FROM object)")
    with Recording.open(path) as whole:
        result = extract(whole, tmp_path / "new.db", Selection(pod="shop/web-0"))
    assert (result.damage, result.counts.events > 5) == ("", True)


def test_a_damaged_state_is_an_error(path: Path, tmp_path: Path) -> None:
    damage_rows(path, "UPDATE state SET object = 99999 WHERE position = 4")
    chosen = Selection(numbers=[5, 6, 7])
    with Recording.open(path) as whole:
        with pytest.raises(RecordingError, match="object 99999 is missing"):
            extract(whole, tmp_path / "new.db", Selection())
        # The selected events need nothing of the state, but its pods must be known.
        with pytest.raises(RecordingError, match="object 99999 is missing"):
            extract(whole, tmp_path / "new.db", chosen)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET pod = 'x' WHERE id = 7",
        "UPDATE event SET session = 77 WHERE id = 7",
        "UPDATE event SET at_ns = 'soon' WHERE id = 7",
        "UPDATE event SET pod_object = reply, reply = pod_object, mark = 'unknown' WHERE id = 7",
        "UPDATE name SET text = x'ff' WHERE id = 1",
        "UPDATE pod SET name = x'ff'",
        "UPDATE container SET pod = 'x'",
        "UPDATE session SET sync_event = 'x'",
        "INSERT INTO gap VALUES (1, 'x', 1, 1, 'x', 1)",
        "UPDATE state SET position = 'x' WHERE position = 1",
        "INSERT INTO effect VALUES ('x', 7)",
        "INSERT INTO left_out VALUES (7, 'x', 'x')",
        "INSERT INTO left_out VALUES (7, 9223372036854775807, 9223372036854775807)",
        "UPDATE event SET id = 9223372036854775807 WHERE id = 7",
        "UPDATE event SET id = -5 WHERE id = 7",
        "UPDATE container SET pod = 99999",
        "UPDATE container SET id = 'same'",
    ],
)
def test_invalid_columns_give_a_valid_recording_or_an_error(
    statement: str, path: Path, tmp_path: Path
) -> None:
    damage_rows(path, statement)
    selections = (Selection(), Selection(numbers=[5, 7, 9]), Selection(pod="shop/web-1"))
    for number, selection in enumerate(selections):
        attempt(path, tmp_path / f"{number}.db", selection)


def attempt(path: Path, output: Path, selection: Selection) -> None:
    """Check that the output is a valid recording, or that an expected error left no file."""
    try:
        with Recording.open(path) as whole:
            extract(whole, output, selection)
    except (RecordingError, UsageError) as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message
        assert not output.exists()
        return
    with Recording.open(output) as part:
        check_schema(part.connection, output)
        assert part.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for listing in (part.sessions, part.gaps, part.notes, part.pods, part.containers):
            listing()
        # All messages of the output can be read.
        list(part.exchanges())
    output.unlink()


_damage = st.lists(
    st.tuples(
        st.sampled_from(["flip", "fill", "swap", "cut"]),
        st.floats(0.02, 1, exclude_max=True),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("original") / "r.db"
    record(path, one_stream("containerd-2.4-beta") + lifecycles(20))
    return path.read_bytes()


@settings(max_examples=amount(40, 40), deadline=None)
@given(damage=_damage)
def test_damage_anywhere_gives_a_valid_recording_or_none(
    original: bytes, damage: list[tuple[str, float, int]]
) -> None:
    content = bytearray(original)
    for kind, where, value in damage:
        at = int(where * len(content))
        match kind:
            case "flip":
                content[at] ^= value
            case "fill":
                content[at : at + 64] = bytes([value]) * len(content[at : at + 64])
            case "swap":
                one, other = at // 4096 * 4096, value % (len(content) // 4096 or 1) * 4096
                content[one : one + 4096], content[other : other + 4096] = (
                    content[other : other + 4096],
                    content[one : one + 4096],
                )
            case _:
                del content[max(4096, at) :]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "damaged.db"
        path.write_bytes(content)
        for selection in (Selection(), Selection(pod="shop/web-7")):
            attempt(path, Path(folder) / "new.db", selection)


def _add_page_cycle(path: Path) -> None:
    """Make pages of the event table refer to each other."""
    damage_rows(path, "CREATE TABLE filler (x)")
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'event'"
        ).fetchone()
    content = bytearray(path.read_bytes())
    start = (root - 1) * 4096
    assert content[start] == 5
    content[start + 8 : start + 12] = root.to_bytes(4, "big")
    path.write_bytes(content)


def test_a_cycle_of_pages_ends(tmp_path: Path) -> None:
    path = tmp_path / "endless.db"
    record(path, lifecycles(200))
    _add_page_cycle(path)
    for selection in (Selection(), Selection(where=parse("took:>1s"))):
        attempt(path, tmp_path / "new.db", selection)


def test_unknown_tables_are_not_copied(path: Path, tmp_path: Path) -> None:
    known = {table.name for table in TABLES}
    damage_rows(path, "CREATE TABLE more (x)", "INSERT INTO more VALUES ('stowaway')")
    with Recording.open(path) as whole:
        extract(whole, tmp_path / "new.db")
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert {name for (name,) in names} == known
    assert b"stowaway" not in (tmp_path / "new.db").read_bytes()


@pytest.mark.parametrize("file", ["version-1.nriscope.db"])
def test_recordings_of_older_versions_are_converted(file: str, tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "data" / "recordings"
    with Recording.open(folder / file) as old:
        extract(old, tmp_path / "new.db")
        with Recording.open(tmp_path / "new.db") as new:
            assert list(new.exchanges()) == list(old.exchanges())
            assert new.sessions() == old.sessions()
