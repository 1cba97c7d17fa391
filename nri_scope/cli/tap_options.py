# SPDX-License-Identifier: Apache-2.0
"""Options of ``tap``: validation, and the resulting settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from nri_scope.errors import UsageError

if TYPE_CHECKING:
    from nri_scope.tap.settings import Settings


class Options(TypedDict):
    """The options as click passes them."""

    command_line: tuple[str, ...]
    output: Path | None
    socket: Path
    index: str | None
    name: str | None
    variables: tuple[str, ...]
    external: bool
    grace: float
    listen: Path | None
    wrap: Path | None
    unwrap: Path | None
    v01: str | None
    where: str
    max_size: int | None
    max_age: float | None
    wait: bool
    print_format: str | None
    cri: Path | None
    redact: str | None
    delays: tuple[str, ...]
    drops: tuple[str, ...]
    errors: tuple[str, ...]
    seed: int


_VALID_WITH = {
    "unwrap": frozenset[str](),
    "wrap": frozenset(
        (
            "v01",
            "output",
            "where",
            "max_size",
            "max_age",
            "cri",
            "redact",
            "delays",
            "drops",
            "errors",
            "seed",
        )
    ),
}


def check(options: Options, given: dict[str, str]) -> None:
    """Raise UsageError for conflicting options; ``given``: see `given_options`."""
    spelled = given | {"command_line": "COMMAND"}
    values: dict[str, object] = dict(options)
    modes = [mode for mode in ("command_line", "listen", "wrap", "unwrap") if values[mode]]
    if not modes:
        raise UsageError(
            "no plugin was given", "write the plugin's command after --, or use --listen or --wrap"
        )
    if len(modes) > 1:
        raise UsageError(
            f"{spelled[modes[0]]} and {spelled[modes[1]]} exclude each other",
            "leave one of them out",
        )
    mode = modes[0]
    if options["v01"] is not None and mode != "wrap":
        raise UsageError("--v01 is only valid with --wrap", "leave it out")
    if mode in _VALID_WITH:
        invalid = sorted(given.keys() - _VALID_WITH[mode] - {mode})
        if invalid:
            raise UsageError(f"{spelled[invalid[0]]} has no effect with --{mode}", "leave it out")
    if mode == "listen":
        for name in ("index", "name", "variables", "external", "grace"):
            if name in given:
                raise UsageError(
                    f"{spelled[name]} is not valid with --listen",
                    "leave it out: external plugins set their own",
                )


def settings_of(options: Options, output: Path) -> Settings:
    """Return the tap's settings from the options."""
    from nri_scope.tap.settings import Settings

    return Settings(
        output=str(output),
        where=options["where"],
        redact=options["redact"],
        cri=None if options["cri"] is None else str(options["cri"].absolute()),
        # The runtime launches a wrapped plugin before it serves the CRI.
        cri_waits=options["wait"] or options["wrap"] is not None,
        max_size=options["max_size"],
        max_age=options["max_age"],
        delays=options["delays"],
        drops=options["drops"],
        errors=options["errors"],
        seed=options["seed"],
    )
