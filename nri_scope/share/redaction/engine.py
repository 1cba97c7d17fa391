# SPDX-License-Identifier: Apache-2.0
"""The state of redaction (rules, known values, counts), and its passes over each text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from nri_scope.recording.cache import RecentlyUsed

from .harmless import HOSTS, REGISTRIES
from .known_values import KnownValues, Strength
from .limits import (
    MESSAGE,
    PART_LOOKUP,
    TEXT,
    TEXT_LOOKUP,
    UNBOUNDED,
    CachedResult,
    Memory,
    RedactionBudget,
    ResultCache,
)
from .re2_patterns import compiled, glob
from .rules import Action, Rule, Rules
from .scope import NAMES_SCOPE, Scope, Scopes
from .tally import Tally
from .tokens import Tokens, is_token
from .value_owners import ALL_PODS

MAX_DEPTH = 4
"""Maximum nesting of texts, such as JSON in base64 in JSON."""
_MAX_ROUNDS = 6
_MAX_NESTED = 3
"""Maximum nesting of values inside values that are replaced as a whole."""
MAX_TEXT = 65_536
"""Maximum number of characters of a searched text; a longer one may take seconds."""

_TEXT_COST, _REPLACEMENT_COST = 32, 128
"""Work counted for each text, in addition to its characters, and for each replacement."""

_CacheKey = tuple[str, bool, tuple[Rule, ...], str | None]
"""Text, whether it is a key, the user's rules that apply, and the scope, or None if the result
is valid in all scopes because nothing was replaced."""
_Redacted = TypeVar("_Redacted")
_PartCache = ResultCache[tuple[bytes, str], object, tuple[str, str]]
Finder = Callable[["Engine", str, str, int], str]
"""A function of engine, text, place and depth that returns the text with tokens."""


class Engine:
    """Applies the rules, and remembers the values found.

    ``finders`` are called in order for each text, until it no longer changes. For keys, which
    programs must still recognize, only ``key_finders`` are called.
    """

    def __init__(
        self,
        rules: Rules,
        key: bytes,
        finders: tuple[Finder, ...],
        key_finders: tuple[Finder, ...],
        memory: Memory,
        linked: Mapping[str, str] | None = None,
    ) -> None:
        self.rules = rules
        self._tokens = Tokens(key, memory.values)
        self.work = RedactionBudget(memory.work)
        self.known = KnownValues(self._tokens, memory, self.work)
        self.scopes = Scopes(linked)
        self._event = 0
        self.scope = NAMES_SCOPE
        """The scope of the text being redacted."""
        self.tally = Tally()
        self.is_counting = True
        self._finders = finders
        self._key_finders = key_finders
        self._hosts = [
            compiled(glob(host.lower())) for host in (*HOSTS, *REGISTRIES, *rules.kept_hosts)
        ]
        self._values = frozenset(rules.kept_values)
        # Rules of the replacements in the text being redacted, to be cached with its result.
        self._rules_found: list[str] | None = None
        self._nesting = 0
        self._decoded: list[str] = []
        self._text_cache: ResultCache[_CacheKey, str, str] = ResultCache(memory.cached)
        # Values in which no other values were found.
        self._plain_values: RecentlyUsed[tuple[str, tuple[Rule, ...]], bool] = RecentlyUsed(
            memory.cached // 16
        )
        # Single fields, and messages of several fields. Few fields differ between the events of a
        # container.
        self._field_cache: _PartCache = ResultCache(memory.cached // 2)
        self._part_cache: _PartCache = ResultCache(memory.cached // 2)
        self._limits = memory
        self._remaining = memory.message
        # Rules and places of the replacements in a message part, to be cached with its result.
        self._part_log: list[tuple[str, str]] | None = None

    def unlink(self) -> None:
        """Begin another event, whose tokens must differ from those of earlier events."""
        self._event += 1

    def begin_message(self, *, is_part: bool = False) -> None:
        """Begin another message; ``is_part``: apply the work limit of a part."""
        self.work.spend(MESSAGE)
        self._remaining = self._limits.part if is_part else self._limits.message

    def is_exhausted(self) -> bool:
        """Return whether this message's work limit is used up, so its rest is not searched."""
        return (
            self._remaining < 0
            and self._rules_found is None
            and self.scope is not NAMES_SCOPE
            and self.is_on("long-texts")
        )

    def replace_rest(self, texts: Iterable[str], place: str) -> str:
        """Return one token for the rest of a list, and count it."""
        return self._replace_unsearched("\0".join(texts), place)

    def _replace_unsearched(self, value: str, place: str) -> str:
        self.count("long-texts", place)
        return self._tokens.token_for(value)

    def within(self, scope: Scope) -> _ScopeContext:
        """Return a context in which texts belong to this scope."""
        return _ScopeContext(self, scope)

    def enter(self, scope: Scope) -> None:
        """Set the scope of the following texts."""
        self.scope = scope
        if scope is NAMES_SCOPE:
            self.known.owners.enter(None)
        else:
            self.known.owners.enter(scope.pod if scope.pod.startswith("pod ") else ALL_PODS)
        is_unlinked = self._event and scope is not NAMES_SCOPE
        self._tokens.scope = f"{scope.name} in {self._event}" if is_unlinked else scope.name

    def is_on(self, rule: str) -> bool:
        """Return whether a rule of `builtin` is on."""
        return rule in self.rules.enabled

    def count(self, rule: str, place: str) -> None:
        """Count one replacement by ``rule``."""
        if self._rules_found is not None:
            self._rules_found.append(rule)
            return
        self._remaining -= _REPLACEMENT_COST
        if self._part_log is not None:
            self._part_log.append((rule, place))
        if self.is_counting:
            self.tally.add(rule, place)

    def replace(self, rule: str, value: str, strength: Strength, place: str) -> str:
        """Return the token for ``value`` and count it, unless ``value`` is already a token."""
        bare = value.strip()
        if not bare or is_token(bare) or value in self._values:
            return value
        if self.is_exhausted() and strength is not Strength.NAME:
            return self._replace_unsearched(value, place)
        self.count(rule, place)
        if len(value) > MAX_TEXT and self.is_on("long-texts"):
            # Not remembered: a text that contains it is itself too long to be searched.
            self.work.spend(len(value))
            return self._tokens.token_for(value, None)
        token = self.known.add(value, rule, strength)
        if bare != value:
            self.known.add(bare, rule, strength)
        return token

    def replace_whole(self, rule: str, value: str, strength: Strength, place: str) -> str:
        """Replace a value as `replace` does, after learning the values inside it."""
        if is_token(value.strip()):
            return value
        if self._rules_found is None:
            self._remaining -= len(value) + _TEXT_COST
        is_new = len(value) <= MAX_TEXT and not self.known.is_known(value, strength)
        if is_new and self._nesting < _MAX_NESTED and not self.is_exhausted():
            cache_key = value, self.user_rules_for(place, "")
            if cache_key not in self._plain_values:
                outer_rules, self._rules_found = self._rules_found, []
                self._nesting += 1
                try:
                    self.redact_text(value, place)
                    if not self._rules_found:
                        self._plain_values.put(cache_key, True, len(value) + _TEXT_COST)
                finally:
                    self._nesting -= 1
                    self._rules_found = outer_rules
        return self.replace(rule, value, strength, place)

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a host name stays visible."""
        host = host.lower().rstrip(".")
        return any(pattern.fullmatch(host) is not None for pattern in self._hosts)

    # -- the user's rules -------------------------------------------------------------------

    def user_rules_for(self, place: str, key: str) -> tuple[Rule, ...]:
        """Return the user's rules that apply to a value at ``place`` with ``key``."""
        rules = self.rules.user_rules
        return tuple(rule for rule in rules if rule.applies_to(place, key)) if rules else ()

    def apply_user_rules(self, value: str, place: str, key: str = "") -> str | None:
        """Return the value as a user's rule keeps or replaces it, or None if none applies."""
        if value in self._values:
            self.known.mark_visible(value)
            return value
        for rule in self.user_rules_for(place, key):
            pattern = rule.value_pattern
            if rule.action is Action.KEEP:
                if pattern is None or pattern.search(value) is not None:
                    self.known.mark_visible(value, self.scope.pod)
                    return value
            elif pattern is None and (rule.key or rule.path):
                return self.replace_whole(rule.name, value, Strength.SECRET, place)
        return None

    # -- texts ------------------------------------------------------------------------------

    def redact_text(self, text: str, place: str, depth: int = 0) -> str:
        """Return ``text`` with tokens in place of the values found."""
        return self._redact_cached(text, place, depth, is_key=False)

    def redact_key(self, key: str, place: str) -> str:
        """Redact a key or name with the few finders for keys."""
        return self._redact_cached(key, place, 0, is_key=True)

    def leaves_unchanged(self, name: str) -> bool:
        """Return whether `redact_key` currently leaves a name unchanged. Counts nothing."""
        outer_rules, self._rules_found = self._rules_found, []
        try:
            return self.redact_key(name, "") == name
        finally:
            self._rules_found = outer_rules

    def _redact_cached(self, text: str, place: str, depth: int, *, is_key: bool) -> str:
        if not text or is_token(text):
            return text
        if len(text) > MAX_TEXT and self.is_on("long-texts"):
            return self.replace("long-texts", text, Strength.PRIVATE, place)
        if depth > MAX_DEPTH:
            # Encoded too deeply: replaced without a search.
            return self.replace("unreadable", text, Strength.PRIVATE, place)
        if self._rules_found is None:
            # Also for a cached result: replacements must not depend on the state of the cache.
            self._remaining -= len(text) + _TEXT_COST
            if self.is_exhausted():
                return self._replace_unsearched(text, place)
        if depth:
            self._decoded.append(text)
        self.work.spend(TEXT_LOOKUP)
        known = self.known
        user_rules = self.user_rules_for(place, "")
        for scope in None, self._tokens.scope:
            cached = self._text_cache.get((text, is_key, user_rules, scope))
            if cached is not None and self._is_valid(cached):
                for rule in cached.replacements:
                    self.count(rule, place)
                return cached.text
        skipped = known.owners.skipped
        outer_rules, self._rules_found = self._rules_found, []
        outer_decoded, self._decoded = self._decoded, []
        try:
            redacted = self._redact_passes(text, place, depth, is_key=is_key)
            rules = tuple(self._rules_found)
            is_unchanged = redacted == text
            searched = "\n".join((text, *(() if is_unchanged else (redacted,)), *self._decoded))
            applies_to_all_pods = is_unchanged and known.owners.skipped == skipped
            self._text_cache.keep(
                (text, is_key, user_rules, None if applies_to_all_pods else self._tokens.scope),
                CachedResult(
                    redacted,
                    rules,
                    searched,
                    known.count,
                    known.epoch,
                    None if applies_to_all_pods else known.owners.late,
                ),
            )
            outer_decoded += self._decoded
        finally:
            self._rules_found, self._decoded = outer_rules, outer_decoded
        for rule in rules:
            self.count(rule, place)
        return redacted

    def _is_valid(
        self, cached: CachedResult[str, str] | CachedResult[object, tuple[str, str]]
    ) -> bool:
        known = self.known
        if cached.epoch != known.epoch or cached.late not in {None, known.owners.late}:
            return False
        if known.has_new(cached.searched, cached.known):
            return False
        cached.known = known.count
        return True

    @property
    def is_unbounded(self) -> bool:
        """Whether messages have no work limit, so that their parts do not affect each other."""
        return self._limits.part == self._limits.message == UNBOUNDED

    def redact_part(
        self, content: bytes, redact: Callable[[], _Redacted], *, is_field: bool = False
    ) -> _Redacted:
        """Return the result of ``redact`` for a part of a message, from the cache if possible.

        Many events repeat the same parts. ``content`` identifies the part.
        """
        self.work.spend(PART_LOOKUP + len(content) // 32)
        cache_key = content, self._tokens.scope
        parts = self._field_cache if is_field else self._part_cache
        cached = parts.get(cache_key)
        if cached is None or not self._is_valid(cached):
            before = self.known.count, self.known.epoch, self.known.owners.late
            left = self._remaining
            self._remaining = min(left, self._limits.part)
            start = self._remaining
            outer_log, self._part_log = self._part_log, []
            outer_decoded, self._decoded = self._decoded, []
            try:
                result = redact()
                decoded = content.decode("utf-8", "replace")
                cached = CachedResult[object, tuple[str, str]](
                    result,
                    tuple(self._part_log),
                    "\n".join((decoded, *self._decoded)),
                    *before,
                )
            finally:
                self._remaining = left - (start - self._remaining)
                if outer_log is not None:
                    outer_log += self._part_log
                self._part_log = outer_log
                outer_decoded += self._decoded
                self._decoded = outer_decoded
            parts.keep(cache_key, cached)
        else:
            if self.is_counting:
                self.tally.repeat(cached.replacements)
            if self._part_log is not None:
                # This part is inside another part that is being redacted.
                self._part_log += cached.replacements
                self._decoded.append(cached.searched)
        return cast("_Redacted", cached.text)

    def _redact_passes(self, text: str, place: str, depth: int, *, is_key: bool) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            # A lone surrogate, which can only originate from an escape in JSON.
            return self.replace("unreadable", text, Strength.PRIVATE, place)
        finders = self._key_finders if is_key else self._finders
        # A token may complete another match, and learning one value may reveal another.
        for _ in range(_MAX_ROUNDS):
            before = text, self.known.progress
            self.work.spend(TEXT + len(text))
            if not is_key and (self.rules.user_rules or self._values):
                replaced = self.apply_user_rules(text, place)
                if replaced is not None:
                    return replaced
                for rule in self.user_rules_for(place, ""):
                    if rule.value_pattern is not None and rule.action is Action.REPLACE:
                        text = self.replace_matches(rule, text, place)
            for find in finders:
                text = find(self, text, place, depth)
            text, rules = self.known.replace(text)
            for name in rules:
                self.count(name, place)
            if (text, self.known.progress) == before:
                break
        return text

    def replace_matches(self, rule: Rule, text: str, place: str) -> str:
        """Return ``text`` with tokens in place of the matches of a user's rule."""
        pattern = rule.value_pattern
        assert pattern is not None
        pieces: list[str] = []
        position = 0
        for match in pattern.finditer(text):
            group = 1 if pattern.groups and match[1] is not None else 0
            start, end = match.start(group), match.end(group)
            if start < position or start == end:
                continue
            pieces += (
                text[position:start],
                self.replace(rule.name, text[start:end], Strength.SECRET, place),
            )
            position = end
        return "".join((*pieces, text[position:]))


class _ScopeContext:
    """The context manager of `Engine.within`; entered often, so faster than a generator."""

    __slots__ = ("_before", "_engine", "_scope")

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope
        self._before = engine.scope

    def __enter__(self) -> None:
        self._engine.enter(self._scope)

    def __exit__(self, *_: object) -> None:
        self._engine.enter(self._before)
