# SPDX-License-Identifier: Apache-2.0
"""Hand-made and generated container histories."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st

from nri_scope.differ.attribution.applied_spec import judge
from nri_scope.differ.attribution.attributed_changes import (
    REQUESTED,
    ChangeStep,
    Claim,
    Evidence,
    OutcomeKind,
)
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import (
    REQUEST,
    RUNTIME,
    UNKNOWN,
    Owner,
    OwnerKind,
    one_of,
    plugin,
)
from nri_scope.specs import ChangeKind, Json, Spec, apply, changes
from tests.amount import amount
from tests.differ.render.samples import APP, CHOICE, ENV, RANGE, answer, step
from tests.specs.generated import SPECS

OWNERS = (
    ENV,
    plugin("60-cpu-policy"),
    CHOICE,
    RANGE,
    REQUEST,
    RUNTIME,
    UNKNOWN,
    plugin("10-\x1b[2J", "99-" + "n" * 60),
    Owner(OwnerKind.ONE_OF, first="00", last="99", or_runtime=True),
    one_of("30-x", or_runtime=True),
)


def history(base: Spec, *steps: ChangeStep, base_owner: Owner = RUNTIME) -> History:
    """Build the history of a container in which `steps` changed `base`."""
    spec = apply(base, [one.change for one in steps])
    return History(
        APP,
        "shop/web/app",
        base,
        base_owner,
        spec,
        list(steps),
        created_event=14,
    )


def history_of_turns(base: Spec, *turns: tuple[Owner, Spec]) -> History:
    """Build a history in which each owner in turn replaces the spec."""
    steps: list[ChangeStep] = []
    before = base
    for event, (owner, after) in enumerate(turns, 14):
        steps += (
            replace(step(change.path, None, None, owner=owner, event=event), change=change)
            for change in changes(before, after)
        )
        before = after
    return History(APP, "shop/web/app", base, RUNTIME, before, steps, created_event=14)


def requested(found: History) -> History:
    """Return a copy of the history in which nothing shows an outcome."""
    steps = [replace(one, outcome=REQUESTED) for one in found.steps]
    return replace(found, steps=steps)


def with_cri_spec(found: History, real: Spec, event: int = 90) -> History:
    """Return a copy of the history whose outcomes are those by a spec reported over CRI."""
    copied = requested(found)
    copied.real, copied.real_event = real, event
    judge(copied, real, answer(event))
    return copied


def _with_effect(found: History) -> Spec:
    return apply(found.base, [one.change for one in found.counted])


@st.composite
def _any(draw: st.DrawFn) -> History:
    owners = st.sampled_from(OWNERS)
    found = history_of_turns(draw(SPECS), *draw(st.lists(st.tuples(owners, SPECS), max_size=3)))
    found.base_owner = draw(st.sampled_from([RUNTIME, UNKNOWN]))
    found.steps = [
        replace(
            one,
            evidence=tuple(draw(st.sets(st.sampled_from(Evidence), min_size=1, max_size=3))),
            note=draw(st.sampled_from(["", "a note\x1b[1m"])),
            disputed=draw(st.sampled_from([(), (Claim(Evidence.CRI, RUNTIME, "x"),)])),
        )
        for one in found.steps
    ]
    if draw(st.booleans()):
        outcome = st.sampled_from(OutcomeKind).map(lambda kind: REQUESTED._replace(kind=kind))
        found.steps = [replace(one, outcome=draw(outcome)) for one in found.steps]
        found = replace(found, spec=_with_effect(found))
    if draw(st.booleans()):
        return with_cri_spec(
            found, draw(st.just(found.spec) | SPECS), draw(st.sampled_from([14, 15, 90]))
        )
    return found


FEW = settings(max_examples=amount(40, 40))
"""Settings for slow strategies: generating one history takes milliseconds."""

HISTORIES: st.SearchStrategy[History] = _any()
"""Histories with all kinds of owners, some with a spec reported over CRI."""

__all__ = [
    "FEW",
    "HISTORIES",
    "OWNERS",
    "ChangeKind",
    "Json",
    "history",
    "history_of_turns",
    "requested",
    "step",
    "with_cri_spec",
]
