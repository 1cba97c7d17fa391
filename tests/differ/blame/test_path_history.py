# SPDX-License-Identifier: Apache-2.0
"""The history of one path."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.attributed_changes import OutcomeKind, dropped
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import REQUEST
from nri_scope.differ.blame.path_history import history_body, path_histories, resolve
from nri_scope.errors import UsageError
from nri_scope.specs import Spec
from nri_scope.text.escape import safe
from tests.differ.render.samples import CPU, ENV, by_cri, step

from .histories import FEW, HISTORIES, history_of_turns


def _cpu(shares: int | None, *env: str) -> Spec:
    spec: Spec = {"process": {"env": [*env]}}
    if shares is not None:
        spec["linux"] = {"resources": {"cpu": {"shares": shares}}}
    return spec


FOUND = history_of_turns(
    _cpu(512, "FOO=bar", "PATH=/bin"),
    (ENV, _cpu(512, "FOO=baz", "PATH=/bin")),
    (CPU, _cpu(2048, "FOO=baz", "PATH=/bin")),
    (REQUEST, _cpu(256, "FOO=baz", "PATH=/bin")),
    (ENV, _cpu(256, "PATH=/bin", "NEW=1")),
)


def printed(found: History, path: str, width: int | None = 80) -> list[str]:
    written, _ = history_body(found, path_histories(found, path), width)
    return written


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_each_value_is_listed_with_its_owner_time_and_outcome() -> None:
    found = replace(FOUND, steps=list(FOUND.steps))
    found.steps[2] = replace(found.steps[2], outcome=by_cri(OutcomeKind.IN_EFFECT))
    refused = step("/linux/resources/cpu/shares", 256, 9, owner=ENV, event=18)
    found.add([replace(refused, outcome=dropped("not at night"))])
    assert printed(found, "/linux/resources/cpu/shares") == [
        "── 2023-11-14, times at UTC+00:00",
        "cpu.shares",
        "                  runtime            │512",
        "22:13:20.000  15  60-cpu-policy   T ~│2048  # seen in event 14",
        "22:13:20.000  16  CRI request     T ~│256  # in effect",
        "22:13:20.000  18  30-env-injector T !│9  # dropped: not at night",
    ]


def test_a_removed_value_ends_with_its_removal() -> None:
    assert printed(FOUND, "/process/env/FOO")[-2:] == [
        "22:13:20.000  14  30-env-injector T ~│baz  # seen",
        "22:13:20.000  17  30-env-injector T -│(removed)  # seen in event 14",
    ]


def test_a_prefix_lists_each_path_below_it() -> None:
    headings = [line for line in printed(FOUND, "/process") if line.startswith("env")]
    assert headings == ["env FOO", "env NEW"]


def test_an_unchanged_path_says_so() -> None:
    assert printed(FOUND, "/process/env/PATH") == [
        "env PATH",
        "                 runtime  │/bin  # no change seen",
    ]


@FEW
@given(HISTORIES, st.sampled_from([None, 40, 80]))
def test_output_is_escaped_and_never_empty(found: History, width: int | None) -> None:
    paths = {"", *(step.change.path for step in found.steps)}
    for path in paths:
        written = printed(found, path, width)
        assert written and all(safe(line) == line for line in written)


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("/process/env/FOO", "/process/env/FOO"),
        ("process/env/FOO", "/process/env/FOO"),
        ("/process/env/", "/process/env"),
        ("FOO", "/process/env/FOO"),
        ("shares", "/linux/resources/cpu/shares"),
        ("NEW", "/process/env/NEW"),
    ],
)
def test_abbreviated_paths_are_resolved(typed: str, path: str) -> None:
    assert resolve(FOUND, typed) == path


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("FO", 'shop/web/app never had a value at "FO"; the nearest is env FOO'),
        ("foo", 'shop/web/app never had a value at "foo"; the nearest is env FOO'),
        (
            "/process/env/FOOO",
            'shop/web/app never had a value at "/process/env/FOOO"; the nearest is env FOO',
        ),
        ("", 'shop/web/app never had a value at ""; --full shows all paths'),
        ("/", 'shop/web/app never had a value at "/"; --full shows all paths'),
        ("qqqqq", 'shop/web/app never had a value at "qqqqq"; --full shows all paths'),
    ],
)
def test_an_unknown_path_suggests_the_nearest(typed: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(FOUND, typed)
    assert str(caught.value) == words


def test_an_unescaped_key_with_slashes_suggests_the_escaped_path() -> None:
    found = history_of_turns({}, (ENV, {"mounts": [{"destination": "/data", "type": "bind"}]}))
    with pytest.raises(UsageError, match=r"use mounts\[/data\]\.type"):
        resolve(found, "/mounts//data/type")


def test_an_ambiguous_key_lists_the_matching_paths() -> None:
    found = history_of_turns(
        {"annotations": {"x": "1"}}, (ENV, {"annotations": {"x": "1"}, "root": {"x": 2}})
    )
    with pytest.raises(UsageError) as caught:
        resolve(found, "x")
    assert str(caught.value) == '"x" matches 2 paths; use annotations[x] or root.x'
    found = history_of_turns(
        {}, (ENV, {"annotations": {f"{number}": {"x": 1} for number in range(9)}})
    )
    with pytest.raises(UsageError, match=r"9 paths; .* and 4 more$"):
        resolve(found, "x")
