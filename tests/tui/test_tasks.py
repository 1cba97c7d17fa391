# SPDX-License-Identifier: Apache-2.0
"""Tasks of someone on call, each with a maximum number of keystrokes from opening the file.

Every key counts as one, also each character of a search.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nri_scope.recording.reading.reader import Recording
from tests.amount import sampled
from tests.sample_names import CHECKOUT, CHECKOUT_API, CHECKOUT_POD, CHECKOUT_PROXY
from tests.tui.screen import RECORDINGS, Shown, showing
from tests.tui.snapshot import assert_snapshot, each_size

pytestmark = [pytest.mark.usefixtures("fixed_environment"), each_size]
PROBES = RECORDINGS / "containerd-2.1-normal-life.nriscope.zip"
SLOW = RECORDINGS / "containerd-2.1-slow-plugin.nriscope.zip"


@asynccontextmanager
async def opened(recording: Path, folder: Path, size: tuple[int, int]) -> AsyncIterator[Shown]:
    """Open a copy of a recording, and wait until it has been analysed."""
    path = Path(shutil.copy(recording, folder / "".join(("node", *recording.suffixes[-2:]))))
    async with showing(path, size, surveyed=True) as screen:
        await screen.until(lambda: screen.app.store.analysis.passes)
        await screen.hides("analysing")
        yield screen


async def press(screen: Shown, keys: list[str], most: int) -> None:
    """Press ``keys``, at most ``most``."""
    assert len(keys) <= most
    await screen.press(*keys)


async def test_who_set_foo(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["/", *"FOO", "enter", "]", "]"], 8)
        await screen.shows("~ env FOO", "by one of 01–29 (probes)")
        assert screen.selected == 13
        await assert_snapshot(screen, "task-who-set-foo")


@pytest.mark.exhaustive
async def test_who_set_foo_by_the_lines_of_the_container(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["/", *"FOO", "enter", "b", "z"], 8)
        await screen.until(lambda: "one of 01–29 PC ~" in screen.line("FOO=from-labels"))


async def test_blame_begins_at_what_was_searched_for_unless_it_is_a_name(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["/", *"FOO", "enter", "b"], 6)
        await screen.until(lambda: "one of 01–29 PC ~" in screen.line("FOO=from-labels"))
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["/", *"x9z/che", "enter", "b"], 10)
        await screen.shows(" lines; changed: ")


async def test_which_plugin_was_slow_and_when(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(SLOW, tmp_path, size) as screen:
        await press(screen, ["6"], 5)
        await screen.shows("Plugins at 31–49 (between 30-nri-scope")
        await press(screen, ["enter"], 5 - 1)
        await screen.until(lambda: screen.selected == 13)
        await screen.shows("11:52:56.049")
        await assert_snapshot(screen, "task-slow-plugin")


@pytest.mark.exhaustive
async def test_which_plugin_was_slow_and_when_by_the_chain(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(SLOW, tmp_path, size) as screen:
        await press(screen, ["4", "down", "down", "down", "enter"], 5)
        await screen.until(lambda: screen.selected == 13)
        await screen.shows("11:52:56.049")


async def test_only_the_changes_of_one_plugin(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(RECORDINGS / "demo.nriscope.db", tmp_path, size) as screen:
        await press(screen, ["4", *["down"] * 5, "=", "1"], 8)
        await screen.shows("5 matches: owner:30-env-injector")


async def test_what_happened_to_a_pod_between_two_times(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(SLOW, tmp_path, size) as screen:
        await press(screen, ["}", "I", "3", "+", "+", "=", "1"], 8)
        await screen.shows("time:", f"pod {CHECKOUT}")
        await screen.until(lambda: screen.app.views.events.view.complete)
        view = screen.app.views.events.view
        assert 0 < view.row_events().count() < screen.app.store.facts.events / 2
        await assert_snapshot(screen, "task-pod-between-times")


async def test_compare_two_containers(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["2", "G", "m", "up", "d"], 6)
        await screen.shows(CHECKOUT_PROXY, CHECKOUT_API, "17 differences", "env DB_HOST")
        await assert_snapshot(screen, "task-compare")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("recording", "jump"),
    sampled([(PROBES, ")"), (SLOW, "}")]),
    ids=["with-a-change", "with-a-problem"],
)
async def test_export_one_pod_redacted(
    recording: Path,
    jump: str,
    size: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.chdir(made)
    async with opened(recording, tmp_path, size) as screen:
        await press(screen, [jump, "I", "E", "enter"], 4)
        await screen.shows("Esc closes")
        await screen.until(lambda: len(list(made.glob("*.nriscope.zip"))) == 1)
        (bundle,) = made.glob("*.nriscope.zip")
        await screen.shows(bundle.name)
    with Recording.open(recording) as whole, Recording.open(bundle) as part:
        of_pod = [event.event for event in whole.events() if event.pod == CHECKOUT_POD]
        found = list(part.events())
        assert [one.event for one in found if one.pod == CHECKOUT_POD] == of_pod
        # Configure and Synchronize of each connection remain.
        assert {one.event for one in found if one.pod != CHECKOUT_POD} <= {
            "Configure",
            "Synchronize",
        }


@pytest.mark.exhaustive
async def test_keys_typed_quickly_refer_to_the_narrowed_events(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(PROBES, tmp_path, size) as screen:
        await press(screen, ["2", "end", "I", "E"], 4)
        await screen.shows("Enter exports 19 shown operations")
