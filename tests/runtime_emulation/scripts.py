# SPDX-License-Identifier: Apache-2.0
"""Small programs to launch, and counts of descriptors and processes that must not leak."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def executable(path: Path, text: str) -> Path:
    """Write a program."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def python(text: str) -> list[str]:
    """Return the command of a Python program."""
    return [sys.executable, "-c", text]


def plugin(*, registered: str = "", ended: str = "") -> list[str]:
    """Return the command of a real plugin that runs statements after registering and at its end."""
    connect = 'await plugin.adopt(int(os.environ["NRI_PLUGIN_SOCKET"]))'
    return _plugin("99-registered-otherwise", connect, registered, ended)


def external(
    name: str = "42-own", *, socket: str = "{socket}", registered: str = "", ended: str = ""
) -> list[str]:
    """Return the command of a plugin that connects to ``socket`` by itself.

    As upstream's stub, it ends with an error if a runtime launches it.
    """
    connect = f"""if "NRI_PLUGIN_IDX" in os.environ:
        sys.exit('plugin ID already set ("10")')
    await plugin.connect({socket!r})"""
    return _plugin(name, connect, registered, ended)


def registering(*names: str) -> list[str]:
    """Return the command of an external plugin that registers several times.

    It opens all connections at once, and registers the others a while after the first.
    """
    first, *others = names
    *start, script = external(first)
    register = "await plugin.register()"
    assert f"    {register}\n" in script
    lines = (
        f"others = [SmallPlugin(name) for name in {others!r}]",
        "for each in others: await each.connect('{socket}')",
        register,
        "await asyncio.sleep(0.3)",
        f"for each in others: {register.replace('plugin', 'each')}",
    )
    text = "".join(f"    {line}\n" for line in lines)
    return [*start, script.replace(f"    {register}\n", text)]


def _plugin(name: str, connect: str, registered: str, ended: str) -> list[str]:
    return python(
        f"""
import asyncio, os, subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.runtime_emulation.small_plugin import SmallPlugin

async def main():
    plugin = SmallPlugin({name!r})
    {connect}
    await plugin.register()
    {registered or "pass"}
    await plugin.connected.wait_closed()
    {ended or "pass"}

asyncio.run(main())
"""
    )


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - it opens one, the same each time


def children() -> set[int]:
    """Return the ids of this process's children, zombies included."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
