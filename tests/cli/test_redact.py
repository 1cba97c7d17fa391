# SPDX-License-Identifier: Apache-2.0
"""Redacted recordings by ``nri-scope export``, and previews."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click
import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.events import CapturedCall
from nri_scope.recording.bundle.unpack import read_manifest
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.redaction import Rules
from tests.recording.traffic import an_item, record
from tests.sample_names import API, CHECKOUT_API, CHECKOUT_POD, CHECKOUT_WORKLOAD
from tests.share.bundle.bundles import SAMPLE, a_bundle


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder of the command; its key and temporary files are elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_preview_shows_what_would_be_replaced_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), "--preview"]) == 0
    printed = capsys.readouterr()
    (row,) = re.findall("credential-keys .*", printed.out.split("\n\n")[0])
    assert row.split(maxsplit=3)[1:] == [
        *("8", "container.env.DB_PASSWORD", f"container {API} of pods of {CHECKOUT_WORKLOAD}")
    ]
    assert printed.out.endswith("nothing was written\n") and printed.err == ""
    assert "hunter2" not in printed.out
    assert not any(folder.iterdir()) and not any((folder.parent / "temporary").iterdir())


def test_a_preview_counts_as_the_manifest_of_a_bundle_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["export", str(SAMPLE), "--preview"]) == 0
    _, _, *rows, _, _ = capsys.readouterr().out.splitlines()
    assert run(["export", str(SAMPLE), "-o", "x.zip", "--redact"]) == 0
    redaction = read_manifest(Path("x.zip")).redaction
    assert redaction is not None
    listed: Counter[tuple[str, str]] = Counter()
    for row in rows:
        rule, values, place, *_ = row.split()
        listed[rule, place] += int(values)
    assert listed == {(one.rule, one.place): one.values for one in redaction.replaced}


def test_writes_a_recording_without_secrets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), "--redact", "-o", "y.nriscope.db"]) == 0
    assert capsys.readouterr().err.startswith(
        "y.nriscope.db: 128 KiB, 32 events; 269 values replaced ("
    )
    with Recording.open("y.nriscope.db") as recording, Recording.open(SAMPLE) as original:
        assert [event.id for event in recording.events()] == [one.id for one in original.events()]
        assert not any(b"hunter2" in request for _, request, _ in recording.exchanges())
    assert run(["export", "y.nriscope.db", "--preview"]) == 0
    nothing = "already redacted: no other values to replace were found"
    assert capsys.readouterr().out == f"{nothing}; nothing was written\n"
    assert run(["export", "y.nriscope.db", "--redact", "-o", "z.nriscope.db"]) == 0
    assert capsys.readouterr().err == f"z.nriscope.db: 128 KiB, 32 events; {nothing}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["FILE"], "neither -o, --format nor --preview was given; add -o"),
        (["FILE", "--preview", "-o", "y.db"], "--preview and -o exclude each other"),
        (["FILE", "--preview", "--force"], "--preview and --force exclude each other"),
        (["FILE", "--preview", "--note", "x"], "--preview and --note exclude each other"),
        (["FILE", "--preview", "--format", "jsonl"], "--preview and --format exclude each"),
        (["FILE", "--redact", "-o", "taken.db"], "taken.db exists"),
        (["FILE", "--redact", "-o", "y.db", "--note", "x"], "only bundles have --max-size"),
        (["FILE", "--redact", "-o", "y"], "must end in .zip, that of a recording in .db; name it"),
        (["FILE", "--preview", "--redact", "nowhere"], "nowhere: no such file"),
        (["nowhere", "--preview"], "nowhere: no such file"),
    ],
)
def test_invalid_input_prints_one_line(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken.db").write_text("mine")
    assert run(["export", *(str(SAMPLE) if word == "FILE" else word for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["taken.db"]


def test_a_part_is_a_recording_and_can_be_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    part = ["export", str(SAMPLE), "--where", f"pod:{CHECKOUT_POD}", "--redact"]
    assert run([*part, "-o", "part.nriscope.db"]) == 0
    written = capsys.readouterr().err
    assert written.startswith("part.nriscope.db: ")
    with Recording.open("part.nriscope.db") as recording:
        assert {event.pod for event in recording.events() if event.pod} == {CHECKOUT_POD}
    assert run([*part, "--preview"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"{written.partition('; ')[2].strip()}; nothing was written"
    assert run([*part[:-1], "-o", "plain.nriscope.db"]) == 0
    assert "values as in the recording; --redact removes secrets" in capsys.readouterr().err


def test_a_bundle_can_be_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    a_bundle(Path("x.zip"))
    assert run(["export", "x.zip", "--preview"]) == 0
    assert "DB_PASSWORD" in capsys.readouterr().out


def _tokens(path: str) -> set[str]:
    with Recording.open(path) as recording:
        messages = b"".join(request for _, request, _ in recording.exchanges())
    return {token.decode() for token in re.findall(rb"redacted-[a-z2-7]{12}", messages)}


def test_tokens_differ_in_each_run_unless_stable() -> None:
    tokens = []
    for number, options in enumerate(([], [], ["--stable-tokens"], ["--stable-tokens"])):
        assert (
            run(["export", str(SAMPLE), "--redact", "-o", f"{number}.nriscope.db", *options]) == 0
        )
        tokens.append(_tokens(f"{number}.nriscope.db"))
    first, second, stable, stable_again = tokens

    assert first and stable and stable == stable_again
    assert not first & second and not first & stable


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "x.zip", "--replace-everywhere"],
        ["-o", "x.zip", "--stable-tokens"],
    ],
)
def test_invalid_token_options_print_one_line(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), *options]) == 2
    printed = capsys.readouterr().err
    assert options[-1] in printed and len(printed.splitlines()) == 1


def test_a_preview_tells_the_place_of_each_stable_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["export", str(SAMPLE), "--redact", "--stable-tokens", "-o", "x.nriscope.db"]) == 0
    capsys.readouterr()
    assert run(["export", str(SAMPLE), "--preview", "--stable-tokens"]) == 0
    out = capsys.readouterr().out
    of_tokens = {row.split()[0]: row.split()[1:] for row in out.splitlines() if "redacted-" in row}
    assert _tokens("x.nriscope.db") <= {
        token.lstrip("/").removesuffix(".invalid") for token in of_tokens
    }
    with Recording.open("x.nriscope.db") as recording:
        contents = b"".join(request for _, request, _ in recording.exchanges())
    token = re.findall(rb"DB_PASSWORD=(redacted-[a-z2-7]{12})", contents)[0].decode()
    rule, values, place, *of = of_tokens[token]
    assert (rule, values, place) == ("credential-keys", "8", "container.env.DB_PASSWORD")
    assert " ".join(of) == f"container {API} of pods of {CHECKOUT_WORKLOAD}"


def _creation(pod: str, number: int, env: Sequence[str], *args: str, **notes: str) -> CapturedCall:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id=f"p{number}", name=pod, namespace="shop", annotations=notes),
        container=api.Container(
            id=f"c{number}", pod_sandbox_id=f"p{number}", name="app", args=["app", *args], env=env
        ),
    )
    return an_item("CreateContainer", request)


@pytest.fixture
def known_words(tmp_path: Path) -> str:
    """A recording with values of known words after keys, and elsewhere."""
    path = tmp_path / "known.nriscope.db"
    record(
        path,
        [
            _creation("web-0", 1, ["PIN=7391", "GREETING=open 7391", "PASSWORD=correct horse"]),
            _creation("api-0", 2, ["\x1b[31mX=y"], "use correct horse now", cfg='{"n": 7391}'),
            _creation("db-0", 3, ["PASSWORD=unlisted", "N=17391", "SECRET=web"], "73910"),
        ],
    )
    return str(path)


def _contents(path: str) -> str:
    with Recording.open(path) as recording:
        return b"".join(request for _, request, _ in recording.exchanges()).decode("latin-1")


def test_values_of_known_words_that_stay_elsewhere_are_told(
    known_words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (
        "note: kept in 3 other places, as made of known words: 2 values replaced after a key "
        "(container.args of container app of pods of shop/api, container.env.GREETING of container "
        "app of pods of shop/web, pod.annotations.cfg of pods of shop/api); --replace-everywhere "
    )
    written = ["-o", "x.zip"], ["-o", "x.nriscope.db"], ["--format", "jsonl"], ["--preview"]
    for options in written:
        assert run(["export", known_words, "--redact", *options]) == 0
        err = capsys.readouterr().err
        assert err.splitlines()[-1].startswith(told)
        assert "7391" not in err and "horse" not in err
    assert _contents("x.nriscope.db").count("7391") == 4
    assert "correct horse" in _contents("x.nriscope.db")


def test_values_of_known_words_are_replaced_everywhere_if_asked(
    known_words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["export", known_words, "--replace-everywhere"]
    assert run([*export, "--redact", "-o", "x.nriscope.db"]) == 0
    err = capsys.readouterr().err
    assert "note:" not in err and "3 repeated-values" in err
    contents = _contents("x.nriscope.db")
    assert "N=17391" in contents and "73910" in contents and "web-0" in contents
    assert "horse" not in contents and not re.search(r"\b7391\b", contents)
    assert run([*export, "--preview"]) == 0
    listed = [row for row in capsys.readouterr().out.splitlines() if "repeated-values  " in row]
    assert len(listed) == 3
    # Planted elsewhere, a value has another token.
    tokens = dict(re.findall(r"(PIN=|GREETING=open |\"n\":.)(redacted-[a-z2-7]{12})", contents))
    assert tokens["PIN="] == tokens["GREETING=open "] != tokens['"n":"']


@pytest.mark.parametrize(
    "words",
    [
        ["export", "FILE", "--preview"],
        ["report", "FILE", "--diagnose"],
        ["diff", "FILE"],
        ["blame", "FILE", CHECKOUT_API],
        ["record"],
        ["tui", "--live"],
    ],
)
def test_commands_that_redact_take_keys_to_keep(words: list[str]) -> None:
    command: click.Command = import_module(f"nri_scope.cli.{words[0]}").command
    for more in [], ["--redact"]:
        given = [*words[1:], "--keep", "PIN", "--keep=--site", *more]
        rules = command.make_context(words[0], given).params["redact"]
        assert rules == Rules.DEFAULT.keeping(("PIN", "site"))
    assert command.make_context(words[0], words[1:]).params["redact"] is None
    assert run([*words, "--keep", ""]) == 2


def test_values_of_keys_to_keep_stay(known_words: str, capsys: pytest.CaptureFixture[str]) -> None:
    export = ["export", known_words, "--format", "jsonl"]
    assert run([*export, "--keep", "P*"]) == 0
    shown = capsys.readouterr().out
    assert "PIN=7391" not in shown and "PASSWORD=correct" not in shown
    assert run([*export, "--keep", "PIN", "--keep", "PASSWORD"]) == 0
    printed = capsys.readouterr()
    assert "PIN=7391" in printed.out and "PASSWORD=correct horse" in printed.out
    assert printed.err == ""


def test_kept_keys_are_told_in_the_manifest(known_words: str) -> None:
    assert run(["export", known_words, "--keep", "PIN", "-o", "x.zip"]) == 0
    redaction = read_manifest(Path("x.zip")).redaction
    assert redaction is not None and redaction.rules.endswith("--keep")
