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
    REQUESTED,
    Failure,
    FailureKind,
    OutcomeKind,
    PluginSpan,
    RoundDiff,
    dropped,
    refused,
)
from nri_scope.differ.attribution.owner import Owner, OwnerKind, one_of
from nri_scope.differ.render import renderer
from nri_scope.text.escape import columns
from nri_scope.text.styled_text import paint_line
from tests.differ.render.samples import (
    ANSWER,
    CALM,
    CREATION,
    FAILED,
    POD_EVENT,
    SEEN,
    STEPS,
    by_cri,
    name_of,
    step,
    with_step,
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri_scope.differ.render.text.clock", lambda at_ns: "22:13:20.000")
    monkeypatch.setattr("nri_scope.text.quantities.day", lambda at_ns: "2023-11-14 +00:00")


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
  + devices[/dev/x]  c 1:3 mode=0666  by one of 01–29 (probes), seen
  ~ env FOO  "bar" → "baz"  by 30-env-injector (tap), in effect
  ! mounts[/data]  tmpfs on /data type tmpfs (rw,size=1m)
      asked for by 30-env-injector (tap)
      ! dropped: the earlier value is there in the spec that was used (event 20)
  > mounts[/dev]  moved from 4th to 2nd place
      by one of 30-env-injector, 60-cpu-policy (tap), seen
  - annotations[x.io/y]  was "v"  owner unknown (events), seen
      note: it was gone in the next event
  ^ cpu.shares  512  asked for by 60-cpu-policy (tap)
      ! superseded: another value is there: 1024 in the spec that was used
        (event 20)
      ! but validator says: by 30-env-injector
      ! but probes say: no value
  ~ process.oomScoreAdj  0 → 5  by the runtime (cri), seen
  ? memory.limit  1 → 2  asked for by a CRI request (request), outcome not known
  on another container, shop/web/sidecar:
    ~ cpu.cpus  "0-1" → "1"  by 60-cpu-policy (tap), seen
    ! cpu.mems  "0"  asked for by 60-cpu-policy (tap)
        ! dropped: it is gone
  ! SLOW: plugins at 01–29 (between 00-probe-a and 30-env-injector) took 1.40s,
      70 % of the deadline of 2.00s
  time: 1.40s in 01–29, 52µs in 30-env-injector; deadline 2.00s per plugin
    17 22:13:20.000 StartContainer  shop/web/app  no change seen

6 changes to 2 containers in 1 of 2 operations; 4 other requests: 1 with
  unknown outcome, 2 dropped, 1 superseded
one of 01–29: a plugin between two observed connections; which one is unknown
one of 30-env-injector, 60-cpu-policy: one or more of these plugins; which is
  unknown
if there is another plugin at 00 or 30, it may have made the change: plugins
  with equal indices have no defined order
? asked for; nothing shows whether it took effect
^ another value is there instead
! asked for, but refused or dropped
evidence: tap: the plugin's own reply; validator: the runtime's list of last
  owners; probes: two connections in the chain show different states; events: a
  later event shows the change; cri: the spec that the runtime actually used;
  request: the runtime's own request"""


def test_without_a_width_each_change_is_one_line() -> None:
    lines = text(CREATION, width=None)
    assert '  ~ env FOO  "bar" → "baz"  by 30-env-injector (tap), in effect' in lines
    assert sum(line[2:4] in {"+ ", "- ", "~ ", "> ", "? "} for line in lines) == 6


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


def test_a_file_shows_each_outcome_at_its_request_only() -> None:
    assert text(ANSWER, quiet=True) == [
        "x.nriscope.db",
        "",
        "no change seen in 1 operation; 1 without a change left out (--all shows it)",
    ]


def test_live_text_repeats_a_request_when_its_outcome_is_known() -> None:
    lines = text(ANSWER, quiet=True, live=True)
    at = lines.index("    20 22:13:20.000 ContainerStatus, reported over CRI  shop/web/app")
    assert lines[at + 1 : at + 10] == [
        "  outcome of earlier requests:",
        '    ~ env FOO  "bar" → "baz"  by 30-env-injector (tap), in effect',
        "    ! mounts[/data]  tmpfs on /data type tmpfs (rw,size=1m)",
        "        asked for by 30-env-injector (tap)",
        "        ! dropped: the earlier value is there in the spec that was used (event",
        "          20)",
        "    ^ cpu.shares  512  asked for by 60-cpu-policy (tap)",
        "        ! superseded: another value is there: 1024 in the spec that was used",
        "          (event 20)",
    ]
    assert "  ^ another value is there instead" in lines


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
        PluginSpan(
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
            "10-a (between 00-probe-a and 30-env-injector) took 2.00s, over the deadline of "
            "2.00s for one plugin",
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


def test_the_reason_of_a_failure_is_printed_once() -> None:
    reason = "30-env-injector returned an error: no"
    one = step("/linux/x", None, 1, "added", outcome=refused(reason))
    found = text(replace(with_step(one), cause=Failure(FailureKind.OTHER, reason)), width=None)
    assert [line for line in found if reason in line] == [f"  ! FAILED: {reason}"]
    assert "  ! linux.x  1  asked for by 30-env-injector (tap), refused" in found


def test_a_request_with_a_known_limit_of_the_evidence_says_so() -> None:
    one = step("/linux/x", None, 1, "added", outcome=REQUESTED._replace(reason="nothing tells"))
    assert "      ! not known whether it took effect: nothing tells" in text(with_step(one))
    plain = text(with_step(replace(one, outcome=REQUESTED)))
    assert "  ? linux.x  1  asked for by 30-env-injector (tap), outcome not known" in plain


def test_a_dropped_removal_is_shown_as_a_removal() -> None:
    removal = step("/process/env/PATH", None, None, "removed", outcome=dropped("nothing of it"))
    found = text(with_step(removal), width=None)
    assert "  ! env PATH  removal  asked for by 30-env-injector (tap)" in found
    assert "      ! dropped: nothing of it" in found


def test_the_cri_is_not_listed_as_an_observer() -> None:
    reported = replace(ANSWER, seen_by=("cri",))
    assert not [line for line in text(reported, live=True) if "seen by" in line]


def test_the_date_is_printed_once_per_day() -> None:
    assert [line for line in text(CALM, CALM) if "──" in line] == [
        "── 2023-11-14, times at UTC+00:00"
    ]


@pytest.mark.parametrize("kind", OutcomeKind)
def test_every_outcome_is_shown_for_every_kind_of_change(kind: OutcomeKind) -> None:
    is_change = kind in (OutcomeKind.SEEN, OutcomeKind.IN_EFFECT)
    for one in STEPS:
        plain, reasoned = (
            text(with_step(replace(one, outcome=outcome)), width=None)
            for outcome in (SEEN._replace(kind=kind), by_cri(kind, "a reason"))
        )
        for lines, unknown in (
            (plain, "outcome not known"),
            (reasoned, "not known whether it took effect: a reason"),
        ):
            said = "\n".join(lines[4 : lines.index("", 4)])
            assert (unknown if kind is OutcomeKind.REQUESTED else str(kind)) in said
            assert ("asked for" in said) is not is_change
            assert ("a reason" in said) is (lines is reasoned and not is_change)


@given(st.text(), st.text(), st.text(), st.integers(60, 100))
def test_hostile_text_stays_within_its_lines(
    path: str, before: str, after: str, width: int
) -> None:
    hostile = replace(step(f"/x{path}", before, after), note=before)
    cause = Failure(FailureKind.OTHER, after)
    diff = replace(with_step(hostile), cause=cause, remarks=(path,), seen_by=(before,))
    lines = text(diff, width=width)
    assert all(columns(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
