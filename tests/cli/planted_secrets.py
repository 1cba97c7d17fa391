# SPDX-License-Identifier: Apache-2.0
"""A recording with secrets, and the texts that commands make of it with --redact."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import tapped
from tests.recording.traffic import an_item, record
from tests.share.redaction.credential_texts import KEYS, PLACES, SYNTAXES

_LETTERS = "abcdefghkmnpqrstuvwxyzABCDEFGHKMNPQRSTUVWXYZ23456789"
_SIGNS = "'\"$ :é世;,|<>()[]{}=@!%*+_~?/\\"
_PLAIN_SIGNS = "$:!%*+_~?"


def _secret(chance: random.Random, signs: str) -> str:
    middle = "".join(chance.choice(_LETTERS + signs) for _ in range(18))
    return f"Zq7{' '.join(middle.split())}8kX"


def plant_secrets(path: Path, seed: int) -> list[str]:
    """Write a recording with a secret in each place, in some syntax; return the secrets."""
    chance = random.Random(seed)
    secrets: list[str] = []
    items = []
    for number, (name, (write, _)) in enumerate(sorted(SYNTAXES.items())):
        secret = _secret(chance, _PLAIN_SIGNS if name == "assigned" else _SIGNS)
        secrets.append(secret)
        text = write(chance.choice(sorted(KEYS)), secret)
        pod = api.PodSandbox(id=f"{number:032x}", name=f"pod-{number}", namespace="shop")
        request = api.CreateContainerRequest(
            pod=pod,
            container=api.Container(
                id=f"{number + 1000:032x}", pod_sandbox_id=pod.id, name="app", args=["/app"]
            ),
        )
        chance.choice(PLACES)(request, text)
        message = f"cannot start: {text}" if name == "assigned" else ""
        metadata = _secret(chance, _SIGNS)
        secrets.append(metadata)
        key = chance.choice(["authorization", "x-api-key", "x-auth-token"])
        item = an_item("CreateContainer", request, status_message=message)
        held_ns = 1000 if number % 2 else None
        items.append(item._replace(held_ns=held_ns, metadata=((key, metadata),)))
    record(path, items)
    return secrets


def redacted_texts(source: Path, folder: Path) -> list[str]:
    """Return all text that commands write of a recording with ``--redact``."""
    bundle, lines, page = folder / "x.zip", folder / "x.jsonl", folder / "x.html"
    assert run(["export", str(source), "-o", str(bundle), "--redact"]) == 0
    assert run(["export", str(source), "-o", str(lines), "--redact", "--format", "jsonl"]) == 0
    assert run(["report", str(source), "-o", str(page), "--redact"]) == 0
    texts = [lines.read_text(), page.read_text()]
    with zipfile.ZipFile(bundle) as file:
        texts += [file.read(name).decode("utf-8", "replace") for name in file.namelist()]
    with Recording.open(bundle) as recording:
        texts += [request.decode("utf-8", "replace") for _, request, _ in recording.exchanges()]
        numbers = [event.id for event in recording.events()]
        found = [pair for one in tapped(recording, numbers) for pair in one.metadata]
    assert len(found) == len(SYNTAXES)
    return [*texts, *(text for pair in found for text in pair)]
