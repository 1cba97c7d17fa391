# SPDX-License-Identifier: Apache-2.0
"""``replay --load``: send many pods to a plugin, and print what was measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from nri_scope.errors import UsageError
from nri_scope.recording.records import to_json
from nri_scope.replay.load import FORM, parse_load
from nri_scope.replay.load_measurement import LoadObserver, parse_budget
from nri_scope.replay.report import load_document, load_lines
from nri_scope.text.escape import safe

from .output import Output
from .replay_job import Notices, play
from .replay_options import Options, parse_options

_EXCLUDED = {
    "golden": "--golden",
    "golden_from": "--golden-from",
    "update_golden": "--update-golden",
    "others": "--compare-with",
    "junit": "--junit",
    "rounds": "--loop",
    "step": "--step",
    "speed": "--speed",
    "max_idle": "--max-idle",
    "no_effects": "--no-effects",
    "watched": "--watch",
    "build": "--build",
}
"""Options about single recorded events, or about another pace."""


class _Observer(Notices, LoadObserver):
    """Measures, and prints messages."""

    def __init__(self, notes: Iterable[str]) -> None:
        Notices.__init__(self, notes)
        LoadObserver.__init__(self)


def perform(options: Options, given: Collection[str]) -> bool:
    """Play the load and print the measurements; return whether the exit status is 0."""
    if options["load"] is None:
        raise UsageError("--budget is only valid with --load", f"add --load {FORM}")
    for name in given:
        if name in _EXCLUDED:
            raise UsageError(
                f"--load and {_EXCLUDED[name]} exclude each other", "leave one of them out"
            )
    shape = parse_load(options["load"])
    budgets = [parse_budget(text) for text in options["budgets"]]
    job, _ = parse_options(options)
    observer = _Observer(job.notes)
    job = replace(job, load=shape, keep=False, playback=replace(job.playback, wait=shape.wait))
    with Output() as output:
        replayed = play(job, observer)
        result = observer.result()
        failures = [*replayed.failures(), *result.over(budgets)]
        if options["output_format"] == "json":
            output.line(to_json(load_document(replayed, shape, result, failures)))
        else:
            for line in load_lines(replayed, shape, result, failures):
                output.line(safe(line, output.width))
        return not failures
    return True
