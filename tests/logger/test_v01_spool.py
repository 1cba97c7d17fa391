# SPDX-License-Identifier: Apache-2.0
"""Recording the spool of NRI 0.1, with hostile and incomplete files in it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.events import CapturedCall
from nri_scope.logger import v01_spool
from nri_scope.logger.v01_spool import NOT_SPOOLED, SpoolRecorder, check_spool
from tests.tap.sink import ListSink

REQUEST = b'{"version":"0.1","state":"create","id":"c1","sandboxID":"p1","spec":null}'
RESULT = b'{"plugin":"p","version":"0.1","error":""}'
DEAD = 4_194_305
"""A process id that is never used: above the kernel's limit."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "konfine"
    path.mkdir(mode=0o700)
    return path


def put(folder: Path, stem: str, request: bytes = REQUEST, **more: bytes) -> None:
    """Write a group of files at a time in the past."""
    contents = {"in": request, "out": RESULT, "v1": b"", **more}
    for suffix, content in contents.items():
        (folder / f"{stem}.{suffix}").write_bytes(content)
        os.utime(folder / f"{stem}.{suffix}", ns=(10**18, 10**18))


async def recorded(spool: Path) -> tuple[ListSink, list[str]]:
    sink, said = ListSink(), list[str]()
    recorder = SpoolRecorder(spool, sink, said.append, lambda: 0, lambda _: len(sink.items))
    recorder.stop()
    await asyncio.wait_for(recorder.run(), 30)
    return sink, said


async def one_call(folder: Path) -> CapturedCall:
    sink, _ = await recorded(folder.parent)
    (call,) = sink.items
    assert list(folder.iterdir()) == []
    return call


async def test_an_invocation_is_recorded_and_removed(folder: Path) -> None:
    put(folder, "7-0")
    sink, _ = await recorded(folder.parent)
    (call,) = sink.items
    assert (call.method, call.request, call.reply) == ("Invoke/create", REQUEST, RESULT)
    assert (call.wall_ns, call.took_ns, call.status_code) == (10**18, 0, 0)
    assert call.held_ns is None
    (start,) = sink.starts
    assert (start.role, start.plugin_name, start.nri_version) == ("v0.1", "konfine", "0.1")
    assert list(folder.iterdir()) == []
    assert sink.ends == [(1, "the recorder stopped")]


async def test_a_wrapped_plugins_invocation_has_times_status_and_output(folder: Path) -> None:
    facts = {"status": 3, "began_ns": 5, "took_ns": 6, "held_ns": 7}
    put(folder, "7-0", v1=json.dumps(facts).encode(), err=b"one\ntwo\n")
    sink, _ = await recorded(folder.parent)
    (call,) = sink.items
    assert (call.wall_ns, call.took_ns, call.held_ns) == (5, 6, 7)
    assert call.metadata == (("exit-status", "3"),)
    assert [text for *_, text in sink.lines] == ["one", "two"]


async def test_a_failing_result_has_the_status_of_an_error(folder: Path) -> None:
    put(folder, "7-0", out=b'{"error": "no luck"}')
    call = await one_call(folder)
    assert (call.status_code, call.status_message) == (2, "no luck")


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_group_that_is_being_written_is_left_alone(
    folder: Path, *, is_locked: bool
) -> None:
    # A locked one for any time; its process may be in another PID namespace.
    stem = f"{DEAD if is_locked else os.getpid()}-0"
    put(folder, stem)
    (folder / f"{stem}.v1").unlink()
    if not is_locked:
        at_ns = time.time_ns() - v01_spool.UNLOCKED_NS // 2
        os.utime(folder / f"{stem}.in", ns=(at_ns, at_ns))
    with (folder / f"{stem}.in").open() as file:
        if is_locked:
            fcntl.flock(file, fcntl.LOCK_EX)
        sink, _ = await recorded(folder.parent)
    assert sink.items == []
    assert len(list(folder.iterdir())) == 2


async def test_a_group_whose_process_number_is_used_again_is_abandoned(folder: Path) -> None:
    put(folder, f"{os.getpid()}-0")
    (folder / f"{os.getpid()}-0.v1").unlink()
    call = await one_call(folder)
    assert "before it had spooled the whole" in call.status_message


async def test_files_without_a_request_are_removed_after_a_while(folder: Path) -> None:
    put(folder, "7-0")
    (folder / "7-0.in").unlink()
    for name in ("8-0.out", "notes.txt"):
        (folder / name).touch()
    os.utime(folder / "notes.txt", ns=(10**18, 10**18))
    sink, _ = await recorded(folder.parent)
    assert sink.items == []
    assert {one.name for one in folder.iterdir()} == {"8-0.out", "notes.txt"}


async def test_what_is_not_committed_stays_in_the_spool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v01_spool, "STOP_S", 0.1)
    put(folder, "7-0")
    put(folder, "8-0")
    sink = ListSink()
    recorder = SpoolRecorder(folder.parent, sink, print, lambda: 0, lambda _: 1)
    recorder.stop()
    await asyncio.wait_for(recorder.run(), 30)
    assert len(sink.items) == 2
    assert len(list(folder.glob("*.in"))) == 1


@pytest.mark.parametrize(("cut", "words"), [(1, ("result",)), (2, ("stderr",)), (0, ())])
async def test_what_a_wrapper_did_not_spool_is_marked(
    folder: Path, cut: int, words: tuple[str, ...]
) -> None:
    facts = {"status": 0, "held_ns": 1, "cut": cut}
    put(folder, "7-0", v1=json.dumps(facts).encode())
    call = await one_call(folder)
    assert tuple(value for key, value in call.metadata if key == "cut") == words
    assert (call.status_code == v01_spool.CUT) == (cut == 1)
    assert ("first 41 bytes of its result" in call.status_message) == (cut == 1)


async def test_an_abandoned_group_is_recorded_as_an_error(folder: Path) -> None:
    put(folder, f"{DEAD}-0", REQUEST[:-5])
    (folder / f"{DEAD}-0.v1").unlink()
    call = await one_call(folder)
    assert (call.method, call.status_code, call.request) == ("Invoke", 2, REQUEST[:-5])
    assert "before it had spooled the whole" in call.status_message


async def test_requests_that_were_not_spooled_are_a_gap(folder: Path) -> None:
    (folder / "lost").write_bytes(b"x" * 5)
    (folder / "lost.from").touch()
    os.utime(folder / "lost", ns=(70, 70))
    os.utime(folder / "lost.from", ns=(30, 30))
    plugin = v01_spool.PluginSpool("konfine", v01_spool.open_folder(folder))
    assert plugin.take_lost() == (5, 30, 70)
    assert list(folder.iterdir()) == []
    (folder / "lost").write_bytes(b"x")
    os.utime(folder / "lost", ns=(90, 90))
    assert plugin.take_lost() == (1, 90, 90)
    plugin.close()
    (folder / "lost").write_bytes(b"x")
    sink, _ = await recorded(folder.parent)
    assert sink.gaps == [(1, NOT_SPOOLED)]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe", "large"])
async def test_other_files_in_place_of_a_request_are_not_read(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    put(folder, "7-0")
    place = folder / "7-0.in"
    place.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(REQUEST)
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        with place.open("wb") as file:
            file.truncate(5 << 20)
    call = await one_call(folder)
    assert (call.method, call.request, call.status_code) == ("Invoke", b"", 2)
    assert secret.read_bytes() == REQUEST


@pytest.mark.parametrize("facts", [b"{", b"[]", b'{"took_ns": "x"}', b"[" * 100_000, b"\xff"])
async def test_nonsense_in_a_complete_group_is_ignored(folder: Path, facts: bytes) -> None:
    put(folder, "7-0", v1=facts, out=b"\xff\x00", err=b"\xff")
    call = await one_call(folder)
    assert call.request == REQUEST
    assert call.status_message == "its output is not a JSON object"


async def test_a_folder_in_place_of_the_count_keeps_no_request_back(folder: Path) -> None:
    put(folder, "7-0")
    (folder / "lost").mkdir()
    (folder / "lost.read").touch()
    sink, _ = await recorded(folder.parent)
    assert len(sink.items) == 1
    assert sink.gaps == []


async def test_a_request_that_cannot_be_read_for_now_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    put(folder, "7-0")
    spool = v01_spool.PluginSpool("konfine", v01_spool.open_folder(folder))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", too_many)
        with pytest.raises(OSError, match="Too many open files"):
            spool.read("7-0")
    assert spool.read("7-0").call.request == REQUEST
    spool.close()


async def test_what_cannot_be_removed_is_recorded_once_and_reported(folder: Path) -> None:
    put(folder, "7-0")
    (folder / "7-0.out").unlink()
    (folder / "7-0.out").mkdir()
    sink, said = await recorded(folder.parent)
    assert len(sink.items) == 1
    assert [one for one in said if "cannot be removed" in one]


async def test_a_second_recorder_reads_nothing(folder: Path) -> None:
    put(folder, "7-0")
    lock = v01_spool.locked_folder(folder.parent)
    sink, said = await recorded(folder.parent)
    assert sink.items == []
    assert [one for one in said if "another recorder reads this spool" in one]
    assert len(list(folder.iterdir())) == 3
    os.close(lock)


async def test_a_request_that_was_removed_meanwhile_is_not_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "7-0")
    monkeypatch.setattr(v01_spool.PluginSpool, "waiting", lambda _: ["6-0", "7-0"])
    sink = ListSink()
    recorder = SpoolRecorder(folder.parent, sink, print, lambda: 0, lambda _: 0)
    recorder._record(recorder._read())
    assert [one.request for one in sink.items] == [REQUEST]


async def test_invocations_are_recorded_by_time(folder: Path) -> None:
    for number in range(600):
        put(folder, f"{number}-0", REQUEST.replace(b"c1", b"c%d" % number))
        os.utime(folder / f"{number}-0.in", ns=(number, number))
    sink, _ = await recorded(folder.parent)
    assert [item.wall_ns for item in sink.items] == list(range(600))


async def test_a_busy_recorder_leaves_invocations_in_the_spool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v01_spool, "STOP_S", 0.0)
    put(folder, "7-0")
    sink = ListSink()
    recorder = SpoolRecorder(folder.parent, sink, print, lambda: 1 << 30, lambda _: 0)
    recorder.stop()
    await asyncio.wait_for(recorder.run(), 30)
    assert sink.items == []
    assert (folder / "7-0.in").exists()


async def test_a_spool_that_was_removed_and_made_again_is_read(folder: Path) -> None:
    sink = ListSink()
    recorder = SpoolRecorder(folder.parent, sink, print, lambda: 0, lambda _: len(sink.items))
    running = asyncio.create_task(recorder.run())
    for expected in (1, 2):
        put(folder, "7-0")
        async with asyncio.timeout(30):
            while len(sink.items) < expected or list(folder.iterdir()):
                await asyncio.sleep(0.01)
        folder.rmdir()
        folder.mkdir(mode=0o700)
    recorder.stop()
    await running
    assert len(sink.starts) == 1


def test_a_spool_that_others_can_write_to_is_refused(folder: Path) -> None:
    check_spool(folder.parent)
    folder.chmod(0o770)
    with pytest.raises(UsageError, match="other users can write to this spool"):
        check_spool(folder.parent)
    folder.chmod(0o700)
    with pytest.raises(UsageError, match="no such file or directory"):
        check_spool(folder / "no")
    (folder.parent / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        check_spool(folder.parent / "file")
