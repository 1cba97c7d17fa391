# SPDX-License-Identifier: Apache-2.0
"""Content of each tab for a row."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.differ.blame import owned_lines
from nri_scope.differ.blame.text import body as blame_body
from nri_scope.differ.blame.text import view
from nri_scope.differ.recording_differ import history_of
from nri_scope.events import Container, Event, Pod
from nri_scope.recording.documents import document
from nri_scope.recording.query.lookup import containers_of, events_about
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.styled_text import spans_of
from nri_scope.text.yaml_text import to_yaml
from nri_scope.tui.detail.tab_lines import Tab, TabRequest, detail
from nri_scope.tui.store.reader_thread import CancelFlag
from nri_scope.tui.store.rows import line_row
from nri_scope.tui.text.styled_line import StyledLine, shown, text_of
from tests.recording.made import a_gap, a_session
from tests.replay.recordings import RECORDING, of_capture
from tests.sample_names import API, CHECKOUT, CHECKOUT_POD, CHECKOUT_PROXY
from tests.tui.detail.tab_lines import a_row, tab_lines
from tests.tui.hostile import assert_harmless, hostile_recording


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    with Recording.open(RECORDING) as found:
        yield found


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("chain") / "r.nriscope.db"
    with Recording.open(of_capture("containerd-2.1.9", path)) as found:
        yield found


def _event(recording: Recording, name: str, container: str = "") -> Event:
    return next(
        event
        for event in recording.events()
        if event.event == name and container in ("", event.container)
    )


def _pods_and_containers(recording: Recording) -> list[Pod | Container]:
    return [*recording.pods(), *recording.containers()]


class TestEventSummary:
    def test_shows_event_subject_and_reply(self, recording: Recording) -> None:
        event = _event(recording, "StartContainer", API)
        text = "\n".join(tab_lines(recording, a_row(event), Tab.SUMMARY))
        for expected in ("StartContainer", CHECKOUT, API, event.container_id, event.pod_id):
            assert expected in text
        assert "reply       ok  in 133µs, 0.0067 % of the 2.00s deadline" in text
        assert "uid         payments-prod-checkout-api-7d9f8c6b5d-x2x9z-0" in text
        assert "runtime     containerd 2.1.9+unknown, NRI 0.8.0 (inferred)" in text

    def test_names_the_neighbouring_events(self, recording: Recording) -> None:
        event = _event(recording, "UpdateContainer", API)
        lines = tab_lines(recording, a_row(event), Tab.SUMMARY)
        # The name continues on the next lines.
        text = "".join(line.strip() for line in lines)
        assert re.search(rf"before +\d.*s: 12 PostStartContainer  {CHECKOUT_PROXY}", text)
        assert any(
            re.match(r"earlier +69\.\dms: 8 PostStartContainer of this", line) for line in lines
        )

    def test_first_event_has_no_predecessor(self, recording: Recording) -> None:
        first = next(iter(recording.events()))
        assert "before      no event" in tab_lines(recording, a_row(first), Tab.SUMMARY)

    def test_includes_the_comment_of_the_user(self, recording: Recording) -> None:
        event = next(iter(recording.events()))
        lines = tab_lines(recording, a_row(event), Tab.SUMMARY, comment="look here")
        assert "comment     look here" in lines

    def test_shows_errors_and_malformed_requests(self, tmp_path: Path) -> None:
        path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
        with Recording.open(path) as found:
            event = next(event for event in found.events() if event.status == "error")
            lines = tab_lines(found, a_row(event), Tab.SUMMARY)
            assert any("error  code 2 (unknown)" in line for line in lines)
            assert any(line.startswith("message     failed: ") for line in lines)
            odd = next(event for event in found.events() if event.mark == "malformed")
            assert "marked      malformed request, kept raw" in tab_lines(
                found, a_row(odd), Tab.SUMMARY
            )


class TestContainerTab:
    def test_shows_the_container_of_the_event(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "CreateContainer")), Tab.CONTAINER)
        assert f"name: {API}" in lines
        assert "  - PATH=/bin" in lines

    def test_shows_the_pod_if_there_is_no_container(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "RunPodSandbox")), Tab.CONTAINER)
        assert lines[0] == "This event concerns a pod:"
        assert f"name: {CHECKOUT_POD}" in lines

    def test_event_without_a_subject_shows_none(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "Configure")), Tab.CONTAINER)
        assert lines == ["This event contains no pod or container."]


class TestChangesTab:
    def test_lists_changes_with_their_owners(self, chain: Recording) -> None:
        changed = [
            event
            for event in chain.events()
            if event.event == "CreateContainer"
            and any(
                "by 0" in line or "by 3" in line
                for line in tab_lines(chain, a_row(event), Tab.CHANGES)
            )
        ]
        assert changed

    def test_unchanged_container_has_no_changes(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "StartContainer")), Tab.CHANGES)
        assert any("no change seen" in line for line in lines)
        lines = tab_lines(recording, a_row(_event(recording, "Configure")), Tab.CHANGES)
        assert lines == ["Plugins cannot change anything in this event."]


class TestBlameTab:
    def test_names_the_owner_of_a_line(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "StartContainer")), Tab.BLAME)
        assert any("CRI request" in line and "shares: 512" in line for line in lines)

    @pytest.mark.parametrize(
        ("name", "changes"), [("CreateContainer", "3 changes"), ("StopContainer", "no change")]
    )
    def test_says_as_of_when(self, recording: Recording, name: str, changes: str) -> None:
        row, as_of = (
            a_row(_event(recording, name)),
            f"as of the recording's end, {changes} after this event",
        )
        lines = tab_lines(recording, row, Tab.BLAME)
        assert as_of in lines[1:5]
        assert ", created by event " in " ".join(line.strip() for line in lines[-2:])

    def test_changes_within_an_operation_are_not_later(self) -> None:
        with Recording.open(RECORDING.with_name("demo.nriscope.db")) as demo:
            events = tuple(demo.events(among=range(43, 48)))
            row = replace(a_row(events[0]), events=events)
            lines = tab_lines(demo, row, Tab.BLAME)
            assert "as of the recording's end, no change after this operation" in lines

    def test_folds_unchanged_lines_unless_full(self, recording: Recording) -> None:
        row = a_row(_event(recording, "StartContainer"))
        some = tab_lines(recording, row, Tab.BLAME)
        everything = tab_lines(recording, row, Tab.BLAME, full=True)
        assert len(some) < 30 < len(everything)
        assert not any("PATH=/bin" in one for one in some)
        assert any("PATH=/bin" in one for one in everything)

    def test_needs_a_container(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "RunPodSandbox")), Tab.BLAME)
        assert lines == ["This event has no container."]


class TestRawTab:
    def test_shows_decoded_request_and_reply(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(_event(recording, "StartContainer")), Tab.RAW)
        assert lines[:2] == ["request:", "  event: START_CONTAINER"]
        assert lines[-1] == "reply: empty"

    def test_malformed_request_is_shown_in_hexadecimal(self, tmp_path: Path) -> None:
        path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
        with Recording.open(path) as found:
            event = next(event for event in found.events() if event.mark == "malformed")
            lines = tab_lines(found, a_row(event), Tab.RAW)
            assert lines[0] == "request: 22 bytes, malformed"
            assert lines[1].startswith("00000000  ff fe 20 6e 6f 74 20 61  20 6d 65")
            assert lines[1].endswith("  .. not a message")


class TestGapsAndSessions:
    def test_gap_shows_duration_reason_and_lost_events(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(gap=a_gap(1, 0, 2.5, lost=1_234)), Tab.SUMMARY)
        assert "reason      the disk is full" in lines
        assert "events lost 1,234" in lines
        assert any(line.endswith("(2.50s)") for line in lines)
        lines = tab_lines(recording, a_row(gap=a_gap(1, 0, 2.5, lost=None)), Tab.SUMMARY)
        assert "events lost an unknown number" in lines

    def test_session_shows_deadlines_and_end_reason(self, recording: Recording) -> None:
        lines = tab_lines(recording, a_row(session=a_session(7, 0, 60)), Tab.SUMMARY)
        assert "reason      the runtime closed the connection" in lines
        assert "deadlines   2.00s for a reply, 5.00s to register" in lines
        assert any("(after 1m00s)" in line for line in lines)

    @pytest.mark.parametrize("tab", [tab for tab in Tab if tab is not Tab.SUMMARY])
    def test_gap_has_only_a_summary(self, recording: Recording, tab: Tab) -> None:
        also = ", pods and containers" if tab in (Tab.CONTAINER, Tab.BLAME) else ""
        for row in (a_row(gap=a_gap(1, 0, 1)), a_row(session=a_session(7, 0, 60)), line_row("")):
            lines = tab_lines(recording, row, tab)
            assert lines == [f"This tab is only available for events{also}."]


class TestPodsAndContainers:
    """Rows without an event show what the commands `show` and `blame` show."""

    def test_newest_message_is_that_of_show(self, recording: Recording) -> None:
        for about in _pods_and_containers(recording):
            expected = document(recording, about)
            first, *lines = tab_lines(recording, line_row("", subject=about), Tab.CONTAINER)
            assert first == f"As of event {expected['told_by_event']}:"
            assert lines == to_yaml(expected["message"]).splitlines()

    def test_blame_is_that_of_the_command(self, recording: Recording) -> None:
        for container in recording.containers():
            found = owned_lines.lines(history_of(recording, container))
            body, _ = blame_body(view(found, "usual"), 80)
            expected = [text_of(spans_of(each)) for each in body]
            lines = tab_lines(recording, line_row("", subject=container), Tab.BLAME)
            begin = lines.index(expected[0])
            assert "as of the recording's end" in lines[begin - 1]
            assert lines[begin : begin + len(expected) + 1] == [*expected, ""]

    def test_blame_of_a_pod_is_that_of_its_only_container(self, recording: Recording) -> None:
        for pod in recording.pods():
            row = line_row("", subject=pod)
            found = [tab_lines(recording, row, Tab.BLAME)]
            last = _event(recording, "RemovePodSandbox")
            if last.pod_id == pod.id:
                # The newest event of a pod is its row, and has no container.
                found.append(tab_lines(recording, replace(a_row(last), subject=pod), Tab.BLAME))
            containers = containers_of(recording, pod)
            for lines in found:
                if len(containers) > 1:
                    assert lines == ["This pod has 2 containers: select one of them."]
                else:
                    row = line_row("", subject=containers[0])
                    own = tab_lines(recording, row, Tab.BLAME)
                    as_of = next(at for at, one in enumerate(own) if one.startswith("as of "))
                    assert lines[:as_of] == own[:as_of]
                    assert lines[as_of + 1 :] == own[as_of + 1 :]

    def test_summary_names_it_and_says_if_it_has_no_events(self, recording: Recording) -> None:
        for about in _pods_and_containers(recording):
            lines = tab_lines(recording, line_row("", subject=about), Tab.SUMMARY)
            assert ("events      none" in lines) is (not events_about(recording, about))
            assert any(about.id in line for line in lines)

    @pytest.mark.parametrize("tab", [Tab.CHANGES, Tab.RAW])
    def test_other_tabs_need_an_event(self, recording: Recording, tab: Tab) -> None:
        row = line_row("", subject=recording.pods()[0])
        assert tab_lines(recording, row, tab) == ["This tab is only available for events."]


def test_removed_event_is_reported(recording: Recording) -> None:
    event = next(iter(recording.events()))
    removed = replace(event, id=10**9)
    lines = tab_lines(recording, a_row(removed), Tab.RAW)
    assert lines == ["This event has been removed from the recording."]


@pytest.mark.parametrize("tab", [Tab.CONTAINER, Tab.CHANGES, Tab.BLAME, Tab.RAW])
def test_cancelled_request_stops(chain: Recording, tab: Tab) -> None:
    stop = CancelFlag()
    stop.set()
    row = a_row(_event(chain, "CreateContainer"))
    with pytest.raises(CancelledError):
        detail(chain, TabRequest(row, tab, 80), stop)


@pytest.mark.exhaustive
def test_hostile_recording_is_escaped_in_every_tab(tmp_path: Path) -> None:
    with Recording.open(hostile_recording(tmp_path / "r.nriscope.db")) as found:
        events = [event for event in found.events() if event.session == 1]
        rows = [a_row(one) for one in events if one.event != "PostCreateContainer" or one.id < 9]
        rows += [a_row(session=session) for session in found.sessions()]
        for row in rows:
            for tab in Tab:
                lines: list[StyledLine] = detail(
                    found, TabRequest(row, tab, 78, full=True), CancelFlag()
                )
                assert lines
                text = "\n".join(text_of(shown(line)) for line in lines)
                assert_harmless(text)
                assert len(text) < 200_000
