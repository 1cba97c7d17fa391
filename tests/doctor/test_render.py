# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from nri_scope.doctor.check import (
    Check,
    Health,
    as_json,
    as_text,
    as_warnings,
    exit_status,
    fail,
    ok,
    unknown,
    warn,
)
from nri_scope.text.styled_text import spans_of

CHECKS = [
    ok("socket", "/run/nri/nri.sock is a socket"),
    warn("keys", "x " * 60 + "end", "move it " + "far " * 30),
    fail("plugin", "/opt/" + "long" * 30),
    unknown("listener", ""),
]


def test_json_has_a_version_every_field_and_no_null() -> None:
    document = json.loads(as_json(CHECKS))
    assert document["schema_version"] == 1
    assert document["checks"][0] == {
        "name": "socket",
        "status": "ok",
        "detail": "/run/nri/nri.sock is a socket",
        "fix": "",
        "config": "",
    }
    assert [check["status"] for check in document["checks"]] == ["ok", "warn", "fail", "unknown"]
    assert json.loads(as_json([]))["checks"] == []


def test_text_wraps_except_for_words_longer_than_the_width() -> None:
    for width in (80, 100):
        lines = list(as_text(CHECKS, width=width))
        assert max(map(len, lines)) > width  # the long path stays whole
        assert all(len(line) <= width for line in lines if "longlong" not in line)


def test_without_a_width_each_check_and_fix_is_one_line() -> None:
    lines = list(as_text(CHECKS, width=None))
    assert len(lines) == len(CHECKS) + 1 + len(["", "summary"])
    assert lines[1].endswith("x end")


def test_text_names_the_status_and_indents_the_fix() -> None:
    text = as_text([fail("socket", "it is not there", "make one")])
    assert list(text) == [
        "✗ fail    socket: it is not there",
        "          fix: make one",
        "",
        "0 ok, 1 failed",
    ]
    assert all(line.isascii() for line in as_text([ok("a", "b")], plain=True))


def test_only_the_status_is_styled() -> None:
    for line, check in zip(as_text(CHECKS, width=None), CHECKS, strict=False):
        first, *rest = spans_of(line)
        assert first.text.split()[1] == check.status.value
        assert first.style and not any(span.style for span in rest)
        break


def test_the_exit_status_is_1_only_after_a_failure() -> None:
    assert exit_status([]) == 0
    assert exit_status([c for c in CHECKS if c.status is not Health.FAIL]) == 0
    assert exit_status(CHECKS) == 1


def test_failures_become_warnings_with_a_reason() -> None:
    assert as_warnings([fail("a", "b", "c"), ok("d", "e")], "elsewhere") == [
        Check("a", Health.WARN, "b (elsewhere)", "c"),
        ok("d", "e"),
    ]
