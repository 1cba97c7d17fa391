# SPDX-License-Identifier: Apache-2.0
"""Differences of two runs: none for equal ones, else the replies and paths that differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.debugger.debugger import REPLIES_SHOWN, count_words, run_differences
from nri_scope.replay.replies import Reply
from tests.replay.plays import played
from tests.replay.recordings import BUNDLED, PASSWORD
from tests.sample_names import CHECKOUT_PROXY

from .plugins import NAME, Adjuster, two_lives


def replies(path: Path, value: str) -> list[Reply]:
    return list(played(path, {NAME: Adjuster(value)}).replies())


@pytest.mark.parametrize("path", BUNDLED.values(), ids=BUNDLED)
def test_equal_runs_have_no_differences(path: Path) -> None:
    assert not list(run_differences(replies(path, "1"), replies(path, "1"), str))


def test_each_reply_that_differs_is_listed_with_its_paths(tmp_path: Path) -> None:
    path = two_lives(tmp_path)
    before, now = replies(path, "1"), replies(path, "2")
    lines = list(run_differences(before, now, str))
    assert lines == [
        "10-plugin shop/web/app CreateContainer",
        "  ~ /adjust/env/CALL '1' → '2'",
        "10-plugin shop/web/sidecar CreateContainer",
        "  ~ /adjust/env/CALL '1' → '2'",
    ]
    assert count_words(lines) == "2 replies differ from the run before"


def test_replies_of_one_run_only_are_listed(tmp_path: Path) -> None:
    every = replies(two_lives(tmp_path), "1")
    some = [one for one in every if one.event != "CreateContainer"]
    gone = list(run_differences(every, some, str))
    assert gone == [
        f"10-plugin shop/web/{name} CreateContainer: there is no reply any more"
        for name in ("app", "sidecar")
    ]
    new = list(run_differences(some, every, str))
    assert new[0].endswith("there was no reply before")
    assert new[1] == "  got {adjust: {env: {CALL: '1'}}}"


def test_differences_are_in_the_order_of_the_events() -> None:
    path = BUNDLED["containerd-2.1"].with_name("demo.nriscope.db")
    before, now = replies(path, "1"), replies(path, "2")
    is_of_proxy = [one.subject == CHECKOUT_PROXY for one in now]
    now = [one for one, is_gone in zip(now, is_of_proxy, strict=True) if not is_gone]
    found = [line for line in run_differences(before, now, str) if not line.startswith(" ")]
    creations = [line.split()[1] for line in found if " CreateContainer" in line]
    assert creations == [one.subject for one in before if one.event == "CreateContainer"]
    assert creations != sorted(creations)


def test_hostile_values_are_escaped_and_long_ones_cut(tmp_path: Path) -> None:
    path = two_lives(tmp_path)
    lines = list(run_differences(replies(path, "1"), replies(path, "\x1b[2J" + "x" * 9_000), str))
    assert all(line.isprintable() and len(line) < 1_000 for line in lines)
    assert PASSWORD not in "".join(lines)


def test_many_differences_are_counted(tmp_path: Path) -> None:
    (one, *_) = [
        reply for reply in replies(two_lives(tmp_path), "1") if reply.event == "CreateContainer"
    ]
    many = [replace(one, occurrence=number) for number in range(1, REPLIES_SHOWN + 3)]
    lines = list(run_differences(many, [], str))
    assert len(lines) == REPLIES_SHOWN + 1
    assert lines[-1] == "… and 2 more replies"
