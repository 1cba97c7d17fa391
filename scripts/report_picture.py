# SPDX-License-Identifier: Apache-2.0
"""Pictures of a report in a headless Chromium, to look at it, and those in docs/images/.

    python -m scripts.report_picture             # docs/images/report-light.png and -dark.png
    python -m scripts.report_picture FILE.html FOLDER   # of any report: light, dark, phone, paper

Needs a Chromium (``apt install chromium``, or CHROMIUM=PATH). CI has none: what the browser says of
a page is checked by ``CHROMIUM=chromium pytest tests/report/test_browser.py``, by hand.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nri_scope.plugin import Adjustment, Container, LinuxResources, PodSandbox
from nri_scope.recording.reader import Recording
from nri_scope.replay.pace import paced
from nri_scope.replay.player import PlaybackOptions
from nri_scope.replay.plugins import Casting, InProcess
from nri_scope.replay.run import Job, replay
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from nri_scope.transport.loop import run

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = 1180, 390
_SECONDS = 120
_CONSOLE = ":CONSOLE:"
_SECONDS_IN_DEVICES = {"sidecar": 1.3, "job": 5.0}


class Injector:
    """Adds to every container what an organisation wants in it."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment().add_env("HTTP_PROXY", "http://proxy.example:3128")
        adjustment.add_annotation("example.com/injected-by", "env-injector")
        return adjustment.add_mount("/etc/pki", "/srv/pki", options=["rbind", "ro"])

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Listen, as to all events below."""

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        """Listen to the start of a container."""

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> None:
        """Listen to the update of a container."""

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        """Listen to the stop of a container."""

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        """Listen to the removal of a container."""

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        """Listen to the stop of a pod."""

    def remove_pod_sandbox(self, pod: PodSandbox) -> None:
        """Listen to the removal of a pod."""


class Policy:
    """Pins containers to CPUs, and asks for a reservation that runtimes do not know."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment()
        resources = adjustment.message.linux.resources
        resources.cpu.shares.value, resources.cpu.cpus = 2048, "0-1"
        resources.memory.reservation.value = 64 << 20
        return adjustment


class Devices:
    """Waits for hardware: for one container nearly, for another one really too long."""

    async def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        await asyncio.sleep(_SECONDS_IN_DEVICES.get(container.name, 0.004))
        return Adjustment().add_env("GPU", "0")


def showcase(output: Path) -> None:
    """Make a recording with faults in it: a real runtime's events, replayed to a chain."""
    plugins = (
        InProcess("10", "env-injector", Injector()),
        InProcess("40", "cpu-policy", Policy()),
        InProcess("70", "gpu-devices", Devices()),
    )
    run(
        replay(
            Job(
                RECORDING,
                Casting(plugins),
                playback=PlaybackOptions(wait=paced(1.0)),
                output=output,
            )
        )
    )


def shoot(page: Path, image: Path, *, width: int, dark: bool = False, height: int = 0) -> None:
    """One picture; as high as the page unless `height` says otherwise."""
    tall = height or page_height(page, width)
    arguments = [f"--window-size={width},{tall}", f"--screenshot={image}"]
    if dark:
        arguments.append("--blink-settings=preferredColorScheme=0")
    chromium(page, *arguments)


def page_height(page: Path, width: int) -> int:
    """How high the page is at that width, as the browser says.

    The script that asks is in our own page around it, never in the report.
    """
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(
            f'<iframe id=f width={width} height=400 style="border:0" src="{page.as_uri()}">'
            "</iframe><script>f.onload=()=>document.title="
            "f.contentDocument.documentElement.scrollHeight</script>"
        )
        dump, _ = chromium(
            frame, "--dump-dom", "--allow-file-access-from-files", f"--window-size={width},400"
        )
    _, _, rest = dump.partition("<title>")
    number = rest.partition("<")[0]
    return int(number) if number.isdigit() else 4000


def chromium(page: Path, *arguments: str) -> tuple[str, list[str]]:
    """Return Chromium's print of a page, and its complaints: blocked content, errors."""
    program = os.environ.get("CHROMIUM") or next(filter(shutil.which, CHROMIUM), None)
    if program is None:
        raise SystemExit("no Chromium here: install one, or name it as CHROMIUM=PATH")
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--v=0"),
        *arguments,
        page.resolve().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if _CONSOLE in line]


def main(arguments: list[str]) -> None:
    """Make the pictures."""
    if arguments:
        page, folder = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
        folder.mkdir(exist_ok=True)
        for dark in (False, True):
            tone = "dark" if dark else "light"
            shoot(page, folder / f"{tone}.png", width=WIDE, dark=dark)
            shoot(page, folder / f"phone-{tone}.png", width=PHONE, dark=dark)
        chromium(page, f"--print-to-pdf={folder / 'paper.pdf'}", "--no-pdf-header-footer")
        return
    with tempfile.TemporaryDirectory() as name:
        recording, page = Path(name) / "node-1.nriscope.db", Path(name) / "report.html"
        showcase(recording)
        with Recording.open(recording) as opened:
            page.write_text("".join(html(collect(opened))))
        shoot(page, IMAGES / "report-light.png", width=WIDE, height=1980)
        shoot(page, IMAGES / "report-dark.png", width=WIDE, height=1980, dark=True)


if __name__ == "__main__":
    main(sys.argv[1:])
