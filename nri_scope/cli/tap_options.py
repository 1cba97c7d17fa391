# SPDX-License-Identifier: Apache-2.0
"""The options of ``tap``: checks for contradictions, and the resulting settings."""

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
    listen: Path | None
    wrap: Path | None
    unwrap: Path | None
    where: str
    max_size: int | None
    max_age: float | None
    wait: bool
    print_format: str | None
    redact: str | None
    delays: tuple[str, ...]
    drops: tuple[str, ...]
    errors: tuple[str, ...]
    seed: int


_ALONE = {
    "unwrap": frozenset[str](),
    "wrap": frozenset(
        ("output", "where", "max_size", "max_age", "redact", "delays", "drops", "errors", "seed")
    ),
}


def check(options: Options, told: dict[str, str]) -> None:
    """Refuse options that contradict each other; ``told``: the given ones, as help texts spell
    them.
    """
    spelled = told | {"command_line": "COMMAND"}
    values: dict[str, object] = dict(options)
    ways = [way for way in ("command_line", "listen", "wrap", "unwrap") if values[way]]
    if not ways:
        raise UsageError(
            "nothing to tap", "write the plugin's command after --, or use --listen or --wrap"
        )
    if len(ways) > 1:
        raise UsageError(
            f"{spelled[ways[0]]} and {spelled[ways[1]]} exclude each other",
            "leave one of them out",
        )
    way = ways[0]
    if way in _ALONE:
        beside = sorted(told.keys() - _ALONE[way] - {way})
        if beside:
            raise UsageError(f"{spelled[beside[0]]} has no effect with --{way}", "leave it out")
    if way == "listen":
        for name in ("index", "name", "variables"):
            if name in told:
                raise UsageError(
                    f"{spelled[name]} is for a plugin that the tap launches",
                    "plugins that connect to --listen register with their own",
                )


def settings_of(options: Options, output: Path) -> Settings:
    """Return the tap's settings from the options."""
    from nri_scope.tap.settings import Settings

    return Settings(
        output=str(output),
        where=options["where"],
        redact=options["redact"],
        max_size=options["max_size"],
        max_age=options["max_age"],
        delays=options["delays"],
        drops=options["drops"],
        errors=options["errors"],
        seed=options["seed"],
    )
