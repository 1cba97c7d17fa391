# SPDX-License-Identifier: Apache-2.0
"""Rounds as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.attributed_changes import (
    Applied,
    Evidence,
    PluginRequest,
    RoundDiff,
    Span,
)
from nri_scope.differ.attribution.owner import Owner, OwnerKind, one_of
from nri_scope.differ.render import renderer
from nri_scope.text.escape import columns
from nri_scope.text.styled_text import paint_line
from tests.differ.render.samples import (
    APP,
    CALM,
    CREATION,
    ENV,
    FAILED,
    JUDGED,
    POD_EVENT,
    STEPS,
    name_of,
    step,
    with_step,
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri_scope.differ.render.text.clock", lambda at_ns: "22:13:20.000")
    monkeypatch.setattr("nri_scope.recording.display.day", lambda at_ns: "2023-11-14 +00:00")


def text(
    *rounds: RoundDiff,
    width: int | None = 80,
    live: bool = False,
    quiet: bool = False,
) -> list[str]:
    render = renderer("text", width=width, live=live, quiet_unchanged=quiet)
    lines = [*render.head("x.nriscope.db")]
    for one in rounds:
        lines += render.round(one, name_of)
    return [*lines, *render.end()]


def test_full_text_of_a_creation() -> None:
    assert "\n".join(text(CREATION, CALM)) == EXPECTED


EXPECTED = """\
x.nriscope.db

── 2023-11-14, times at UTC+00:00
    14 22:13:20.000 CreateContainer  shop/web/app
  chain: 00-probe-a, 20-device (not observed), 30-env-injector, 60-cpu-policy
  ! not seen by 99-late
  ! nobody saw what plugins after 60 did
  + devices[/dev/x]  c 1:3 mode=0666  by one of 01–29 (probes)
  ~ env FOO  "bar" → "baz"  by 30-env-injector (tap), applied
  + mounts[/data]  tmpfs on /data type tmpfs (rw,size=1m)  as the 8th
      by 30-env-injector (tap)
      ! NOT APPLIED: the runtime's spec does not have it
  > mounts[/dev]  moved from 4th to 2nd place
      by one of 30-env-injector, 60-cpu-policy (tap)
  - annotations[x.io/y]  was "v"  owner unknown (events)
      note: it was gone in the next event
  + cpu.shares  512  by 60-cpu-policy (tap)
      ! APPLIED DIFFERENTLY: the runtime's spec has 1024
      ! but validator says: by 30-env-injector
      ! but probes say: no value
  ~ process.oomScoreAdj  0 → 5  by the runtime (cri)
  ~ memory.limit  1 → 2  by a CRI request (request)
  on another container, shop/web/sidecar:
    ~ cpu.cpus  "0-1" → "1"  by 60-cpu-policy (tap)
  ! requested but not applied: 60-cpu-policy asked for cpu.mems = "0" on
      shop/web/sidecar: it is gone
  ! SLOW: plugins at 01–29 (between 00-probe-a and 30-env-injector) took 1.40s,
      over half of the deadline of 2.00s
  time: 1.40s in 01–29, 52µs in 30-env-injector; deadline 2.00s per plugin
    17 22:13:20.000 StartContainer  shop/web/app  no change seen

9 changes to 2 containers in 1 of 2 operations
one of 01–29: a plugin between two observed connections; which one is unknown
one of 30-env-injector, 60-cpu-policy: one or more of these plugins; which is
  unknown
if there is another plugin at 00 or 30, it may have made the change: plugins
  with equal indices have no defined order
evidence: tap: the plugin's own reply; validator: the runtime's list of last
  owners; probes: two connections in the chain show different states; events: a
  later event shows the change; cri: the spec that the runtime actually used;
  request: the runtime's own request"""


def test_without_a_width_each_change_is_one_line() -> None:
    lines = text(CREATION, width=None)
    assert '  ~ env FOO  "bar" → "baz"  by 30-env-injector (tap), applied' in lines
    assert sum(line[2:4] in {"+ ", "- ", "~ ", "> "} for line in lines) == len(STEPS) - 1


def test_colours_change_no_text() -> None:
    plain = text(CREATION, CALM, FAILED)
    coloured = [paint_line(line) for line in plain]
    assert plain != coloured
    assert _without_colour(coloured) == plain


def _without_colour(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9]+m", "", line) for line in lines]


def test_unchanged_rounds_are_one_line_or_omitted() -> None:
    lines = text(CALM, POD_EVENT)
    assert "    17 22:13:20.000 StartContainer  shop/web/app  no change seen" in lines
    assert "    18 22:13:20.000 StopPodSandbox  pod shop/web  no change seen" in lines
    assert lines[-1] == "no change seen in 2 operations"
    assert text(CALM, POD_EVENT, quiet=True) == [
        "x.nriscope.db",
        "",
        "no change seen in 2 operations; 2 without a change left out (--all shows them)",
    ]


def test_a_failure_is_shown_in_an_unchanged_round() -> None:
    lines = text(FAILED, quiet=True)
    assert "  ! FAILED: 30-env-injector returned an error: no\\x1b[2Jway" in lines


def test_outcomes_of_earlier_changes_are_summarized() -> None:
    lines = text(JUDGED, quiet=True)
    assert "    20 22:13:20.000 ContainerStatus, reported over CRI  shop/web/app" in lines
    assert "  1 of 3 earlier changes were applied" in lines
    assert not [line for line in lines if "FOO" in line]
    assert "      ! NOT APPLIED: the runtime's spec does not have it" in lines
    assert "      ! APPLIED DIFFERENTLY: the runtime's spec has 1024" in lines
    assert lines[-2] != "3 changes to 1 container in 1 of 1 operation"
    good = replace(JUDGED, steps=(STEPS[1],))
    assert text(good)[-3].endswith("the earlier change was applied")
    assert len(text(good, quiet=True)) == 3


def test_the_legend_explains_a_range_once() -> None:
    words = "one of 01–29: a plugin between two observed connections; which one is unknown"
    assert text(CREATION, CREATION).count(words) == 1
    live = text(CREATION, CALM, CREATION, live=True, width=None)
    assert live.count(f"  {words}") == 1
    assert live.index(f"  {words}") < next(at for at, x in enumerate(live) if "StartContainer" in x)
    assert not [line for line in text(CALM) if "one of" in line]


def test_a_range_behind_the_last_connection_is_not_between_two() -> None:
    last = Owner(OwnerKind.ONE_OF, first="51", last="99", or_runtime=True)
    late = with_step(step("/annotations/a", None, "1", "added", last))
    words = "one of 51–99: a plugin with one of these indices; which one is unknown"
    assert words in text(late, width=None)
    assert not [line for line in text(late, CREATION, width=None) if words in line]


def test_ties_are_explained() -> None:
    joined = " ".join(" ".join(text(CREATION)).split())
    assert "if there is another plugin at 00 or 30, it may have made the change" in joined


def test_time_between_two_connections_names_all_plugins_between_them() -> None:
    span = CREATION.spans[1]._replace(owner=one_of("10-a", "20-b"))
    printed = "\n".join(text(replace(CREATION, spans=(span,)), width=None))
    assert "time: 1.40s in 10-a and 20-b; deadline 2.00s per plugin" in printed
    assert "SLOW: 10-a and 20-b (between 00-probe-a and 30-env-injector) took 1.40s tog" in printed


def test_time_outside_plugins_is_listed_last() -> None:
    spans = (
        *CREATION.spans,
        Span(
            Owner(OwnerKind.UNKNOWN), "30-env-injector", "60-cpu-policy", 1_900_000_000, 2 * 10**9
        ),
    )
    printed = text(replace(CREATION, spans=spans), width=None)
    (times,) = (line for line in printed if "time: " in line)
    assert times.startswith(
        "  time: 1.40s in 01–29, 52µs in 30-env-injector, 1.90s outside plugins;"
    )


def test_only_more_than_half_of_the_deadline_is_slow() -> None:
    assert [line for line in text(CREATION) if "SLOW" in line] == [
        "  ! SLOW: plugins at 01–29 (between 00-probe-a and 30-env-injector) took 1.40s,"
    ]
    half = replace(CREATION, spans=(CREATION.spans[0]._replace(ns=10**9),))
    assert not [line for line in text(half) if "SLOW" in line]


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        (
            ("10-a",),
            "10-a (between 00-probe-a and 30-env-injector) took 2.00s, over its deadline of "
            "2.00s: the runtime did not wait for the reply",
        ),
        (
            ("10-a", "20-b"),
            "10-a and 20-b (between 00-probe-a and 30-env-injector) took 2.00s together, over the "
            "deadline of 2.00s for one plugin",
        ),
        (
            (),
            "plugins at 01–29 (between 00-probe-a and 30-env-injector) took 2.00s, over the "
            "deadline of 2.00s for one plugin",
        ),
    ],
)
def test_a_span_over_the_deadline_is_slow(plugins: tuple[str, ...], words: str) -> None:
    span = CREATION.spans[1]._replace(ns=2_003_000_000, deadline_ns=1_999_984_502)
    if plugins:
        span = span._replace(owner=one_of(*plugins))
    late = replace(CREATION, spans=(span,))
    assert [line for line in text(late, width=None) if "SLOW" in line] == [f"  ! SLOW: {words}"]


def test_a_change_with_a_note_is_not_also_an_unapplied_request() -> None:
    path, reason = "/cdiDevices/vendor.com~1gpu=0", "only the node's CDI files tell more"
    change = replace(step(path, None, {"name": "vendor.com/gpu=0"}, "added"), note=reason)
    requests = (
        PluginRequest(APP, ENV, path, "vendor.com/gpu=0", reason, Evidence.TAP, 1),
        PluginRequest(APP, ENV, "/linux/x", 1, reason, Evidence.TAP, 1),
    )
    found = text(replace(with_step(change), asked=requests), width=None)
    assert [line for line in found if reason in line] == [
        f"      note: {reason}",
        f"  ! requested but not applied: 30-env-injector asked for linux.x = 1: {reason}",
    ]


def test_an_unapplied_removal_is_shown_as_a_removal() -> None:
    request = PluginRequest(
        APP, ENV, "/process/env/PATH", "-PATH", "it never reaches the runtime", Evidence.TAP, 1
    )
    found = text(replace(CALM, asked=(request,)), width=None)
    assert (
        "  ! requested but not applied: 30-env-injector asked to remove env PATH: "
        "it never reaches the runtime"
    ) in found


def test_the_cri_is_not_listed_as_an_observer() -> None:
    reported = replace(JUDGED, seen_by=("cri",))
    assert not [line for line in text(reported) if "seen by" in line]


def test_the_date_is_printed_once_per_day() -> None:
    assert [line for line in text(CALM, CALM) if "──" in line] == [
        "── 2023-11-14, times at UTC+00:00"
    ]


@pytest.mark.parametrize("applied", [None, *Applied])
def test_every_outcome_is_shown_for_every_kind_of_change(applied: Applied | None) -> None:
    for one in STEPS:
        joined = "\n".join(text(with_step(replace(one, applied=applied))))
        words = "" if applied is None else str(applied)
        assert words.lower() in joined.lower()


@given(st.text(), st.text(), st.text(), st.integers(60, 100))
def test_hostile_text_stays_within_its_lines(
    path: str, before: str, after: str, width: int
) -> None:
    hostile = replace(step(f"/x{path}", before, after), note=before)
    diff = replace(with_step(hostile), failure=after, remarks=(path,), seen_by=(before,))
    lines = text(diff, width=width)
    assert all(columns(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
