# SPDX-License-Identifier: Apache-2.0
"""Export of recordings and parts as bundles: content, leaks, and no files after an error."""

from __future__ import annotations

import base64
import json
import random
import re
import resource
import sqlite3
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import NriScopeError, RedactionLeak, UsageError
from nri_scope.filter import parse
from nri_scope.recording.bundle.manifest import MANIFEST, README, RECORDING
from nri_scope.recording.bundle.unpack import read_manifest
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import Bundle, BundleContent, export, redactor_for
from nri_scope.share.extract import Extracted, Selection, extract
from nri_scope.share.redaction import Redactor, Rules
from tests.in_memory import MEMORY
from tests.recording.traffic import a_container, a_pod, an_item, lifecycles, record
from tests.sample_names import CHECKOUT
from tests.share.bundle.bundles import SAMPLE

KEY = bytes(32)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Folder of the user's key."""
    return tmp_path / "key"


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pack(
    path: Path,
    selection: Selection = Selection(),  # noqa: B008
    note: str = "",
    **more: Any,
) -> Bundle:
    with Recording.open(SAMPLE) as recording:
        return export(recording, path, BundleContent(selection, note=note), **more)


def redacted(path: Path, key: Path, source: Path = SAMPLE) -> Bundle:
    with Recording.open(source) as recording:
        redactor = redactor_for(recording, Rules.DEFAULT, stable=True, key_folder=key)
        return export(recording, path, BundleContent(redactor=redactor))


class TestBundle:
    def test_contains_a_manifest_a_page_and_the_recording(self, tmp_path: Path) -> None:
        exported = pack(tmp_path / "x.nriscope.zip", note="It fails here")
        bundle = exported
        assert bundle.path == tmp_path / "x.nriscope.zip"
        assert stat.S_IMODE(bundle.path.stat().st_mode) == 0o600
        assert bundle.size == bundle.path.stat().st_size
        assert file_names(tmp_path) == ["x.nriscope.zip"]
        with zipfile.ZipFile(bundle.path) as file:
            assert file.namelist() == [MANIFEST, README, RECORDING]
            assert "It fails here" in file.read(README).decode()
        manifest = read_manifest(bundle.path)
        assert manifest.note == "It fails here" and manifest.redaction is None
        assert manifest.chain == ("00-nri-scope",)
        assert [runtime.name for runtime in manifest.runtimes] == ["containerd"]
        with Recording.open(SAMPLE) as one, Recording.open(bundle.path) as other:
            assert list(one.exchanges()) == list(other.exchanges())
            assert manifest.counts.events == len(list(one.events()))

    def test_the_same_input_gives_the_same_bytes(self, tmp_path: Path, key: Path) -> None:
        contents = set()
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            redacted(tmp_path / name / "x.nriscope.zip", key)
            contents.add((tmp_path / name / "x.nriscope.zip").read_bytes())
        assert len(contents) == 1

    def test_two_recordings_share_no_token(self, tmp_path: Path, key: Path) -> None:
        other = SAMPLE.with_name("containerd-1.7.nriscope.db")
        tokens = []
        for number, source in enumerate((SAMPLE, other)):
            path = redacted(tmp_path / f"{number}.zip", key, source).path
            with Recording.open(path) as recording:
                messages = b"".join(request for _, request, _ in recording.exchanges())
            tokens.append(set(re.findall(rb"redacted-[a-z2-7]{12}", messages)))
        assert tokens[0] and tokens[1] and not tokens[0] & tokens[1]

    def test_manifest_of_a_part_lists_selection_and_counts(self, tmp_path: Path) -> None:
        selection = Selection(where=parse("event:CreateContainer"), pod=CHECKOUT)
        bundle = pack(tmp_path / "x.zip", selection)
        assert bundle.manifest.selection == {
            "--where": "event:CreateContainer",
            "--pod": CHECKOUT,
        }
        counts = bundle.manifest.counts
        with Recording.open(bundle.path) as recording, Recording.open(SAMPLE) as whole:
            written = len(list(recording.events()))
            assert written + counts.left_out == len(list(whole.events()))
        assert counts.events == 2 and counts.context == written - 2 and counts.gaps == 0

    def test_a_bundle_can_be_packed_again(self, tmp_path: Path, key: Path) -> None:
        pack(tmp_path / "x.zip")
        again = redacted(tmp_path / "y.zip", key, tmp_path / "x.zip")
        assert again.manifest.redaction is not None and again.manifest.redaction.total

    @pytest.mark.exhaustive
    @pytest.mark.filterwarnings("ignore::nri_scope.errors.RecordingCut")
    @pytest.mark.parametrize("is_redacted", [False, True])
    def test_bundle_of_an_extreme_recording_can_be_opened(
        self, is_redacted: bool, tmp_path: Path, key: Path
    ) -> None:
        source = tmp_path / "r.db"
        source.write_bytes(SAMPLE.read_bytes())
        with closing(sqlite3.connect(source)) as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
            row = dict(
                zip(columns, connection.execute("SELECT * FROM session").fetchone(), strict=True)
            )
            for number in range(1_000):
                row |= {"id": 1_000 + number, "plugin_name": f"{number}{chr(1) * 1_000}"}
                row |= {"runtime_name": f"{number}{chr(2) * 1_000}", "nri_version": "9" * 1_000}
                connection.execute(
                    f"INSERT INTO session VALUES ({', '.join('?' * len(row))})", [*row.values()]
                )
            connection.execute("UPDATE event SET at_ns = -at_ns")
            connection.commit()
        if is_redacted:
            bundle = redacted(tmp_path / "x.zip", key, source)
        else:
            with Recording.open(source) as recording:
                bundle = export(recording, tmp_path / "x.zip")
        with Recording.open(bundle.path) as recording:
            assert len(list(recording.events())) == bundle.manifest.counts.events
        manifest = read_manifest(bundle.path)
        assert manifest.counts.sessions == 1_001
        assert len(manifest.runtimes) == 20 and len(manifest.chain) == 200
        assert manifest.first_ns is not None and manifest.first_ns < 0

    def test_bundle_that_could_not_be_opened_is_not_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nri_scope.recording.bundle.manifest.MAX_MANIFEST", 500)
        with pytest.raises(UsageError, match=r"cannot be opened: .* too large; select fewer"):
            pack(tmp_path / "x.zip")
        assert file_names(tmp_path) == []

    def test_redacting_twice_changes_nothing(self, tmp_path: Path, key: Path) -> None:
        once = redacted(tmp_path / "x.zip", key)
        twice = redacted(tmp_path / "y.zip", key, once.path)
        assert twice.manifest.redaction is not None and not twice.manifest.redaction.total
        with Recording.open(once.path) as one, Recording.open(twice.path) as other:
            assert list(one.exchanges()) == list(other.exchanges())


class TestNoFileAfterAnError:
    def _refused(self, folder: Path, path: Path, words: str, **more: Any) -> None:
        before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        with pytest.raises(UsageError, match=words):
            pack(path, **more)
        assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before

    def test_target_exists(self, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_text("mine")
        self._refused(tmp_path, path, "exists; name another file, or replace it with --force")
        pack(path, force=True)
        assert zipfile.is_zipfile(path)

    def test_target_is_a_dangling_link(self, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.symlink_to(tmp_path / "nowhere")
        self._refused(tmp_path, path, "exists")

    def test_target_is_the_input_file(self, tmp_path: Path) -> None:
        path = pack(tmp_path / "x.zip").path
        with Recording.open(path) as recording:
            with pytest.raises(UsageError, match="is the input file"):
                export(recording, path, force=True)

    @pytest.mark.parametrize(
        ("place", "words"),
        [("nowhere/x.zip", "no such folder"), ("file/x.zip", "no such folder"), ("", "a folder")],
    )
    def test_target_folder_is_missing(self, place: str, words: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        self._refused(tmp_path, tmp_path / place, words)

    def test_selection_is_empty(self, tmp_path: Path) -> None:
        self._refused(
            tmp_path, tmp_path / "x.zip", "no event", selection=Selection(where=parse("ns:nope"))
        )

    def test_bundle_is_too_large(self, tmp_path: Path) -> None:
        self._refused(
            tmp_path,
            tmp_path / "x.zip",
            rf"would be 1[0-9.]+ KiB; .*--pod, .*\({CHECKOUT} has .*--max-size",
            max_bytes=5_000,
        )

    def test_note_is_too_long(self, tmp_path: Path) -> None:
        self._refused(tmp_path, tmp_path / "x.zip", "longer than 10,000 ch", note="x" * 10_001)

    def test_disk_is_full(self, tmp_path: Path) -> None:
        recording = Recording.open(_large(tmp_path / "large.db"))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(NriScopeError, match=r"x\.zip: cannot be written: "):
                export(recording, tmp_path / "x.zip")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            recording.close()
        assert file_names(tmp_path) == ["large.db"]

    def test_export_is_interrupted(self, tmp_path: Path) -> None:
        def interrupt(share: float) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pack(tmp_path / "x.zip", on_progress=interrupt)
        assert not any(tmp_path.iterdir())


def _large(path: Path) -> Path:
    chance = random.Random(1)
    pod = a_pod()
    items = []
    for number in range(40):
        container = a_container(pod, f"c{number}", 0)
        container.annotations["example.com/x"] = chance.randbytes(10_000).hex()
        items.append(
            an_item("CreateContainer", api.CreateContainerRequest(pod=pod, container=container))
        )
    record(path, items)
    return path


# ------------------------------------------------------------------------------------ secrets

_secrets = st.lists(
    st.text("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=20, max_size=28),
    min_size=9,
    max_size=9,
    unique=True,
)


def _planted(path: Path, secrets: list[str]) -> None:
    """Record secrets in all places where secrets occur."""
    env, argument, annotation, mount, hook, packed, url, home, error = secrets
    pod = a_pod()
    pod.annotations["example.com/password"] = annotation
    container = a_container(pod, variables=3)
    container.env.append(f"DB_PASSWORD={env}")
    container.args.extend(["--password", argument, f"--token={argument}", f"login {env}"])
    container.annotations["example.com/data"] = base64.b64encode(
        json.dumps({"auths": {"r": {"password": packed}}}).encode()
    ).decode()
    container.env.append(f"DATABASE_URL=postgres://user:{url}@db.example.org/shop")
    container.mounts.add(
        destination="/data", type="bind", source=f"/home/{home}/data", options=[f"password={mount}"]
    )
    container.hooks.prestart.add(path="/bin/hook", args=["hook", env], env=[f"TOKEN={hook}"])
    request = api.CreateContainerRequest(pod=pod, container=container)
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="TOKEN", value=hook)
    record(
        path,
        [
            an_item("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)),
            an_item("CreateContainer", request, reply.SerializeToString()),
            an_item(
                "CreateContainer",
                request,
                status_code=2,
                status_message=f"cannot log in to https://user:{error}@db.example.org with {env}",
            ),
            *lifecycles(2),
        ],
    )


def _readable_contents(path: Path) -> Iterator[bytes]:
    """Yield all bytes that can be read from a bundle, with independent readers."""
    yield path.name.encode()
    yield path.read_bytes()
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            yield name.encode()
            yield file.read(name)
    with Recording.open(path) as recording:
        for (number,) in recording.connection.execute("SELECT id FROM object").fetchall():
            yield recording.object(number)[1]
        for _, request, reply in recording.exchanges():
            yield request
            yield reply
        tables = recording.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            yield repr(recording.connection.execute(f"SELECT * FROM {table}").fetchall()).encode()


@settings(max_examples=8)
@given(_secrets)
def test_no_secret_is_readable_in_a_redacted_bundle(secrets: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        _planted(folder / "r.db", secrets)
        with Recording.open(folder / "r.db") as recording:
            bundle = export(
                recording,
                folder / "x.zip",
                BundleContent(redactor=Redactor(Rules.DEFAULT, KEY), note=f"It says {secrets[0]}"),
            )
        for content in _readable_contents(bundle.path):
            for secret in secrets:
                packed = base64.b64encode(b"  " + secret.encode())[4:-4]
                assert secret.encode() not in content and packed not in content


def test_secrets_in_names_of_methods_and_services_are_redacted(tmp_path: Path, key: Path) -> None:
    secret = "hunter2-of-shop"
    pod = a_pod(1)
    container = a_container(pod)
    container.env.append(f"DB_PASSWORD={secret}")
    record(
        tmp_path / "r.db",
        [
            an_item("CreateContainer", api.CreateContainerRequest(pod=pod, container=container)),
            an_item(f"Send{secret}"),
            an_item("Tell?password=swordfish-7"),
            an_item("CreateContainer", service=f"x.{secret}.Plugin"),
            an_item("PurelyNew", service="some.future.Service"),
        ],
    )
    path = redacted(tmp_path / "x.zip", key, tmp_path / "r.db").path
    for content in _readable_contents(path):
        assert secret.encode() not in content and b"swordfish-7" not in content
    with Recording.open(path) as recording:
        events = list(recording.events())
        services = recording.rows("SELECT n.text FROM event JOIN name AS n ON n.id = service")
    methods = [event.method for event in events]
    assert [methods[0], methods[3], methods[4]] == ["CreateContainer"] * 2 + ["PurelyNew"]
    assert "redacted-" in methods[1] and methods[2].startswith("Tell?password=redacted-")
    assert [event.event for event in events] == methods
    assert [event.mark for event in events] == ["", *["unknown"] * 4]
    assert "redacted-" in str(services[0][0]) and services[1] == ("some.future.Service",)


class _LeakingRedactor(Redactor):
    """Returns requests without replacing anything."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        super().request(method, message, service=service)
        return message


class TestLeaks:
    def _leak(self, path: Path, redactor: Redactor) -> str:
        with Recording.open(SAMPLE) as recording, pytest.raises(RedactionLeak) as caught:
            export(recording, path, BundleContent(redactor=redactor))
        assert not any(file for file in path.parent.iterdir() if file.name != "r.db")
        assert "hunter2" not in str(caught.value).removeprefix(str(path))
        return caught.value.place

    def test_in_a_message_stops_the_export(self, tmp_path: Path) -> None:
        place = self._leak(tmp_path / "x.zip", _LeakingRedactor(Rules.DEFAULT, KEY))
        assert re.fullmatch(r"object \d+( \(event \d+\))?", place)

    @pytest.mark.parametrize("table", ["session.end_reason", "note.text", "name.text"])
    def test_in_a_table_stops_the_export(
        self, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, _, column = table.partition(".")

        def insert_leak(path: Path) -> None:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(
                    f"UPDATE {name} SET {column} = 'it says hunter2' WHERE rowid = 1"
                )
                connection.commit()

        _after_rebuild(monkeypatch, insert_leak)
        assert self._leak(tmp_path / "x.zip", Redactor(Rules.DEFAULT, KEY)).startswith(table)

    def test_in_a_page_without_content_stops_the_export(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def insert_leak(path: Path) -> None:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA secure_delete = OFF")
                connection.execute("CREATE TABLE later (x)")
                connection.execute("INSERT INTO later VALUES ('DB_PASSWORD=hunter2')")
                connection.commit()
                connection.execute("DROP TABLE later")
                connection.commit()
            assert b"hunter2" in path.read_bytes()

        _after_rebuild(monkeypatch, insert_leak)
        place = self._leak(tmp_path / "x.zip", Redactor(Rules.DEFAULT, KEY))
        assert place == "the recording's file, outside of its tables"

    def test_in_the_files_name_stops_the_export(self, tmp_path: Path) -> None:
        place = self._leak(tmp_path / "of-hunter2.zip", Redactor(Rules.DEFAULT, KEY))
        assert place == "the file's name"

    def test_message_contains_the_remedy(self, tmp_path: Path) -> None:
        for name, redactor, words in (
            ("of-hunter2.zip", Redactor(Rules.DEFAULT, KEY), "name; choose another name"),
            (
                "x.zip",
                _LeakingRedactor(Rules.DEFAULT, KEY),
                "; please report it, and leave this part out",
            ),
        ):
            with Recording.open(SAMPLE) as recording:
                with pytest.raises(RedactionLeak, match=words):
                    export(recording, tmp_path / name, BundleContent(redactor=redactor))

    def test_words_of_the_format_are_no_leaks(self, tmp_path: Path) -> None:
        pod = a_pod()
        container = a_container(pod, variables=0)
        for number, value in enumerate(
            ["CREATE TABLE", "README.md", "recording.nriscope.db", "nri-scope", "CreateContainer"]
        ):
            container.env.append(f"SECRET_KEY_{number}={value}")
        record(
            tmp_path / "r.db",
            [an_item("CreateContainer", api.CreateContainerRequest(pod=pod, container=container))],
        )
        redactor = Redactor(Rules.DEFAULT, KEY)
        with Recording.open(tmp_path / "r.db") as recording:
            bundle = export(recording, tmp_path / "x.zip", BundleContent(redactor=redactor))
        assert bundle.manifest.redaction is not None
        assert bundle.manifest.redaction.by_rule()["credential-keys"] == 5


def _after_rebuild(monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]) -> None:
    def extract_and_change(source: Recording, output: Path, *more: Any, **named: Any) -> Extracted:
        rebuilt = extract(source, output, *more, **named)
        change(output)
        return rebuilt

    monkeypatch.setattr("nri_scope.share.bundle.bundle_export.extract", extract_and_change)
