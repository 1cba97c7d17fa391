# SPDX-License-Identifier: Apache-2.0
"""Parse what a runtime's own metrics tell about plugins: their calls, errors and latency.

containerd 2.3 and later have them (``internal/nri/metrics.go``), in Prometheus' text format
(https://prometheus.io/docs/instrumenting/exposition_formats/). All counters start at 0 when the
runtime starts. An answer by another program is untrusted: everything has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO

from nri_scope.errors import UsageError

SAMPLES_MAX = 20_000
"""Maximum number of used samples; 100 plugins have about 6,000."""
LINES_MAX = 1_000_000
LINE_MAX = 16 << 10
"""Maximum number of bytes of a line."""
NAME_MAX = 160
"""Maximum number of characters of a plugin's or an operation's name."""
COUNT_MAX = 1 << 53
"""Maximum value of a counter; greater ones are not exact."""

_PREFIX = b"containerd_nri_"
_CALLS = "containerd_nri_plugin_invocations_total"
_TIME = "containerd_nri_plugin_latency_seconds_sum"
_TIMED = "containerd_nri_plugin_latency_seconds_count"
_HINT = "give the address of containerd's metrics, such as http://127.0.0.1:1338/v1/metrics"
_SAMPLE = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?[ \t]+([^ \t]+)(?:[ \t]+-?[0-9]+)?[ \t]*"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls of one plugin for one operation."""

    calls: int = 0
    errors: int = 0
    """Calls without a valid answer: error status, missed deadline or lost connection."""
    took_ns: int = 0
    """Total time of the calls in ns, as seen by the runtime."""

    def since(self, earlier: CallCounts) -> CallCounts:
        """Return the calls after an earlier reading; all if the runtime was restarted since."""
        values = (
            self.calls - earlier.calls,
            self.errors - earlier.errors,
            self.took_ns - earlier.took_ns,
        )
        return self if min(values) < 0 else CallCounts(*values)


PluginMetrics = Mapping[tuple[str, str], CallCounts]
"""Counts by plugin (``NN-name``) and operation, which is an event or Synchronize."""


def parse_metrics(content: bytes) -> PluginMetrics:
    """Return the counts in a runtime's metrics.

    Raises `UsageError` if ``content`` is not in Prometheus' text format, has no metrics of NRI, or
    exceeds a limit.
    """
    numbers: dict[tuple[str, str], list[float]] = {}
    has_counts, samples = False, 0
    for number, line in enumerate(BytesIO(content), 1):
        if number > LINES_MAX or len(line) > LINE_MAX:
            raise UsageError(f"not metrics: line {number} exceeds a limit", _HINT)
        line = line.strip()
        if not line or line.startswith(b"#"):
            continue
        sample = _SAMPLE.fullmatch(line)
        value = None if sample is None else _value(sample[1])
        if value is None:
            raise UsageError(
                f"not metrics: line {number} is not a sample of Prometheus' format", _HINT
            )
        if not line.startswith(_PREFIX):
            continue
        has_counts = True
        name, _, labels = line.partition(b"{")
        position = {_CALLS: 0, _TIMED: 1, _TIME: 2}.get(name.decode("ascii", "replace"))
        if position is None or not labels:
            continue
        samples += 1
        try:
            values = dict(_labels(labels.rpartition(b"}")[0].decode()))
            key = values["plugin"], values["operation"]
        except (KeyError, ValueError):
            values, key = {}, ("", "")
        if (
            samples > SAMPLES_MAX
            or not 0 <= value <= COUNT_MAX
            or not key[0]
            or max(map(len, key)) > NAME_MAX
        ):
            raise UsageError(f"not containerd's metrics: line {number} has no valid value", _HINT)
        counts = numbers.setdefault(key, [0.0, 0.0, 0.0, 0.0])
        counts[position] += value
        if position == 0 and values.get("status") != "success":
            counts[3] += value
    if not has_counts:
        raise UsageError(
            "these metrics contain no NRI metrics",
            "containerd 2.3 and later have them, CRI-O has none",
        )
    return {
        key: CallCounts(int(max(calls, timed)), int(errors), int(seconds * 1e9))
        for key, (calls, timed, seconds, errors) in numbers.items()
    }


def _value(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _labels(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values. Raises ValueError for malformed text."""
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            raise ValueError(text)
        yield label[1], re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), label[2])
        position = label.end()
