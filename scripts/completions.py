# SPDX-License-Identifier: Apache-2.0
"""Generate the shell completion scripts. They call nri-scope, where Click completes the words."""

from __future__ import annotations

from click.shell_completion import ShellComplete, get_completion_class

from nri_scope.cli.main import cli

PROGRAM = "nri-scope"
VARIABLE = "_NRI_SCOPE_COMPLETE"

# Path of each shell's script, below share/ of an installation prefix such as /usr.
PLACES = {
    "bash": "bash-completion/completions/nri-scope",
    "zsh": "zsh/site-functions/_nri-scope",
    "fish": "fish/vendor_completions.d/nri-scope.fish",
}


def render() -> dict[str, str]:
    """Return the script of every shell by its path below ``share/``."""
    return {place: _script(shell) for shell, place in PLACES.items()}


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # The override of bash's class would run the installed bash to check its version.
    return ShellComplete.source(kind(cli, {}, PROGRAM, VARIABLE)).strip() + "\n"
