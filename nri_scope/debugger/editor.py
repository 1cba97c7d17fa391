# SPDX-License-Identifier: Apache-2.0
"""Let the user edit a text in the editor of the environment."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.process.child import describe_exit
from nri_scope.text.yaml_reader import MAX_BYTES


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of ``$VISUAL`` or ``$EDITOR``; [] if neither is set.

    Raises UsageError if it has unbalanced quotes.
    """
    text = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"$EDITOR is no command: {text}", "close its quotes") from None


async def edit_text(command: list[str], text: str, name: str) -> str:
    """Return the text as the editor saved it. Raises UsageError.

    The terminal belongs to the editor until then: ^C does not interrupt this program. Other tasks,
    such as the connections of plugins, go on.
    """
    # A request may contain secrets: the folder is private.
    with tempfile.TemporaryDirectory(prefix="nri-scope-") as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*command, str(path))
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise UsageError(f"{command[0]}: {words}", "set EDITOR to another one") from error
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        finally:
            signal.signal(signal.SIGINT, former)
        if code:
            problem = f"{command[0]} ended with {describe_exit(code)}"
            raise UsageError(problem, "nothing was sent")
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise UsageError(f"the text is larger than {MAX_BYTES >> 20} MiB")
            return content.decode()
        except (OSError, UnicodeDecodeError) as error:
            words = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise UsageError(f"the edited text cannot be read: {words}") from error
