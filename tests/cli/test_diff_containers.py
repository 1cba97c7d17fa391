# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff`` of two containers, and its output to a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nri_scope.cli.main import run

RECORDINGS = Path(__file__).parents[2] / "recordings"
CRI_O = str(RECORDINGS / "cri-o-1.37.nriscope.zip")
OTHER = str(RECORDINGS / "containerd-2.4.nriscope.zip")


def diff(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    status = run(["diff", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert bool(err) == (status == 2)
    return status, (err or out).splitlines()


def test_two_containers_of_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = diff(capsys, CRI_O, "shop/web/app", "shop/web/sidecar")
    assert status == 1
    assert lines[:2] == [
        f"A: {CRI_O}: shop/web/app 26db2d1d7937",
        f"B: {CRI_O}: shop/web/sidecar b0b47a6b09ce",
    ]
    rows = [re.sub(" {2,}", "  ", line) for line in lines]
    assert "  ~ cpu.shares  256 → 2048  CRI request (request) → 60-cpu-policy (tap)" in rows
    assert '  - annotations[note]  "café ☕" → —  Pod spec/CRI' in rows
    # Both have it from the same plugin.
    assert not any("env INJECTED" in line for line in lines)
    assert any(line.startswith("Pod spec/CRI: there before any plugin") for line in lines)


def test_containers_of_two_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = diff(capsys, CRI_O, "shop/web/app", OTHER, "shop/web/app")
    assert status == 1
    assert [line.partition(": ")[2].rpartition(" ")[0] for line in lines[:2]] == [
        f"{CRI_O}: shop/web/app",
        f"{OTHER}: shop/web/app",
    ]
    assert any(line.startswith("  - annotations[io.kubernetes.cri-o.") for line in lines)


def test_json_keeps_pointers(capsys: pytest.CaptureFixture[str]) -> None:
    status, (text,) = diff(capsys, CRI_O, "shop/web/app", "shop/web/sidecar", "--format", "json")
    changes = {one["path"]: one for one in json.loads(text)["changes"]}
    assert status == 1
    assert changes["/annotations/note"]["a"]["owner"] == "Pod spec/CRI"
    assert changes["/linux/resources/cpu/shares"]["b"]["owner"] == "60-cpu-policy"


def test_a_container_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = diff(capsys, CRI_O, "shop/web/app", CRI_O, "shop/web/app")
    assert (status, lines[-1]) == (0, "no differences")


def test_a_container_may_have_the_name_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(CRI_O)
    named = tmp_path / "shop/web/app"
    named.parent.mkdir(parents=True)
    named.write_bytes(file.read_bytes())
    assert diff(capsys, file, "shop/web/app", "shop/web/sidecar")[0] == 1
    status, lines = diff(capsys, file, "shop/web/app")
    assert (status, lines) == (
        2,
        [
            f"nri-scope: shop/web/app is a file, and also in {file}; use ./shop/web/app for the "
            f"file, or an id for what {file} contains"
        ],
    )
    assert diff(capsys, file, "./shop/web/app")[0] == 0
    assert diff(capsys, file, "26db2d1d7937")[1][-1].startswith("evidence: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shop/web/app", "nosuch"), 'no event, pod, container or changed path "nosuch"'),
        (("shop/web/app", OTHER), "name both containers: FILE A B, or FILE A OTHER B"),
        (("shop/web", "shop/web/app"), "name one: shop/web/app or shop/web/sidecar"),
        (("shop/web/app", OTHER, "x", "y"), "expected at most four arguments, got 5"),
        (("shop/web/app", "shop/web/sidecar", "--all"), "--all is not valid when comparing two"),
    ],
)
def test_errors_are_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = diff(capsys, CRI_O, *arguments)
    assert status == 2
    assert len(lines) == 1 and words in lines[0]
