# SPDX-License-Identifier: Apache-2.0
"""Tests of the update of the rules from gitleaks, and of the rules in the package."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nri_scope.share.redaction.credential_formats import PUBLIC_RULES_FILE
from scripts.update_gitleaks_rules import main, update

ROOT = Path(__file__).parents[2]
_CONFIG = """
[[rules]]
id = "acme-token"
description = "A token."
regex = '''\\b(acme_[a-f0-9]{32})(?:[\\x60'"\\s;]|\\\\[nr]|$)'''
entropy = 3
keywords = ["acme_"]

[[rules]]
id = "of-one-file"
regex = "x"
path = "a.tf"
keywords = ["x"]

[[rules]]
id = "file"
path = "b.p12"

[[rules]]
id = "generic-api-key"
regex = "key=(.*)"
keywords = ["key"]
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "gitleaks.toml").write_text(_CONFIG)
    (tmp_path / "LICENSE").write_text("MIT License\n")
    return tmp_path


def test_rules_are_copied_unchanged_except_rules_for_files(copy: Path) -> None:
    target = copy / "target"

    assert update(copy, "v9.9.9", target) == 1
    document = json.loads((target / "rules.json").read_text())
    assert document["version"] == "v9.9.9" and document["licence"] == "MIT"
    assert document["rules"] == [
        {
            "id": "acme-token",
            "regex": r"""\b(acme_[a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)""",
            "keywords": ["acme_"],
        }
    ]
    assert (target / "LICENSE").read_text() == "MIT License\n"


def test_a_copy_needs_a_version(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["update", "--folder", str(copy)])
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "--folder needs --version" in capsys.readouterr().err


def test_the_licence_is_stored_with_the_rules() -> None:
    document = json.loads(PUBLIC_RULES_FILE.read_text("utf-8"))

    assert document["licence"] == "MIT" and document["version"].startswith("v")
    assert "Permission is hereby granted" in PUBLIC_RULES_FILE.with_name("LICENSE").read_text(
        "utf-8"
    )
    assert document["version"].lstrip("v") in (
        ROOT / "docs" / "decisions" / "0001-credential-formats.md"
    ).read_text("utf-8")


@pytest.mark.exhaustive
def test_a_wheel_has_rules_and_licences(tmp_path: Path) -> None:
    pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(tmp_path)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        place = "nri_scope/share/redaction/gitleaks"
        assert archive.read(f"{place}/rules.json") == PUBLIC_RULES_FILE.read_bytes()
        assert f"{place}/LICENSE" in names
        assert sum(name.endswith("/LICENSE") and "dist-info" in name for name in names) == 2
        (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
        assert b"License-Expression: Apache-2.0 AND MIT" in archive.read(metadata)
