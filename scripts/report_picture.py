# SPDX-License-Identifier: Apache-2.0
"""Take screenshots of a report in headless Chromium, for docs/images/ or for inspection.

    python -m scripts.report_picture             # docs/images/report-light.png and -dark.png
    python -m scripts.report_picture FILE.html FOLDER   # any report: light, dark, phone, paper

Needs Chromium (``apt install chromium``, or CHROMIUM=PATH). CI has no browser: run the browser
tests by hand with ``CHROMIUM=chromium pytest tests/report/test_browser.py``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerAdjustment,
    KeyValue,
    LinuxResources,
    Mount,
    PodSandbox,
)
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.playback import PlaybackOptions
from nri_scope.replay.plugins import InProcess, PluginSet
from nri_scope.replay.run import Job, replay
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from nri_scope.transport.loop import run
from tests.sample_names import PROXY, REPORT

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = 1180, 390
_TIMEOUT_S = 120
_CONSOLE = ":CONSOLE:"
_DEVICE_DELAYS_S = {PROXY: 1.3, REPORT: 5.0}


class Injector:
    """Plugin that adds a proxy and certificates to every container."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        pki = Mount(destination="/etc/pki", source="/srv/pki", type="bind", options=["rbind", "ro"])
        return ContainerAdjustment(
            env=[KeyValue(key="HTTP_PROXY", value="http://proxy.example:3128")],
            annotations={"example.com/injected-by": "env-injector"},
            mounts=[pki],
        )

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Subscribe to RunPodSandbox."""

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        """Subscribe to StartContainer."""

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> None:
        """Subscribe to UpdateContainer."""

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        """Subscribe to StopContainer."""

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        """Subscribe to RemoveContainer."""

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        """Subscribe to StopPodSandbox."""

    def remove_pod_sandbox(self, pod: PodSandbox) -> None:
        """Subscribe to RemovePodSandbox."""


class Policy:
    """Plugin that pins containers to CPUs and requests a memory reservation that is not applied."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        adjustment = ContainerAdjustment()
        resources = adjustment.linux.resources
        resources.cpu.shares.value, resources.cpu.cpus = 2048, "0-1"
        resources.memory.reservation.value = 64 << 20
        return adjustment


class Devices:
    """Plugin that is slow for the proxy and misses its deadline for the report."""

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        await asyncio.sleep(_DEVICE_DELAYS_S.get(container.name, 0.004))
        return ContainerAdjustment(env=[KeyValue(key="GPU", value="0")])


def showcase(output: Path) -> None:
    """Write a recording with faults by replaying a real runtime's events to the plugins above."""
    plugins = (
        InProcess("10", "env-injector", Injector()),
        InProcess("40", "cpu-policy", Policy()),
        InProcess("70", "gpu-devices", Devices()),
    )
    run(
        replay(
            Job(
                RECORDING,
                PluginSet(plugins),
                playback=PlaybackOptions(speed=1.0),
                output=output,
            )
        )
    )


def shoot(page: Path, image: Path, *, width: int, dark: bool = False, height: int = 0) -> None:
    """Take a screenshot of a page, in full height unless ``height`` is set."""
    tall = height or page_height(page, width)
    arguments = [f"--window-size={width},{tall}", f"--screenshot={image}"]
    if dark:
        arguments.append("--blink-settings=preferredColorScheme=0")
    chromium(page, *arguments)


def page_height(page: Path, width: int) -> int:
    """Return the page's height at a width, measured by the browser.

    The measuring script is in a frame around the report, as the report has no scripts.
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
    """Return Chromium's standard output for a page, and its console messages."""
    program = os.environ.get("CHROMIUM") or next(filter(shutil.which, CHROMIUM), None)
    if program is None:
        raise SystemExit("Chromium not found: install it, or set CHROMIUM=PATH")
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--v=0"),
        *arguments,
        page.resolve().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if _CONSOLE in line]


def main(arguments: list[str]) -> None:
    """Take the screenshots."""
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
