# SPDX-License-Identifier: Apache-2.0
"""No command takes more than 500 MiB for a small file, and one line reports truncated data."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.file.blobs import ObjectKind
from tests.amount import sampled
from tests.bombs.commands import PEAK_MIB, TUI, measure
from tests.bombs.recordings import (
    BOMBS,
    MIB,
    long_text,
    make,
    make_bundle,
    many_of,
    many_rows,
    many_values,
    one_string,
)

_CONTAINER = api.Container.DESCRIPTOR
_MOUNTS = many_of(ObjectKind.CONTAINER, _CONTAINER, (8,), b"\x0a\x02c1")
_CUT_ELEMENTS = "elements or 4 MiB of text; the rest is not read"


def _check(path: Path, *names: str, message: str = "") -> None:
    assert path.stat().st_size <= 10_000_000
    found = measure(path, *names)
    assert found.status == 0, found.stderr
    assert "Traceback" not in found.stderr
    assert found.peak_mib <= PEAK_MIB, found.stderr
    assert message in found.stderr


@pytest.mark.exhaustive
def test_a_message_of_empty_mounts(tmp_path: Path) -> None:
    _check(make(tmp_path / "r.nriscope.db", _MOUNTS), message=_CUT_ELEMENTS)


@pytest.mark.exhaustive
def test_a_list_of_many_paths(tmp_path: Path) -> None:
    bomb = many_values("changed", size=9 * MIB)
    _check(make(tmp_path / "r.nriscope.db", bomb), "log", "stats", "diff", "sql", "export jsonl")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "message"),
    sampled(
        [
            ("reply 1.3", _CUT_ELEMENTS),
            ("unknown container", _CUT_ELEMENTS),
            ("groups container", _CUT_ELEMENTS),
            ("string rest 3.6.2", ""),
            # Many large messages that compress well: they must not be in memory at the same time.
            ("objects text 1 MiB", ""),
        ]
    ),
)
def test_messages_with_many_elements(tmp_path: Path, name: str, message: str) -> None:
    path = make(tmp_path / "r.nriscope.db", BOMBS[name])
    _check(path, "diff json", "blame json", "redact", message=message)


@pytest.mark.exhaustive
def test_texts_that_no_runtime_sends_are_cut(tmp_path: Path) -> None:
    bomb = one_string(ObjectKind.CONTAINER, (8,), b"\x0a\x02c1", 4 * MIB + 1)
    _check(make(tmp_path / "r.nriscope.db", bomb), "diff json", message=_CUT_ELEMENTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", sampled(["session", "pod", "gap"]))
def test_tables_of_many_rows(tmp_path: Path, table: str) -> None:
    bomb = many_rows(table, MIB)
    _check(make(tmp_path / "r.nriscope.db", bomb), "log")


@pytest.mark.exhaustive
def test_the_terminal_interface(tmp_path: Path) -> None:
    _check(make(tmp_path / "r.nriscope.db", _MOUNTS), TUI)


def test_a_bundle_with_an_excessive_unpacked_size_is_rejected(tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "r.nriscope.zip", long_text("note", "text"))
    _check(path, "log", message="would unpack to")
