# SPDX-License-Identifier: Apache-2.0
"""Builds on every save of watched files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nri_scope.debugger import watch
from nri_scope.debugger.watch import LINES_SHOWN, Watch
from nri_scope.errors import UsageError

WAIT_S = 30.0


async def saved(one: Watch) -> None:
    async with asyncio.timeout(WAIT_S):
        await one.saved()


async def is_still(one: Watch) -> bool:
    """Return whether two more looks at the files find nothing."""
    try:
        async with asyncio.timeout(3 * watch.POLL_S):
            await one.saved()
    except TimeoutError:
        return True
    return False


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", ["write", "create", "remove", "replace"])
async def test_each_save_is_seen(tmp_path: Path, change: str) -> None:
    source = tmp_path / "sub" / "main.go"
    source.parent.mkdir()
    source.write_text("one")
    one = Watch([tmp_path], "true")
    match change:
        case "write":
            source.write_text("another")
        case "create":
            (tmp_path / "new.go").write_text("")
        case "remove":
            source.unlink()
        case "replace":
            # As editors do.
            (tmp_path / "sub" / "main.go~").write_text("two")
            (tmp_path / "sub" / "main.go~").rename(source)
    await saved(one)
    assert (await one.build()).is_ok
    assert await is_still(one)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [".git/index", "x.swp", "main.go~", ".#main.go", "4913"])
async def test_files_of_git_and_editors_cause_no_build(tmp_path: Path, name: str) -> None:
    one = Watch([tmp_path], "true")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x")
    assert await is_still(one)


async def test_a_result_of_the_build_among_the_sources_causes_no_endless_builds(
    tmp_path: Path,
) -> None:
    source = tmp_path / "main.c"
    source.write_text("one")
    one = Watch([tmp_path], f"cd {tmp_path}; date +%N > plugin")
    source.write_text("two")
    builds = 0
    while not await is_still(one):
        builds += 1
        assert builds < 4
        assert (await one.build()).is_ok
        # A save at any time, also of a file that a build wrote, causes another build.
    source.write_text("three")
    await saved(one)


async def test_a_failed_build_has_its_first_lines(tmp_path: Path) -> None:
    one = Watch([tmp_path], "printf 'bad\\033[2J\\n'; seq 1 100; exit 3")
    result = await one.build()
    assert (result.is_ok, result.problem) == (False, "exit status 3")
    assert result.lines[0].startswith("bad")
    assert all(line.isprintable() for line in result.lines)
    assert len(result.lines) == LINES_SHOWN + 1
    assert result.lines[-1] == "… and 81 more lines"


async def test_a_cancelled_build_leaves_no_process(tmp_path: Path) -> None:
    one = Watch([tmp_path], f"echo $$ > {tmp_path}/pid; sleep 100; true")
    building = asyncio.create_task(one.build())
    pid = tmp_path / "pid"
    async with asyncio.timeout(WAIT_S):
        while not pid.exists() or not pid.read_text().strip():
            await asyncio.sleep(0.01)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        Watch([tmp_path / "missing"], "true")


def test_too_many_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_FILES", 2)
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(UsageError, match="watch the folder of the sources"):
        Watch([tmp_path], "true")
