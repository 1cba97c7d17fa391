# SPDX-License-Identifier: Apache-2.0
"""Draw the README's picture from real output of the log command on a terminal.

``python -m scripts.make_picture`` writes docs/images/log.svg from recordings/.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "recordings"
PICTURE = ROOT / "docs" / "images" / "log.svg"

WIDTH, HEIGHT = 92, 60
COMMAND = ("log", "containerd-1.7.nriscope.db", "--where", "ns:shop OR event:Configure")


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    typed = " ".join(f"'{word}'" if " " in word else word for word in COMMAND)
    console.print(Text(f"$ nri-scope {typed}"))
    for line in on_terminal([sys.executable, "-m", "nri_scope", *COMMAND]).splitlines():
        console.print(Text.from_ansi(line))
    svg = console.export_svg(title="nri-scope", unique_id="nri-scope-log")
    # Rich's font declaration would make browsers load a font from another site.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(svg, encoding="utf-8")


def on_terminal(command: list[str]) -> str:
    """Return the output of ``command`` on a terminal of WIDTH × HEIGHT."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "TZ": "UTC"}
    environment.pop("NO_COLOR", None)
    environment.pop("COLUMNS", None)
    with subprocess.Popen(command, stdout=terminal, cwd=RECORDINGS, env=environment) as process:
        os.close(terminal)
        output = b""
        try:
            while data := os.read(controller, 65536):
                output += data
        except OSError:
            # Linux reports EIO once the command has closed the terminal.
            pass
    os.close(controller)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return output.decode()


if __name__ == "__main__":
    main()
