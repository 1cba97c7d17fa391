# SPDX-License-Identifier: Apache-2.0
"""A launched logger's YAML is parsed into settings and a list of problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.logger.launched import LoggerSettings, parse_settings
from nri_scope.nri.events import EventKind
from nri_scope.share.redaction import Rules
from nri_scope.share.redaction.rules import read_rules


@pytest.mark.parametrize("text", ["", "  \n", "# only a comment\n", "---\n"])
def test_an_empty_configuration_selects_the_defaults(text: str) -> None:
    assert parse_settings(text) == (LoggerSettings(), ())


def test_all_keys_are_parsed() -> None:
    settings, problems = parse_settings(
        "output: /var/log/x.nriscope.db\n"
        "max_size: 1G\n"
        "max_age: 24h\n"
        "events: [CreateContainer, StopContainer]\n"
        "where: ns:shop\n"
        "validate: true\n"
    )
    assert problems == ()
    assert settings.output == Path("/var/log/x.nriscope.db")
    assert (settings.max_size, settings.max_age) == (1 << 30, 86400.0)
    assert settings.events == frozenset({EventKind.CreateContainer, EventKind.StopContainer})
    assert settings.where is not None
    assert settings.where.text == "ns:shop"
    assert settings.validate


def test_none_removes_a_bound() -> None:
    settings, problems = parse_settings("max_size: none\nmax_age: none\nevents: pod\n")
    assert problems == ()
    assert (settings.max_size, settings.max_age) == (None, None)
    assert settings.events is not None
    assert len(settings.events) == 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max_sise: 1G", "unknown key 'max_sise'"),
        ("7: x", "unknown key 7"),
        ("[a, b]: x", "not YAML"),
        ("output: relative.db", "not an absolute path"),
        ("output: 7", "not an absolute path"),
        ('output: "/a\\0b"', "not an absolute path"),
        ("max_size: 100", "too small; use 1M"),
        ("max_size: large", "not a size"),
        ("max_size: [1]", "not a size"),
        ("max_age: 24", "not a duration"),
        ("events: Bogus", "no event 'Bogus'"),
        ("where: nope:1", "unknown field"),
        ("validate: maybe", "neither true nor false"),
        ("a: b: c", "not YAML"),
        ("just words", "not a mapping"),
        ("since: 2024-02-30", "not YAML"),
        pytest.param("x: " + "[" * 5000, "not YAML", marks=pytest.mark.exhaustive),
        ("x: " + "9" * 5000, "not YAML"),
    ],
)
def test_an_invalid_line_is_one_problem_and_leaves_the_defaults(line: str, words: str) -> None:
    settings, problems = parse_settings(f"{line}\n")
    assert settings == LoggerSettings()
    assert len(problems) == 1
    assert words in problems[0]


def test_redaction_uses_the_default_rules_or_a_file(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[switches]\nnamespaces = true\n")

    assert parse_settings("redact: true\n") == (LoggerSettings(redact=Rules.DEFAULT), ())
    assert parse_settings("redact: false\n") == (LoggerSettings(), ())
    settings, problems = parse_settings(f"redact: {rules}\n")
    assert settings.redact == read_rules(rules)
    assert problems == ()


@pytest.mark.parametrize("text", ["redact: /no/file\n", "redact: 7\n", "redact: [true\n", "redact"])
def test_invalid_redaction_settings_select_the_default_rules(text: str) -> None:
    settings, problems = parse_settings(text)
    assert settings == LoggerSettings(redact=Rules.DEFAULT)
    assert len(problems) == 1


@pytest.mark.exhaustive
@given(st.text(max_size=60) | st.text("outpmax_sizevn:-[]{}&*!|>'\"% \n0123", max_size=40))
def test_no_text_raises(text: str) -> None:
    _, problems = parse_settings(text)
    assert all(problem.startswith("configuration: ") for problem in problems)
