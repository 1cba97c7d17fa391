# SPDX-License-Identifier: Apache-2.0
"""atheris target: arbitrary text as a scenario, and as a change of one.

Run by ``make fuzz``. Findings are exceptions other than UsageError, errors of several lines, and
scenarios that change when they are written and read again. Usage: ``python -m
tests.fuzz.fuzz_scenario``.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["nri_scope.scenario", "nri_scope.text"]):
    from nri_scope.scenario.compile import EventSequence
    from nri_scope.scenario.document import parse_scenario
    from nri_scope.scenario.field_assignments import assign_fields
    from nri_scope.scenario.model import Scenario
    from nri_scope.scenario.text import scenario_text

from itertools import islice

from nri_scope.errors import UsageError

_MAX_EVENTS = 200
_VALID = """\
scenario: 1
existing: {old: {containers: {a: {}}}}
pods:
  web:
    copies: 2
    containers: {app: {kind: sidecar, env: {A: b}, linux: {resources: {cpu: {shares: 2}}}}}
steps: [{run: web}, {create: web/app}, {repeat: 2, steps: [{start: web/app}]}, {stop: old}]
"""


def changed(text: str) -> Scenario:
    """A valid scenario with a change."""
    scenario = parse_scenario(_VALID)
    assign_fields(scenario, [text])
    return scenario


def edited(text: str) -> Scenario:
    """A valid scenario with the text in place of a part of it."""
    at = len(text) * 7 % len(_VALID)
    return parse_scenario(_VALID[:at] + text + _VALID[at + len(text) :])


def one_input(data: bytes) -> None:
    """Check that any text is a scenario that can be written, or one line of an error."""
    text = data[1:].decode("utf-8", "replace")
    try:
        scenario = (parse_scenario, changed, edited)[data[0] % 3 if data else 0](text)
        written = scenario_text(scenario)
        assert scenario_text(parse_scenario(written)) == written
        sequence = EventSequence(scenario, scenario.runtime.profile())
        assert sum(1 for _ in islice(sequence.play(), _MAX_EVENTS))
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
