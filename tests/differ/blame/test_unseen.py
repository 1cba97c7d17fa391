# SPDX-License-Identifier: Apache-2.0
"""Owners of values reported only over CRI when parts of the creation were not observed."""

from __future__ import annotations

import pytest

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME, UNKNOWN, Owner, OwnerKind
from nri_scope.differ.blame.owned_lines import lines
from nri_scope.differ.blame.text import body, view
from nri_scope.specs import Spec

REAL: Spec = {"ociVersion": "1.2.1", "process": {"rlimits": [{"type": "RLIMIT_CORE", "hard": 1}]}}


@pytest.mark.parametrize(
    ("created", "tail", "owner"),
    [
        (0, RUNTIME, "unknown"),
        (1, RUNTIME, "Pod spec/CRI"),
        (
            1,
            Owner(OwnerKind.ONE_OF, first="51", last="99", ties=("50",), or_runtime=True),
            "one of 51–99, or the runtime",
        ),
        (1, Owner(OwnerKind.ONE_OF, first="99", last="99", or_runtime=True), "Pod spec/CRI"),
    ],
)
def test_no_plugin_owns_a_value_only_if_none_can_have_set_it(
    created: int, tail: Owner, owner: str
) -> None:
    history = History("app-id", "shop/web/app", base_owner=UNKNOWN, created_event=created)
    history.tail, history.real = tail, REAL
    owners = {line.path: str(line.owner) for line in lines(history) if not line.heading}
    assert owners["/process/rlimits/RLIMIT_CORE/hard"] == owner
    # No plugin can change the OCI version.
    assert owners["/ociVersion"] == "Pod spec/CRI"


ANNOTATED: Spec = {**REAL, "annotations": {"a": "1"}}
LATER = Owner(OwnerKind.ONE_OF, first="51", last="99", ties=("50",), or_runtime=True)


@pytest.mark.parametrize(
    ("created", "shown", "tail", "owner"),
    [
        (0, False, RUNTIME, "unknown"),
        (0, True, RUNTIME, "unknown"),
        (1, False, RUNTIME, "runtime"),
        (1, False, LATER, "one of 51–99, or the runtime"),
        (1, True, LATER, "one of 51–99, or the runtime"),
    ],
)
def test_an_annotation_may_be_missing_from_events_which_repeat_those_of_the_cri(
    created: int, shown: bool, tail: Owner, owner: str
) -> None:
    history = History("app-id", "shop/web/app", base_owner=UNKNOWN, created_event=created)
    history.tail, history.real, history.shown = tail, ANNOTATED, shown
    owners = {line.path: str(line.owner) for line in lines(history) if not line.heading}
    assert owners["/annotations/a"] == owner
    assert owners["/ociVersion"] == "Pod spec/CRI"


def test_the_legend_mentions_another_plugin_at_index_99() -> None:
    last = Owner(OwnerKind.ONE_OF, first="99", last="99", or_runtime=True)
    history = History("app-id", "shop/web/app", created_event=1, tail=last, real=REAL)
    gutter = "\n".join(body(view(lines(history), "full"))[1])
    assert "99: or a plugin of the same index that was not recorded" in gutter
