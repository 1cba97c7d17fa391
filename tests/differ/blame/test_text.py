# SPDX-License-Identifier: Apache-2.0
"""A container's lines as text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    Evidence,
    OutcomeKind,
    Shows,
    dropped,
)
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import REQUEST, RUNTIME, UNKNOWN
from nri_scope.differ.blame.owned_lines import lines
from nri_scope.differ.blame.path_history import path_histories, resolve, whole_container_requests
from nri_scope.differ.blame.text import body, head, legend, view
from nri_scope.specs import Json, Spec, same
from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import paint_line
from tests.differ.render.samples import CPU, ENV, RANGE, by_cri

from .histories import FEW, HISTORIES, history, history_of_turns, requested, step, with_cri_spec

WIDTHS = st.sampled_from([None, 40, 80, 120])


def text(found: History, kind: str = "usual", width: int | None = 80) -> list[str]:
    all_lines = lines(found)
    assert kind in ("usual", "full", "changed")
    written, explained = body(view(all_lines, kind), width)  # type: ignore[arg-type]
    return [*head(found, all_lines, width), *legend(explained, width), *written]


def yaml_of(found: History) -> Json:
    """Parse the text to the right of the gutter as YAML."""
    there = [line for line in lines(found) if line.exists]
    written, _ = body(there)
    read: Json = yaml.safe_load("\n".join(line.partition("│")[2] for line in written))
    return read


@pytest.mark.exhaustive
@FEW
@given(HISTORIES)
def test_right_of_the_gutter_is_the_spec_as_yaml(found: History) -> None:
    assert same(yaml_of(found) or {}, found.final_spec)


@pytest.mark.exhaustive
@FEW
@given(HISTORIES, st.sampled_from([80, 120]))
def test_lines_fit(found: History, width: int) -> None:
    assert [line for line in text(found, "full", width) if columns(line) > width] == []


@FEW
@given(HISTORIES, WIDTHS)
def test_untrusted_text_is_escaped_for_the_terminal(found: History, width: int | None) -> None:
    assert all(safe(line) == line for line in text(found, "full", width))


@FEW
@given(HISTORIES)
def test_colours_change_no_text(found: History) -> None:
    rows = view(lines(found), "usual")
    written, _ = body(rows, 80)
    for line in written:
        assert re.sub(r"\x1b\[[0-9]+m", "", paint_line(line)) == line


BEFORE: Spec = {
    "process": {"args": ["sh"], "env": ["FOO=bar", "A=1", "B=2", "OLD=1"]},
    "linux": {"resources": {"cpu": {"shares": 2}}},
}
AFTER: Spec = {
    "process": {"args": ["sh"], "env": ["FOO=baz", "A=1", "B=2", "NEW=1"]},
    "linux": {"resources": {"cpu": {"shares": 2048}}},
}


def test_default_view_of_a_changed_container() -> None:
    found = history_of_turns(BEFORE, (ENV, AFTER))
    assert text(found) == [
        "shop/web/app aaaaaaaaaaaa, created by event 14",
        "6 lines; changed: 30-env-injector 4",
        "+ added  - removed  ~ changed  T: plugin's reply",
        "                   │process:",
        "runtime            │  args: [sh]",
        "                   │  env:",
        "30-env-injector T ~│    - FOO=baz  # was bar",
        "runtime            │    # … 2 lines by the runtime",
        "30-env-injector T +│    - NEW=1",
        "30-env-injector T -│    - OLD=1",
        "                   │linux:",
        "                   │  resources:",
        "                   │    cpu:",
        "30-env-injector T ~│      shares: 2048  # was 2",
    ]


def test_the_legend_explains_the_owners_and_evidence_shown() -> None:
    found = history_of_turns(BEFORE, (RANGE, AFTER))
    found.steps = [replace(one, evidence=(Evidence.PROBES,)) for one in found.steps]
    found.steps[0] = replace(found.steps[0], owner=UNKNOWN)
    found.steps[1] = replace(found.steps[1], owner=REQUEST)
    printed = "\n".join(text(found, width=None))
    for words in (
        "one of 01–29: a plugin with one of these indices",
        "00 or 30: or a plugin of the same index that was not recorded",
        "unknown: not observed",
        "CRI request: by a CRI client",
        "P: two connections differ",
    ):
        assert printed.count(words) == 1
        assert printed.index(words) < printed.index("│")
    assert "T: " not in printed
    assert "> moved" not in printed


def test_a_long_owner_name_is_cut_and_printed_in_full_above() -> None:
    name = f"30-{'long' * 20}"
    owner = replace(ENV, plugins=(name,))
    printed = text(history_of_turns(BEFORE, (owner, AFTER)))
    assert any(line.startswith(f"{name[:23]}… T ~│") for line in printed)
    assert name in "".join(printed[2:6]).replace("  ", "")


def test_a_long_remark_is_printed_below_its_line() -> None:
    found = history_of_turns({"annotations": {"a": "x " * 40}}, (ENV, {"annotations": {"a": "y"}}))
    written, _ = body(lines(found), 60)
    assert written[1].endswith("│  a: 'y'")
    assert all(line.partition("│")[2].lstrip().startswith("# ") for line in written[2:])
    assert len(written) > 3


def test_failures_remarks_and_unapplied_requests_come_first() -> None:
    found = history_of_turns(BEFORE, (ENV, AFTER))
    found.failure = "plugins 30-env-injector and 60-cpu-policy both tried to set it"
    found.remarks.append("nobody saw what plugins before 50 did")
    path = "/linux/resources/pids/limit"
    found.add([step(path, None, 5, "added", CPU, outcome=dropped("no such field"))])
    found.real, found.real_event = AFTER, 90
    assert text(found, width=None)[1:6] == [
        "! creation failed: plugins 30-env-injector and 60-cpu-policy both tried to set it",
        "the spec that the runtime actually used, reported by event 90",
        "6 lines; changed: 30-env-injector 4",
        "note: nobody saw what plugins before 50 did",
        "! 60-cpu-policy asked for pids.limit = 5: dropped: no such field",
    ]


def test_a_value_removed_by_the_runtime_is_marked_removed() -> None:
    before: Spec = {"process": {"env": ["PATH=/usr/bin", "A=1", "PATH=/bin"]}}
    found = history_of_turns(before, (RUNTIME, {"process": {"env": ["PATH=/bin", "A=1"]}}))
    assert text(found, "full")[2:] == [
        "- removed  T: plugin's reply",
        "           │process:",
        "           │  env:",
        "runtime T  │    - PATH=/bin  # was /usr/bin",
        "runtime    │    - A=1",
        "runtime T -│    - PATH=/bin",
    ]
    assert "runtime  │# … 2 lines by the runtime" in text(found)


def test_only_owners_have_evidence() -> None:
    found = with_cri_spec(history({}), {"linux": {"resources": {"cpu": {"idle": 1}}}})
    printed = [line for line in text(found, "full") if "│" in line]
    assert [line.partition("│")[0].split() for line in printed] == [
        [],
        [],
        [],
        ["Pod", "spec/CRI", "C"],
    ]


def test_a_range_that_includes_the_runtime_is_explained() -> None:
    last = replace(RANGE, first="99", last="99", ties=(), or_runtime=True)
    late = step("/annotations/a", None, "1", "added", last)
    printed = text(history({}, late), width=None)
    assert "one of 99: a plugin with this index  " in printed[2]
    assert printed[1] == "1 line; changed: 99 or runtime 1"


def test_a_path_has_its_own_requests_and_those_for_the_whole_container() -> None:
    found = history_of_turns(BEFORE, (ENV, AFTER))
    for path in ("/linux/resources/pids/limit", "/process/oomScoreAdj"):
        found.add([step(path, None, 5, "added", CPU, outcome=dropped("no such field"))])
    found.add([step(EVICTION, None, "so it is", "added", CPU, outcome=dropped("never"))])
    path = resolve(found, "limit")
    assert path == "/linux/resources/pids/limit"
    (mine,) = path_histories(found, path)
    assert [one.change.path for one in mine.steps] == [path]
    printed = [*head(found, None, None, whole_container_requests(found))]
    assert printed[1:] == [
        '! 60-cpu-policy asked to evict the container ("so it is"): dropped: never'
    ]


@pytest.mark.parametrize("kind", ["usual", "changed", "full"])
def test_an_unchanged_container_says_so(kind: str) -> None:
    printed = text(history(BEFORE), kind)
    assert printed[1] == "no plugin was seen to change any of 6 lines"
    assert len(printed) == {"usual": 3, "changed": 2, "full": 13}[kind]


def test_a_range_that_includes_the_runtime_says_so() -> None:
    owner = replace(RANGE, or_runtime=True, ties=())
    printed = text(history({}, step("/annotations/a", None, "1", "added", owner)))
    assert any(line.startswith("01–29 or runtime T +│") for line in printed)


def test_changes_confirmed_over_cri_are_marked_and_dropped_ones_listed() -> None:
    found = history_of_turns(
        {"mounts": []}, (ENV, {"mounts": [], "annotations": {"a": "x", "b": "1"}})
    )
    printed = text(with_cri_spec(found, {"mounts": [], "annotations": {"a": "x"}}), width=None)
    assert printed[2:5] == [
        "2 lines; changed: 30-env-injector 1",
        '! 30-env-injector asked for annotations[b] = "1": dropped: no value is there in '
        "the spec that was used (event 90)",
        "+ added  T: plugin's reply  C: spec that was actually used",
    ]
    assert printed[-1] == "30-env-injector TC +│  a: x"


def test_requests_with_an_unknown_outcome_are_marked_and_counted() -> None:
    found = requested(history_of_turns({}, (ENV, {"annotations": {"a": "x"}})))
    printed = text(found, width=None)
    assert printed[1:3] == [
        "no plugin was seen to change the only line; asked for, outcome not known: 1",
        "? asked for, outcome not known  T: plugin's reply",
    ]
    assert printed[-1] == (
        "30-env-injector T ?│  a: x  # asked for; nothing shows whether it took effect"
    )


@pytest.mark.parametrize("shown_by", [Shows.CRI, Shows.CONFIG, Shows.CGROUP])
def test_only_the_whole_spec_is_named_as_the_spec_that_was_used(shown_by: Shows) -> None:
    path, outcome = "/linux/resources/cpu/shares", by_cri(OutcomeKind.IN_EFFECT)
    one = step(path, None, 5, "added", outcome=outcome._replace(shown_by=shown_by))
    printed = "\n".join(text(history({}, one)))
    assert ("spec that was actually used" in printed) is (shown_by is not Shows.CGROUP)


def test_remarks_below_a_line_have_a_line_each() -> None:
    found = history_of_turns({"annotations": {"a": "x" * 44}}, (ENV, {"annotations": {"a": "z"}}))
    found.steps[0] = replace(found.steps[0], note="so it is")
    written, _ = body(lines(found), 80)
    assert [line.partition("│")[2].strip() for line in written[2:]] == [
        f"# was {'x' * 44}",
        "# so it is",
    ]


def test_a_move_that_was_dropped_is_a_request() -> None:
    order: list[Json] = [{"destination": f"/{name}"} for name in "abc"]
    found = history_of_turns({"mounts": order}, (ENV, {"mounts": [order[2], *order[:2]]}))
    before: Spec = {"mounts": order}
    for real, owner in ((found.spec, "30-env-injector TC >│"), (before, "")):
        printed = text(with_cri_spec(found, real), width=None)
        moved = [line for line in printed if "moved from" in line]
        assert [line[: len(owner)] for line in moved] == [owner] * bool(owner)
        asked = "! 30-env-injector asked to move mounts[/c] to 1st place: dropped: "
        assert any(line.startswith(asked) for line in printed) is (not owner)
