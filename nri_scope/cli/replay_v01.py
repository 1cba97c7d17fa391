# SPDX-License-Identifier: Apache-2.0
"""``replay`` of a plugin of NRI 0.1: its options, and its output."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.nri.invocation import BINARY_PATH
from nri_scope.nri.plain import Plain, json_or_malformed
from nri_scope.nri.v01_conf import SIZE_MAX
from nri_scope.recording.display import duration, many, size
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import SCHEMA_VERSION, to_json
from nri_scope.replay import v01
from nri_scope.replay.script import ReplaySelection
from nri_scope.tap.wrapper import check_unwrapped
from nri_scope.text.escape import safe

from .output import Output
from .params import environment_of, say
from .share_messages import resolved_where
from .time_arguments import places_of

if TYPE_CHECKING:
    from .replay_options import Options

_LINES_MAX = 20
"""Maximum number of lines of a plugin's standard error that are printed for each call."""
_VALID = frozenset(
    (
        *("file", "command_line", "v01", "on_this_host", "configs", "variables", "session"),
        *("where", "begin", "end", "only", "golden", "update_golden", "output_format"),
    )
)


def perform(options: Options, given: dict[str, str]) -> bool:
    """Invoke the plugin for each request; return whether all results are valid or as expected."""
    command, conf = _checked(options, given)
    environment = {**os.environ, **environment_of(options["variables"])}
    golden_path, updates = options["golden"], options["update_golden"]
    golden = None if golden_path is None or updates else v01.load_golden(golden_path)
    begin, end = places_of(options["file"], options["begin"], options["end"])
    selection = ReplaySelection(
        session=options["session"],
        where=resolved_where(options["file"], options["where"]),
        only=options["only"],
        begin=begin,
        end=end,
    )
    as_json = options["output_format"] == "json"
    results: list[v01.PluginResult] = []
    calls = failed = kept_bytes = 0
    is_well = False
    with Output() as output, Recording.open(options["file"]) as recording:
        for call in v01.requests(recording, selection, conf):
            for note in options["notes"] if not calls else ():
                say(note)
            one = v01.invoke(command, environment, call)
            calls += 1
            failed += bool(one.problem)
            if as_json or golden_path is not None:
                results.append(one)
                kept_bytes += len(call.request) + len(one.result) + len(one.errors)
                if kept_bytes > v01.GOLDEN_MAX:
                    raise UsageError(
                        f"the requests and results have more than {size(v01.GOLDEN_MAX)}",
                        "select fewer events, for example with --to",
                    )
            if not as_json:
                for line in _lines(one):
                    output.line(safe(line, output.width))
                output.flush()
        differing = [] if golden is None else list(v01.differences(golden, results))
        is_well = not differing if golden is not None else not failed
        if golden_path is not None and updates:
            v01.save_golden(golden_path, results)
        if as_json:
            output.line(to_json(_document(results, differing, golden_path, is_well=is_well)))
            return is_well
        output.line("")
        for line in differing:
            output.line(safe(line, output.width))
        output.line(f"{many(calls, 'call')}, {failed} failed")
        if golden_path is not None:
            shown = safe(str(golden_path))
            if updates:
                output.line(f"wrote golden {shown}")
            elif is_well:
                output.line(f"all results match golden {shown}")
    return is_well


def _checked(options: Options, given: dict[str, str]) -> tuple[list[str], bytes | None]:
    """Return the command and the plugin's configuration. Raises UsageError."""
    if not options["on_this_host"]:
        raise UsageError(
            "a plugin of NRI 0.1 acts on this host, for example on the cgroups that requests name",
            "add --on-this-host to invoke it nevertheless",
        )
    for name, spelled in given.items():
        if name not in _VALID:
            raise UsageError(f"{spelled} has no effect with a plugin of NRI 0.1", "leave it out")
    if options["update_golden"] and options["golden"] is None:
        raise UsageError("--update-golden needs --golden", "add --golden FILE")
    if not options["command_line"]:
        raise UsageError("no plugin was given", "write its command after --")
    program, *arguments = options["command_line"]
    found = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{BINARY_PATH}")
    if found is None:
        raise UsageError(f"{program}: no such program", f"it is neither in PATH nor {BINARY_PATH}")
    check_unwrapped(found)
    return [found, *arguments], _conf(options["configs"])


def _conf(files: tuple[str, ...]) -> bytes | None:
    """Return the plugin's configuration, which is JSON; None for none."""
    if len(files) > 1:
        raise UsageError("--config was given twice", "a plugin has one configuration")
    for path in files:
        try:
            with Path(path).open("rb") as file:
                content = file.read(SIZE_MAX + 1)
            if len(content) <= SIZE_MAX:
                json.loads(content)
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise UsageError(f"--config {path}: {words}", "name a readable file") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--config {path}: not JSON", "write the plugin's conf") from error
        if len(content) > SIZE_MAX:
            raise UsageError(f"--config {path}: larger than {SIZE_MAX >> 10} KiB")
        return content
    return None


def _lines(one: v01.PluginResult) -> list[str]:
    call = one.call
    verdict = one.problem or one.result.decode(errors="replace").strip()
    mark = "!" if one.problem else " "
    head = f"{call.event:>6} {duration(one.took_ns):>6} {mark} {call.state:<7} {call.subject}"
    status = f"exit status {one.exit_status}: " if one.exit_status else ""
    printed = one.errors.decode(errors="replace").splitlines()
    lines = [f"       | {line}" for line in printed[:_LINES_MAX]]
    if len(printed) > _LINES_MAX:
        lines.append(f"       | {len(printed) - _LINES_MAX:,} more lines")
    return [f"{head}  {status}{verdict}", *lines]


def _document(
    results: list[v01.PluginResult], differing: list[str], golden: Path | None, *, is_well: bool
) -> dict[str, Plain]:
    calls: list[Plain] = [
        {
            "event": one.call.event,
            "state": one.call.state,
            "subject": one.call.subject,
            "request": json_or_malformed(one.call.request),
            "result": json_or_malformed(one.result),
            "stderr": one.errors.decode(errors="replace"),
            "exit_status": one.exit_status,
            "took_us": one.took_ns // 1000,
            "problem": one.problem,
        }
        for one in results
    ]
    found: dict[str, Plain] = {"schema_version": SCHEMA_VERSION, "calls": calls, "well": is_well}
    if golden is not None:
        found["golden"] = {"file": str(golden), "mismatches": list(differing)}
    return found
