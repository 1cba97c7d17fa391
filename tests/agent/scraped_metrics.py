# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus would read them from an agent."""

from __future__ import annotations

import asyncio
import urllib.request
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tests.agent.agent_process import Agent
from tests.cli.running import PATIENCE

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def http(one: Agent, path: str = "metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http}/{path}", timeout=PATIENCE) as got:
        content: bytes = got.read()
        return content.decode()


async def text_of(one: Agent) -> str:
    return await asyncio.to_thread(http, one)


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def by(found: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric other than 0 by some of its labels."""
    sums: Counter[tuple[str, ...]] = Counter()
    for (one, pairs), value in found.items():
        if one == name:
            sums[tuple(dict(pairs)[label] for label in labels)] += int(value)
    return {key: value for key, value in sums.items() if value}
