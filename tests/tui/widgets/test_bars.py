# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from nri_scope.text.escape import columns
from nri_scope.tui.store.recording_overview import RecordingOverview
from nri_scope.tui.store.store import Store
from nri_scope.tui.widgets.bars import title
from tests.tui.screen import RECORDING

LONG = "containerd 2.1.9+unknown-4711.el9, NRI 0.8.0 (inferred)"


@pytest.fixture
async def facts() -> RecordingOverview:
    store = await Store.open(RECORDING)
    try:
        return replace(store.facts, runtime=LONG)
    finally:
        await store.close()


async def test_wide_title_contains_everything(facts: RecordingOverview) -> None:
    assert title(facts, 160).startswith(f"{LONG} · recorded · 32 events")


async def test_narrow_title_keeps_the_nri_version(facts: RecordingOverview) -> None:
    growing = replace(facts, growing=True, connected=0, gaps=2, lost=12, damage="", runtime=LONG)
    text = title(growing, 80)
    assert columns(text) <= 80
    assert text.startswith("contain") and "…, NRI 0.8.0 · being recorded" in text


@pytest.mark.parametrize("width", range(10, 100, 3))
async def test_title_fits_the_width(facts: RecordingOverview, width: int) -> None:
    assert columns(title(facts, width)) <= width


async def test_runtime_without_an_nri_version_is_cut_at_its_end(facts: RecordingOverview) -> None:
    assert title(replace(facts, runtime="x" * 90), 80).startswith("x" * 20)
