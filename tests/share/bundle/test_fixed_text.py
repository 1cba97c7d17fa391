# SPDX-License-Identifier: Apache-2.0
"""What a format itself writes is no leak, and every other replaced value is one."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import nri_scope
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RedactionLeak
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.html import fixed_text, html
from nri_scope.report.markdown import markdown
from nri_scope.share.bundle.leak_scan import Scan, recorded_contents, recorded_texts
from nri_scope.share.extract import extract
from nri_scope.share.formats import FORMATS
from nri_scope.share.redacted_copy import convert, copy_recording
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.engine import unknown_words
from nri_scope.survey.foreground import analysed
from tests.amount import sampled
from tests.recording.traffic import a_container, a_pod, a_start, an_item, record

KEY = bytes(32)
ROOT = Path(nri_scope.__file__).parent
RECORDINGS = sorted((ROOT.parent / "recordings").glob("*.nriscope.*"))
CASES = sorted((ROOT.parent / "tests" / "data" / "cases").glob("*.zip"))
WORDS = {
    "jsonl": ["schema_version", "request", "held_us", "container"],
    "otlp-json": ["startTimeUnixNano", "container.runtime.name", "stringValue"],
    "perfetto": ["plugin connections", "deadline_ms", "CreateContainer"],
    "sqlite-expanded": ["environment", "SQLite format 3", "CREATE VIEW"],
}
_WORD = re.compile(rb"(?<![\w+/=-])(?!nri_scope_)[A-Za-z_]{6,}(?![\w+/=-])")


def a_recording(path: Path, secrets: list[str]) -> Path:
    pod = a_pod()
    container = a_container(pod, variables=0)
    container.env.extend(f"SECRET_KEY_{number}={one}" for number, one in enumerate(secrets))
    request = api.CreateContainerRequest(pod=pod, container=container)
    record(path, [an_item("CreateContainer", request)])
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_fixed_words_of_a_format_are_no_leaks(name: str, tmp_path: Path) -> None:
    path = a_recording(tmp_path / "r.db", WORDS[name])
    redactor = Redactor(Rules.DEFAULT, KEY)
    draft = tmp_path / "draft"
    with Recording.open(path) as recording:
        assert convert(recording, FORMATS[name], draft, redactor=redactor, target=draft) == 1
    assert redactor.tally.by_rule()["credential-keys"] == len(WORDS[name])


@pytest.mark.parametrize("name", FORMATS)
def test_a_secret_in_the_file_name_is_a_leak(name: str, tmp_path: Path) -> None:
    path = a_recording(tmp_path / "r.db", ["hunter2-hunter2"])
    target = tmp_path / "of-hunter2-hunter2"
    with Recording.open(path) as recording:
        redactor = Redactor(Rules.DEFAULT, KEY)
        with pytest.raises(RedactionLeak, match="the file's name; choose another name"):
            convert(recording, FORMATS[name], tmp_path / "x", redactor=redactor, target=target)
        with pytest.raises(RedactionLeak, match="the file's name; choose another name"):
            copy_recording(recording, target, Redactor(Rules.DEFAULT, KEY))
    assert not target.exists()


def test_a_redacted_recording_may_contain_fixed_words(tmp_path: Path) -> None:
    secrets = ["SQLite format 3", "CREATE TABLE", "StartContainer", "environment", "personal"]
    path = a_recording(tmp_path / "r.db", secrets)
    with Recording.open(path) as recording:
        rebuilt = copy_recording(recording, tmp_path / "x.db", Redactor(Rules.DEFAULT, KEY))
    assert rebuilt.path == tmp_path / "x.db" and rebuilt.path.exists()


@pytest.mark.parametrize(
    "word", ["microseconds", "spreadsheet", "passing", "hexadecimal", "deliberately"]
)
def test_words_of_source_comments_are_leaks(word: str) -> None:
    scan = Scan({word: "a-rule"}, Path("x"), fixed_text)
    with pytest.raises(RedactionLeak, match="the written file"):
        scan.text(f"DB_PASSWORD={word}".encode(), "the written file")


def test_few_words_are_exempt() -> None:
    """An earlier version exempted 377 kB."""
    assert len(fixed_text()) < 30_000


SECRETS = ["microseconds", "container", "CreateContainer", "environment", "schemaversion7"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        *("variable", "argument", "annotation", "label", "mount", "container name", "pod name"),
        *("namespace", "status message", "metadata", "note", "output"),
    ],
)
def test_a_fixed_word_left_in_a_recording_is_a_leak_in_any_place(
    place: str, secret: str, tmp_path: Path
) -> None:
    _planted(tmp_path / "r.db", place, secret)
    with Recording.open(tmp_path / "r.db") as recording:
        extract(recording, tmp_path / "x.db")
    scan = Scan({secret: "a-rule"}, tmp_path / "x.db")
    with pytest.raises(RedactionLeak):
        scan.recording(tmp_path / "x.db")


def _planted(path: Path, place: str, secret: str) -> None:
    pod = a_pod()
    message = ""
    metadata: tuple[tuple[str, str], ...] = ()
    container = api.Container(id="c" * 32, pod_sandbox_id=pod.id, name="x", args=["/x"])
    match place:
        case "variable":
            container.env.append(f"X={secret}")
        case "argument":
            container.args.append(secret)
        case "annotation":
            pod.annotations["x"] = secret
        case "label":
            container.labels["x"] = secret
        case "mount":
            container.mounts.add(source=secret, destination="/x")
        case "container name":
            container.name = secret
        case "pod name":
            pod.name = secret
        case "namespace":
            pod.namespace = secret
        case "status message":
            message = secret
        case "metadata":
            metadata = (("x", secret),)
    request = api.CreateContainerRequest(pod=pod, container=container)
    item = an_item("CreateContainer", request, status_message=message)
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    recorder.capture(session, item._replace(held_ns=1000, metadata=metadata))
    if place == "note":
        recorder.note(session, item.wall_ns, secret)
    if place == "output":
        recorder.printed(session, item.wall_ns, "stdout", secret)
    recorder.close()


@pytest.mark.parametrize(
    "path",
    sampled([*RECORDINGS, *CASES], len(RECORDINGS)),
    ids=lambda path: path.name.split(".n")[0],
)
def test_each_word_of_an_output_is_known_or_recorded(path: Path, tmp_path: Path) -> None:
    """An unknown word that is also a secret would keep the output from being written."""
    copy = tmp_path / "r.db"
    with Recording.open(path) as recording:
        extract(recording, copy)
    with Recording.open(copy) as recording:
        texts = [text for _, text in [*recorded_texts(recording), *recorded_contents(recording)]]
        written: dict[str, bytes] = {}
        for name in ("jsonl", "otlp-json"):
            draft = tmp_path / name
            convert(recording, FORMATS[name], draft, target=draft, analysed=analysed)
            written[name] = draft.read_bytes()
        facts = collect(recording, None)
        written["report"] = unescape(f"{markdown(facts)}{''.join(html(facts))}").encode()
    known = b"\n".join(texts)
    knfixed_text = set(_WORD.findall(known))
    for name, content in written.items():
        # Few words are searched in the whole text.
        words = {word for word in {*_WORD.findall(content)} - knfixed_text if word not in known}
        unknown = {run for word in words for run in unknown_words(word.decode())}
        assert sorted(run for run in unknown if run.encode() not in fixed_text()) == [], name
