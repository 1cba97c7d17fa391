# SPDX-License-Identifier: Apache-2.0
"""Goldens as files: written, loaded, compared, updated, and rejected if invalid."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.replay.golden import Golden, MismatchKind, Origin, ReplyKey, fingerprint
from nri_scope.replay.golden import golden as golden_module
from nri_scope.replay.golden.golden import HEAD
from nri_scope.replay.golden.matchers import Ignored, Tolerance
from nri_scope.replay.replies import Reply, Verdict

from .replies import APP, ORIGIN, a_reply, golden_of, name_of, replies, setting, texts

SMALL = [
    a_reply("Synchronize", api.SynchronizeResponse(), subject=""),
    a_reply("RunPodSandbox", api.Empty(), subject="shop/web"),
    a_reply("CreateContainer", setting(512, FOO="no")),
    a_reply("StartContainer", api.StartContainerResponse()),
    a_reply("UpdateContainer", None, verdict=Verdict.ERROR, problem="rpc error: code 2: no"),
    a_reply("UpdateContainer", None, occurrence=2, verdict=Verdict.LATE, problem="took 2.1 s"),
    a_reply("PostCreateContainer", api.Empty()),
]
WRITTEN = f"""\
{HEAD}golden: 1
recording: containerd 2.1.9, 8 events of 2 containers
fingerprint: '0123456789012345'
profile: recorded
plugins:
  10-mine:
    session:
      quiet: [Synchronize]
    shop/web:
      quiet: [RunPodSandbox]
    shop/web/app:
      CreateContainer:
        adjust:
          env:
            FOO: 'no'
          linux:
            resources:
              cpu:
                shares: 512
      UpdateContainer:
        error: 'rpc error: code 2: no'
      UpdateContainer#2:
        late: true
      quiet: [PostCreateContainer, StartContainer]
"""
KEY = ReplyKey("10-mine", APP, "CreateContainer")


def mismatches(golden: Golden, *actual: Reply) -> list[tuple[MismatchKind, str, str]]:
    return [(m.kind, m.key.subject, m.key.event) for m in golden.compare(actual, name_of)]


def test_text_of_a_golden() -> None:
    assert golden_of(*SMALL).text == WRITTEN


@settings(deadline=None)
@given(replies, texts, texts)
def test_a_loaded_golden_has_the_same_entries_and_text(
    actual: list[Reply], recording: str, profile: str
) -> None:
    golden = Golden.of(actual, Origin(recording, "f00", profile), name_of)
    loaded = Golden.parse(golden.text)
    assert loaded.entries == golden.entries
    assert loaded.origin == golden.origin
    assert loaded.text == golden.text
    assert loaded.compare(actual, name_of) == []
    assert loaded.updated(actual, loaded.origin, name_of).text == golden.text


@settings(deadline=None)
@given(replies, replies)
def test_an_updated_golden_expects_the_new_replies_and_nothing_else(
    old: list[Reply], new: list[Reply]
) -> None:
    updated = golden_of(*old).updated(new, ORIGIN, name_of)
    assert updated.compare(new, name_of) == []
    assert updated.text == golden_of(*new).text


@given(st.permutations(SMALL))
def test_the_order_of_replies_does_not_matter(actual: list[Reply]) -> None:
    assert golden_of(*actual).text == WRITTEN


def test_a_missing_an_unused_and_a_differing_entry_are_found() -> None:
    golden = golden_of(*SMALL)
    others = [
        *(reply for reply in SMALL if reply.event not in ("CreateContainer", "RunPodSandbox")),
        a_reply("CreateContainer", setting(1024, FOO="no")),
        a_reply("StopContainer", api.StopContainerResponse()),
    ]
    assert mismatches(golden, *others) == [
        (MismatchKind.UNUSED, "shop/web", "RunPodSandbox"),
        (MismatchKind.DIFFERS, APP, "CreateContainer"),
        (MismatchKind.MISSING, APP, "StopContainer"),
    ]


def test_an_empty_reply_differs_from_a_full_one() -> None:
    quiet, full = a_reply(message=api.CreateContainerResponse()), a_reply(message=setting())
    assert mismatches(golden_of(quiet), full) == [(MismatchKind.DIFFERS, APP, "CreateContainer")]
    assert mismatches(golden_of(full), quiet) == [(MismatchKind.DIFFERS, APP, "CreateContainer")]


def test_another_index_is_another_entry() -> None:
    golden = golden_of(a_reply(message=setting()))
    assert mismatches(golden, a_reply(message=setting(), plugin="20-mine")) == [
        (MismatchKind.UNUSED, APP, "CreateContainer"),
        (MismatchKind.MISSING, APP, "CreateContainer"),
    ]


def test_repeated_events_are_numbered() -> None:
    golden = golden_of(a_reply(message=setting(1)), a_reply(message=setting(2)))
    assert [key.event for key in golden.entries] == ["CreateContainer", "CreateContainer#2"]


def test_occurrences_are_sorted_numerically() -> None:
    golden = golden_of(*(a_reply(message=setting(), occurrence=n) for n in (10, 2, 1)))
    assert [key.event for key in golden.entries] == [
        "CreateContainer",
        "CreateContainer#2",
        "CreateContainer#10",
    ]


def test_a_failure_with_a_reply_has_both() -> None:
    reply = a_reply(message=setting(5), verdict=Verdict.CONFLICT, problem="both tried to set it")
    (entry,) = golden_of(reply).entries.values()
    assert entry == {
        "adjust": {"linux": {"resources": {"cpu": {"shares": 5}}}},
        "conflict": "both tried to set it",
    }


def test_details_of_late_replies_and_crashes_are_omitted() -> None:
    late = a_reply(verdict=Verdict.LATE, problem="no answer within 2 s")
    crash = a_reply(verdict=Verdict.CRASH, problem="connection reset by peer", occurrence=2)
    assert [*golden_of(late, crash).entries.values()] == [{"late": True}, {"crash": True}]


def edited(old: str, new: str) -> Golden:
    assert old in WRITTEN
    return Golden.parse(WRITTEN.replace(old, new), "g.yaml")


def test_matchers_are_applied_and_kept_by_updates() -> None:
    golden = edited("shares: 512", "shares: !tolerance 500 ±10%")
    assert golden.compare(SMALL, name_of) == []
    again = golden.updated(SMALL, ORIGIN, name_of)
    assert "shares: !tolerance 500 ±10%\n" in again.text
    changed = [a_reply("CreateContainer", setting(700, FOO="no"))]
    assert (MismatchKind.DIFFERS, APP, "CreateContainer") in mismatches(golden, *changed)
    assert "shares: 700\n" in golden.updated(changed, ORIGIN, name_of).text


def test_a_whole_reply_may_be_ignored_or_just_present() -> None:
    ignored = edited("        late: true", "        {}").entries
    assert ignored[ReplyKey("10-mine", APP, "UpdateContainer#2")] == {}
    golden = edited("UpdateContainer#2:\n        late: true", "UpdateContainer#2: !ignored")
    assert golden.compare(SMALL, name_of) == []
    without = [reply for reply in SMALL if reply.occurrence == 1]
    assert golden.compare(without, name_of) == []
    kept = golden.updated(without, ORIGIN, name_of).entries
    assert kept[ReplyKey("10-mine", APP, "UpdateContainer#2")] == Ignored()
    golden = edited("UpdateContainer#2:\n        late: true", "UpdateContainer#2: !present")
    assert golden.compare(SMALL, name_of) == []
    assert mismatches(golden, *without) == [(MismatchKind.UNUSED, APP, "UpdateContainer#2")]


def test_updates_keep_the_leading_comment() -> None:
    text = "# Ours.\n\n" + WRITTEN.removeprefix(HEAD)
    golden = Golden.parse(text).updated(SMALL, ORIGIN, name_of)
    assert golden.text == text
    bare = WRITTEN.removeprefix(HEAD)
    assert Golden.parse(bare).text == bare


def test_a_golden_of_another_recording_or_profile_is_rejected_in_one_line() -> None:
    golden = Golden.parse(WRITTEN, "dir/g.yaml")
    golden.check_origin(Origin("another description", ORIGIN.fingerprint, ORIGIN.profile))
    with pytest.raises(UsageError) as raised:
        golden.check_origin(Origin("cri-o 1.34, 3 events", "f00", ORIGIN.profile))
    assert str(raised.value) == (
        "golden dir/g.yaml is for another recording or selection of events"
        " (containerd 2.1.9, 8 events of 2 containers) than the replayed one"
        " (cri-o 1.34, 3 events); name the golden of this selection, or rewrite it with"
        " --update-golden"
    )
    with pytest.raises(UsageError, match="for profile recorded, but the replay uses cri-o;"):
        golden.check_origin(Origin(ORIGIN.recording, ORIGIN.fingerprint, "cri-o"))


def test_fingerprints_differ_by_runtime_and_events() -> None:
    events = [("a/b", "RunPodSandbox"), ("a/b/c", "CreateContainer")]
    assert fingerprint("containerd", events) == fingerprint("containerd", iter(events))
    assert fingerprint("containerd", events) != fingerprint("cri-o", events)
    assert fingerprint("containerd", events) != fingerprint("containerd", events[:1])
    assert fingerprint("x", [("a", "bc")]) != fingerprint("x", [("ab", "c")])


def test_saving_and_loading(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    golden = golden_of(*SMALL)
    golden.save(path)
    assert path.read_text() == WRITTEN
    loaded = Golden.load(path)
    assert loaded.path == str(path)
    assert loaded.lines[KEY] == WRITTEN.splitlines().index("      CreateContainer:") + 1
    assert [*tmp_path.iterdir()] == [path]


def test_saving_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "g.yaml", tmp_path / "link.yaml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    golden_of(*SMALL).save(link)
    assert link.is_symlink()
    assert path.read_text() == WRITTEN
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_write_error_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "g.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(UsageError, match="cannot be written"):
            golden_of(*SMALL).save(path)
    assert [*tmp_path.iterdir()] == []


def test_a_golden_too_large_to_be_loaded_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(WRITTEN)
    monkeypatch.setattr(golden_module, "MAX_BYTES", 100)
    with pytest.raises(UsageError, match="larger than"):
        Golden.load(path)
    with pytest.raises(UsageError, match="larger than"):
        golden_of(*SMALL).save(path)
    assert path.read_text() == WRITTEN


def test_a_read_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"golden .*: no such file; write it with --update-golden"):
        Golden.load(tmp_path / "none.yaml")
    for path in (tmp_path, Path("a\0b")):
        with pytest.raises(UsageError, match="cannot be read"):
            Golden.load(path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"golden: 1\n\xff\xfe")
    with pytest.raises(UsageError, match="binary: line 2: not UTF-8"):
        Golden.load(binary)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "golden: 1",
            "golden: 2",
            "line 4: golden version 2 is not supported: this nri-scope reads",
        ),
        ("golden: 1", "golden: 2", "upgrade nri-scope"),
        ("golden: 1", "golden: true", "golden version True"),
        ("golden: 1", "golden: [1]", "golden version ?"),
        ("golden: 1", "gold: 1", "not a golden: the key 'golden' is missing"),
        ("profile: recorded", "profil: recorded", "line 7: unknown key 'profil'; did you mean"),
        ("profile: recorded\n", "", "the key 'profile' is missing"),
        ("profile: recorded", "profile: [a]", "profile is not a text"),
        ("profile: recorded", "profile: !present", "profile is not a text"),
        ("  10-mine:\n    session:\n      quiet: [Synchronize]\n", "  - x\n", "line"),
        ("quiet: [Synchronize]", "quiet: Synchronize", "line 11: 'quiet' is not a list of events"),
        ("quiet: [Synchronize]", "quiet: [[Synchronize]]", "line 11: an entry of 'quiet'"),
        ("quiet: [Synchronize]", "quiet: [A, A]", "line 11: 'A' is listed twice"),
        ("quiet: [Synchronize]", "[Synchronize]", "subject 'session' is not a mapping"),
        ("UpdateContainer#2:\n        late: true", "UpdateContainer#2: late", "not a mapping"),
        ("UpdateContainer#2:\n        late: true", "X: !regex late", "is !regex"),
        ("UpdateContainer#2", "UpdateContainer", "'UpdateContainer' is listed twice"),
        ("shares: 512", "shares: !tolerance 512", "line 22: !tolerance '512' is invalid"),
        ("shares: 512", "shares: !regx x", "line 22: unknown matcher '!regx'; did you mean"),
        ("shares: 512", "shares: !regex '['", "line 22: !regex '[': bad regular expression"),
        (
            "shares: 512",
            "shares: *a",
            "line 22: anchors and aliases are not supported; write the value out",
        ),
        ("shares: 512", "shares:", "line 22: a value is missing"),
        ("shares: 512", "shares: [512", "not YAML"),
        ("'rpc error", "\x1b[2J'rpc error", "not YAML"),
    ],
)
def test_an_invalid_golden_is_rejected_with_file_line_and_hint(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        edited(old, new)
    text = str(raised.value)
    assert text.startswith("golden g.yaml: ")
    assert message in text
    assert "; " in text
    assert text.isprintable()


def test_a_recording_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "rec.nriscope.db"
    path.write_bytes(b"SQLite format 3\0\x10\0\x01\x01\0")
    with pytest.raises(UsageError, match="not YAML"):
        Golden.load(path)


@settings(deadline=None)
@given(st.integers(0, len(WRITTEN)), st.integers(0, 40), texts)
def test_any_edited_text_is_parsed_or_rejected(at: int, cut: int, put: str) -> None:
    with suppress(UsageError):
        golden = Golden.parse(WRITTEN[:at] + put + WRITTEN[at + cut :])
        assert Golden.parse(golden.text).entries == golden.entries


def test_tolerances_are_kept_as_written() -> None:
    golden = edited("shares: 512", "shares: !tolerance 512 +- 10 %")
    assert golden.entries[KEY] == {
        "adjust": {
            "env": {"FOO": "no"},
            "linux": {"resources": {"cpu": {"shares": Tolerance(512, "10", True)}}},
        }
    }
    assert "!tolerance 512 ±10%" in golden.text
