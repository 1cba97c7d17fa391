# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled regular expression over a text, once, from left to right.

All places of the program that the text so far can have led to are kept together as one state, and
states are made when they are first needed (a "lazy DFA"). So the time is linear in the text,
whatever pattern and text are, and a step seen before costs one dictionary look-up.
"""

from __future__ import annotations

from functools import lru_cache

from nri_scope.recorder.filter.charset import is_word
from nri_scope.recorder.filter.regex import Instruction, Op, compile_regex

MAX_TEXT = 4096
"""Characters of a value that are looked at. Names in NRI stay below 300."""
MAX_STEPS = 4096
"""Remembered steps; with more the memory is emptied and filled again."""

_BORDERS = (Op.WORD_BORDER, Op.NO_WORD_BORDER)


class _State:
    """The places where the program can be, before looking at the next character."""

    __slots__ = ("after_word", "at_start", "matches_at_end", "places", "steps")

    def __init__(self, places: frozenset[int], *, at_start: bool, after_word: bool) -> None:
        self.places = places
        self.at_start = at_start
        self.after_word = after_word
        self.steps: dict[str, _State | None] = {}
        self.matches_at_end: bool | None = None


class Regex:
    """A regular expression; ``search`` says whether it matches anywhere in a text."""

    def __init__(self, pattern: str) -> None:
        """Raises FilterError, whose position counts within ``pattern``."""
        self.pattern = pattern
        self._program: tuple[Instruction, ...] = compile_regex(pattern)
        self._minds_words = any(step.op in _BORDERS for step in self._program)
        self._forget()

    def _forget(self) -> None:
        self._initial = _State(frozenset((0,)), at_start=True, after_word=False)
        self._states: dict[tuple[frozenset[int], bool], _State] = {}
        self._remembered = 0

    def search(self, text: str) -> bool:
        """True if the pattern matches somewhere in the first ``MAX_TEXT`` characters."""
        state = self._initial
        for char in text[:MAX_TEXT]:
            try:
                after = state.steps[char]
            except KeyError:
                after = self._step(state, char)
            if after is None:
                return True
            state = after
        if state.matches_at_end is None:
            state.matches_at_end = self._reach(state, "") is None
        return state.matches_at_end

    def _step(self, state: _State, char: str) -> _State | None:
        """The state after ``char``, or None when the pattern has matched before it."""
        reached = self._reach(state, char)
        after: _State | None = None
        if reached is not None:
            # Place 0 stays in every state: a match may begin at any character.
            places = frozenset(
                target for place in reached for target in self._program[place].to
            ) | {0}
            key = (places, self._minds_words and is_word(char))
            after = self._states.get(key)
            if after is None:
                after = _State(places, at_start=False, after_word=key[1])
                self._states[key] = after
        self._remembered += 1
        if self._remembered > MAX_STEPS:
            self._forget()
        state.steps[char] = after
        return after

    def _reach(self, state: _State, char: str) -> list[int] | None:
        """The CHAR instructions that accept ``char`` ("" is the text's end); None: matched."""
        program = self._program
        at_border = state.after_word != (char != "" and self._minds_words and is_word(char))
        todo = list(state.places)
        seen = set(todo)
        reached: list[int] = []
        while todo:
            place = todo.pop()
            step = program[place]
            match step.op:
                case Op.MATCH:
                    return None
                case Op.CHAR:
                    if char and char in step.chars:
                        reached.append(place)
                    continue
                case Op.START:
                    passes = state.at_start
                case Op.END:
                    passes = not char
                case Op.WORD_BORDER:
                    passes = at_border
                case Op.NO_WORD_BORDER:
                    passes = not at_border
                case Op.SPLIT:
                    passes = True
            if passes:
                for target in step.to:
                    if target not in seen:
                        seen.add(target)
                        todo.append(target)
        return reached


@lru_cache(maxsize=64)
def regex(pattern: str) -> Regex:
    """The compiled ``pattern``, kept for next time. Raises FilterError as ``Regex`` does."""
    return Regex(pattern)
