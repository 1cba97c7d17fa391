# SPDX-License-Identifier: Apache-2.0
"""Tokens of redaction are printed as differences only if they can be compared."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.differ.comparison import Comparison, compare_containers
from nri_scope.differ.comparison_output import comparison
from nri_scope.nri.request_subject import workload_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.redacted_copy import redact_for_comparison
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.tokens import PLAIN_TOKEN
from tests.agent.secret_creations import SECRET, a_creation
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import record

NAMES = ("DB_PASSWORD", "MODE", "KUBERNETES_SERVICE_HOST", "URL")
VALUES = (SECRET, "hunter22", "10.96.0.1", "10.96.0.2", "on", "https://u:pw123456@db.shop/x")
VARIABLES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
SIBLINGS = ("web-6bcd9f7f4-x2x5z", "web-6bcd9f7f4-bcdfg")
STRANGERS = ("web", "api")
TOKEN = re.compile(rf"{PLAIN_TOKEN}|198\.1[89]\.")


def compared(files: list[Path], pods: tuple[str, str], redactors: list[Redactor]) -> Comparison:
    """Return the comparison of the pods' containers in the files, which may be one."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        paths = list(files)
        for number, redactor in enumerate(redactors):
            with Recording.open(files[number]) as source:
                path = Path(folder) / str(number)
                path.mkdir()
                (copy,) = redact_for_comparison([source], path, redactor, None)
                paths[number] = copy.path
        with Recording.open(paths[0]) as a, Recording.open(paths[-1]) as b:
            (of_a,) = (one for one in a.containers() if one.pod and one.pod.name == pods[0])
            (of_b,) = (one for one in b.containers() if one.pod and one.pod.name == pods[1])
            return compare_containers(a, of_a, b, of_b)


def paths_of(found: Comparison) -> set[str]:
    return {difference.change.path for pair in found.differ for difference in pair.differences}


@given(VARIABLES, VARIABLES, st.sampled_from([SIBLINGS, STRANGERS]), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=amount(20, 200))
@example({"DB_PASSWORD": SECRET}, {"DB_PASSWORD": SECRET}, SIBLINGS, False, True)
@example({"DB_PASSWORD": SECRET}, {"DB_PASSWORD": SECRET}, STRANGERS, False, True)
@example(
    {"DB_PASSWORD": SECRET, "MODE": SECRET},
    {"DB_PASSWORD": SECRET, "MODE": "hunter22"},
    SIBLINGS,
    False,
    True,
)
def test_differences_of_redacted_containers(
    a: dict[str, str], b: dict[str, str], pods: tuple[str, str], is_two: bool, one_key: bool
) -> None:
    with TemporaryDirectory(dir=MEMORY) as name:
        files = [Path(name) / f"{number}.nriscope.db" for number in range(1 + is_two)]
        for path, pod, env in zip((files[0], files[-1]), pods, (a, b), strict=True):
            record(path, [a_creation(pod, [f"{key}={value}" for key, value in env.items()])])
        original = paths_of(compared(files, pods, []))
        keys = [b"k" * 32, (b"k" if one_key else b"o") * 32]
        redactors = [Redactor(Rules(), key) for key, _ in zip(keys, files, strict=False)]
        found = compared(files, pods, redactors)
    assert paths_of(found) <= original
    if not found.remark:
        assert paths_of(found) == original
    can_link = pods == SIBLINGS and (one_key or not is_two)
    if not can_link:
        changes = [difference.change for pair in found.differ for difference in pair.differences]
        assert not any(
            TOKEN.search(str(change.before)) and TOKEN.search(str(change.after))
            for change in changes
        )
    elif a.get("DB_PASSWORD") == b.get("DB_PASSWORD") == SECRET:
        # One token is common, so that different tokens are different values. Only a token beside a
        # text is not compared: MODE=correct-horse-7-battery has only known words, and stays.
        assert found.uncompared == len(original - paths_of(found))
    lines = "\n".join(comparison("a", "b", found, "text"))
    assert ("not compared" in lines) == bool(found.remark)


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("web", "web"),
        ("web-0", "web"),
        ("web-12345", "web"),
        ("web-6bcd9f7f4-x2x5z", "web"),
        ("ds-bcdfg", "ds"),
        ("cron-29384756-bcdfg", "cron"),
        ("my-shell", "my-shell"),
        ("-bcdfg", "-bcdfg"),
        ("", ""),
    ],
)
def test_workloads(pod: str, workload: str) -> None:
    assert workload_of(pod) == workload
