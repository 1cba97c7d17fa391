# SPDX-License-Identifier: Apache-2.0
"""Where the differ is known to be wrong: exactly these cases fail, and whatever mends one of them
has to be taken out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from tests.interop.attribution_cases import Asker, Case, Did, UpdateCase
from tests.interop.attribution_expected import fails
from tests.interop.attribution_found import ALL, BOTH, FEW, PROBED, REPLIES, VALIDATED
from tests.interop.attribution_truth import REMOVAL_NOT_SHOWN


class Kind(Enum):
    """What a test asks."""

    LIES = auto()
    SEES = auto()
    UPDATE_LIES = auto()
    UPDATE_SEES = auto()
    UPDATE_CONFLICT = auto()


class Open(NamedTuple):
    """Something that is wrong."""

    why: str
    where: dict[Kind, tuple[str, ...]]
    """The views in which a test finds it."""
    is_one: Callable[[str, Case | UpdateCase], bool]
    """Whether it is so for a case, in a view."""


def _hidden_removal(view: str, case: Case | UpdateCase) -> bool:
    return (
        isinstance(case, Case) and case.did is Did.REMOVE and case.entry.name in REMOVAL_NOT_SHOWN
    )


def _hugepages(view: str, case: Case | UpdateCase) -> bool:
    return (
        isinstance(case, Case)
        and case.did is Did.REPLACE
        and case.entry.name == "linux.resources.hugepage_limits"
    )


def _by_first_where_only_replies(view: str, case: Case | UpdateCase) -> bool:
    # What is laid to "one of 41–99", 40 included as a tie, is right for the second by chance.
    return view != REPLIES or case.name.endswith(".20")


def _rdt(view: str, case: Case | UpdateCase) -> bool:
    sets = (Did.ADD, Did.REPLACE, Did.REPLACE_OTHERS)
    return isinstance(case, Case) and case.entry.name.startswith("linux.rdt.") and case.did in sets


_SHOWN_AT_THE_END = (
    *("annotations", "mounts", "env", "args", "linux.devices", "linux.cgroups_path"),
    *("linux.oom_score_adj", "linux.namespaces", "linux.sysctl", "linux.net_devices"),
)


def _refused(view: str, case: Case | UpdateCase) -> bool:
    name = case.entry.name
    shown = name.startswith(("linux.resources.memory.", "linux.resources.cpu."))
    return (
        isinstance(case, Case) and case.did is Did.CONFLICT and (shown or name in _SHOWN_AT_THE_END)
    )


_UPDATABLE = (
    *("memory.limit", "cpu.shares", "cpu.quota", "cpu.period", "cpu.cpus", "cpu.mems"),
    *("hugepage_limits", "unified"),
)


def _refused_update(view: str, case: Case | UpdateCase) -> bool:
    if not isinstance(case, UpdateCase) or not fails(case):
        return False
    if case.entry.name.removeprefix("linux.resources.") not in _UPDATABLE:
        return False
    return view in (REPLIES, ALL) or case.subject is None


OPEN = (
    Open(
        "later plugins, and so later connections, are still shown what a plugin removed: that it "
        "is gone in the end is laid to those after the last connection, or to the runtime",
        {Kind.LIES: (PROBED, FEW, BOTH, REPLIES, ALL)},
        lambda view, case: _hidden_removal(view, case) and _by_first_where_only_replies(view, case),
    ),
    Open(
        "the removal is in the reply, and in what validators are told, and is not taken from there",
        {Kind.SEES: (VALIDATED, BOTH, REPLIES, ALL)},
        _hidden_removal,
    ),
    Open(
        "RDT settings are shown to no later connection: where an event shows them in the end, they "
        "are laid to those after the last connection",
        {Kind.LIES: (PROBED, FEW)},
        _rdt,
    ),
    Open(
        "a limit for a page size that has one already replaces it",
        {Kind.SEES: (VALIDATED, REPLIES, ALL)},
        _hugepages,
    ),
    Open(
        "the second entry of a type has the owner that validators are told for the type",
        {Kind.SEES: (VALIDATED,)},
        lambda view, case: (
            isinstance(case, Case) and case.entry.name == "rlimits" and case.did is Did.REPLACE
        ),
    ),
    Open(
        "what was refused stays in the spec, and its end is laid to the runtime",
        {Kind.LIES: (REPLIES, ALL)},
        _refused,
    ),
    Open(
        "an update that the runtime refused, by the replies or as the chain ended, was not done",
        {
            Kind.UPDATE_LIES: (PROBED, BOTH, REPLIES, ALL),
            Kind.UPDATE_SEES: (PROBED, BOTH, REPLIES, ALL),
        },
        _refused_update,
    ),
    Open(
        "conflicts between replies to UpdateContainer are not noticed",
        {Kind.UPDATE_CONFLICT: (REPLIES, ALL)},
        lambda view, case: isinstance(case, UpdateCase) and fails(case),
    ),
    Open(
        "the swap limit follows the memory limit, and so has its owner",
        {Kind.UPDATE_SEES: (VALIDATED, BOTH)},
        lambda view, case: (
            isinstance(case, UpdateCase)
            and case.entry.name == "linux.resources.memory.limit"
            and case.asker is Asker.CREATE
        ),
    ),
)


def still_open(kind: Kind, view: str, cases: Iterable[Case | UpdateCase]) -> dict[str, str]:
    """The cases of which it is known, by name, with the reason."""
    return {
        case.name: one.why
        for one in OPEN
        if view in one.where.get(kind, ())
        for case in cases
        if one.is_one(view, case)
    }
