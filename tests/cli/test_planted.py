# SPDX-License-Identifier: Apache-2.0
"""Secrets planted in every place are in no output of ``--redact``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amount import sampled
from tests.cli.planted_secrets import plant_secrets, redacted_texts
from tests.share.redaction.credential_texts import left_of, spellings


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", sampled(range(2)))
def test_no_part_of_a_secret_is_in_any_output(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    secrets = plant_secrets(tmp_path / "r.nriscope.db", seed)
    texts = redacted_texts(tmp_path / "r.nriscope.db", tmp_path)
    printed = capsys.readouterr()
    everything = spellings("\n".join([*texts, printed.out, printed.err]))
    assert [secret for secret in secrets if left_of(secret, *everything)] == []
