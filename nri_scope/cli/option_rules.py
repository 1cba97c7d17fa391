# SPDX-License-Identifier: Apache-2.0
"""Combinations of options that a command refuses, as a declaration of the command.

A rule names parameters as they are written on the command line: ``--full``, ``-o``, FILE, or an
option with one of its values, such as ``--format json``. Rules are checked in the order in which
the command lists them, before it does anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, product
from types import MappingProxyType
from typing import Any, ClassVar

import click
from click.core import ParameterSource

from nri_scope.errors import UsageError


@dataclass(frozen=True, slots=True)
class OptionRule:
    """A rule about ``names``, and in some rules about ``others``. ``hint``: the remedy."""

    names: tuple[str, ...]
    others: tuple[str, ...] = ()
    hint: str = ""
    REMEDY: ClassVar[str] = ""
    """The usual hint."""

    def problem(self, used: Set[str]) -> str:
        """Return what is wrong with the ``used`` parameters; "" if nothing is."""
        raise NotImplementedError


class Exclude(OptionRule):
    """Parameters that exclude each other; with ``others``, each excludes these instead."""

    REMEDY = "leave one of them out"

    @property
    def pairs(self) -> Iterable[tuple[str, str]]:
        """The combinations that are refused."""
        return product(self.names, self.others) if self.others else combinations(self.names, 2)

    def problem(self, used: Set[str]) -> str:
        for name, other in self.pairs:
            if name in used and other in used:
                return f"{name} and {other} exclude each other"
        return ""


class Need(OptionRule):
    """Parameters of which each needs at least one of ``others``."""

    REMEDY = "add it, or leave the other option out"

    def problem(self, used: Set[str]) -> str:
        for name in self.names:
            if name in used and used.isdisjoint(self.others):
                return f"{name} needs {' or '.join(self.others)}"
        return ""


class NeedOneOf(OptionRule):
    """Parameters of which the command needs at least one."""

    REMEDY = "add one of them"

    def problem(self, used: Set[str]) -> str:
        if not used.isdisjoint(self.names):
            return ""
        return f"neither {', '.join(self.names[:-1])} nor {self.names[-1]} was given"


class RuledCommand(click.Command):
    """A command that refuses some combinations of its options with UsageError."""

    def __init__(
        self,
        name: str | None,
        *,
        rules: Sequence[OptionRule] = (),
        former: Mapping[str, str] = MappingProxyType({}),
        described: tuple[str, Collection[str]] = ("", ()),
        **settings: Any,
    ) -> None:
        """``former``: options that it had, and what replaced them. ``described``: another command
        whose help describes options of this one, and their parameters.
        """
        super().__init__(name, **settings)
        self.rules = rules
        self.former = former
        self.described = described

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and only the names of those that another command's help describes."""
        command, known = self.described
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        own = (each.get_help_record(ctx) for each in options if each.name not in known)
        with formatter.section("Options"):
            formatter.write_dl([record for record in own if record is not None])
        if command:
            names = ", ".join(each.opts[0] for each in options if each.name in known)
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Options that `{command} --help` describes: {names}.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and check the rules."""
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in self.former:
                raise
            problem = f"there is no option {name} any more"
            raise UsageError(problem, f"use {self.former[name]}") from error
        if not ctx.resilient_parsing:
            names = used_parameters(ctx)
            for rule in self.rules:
                if problem := rule.problem(names):
                    raise UsageError(problem, rule.hint or rule.REMEDY)
        return rest


def used_parameters(context: click.Context) -> Set[str]:
    """Return the parameters on the command line, in all spellings, also with their values."""
    names: set[str] = set()
    for each in context.command.params:
        assert each.name is not None
        value = context.params.get(each.name)
        if context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE and value != ():
            for name in spellings(each):
                names |= {name, f"{name} {value}"}
            if isinstance(each, click.Argument) and isinstance(each.type, click.Choice):
                names.add(str(value))
    return names


def spellings(parameter: click.Parameter) -> Sequence[str]:
    """Return an option's names, or the first word of an argument's placeholder, such as FILE."""
    if isinstance(parameter, click.Option):
        return parameter.opts
    return re.findall("[A-Z]+", (parameter.metavar or parameter.name or "").upper())[:1]
