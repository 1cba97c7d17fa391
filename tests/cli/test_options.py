# SPDX-License-Identifier: Apache-2.0
"""Laws of the options of all commands: declared combinations, and ``-o -``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from nri_scope.cli.chain_options import Listening
from nri_scope.cli.kubectl.main import VIEW_NAMES
from nri_scope.cli.kubectl.views import VIEWS
from nri_scope.cli.main import cli, run
from nri_scope.cli.option_rules import Exclude, Need, NeedOneOf, OptionRule, RuledCommand, spellings
from nri_scope.errors import UsageError
from tests.cli.commands import ALL_COMMANDS

SAMPLE = Path(__file__).parents[2] / "recordings" / "containerd-1.7.nriscope.db"
VALUES = {
    **dict.fromkeys(("--index", "--without"), "01"),
    **dict.fromkeys(("--duration", "--grace", "--timeout", "--max-age"), "1s"),
    **dict.fromkeys(("--since", "--until"), "10:00"),
    **dict.fromkeys(("--max-size", "--max-folder-size"), "9"),
    "'plugin=NAME where CONDITION'": "plugin=x",
    "--where": "pod:x",
    "--events": "all",
    "--speed": "1x",
    "--redact": "",
    "-o": "new.nriscope.db",
}
"""Values of options that do not take any text, by name or placeholder."""


def words_of(command: click.Command, names: Sequence[str]) -> list[str]:
    """The words of a command line with these parameters, and the required ones."""
    options: list[str] = []
    arguments: list[str] = []
    left_out: list[str] = []
    """Values of optional arguments, without which there is no later one."""
    for param in command.params:
        known = spellings(param)
        chosen = [name for name in names if name.split()[0] in known]
        kind = param.type
        usual = VALUES.get(str(param.metavar), VALUES.get(known[0], "x"))
        value = kind.choices[0] if isinstance(kind, click.Choice) else usual
        if isinstance(param, click.Argument):
            choices = kind.choices if isinstance(kind, click.Choice) else ()
            chosen_value = [name for name in names if name in choices]
            if chosen:
                arguments += left_out
            elif not param.required and param.nargs == 1:
                left_out.append(str(value))
            if chosen or chosen_value or param.required:
                arguments += ["--"] * (known[0] == "COMMAND") + (chosen_value or [str(value)])
        elif chosen or param.required:
            assert isinstance(param, click.Option)
            name, *chosen_value = (chosen or known[:1])[0].split()
            if param.is_flag:
                options.append(name)
            else:
                options += (
                    [f"{name}={chosen_value[0] if chosen_value else value}"]
                    if (name.startswith("--"))
                    else [name, chosen_value[0] if chosen_value else str(value)]
                )
    return options + arguments


def violations(
    rule: OptionRule, rules: Sequence[OptionRule]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield parameters that the rule refuses without others, and the names that it must mention."""
    match rule:
        case Exclude():
            yield from ((pair, pair) for pair in rule.pairs)
        case Need():
            earlier = rules[: rules.index(rule)]
            needed = [one.names[0] for one in earlier if isinstance(one, NeedOneOf)]
            yield from (((name, *needed), (name, *rule.others)) for name in rule.names)
        case NeedOneOf():
            others = (one for one in rules if isinstance(one, NeedOneOf) and one != rule)
            yield [one.names[0] for one in others], rule.names


RULES = [
    pytest.param(group, path, command, parameters, named, id=" ".join((*path, *parameters)))
    for group, path, command in ALL_COMMANDS
    if isinstance(command, RuledCommand)
    for rule in command.rules
    for parameters, named in violations(rule, command.rules)
]


@pytest.mark.parametrize(("group", "path", "command", "parameters", "named"), RULES)
def test_a_refused_combination_is_named_and_nothing_is_written(
    group: click.Command,
    path: tuple[str, ...],
    command: click.Command,
    parameters: Sequence[str],
    named: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*path, *words_of(command, parameters)]
    assert run(words, group) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert all(name in printed.err for name in named), (words, printed.err)
    assert not list(tmp_path.iterdir())


def test_rules_name_parameters_of_their_command() -> None:
    for _, path, command in ALL_COMMANDS:
        known = {name for param in command.params for name in spellings(param)}
        choices = {
            str(value)
            for param in command.params
            if isinstance(param, click.Argument) and isinstance(param.type, click.Choice)
            for value in param.type.choices
        }
        for rule in command.rules if isinstance(command, RuledCommand) else ():
            assert {name.split()[0] for name in (*rule.names, *rule.others)} <= known | choices, (
                path
            )


TEXTS = {
    "export": "--format jsonl",
    "report": "",
    "scenario from-recording": "",
}
"""Commands that write text, with the options that make them do so."""
OUTPUTS = [
    pytest.param(group, path, command, id=" ".join((*(group.name or "",), *path)))
    for group, path, command in ALL_COMMANDS
    if any("--output" in param.opts for param in command.params)
]


@pytest.mark.parametrize(("group", "path", "command"), OUTPUTS)
def test_a_dash_is_standard_output_and_no_file(
    group: click.Command,
    path: tuple[str, ...],
    command: click.Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = words_of(command, ["-o"])
    at = words.index("-o")
    name = " ".join(path)
    file = "pod.yaml" if name == "scenario from-pod" else str(SAMPLE)
    words = [file if word == "x" else word for word in words]
    words[at + 1] = "-"
    is_text = group is cli and (name in TEXTS or name == "scenario from-pod")
    if name == "scenario from-pod":
        Path("pod.yaml").write_text(
            "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app, image: x}]}\n"
        )
    elif "COMMAND" in {spelling for param in command.params for spelling in spellings(param)}:
        words += ["--", "true"]
    before = set(tmp_path.iterdir())
    status = run([*path, *TEXTS.get(name, "").split(), *words], group)
    printed = capsys.readouterr()
    assert set(tmp_path.iterdir()) == before
    if is_text:
        assert status == 0 and printed.out, printed.err
    elif name != "report":
        assert (status, printed.out, printed.err.count("\n")) == (2, "", 1)
        assert "standard output" in printed.err and "--output" in printed.err


def test_a_bundle_is_not_written_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(SAMPLE), "-o", "-"]) == 2
    printed = capsys.readouterr()
    assert "--output: a bundle cannot be written to standard output" in printed.err
    assert printed.out == "" and not list(tmp_path.iterdir())


def test_a_dash_may_be_the_name_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(SAMPLE), "--format", "jsonl", "-o", "./-"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["-"]


def test_a_report_on_standard_output_is_the_one_of_a_file_and_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", str(SAMPLE), "-o", "x.md"]) == 0
    capsys.readouterr()
    assert run(["report", str(SAMPLE), "-o", "-"]) == 0
    printed = capsys.readouterr().out
    assert printed == Path("x.md").read_text() and "create it with --redact" in printed
    assert run(["report", str(SAMPLE), "-o", "-", "--redact"]) == 0
    assert "create it with --redact" not in capsys.readouterr().out


def test_each_view_of_a_cluster_is_defined() -> None:
    assert set(VIEW_NAMES) == set(VIEWS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("nri.sock", ("nri.sock", 1)), ("2=a=b", ("a=b", 2)), ("x=nri.sock", ("x=nri.sock", 1))],
)
def test_a_number_of_plugins_may_precede_the_socket(text: str, expected: tuple[str, int]) -> None:
    assert Listening.parse(text) == (Path(expected[0]), expected[1])


@pytest.mark.parametrize("text", ["0=nri.sock", "101=nri.sock", "2=", "", "2=x/"])
def test_another_number_or_an_empty_socket_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Listening.parse(text)
