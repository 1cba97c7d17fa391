# SPDX-License-Identifier: Apache-2.0
"""The HTML loads and runs nothing, and shows hostile recordings as text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from tests.replay.recordings import RECORDING, of_capture
from tests.tui.hostile import CANARY, INVISIBLE, assert_harmless, hostile_recording

from . import problem_recordings

TAGS = frozenset(
    (
        "a",
        "body",
        "br",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "footer",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "li",
        "main",
        "meta",
        "nav",
        "p",
        "path",
        "rect",
        "section",
        "span",
        "style",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    )
)
VOID = frozenset({"br", "meta"})
ATTRIBUTES = frozenset(
    (
        "aria-hidden",
        "aria-label",
        "charset",
        "class",
        "content",
        "d",
        "data-label",
        "height",
        "href",
        "http-equiv",
        "id",
        "lang",
        "name",
        "open",
        "preserveaspectratio",
        "role",
        "rx",
        "title",
        "viewbox",
        "width",
        "x",
        "y",
    )
)
MIB = 1 << 20


class Page(HTMLParser):
    """Parsed page: tags, attributes, style and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.style = ""
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def page_of(path: Path) -> str:
    with Recording.open(path) as recording:
        return "".join(html(collect(recording)))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("hostile") / "hostile.nriscope.db"
    return page_of(hostile_recording(path))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("healthy") / "chain.nriscope.db"
    return page_of(of_capture("containerd-2.4-beta", path))


@pytest.fixture(params=["hostile", "healthy"])
def page(request: pytest.FixtureRequest) -> str:
    text = request.getfixturevalue(request.param)
    assert isinstance(text, str)
    return text


def test_the_page_has_only_allowed_tags_and_attributes(page: str) -> None:
    found = Page(page)
    assert found.tags <= TAGS
    assert set(found.attributes) <= ATTRIBUTES
    assert found.open == []


def test_the_page_loads_nothing_and_has_no_external_links(page: str) -> None:
    found = Page(page)
    assert all(re.fullmatch(r"#[a-z]+", href) for href in found.attributes["href"])
    assert "url(" not in found.style
    assert "@import" not in found.style


def test_the_policy_allows_only_the_page_s_style_sheet(page: str) -> None:
    found = Page(page)
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    (policy,) = [one for one in found.attributes["content"] if "default-src" in one]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_no_character_hides_or_reorders_text(page: str) -> None:
    found = Page(page)
    for values in found.attributes.values():
        for value in values:
            assert_harmless(value)
    # The page itself uses no-break spaces.
    assert_harmless(found.text.replace("\xa0", " "))
    assert not any(char in page for char in INVISIBLE)


def test_markup_in_a_recording_is_shown_as_text(hostile: str) -> None:
    assert CANARY in Page(hostile).text


def test_hostile_html_in_names_is_shown_as_text(tmp_path: Path) -> None:
    evil = "</code></td></style></script><script>alert(1)</script><img src=x onerror=alert(1)>"
    text = page_of(
        problem_recordings.named(tmp_path, f"{evil}\"' onload=x <!-- {{{{7*7}}}} {{% raw %}}")
    )
    found = Page(text)
    assert found.tags <= TAGS
    assert set(found.attributes) <= ATTRIBUTES
    assert evil in found.text
    assert "{{7*7}}" in found.text


def test_a_value_of_megabytes_is_cut(hostile: str) -> None:
    assert len(hostile) < MIB


def test_the_page_has_no_scripts_and_styles_for_dark_print_and_phone(healthy: str) -> None:
    found = Page(healthy)
    assert "script" not in found.tags
    assert "prefers-color-scheme: dark" in found.style
    assert "@media print" in found.style
    assert "max-width: 46rem" in found.style


def test_changes_have_their_owners(healthy: str) -> None:
    text = re.sub(r"\s+", " ", Page(healthy).text)
    assert 'env FOO "bar" → "overridden" 30-env-injector, seen in event 25 tap, event 18' in text
    assert "devices[/dev/nri-null] c 1:3 20-device-injector" in text


def test_a_finding_has_advice(tmp_path: Path) -> None:
    text = Page(page_of(problem_recordings.conflict(tmp_path))).text
    assert "both tried to set" in text
    assert "Let only one of the two plugins set that field" in text
    assert "events 5, 6, 7 and 8" in text


def test_gaps_are_drawn_and_listed(tmp_path: Path) -> None:
    text = page_of(problem_recordings.with_gap(tmp_path))
    assert 'class="gap"' in text
    assert "the disk was full" in Page(text).text


def test_an_empty_recording_makes_a_page(tmp_path: Path) -> None:
    found = Page(page_of(problem_recordings.empty(tmp_path)))
    assert "no events" in found.text
    assert "Timeline" not in found.text


def test_the_same_recording_makes_the_same_page() -> None:
    assert page_of(RECORDING) == page_of(RECORDING)
