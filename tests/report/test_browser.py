# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: ``CHROMIUM=chromium pytest tests/report/test_browser.py``.

CI has none. That the page loads and runs nothing is tested without one in `test_html`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from scripts.report_picture import PHONE, chromium
from tests.replay.recordings import RECORDING
from tests.tui.hostile import CANARY, hostile_recording

pytestmark = pytest.mark.skipif("CHROMIUM" not in os.environ, reason="no CHROMIUM=PATH is named")

_FRAME = """<iframe id=f width={width} height=400 style="border:0" src="{url}"></iframe><script>
f.onload = () => {{
  const root = f.contentDocument.documentElement;
  document.title = [root.scrollWidth, f.contentDocument.scripts.length, f.contentDocument.title]
    .join("|");
}}</script>"""


@pytest.fixture(scope="module", params=["usual", "hostile"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    path = RECORDING
    if request.param == "hostile":
        path = hostile_recording(folder / "hostile.nriscope.db")
    with Recording.open(path) as recording:
        (folder / "report.html").write_text("".join(html(collect(recording))))
    return folder / "report.html"


def test_the_page_causes_no_policy_violation(page: Path) -> None:
    shown, complaints = chromium(page, "--dump-dom")
    assert complaints == []
    assert "<h2" in shown


def test_the_page_fits_a_phone_and_has_no_script(page: Path) -> None:
    frame = page.with_name("frame.html")
    frame.write_text(_FRAME.format(width=PHONE, url=page.as_uri()))
    shown, _ = chromium(frame, "--dump-dom", "--allow-file-access-from-files")
    found = re.search(r"<title>(\d+)\|(\d+)\|([^<]*)", shown)
    assert found is not None
    assert (int(found[1]), int(found[2])) == (PHONE, 0)
    assert found[3] and CANARY not in found[3]


def test_injected_style_script_and_image_are_blocked(page: Path) -> None:
    text = page.read_text()
    slipped = "<p style='color:red'>x</p><script>document.title = 'x'</script>"
    bad = page.with_name("bad.html")
    bad.write_text(text.replace("<body>", f"<body>{slipped}<img src='http://127.0.0.1:9/x.png'>"))
    assert bad.read_text() != text
    shown, complaints = chromium(bad, "--dump-dom")
    assert len(complaints) == 3
    assert all("Content Security Policy" in complaint for complaint in complaints)
    assert "<title>x</title>" not in shown
