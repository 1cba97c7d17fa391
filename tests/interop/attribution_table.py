# SPDX-License-Identifier: Apache-2.0
"""Generate the tables in docs/diff.md: the changes that each source of evidence detects.

python -m tests.interop.attribution_table   # updates docs/diff.md
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nri_scope import specs
from tests.interop.attribution_cases import (
    FIRST,
    SECOND,
    Action,
    Case,
    UpdateCase,
    UpdateTrigger,
    cases,
    update_cases,
)
from tests.interop.attribution_expected import expected_of, expected_of_update, real_spec
from tests.interop.attribution_fields import ENTRIES, Entry
from tests.interop.attribution_found import PROBED, REPLIES, VALIDATED, run_of
from tests.interop.attribution_run import Run
from tests.interop.attribution_truth import is_refused, of_creation
from tests.interop.build import Merger

NEWEST = Merger.NRI_0_12
PAGE = Path(__file__).parents[2] / "docs" / "diff.md"
HEAD = (
    "| field | since NRI | plugins can | probes | validator | replies | later events | CRI |\n"
    "|---|---|---|---|---|---|---|---|"
)
CAN = {
    Action.ADD: "add",
    Action.REPLACE: "replace",
    Action.REMOVE: "remove",
    Action.REMOVE_OTHERS: "remove",
    Action.CONFLICT: "conflict",
}
SETTING = (Action.ADD, Action.REPLACE, Action.REPLACE_OTHERS, Action.ADD_BOTH)
REMOVING = (Action.REMOVE,)


def table() -> str:
    """The table of fields, from the expected results for the newest version."""
    seen = run_of(NEWEST)
    every = cases(seen.version)
    lines = (
        _line(entry, [case for case in every if case.entry is entry], seen) for entry in ENTRIES
    )
    return "\n".join((HEAD, *lines))


def _line(entry: Entry, own: list[Case], seen: Run) -> str:
    other = any(one.field.path == entry.field.path for one in ENTRIES if one is not entry)
    what = f"`{entry.field.path}`{' by its class' if other and not entry.removable else ''}"
    done = [case for case in own if not is_refused(case, seen.version)]
    can = dict.fromkeys(
        "add" if entry.appends and case.action is Action.REPLACE else CAN[case.action]
        for case in own
        if case.action in CAN
    )
    cells = (
        what,
        entry.field.since.removesuffix(".0"),
        ", ".join(can),
        *(_both(done, seen, view) for view in (PROBED, VALIDATED, REPLIES)),
        _what_shows(done, seen, cri=False),
        _what_shows(done, seen, cri=True),
    )
    return f"| {' | '.join(cells)} |"


def _both(done: Iterable[Case], seen: Run, view: str) -> str:
    """Precision of the attribution of set values, and of removals if it differs."""
    done = tuple(done)
    sets = {_how(case, view, seen) for case in done if case.action in SETTING}
    removals = {_how(case, view, seen) for case in done if case.action in REMOVING}
    return _cell(sets, removals)


def _cell(sets: set[str], removals: set[str]) -> str:
    (set_,) = sets - {"–"} or {"–"}
    if not removals or removals == {set_}:
        return set_
    (removal,) = removals
    return f"{set_}; removal {'no' if removal == '–' else removal}".replace("–;", "no;")


def _how(case: Case, view: str, seen: Run) -> str:
    owners = {one.owner for one in expected_of(case, view, seen)}
    if not owners:
        return "–"
    if owners <= {FIRST, SECOND, f"one of {FIRST}, {SECOND}"}:
        return "exact"
    return "unnamed" if owners == {"unknown"} else "range"


def _what_shows(done: Iterable[Case], seen: Run, *, cri: bool) -> str:
    """Whether the change is visible afterwards: in later events, or in the CRI's spec."""
    sets, removals = set(), set()
    for case in done:
        moments = of_creation(case, seen).moments
        before, after = moments[0].wanted, moments[-1].wanted
        if cri:
            before, after = real_spec(case, None), real_spec(case, seen)
        shows = "yes" if not specs.same(before, after) else "–"
        if case.action in SETTING:
            sets.add(shows)
        elif case.action in REMOVING:
            removals.add(shows)
    return _cell(sets, removals)


UPDATES = (
    "| updated container, and event with the update | probes | validator | replies |\n"
    "|---|---|---|---|"
)
ASKED = {
    "the event's container, UpdateContainer": (UpdateTrigger.UPDATE, False),
    "another container, CreateContainer": (UpdateTrigger.CREATE, True),
    "another container, UpdateContainer": (UpdateTrigger.UPDATE, True),
    "another container, StopContainer": (UpdateTrigger.STOP, True),
    "any container, unsolicited (UpdateContainers)": (UpdateTrigger.UNSOLICITED, False),
}


def table_of_updates() -> str:
    """The table of updates, from the expected results for the newest version."""
    every = update_cases(run_of(NEWEST).version)
    lines = []
    for label, (trigger, other) in ASKED.items():
        own = [
            case
            for case in every
            if case.trigger is trigger and (case.subject is not None) == other and not case.conflict
        ]
        cells = (_of_updates(own, view) for view in (PROBED, VALIDATED, REPLIES))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join((UPDATES, *lines))


def _of_updates(own: Iterable[UpdateCase], view: str) -> str:
    owners = {one.owner for case in own for one in expected_of_update(case, view)}
    if not owners:
        return "–"
    return "exact" if owners <= {FIRST, SECOND} else "range"


def inserted(page: str) -> str:
    """Return the page with updated tables between their markers."""
    for mark, rows in (("sources", table()), ("updates", table_of_updates())):
        before, begin, rest = page.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- end of {mark} -->\n")
        assert begin and end, f"the page lacks a marker for {mark}"
        page = f"{before}{begin}\n{rows}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(inserted(PAGE.read_text()))
