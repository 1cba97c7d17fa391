# SPDX-License-Identifier: Apache-2.0
"""The state of redaction (rules, known values, counts), and its passes over each text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from nri_scope.recording.cache import RecentlyUsed

from .harmless import HOSTS, REGISTRIES
from .known_values import KnownValues, Strength
from .memory_limits import UNBOUNDED, CachedResult, Memory, ResultCache
from .re2_patterns import compiled, glob
from .rules import Action, Rule, Rules
from .scope import NAMES_SCOPE, Scope, Scopes
from .tally import Tally
from .tokens import Tokens, is_token
from .value_owners import ALL_PODS
from .work_limit import MESSAGE, TEXT, WorkLimit

MAX_DEPTH = 4
"""Maximum nesting of texts, such as JSON in base64 in JSON."""
_MAX_ROUNDS = 6
_MAX_NESTED = 3
"""Maximum nesting of values inside values that are replaced as a whole."""
MAX_TEXT = 65_536
"""Maximum number of characters of a searched text; a longer one may take seconds."""

_TEXT_COST, _REPLACEMENT_COST = 32, 128
"""Work per text in addition to its characters, and per replacement."""

_TEXT_LOOKUP, _PART_LOOKUP = 20, 50
"""Units of `work_limit` for a text, and for a part of a message, that was redacted before."""

_CacheKey = tuple[str, bool, tuple[Rule, ...], str | None]
"""The scope is None if the answer applies to all scopes because nothing was replaced."""
_Redacted = TypeVar("_Redacted")
_PartCache = ResultCache[tuple[bytes, str], object, tuple[str, str]]
Finder = Callable[["Engine", str, str, int], str]
"""A function of engine, text, place and depth that returns the text with tokens."""


class Engine:
    """Applies the rules, and remembers the values found.

    ``finders`` are called for texts, in order, until the text no longer changes; ``key_finders``
    for keys, which programs should still be able to recognize.
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
        self.work = WorkLimit(memory.work)
        self.known = KnownValues(self._tokens, memory, self.work)
        self.scopes = Scopes(linked)
        self._event = 0
        self.scope = NAMES_SCOPE
        """The scope of the text being redacted."""
        self.tally = Tally()
        self.is_counting = True
        self._finders = finders
        self._key_finders = key_finders
        self._hosts = [compiled(glob(host.lower())) for host in (*HOSTS, *REGISTRIES, *rules.hosts)]
        self._values = frozenset(rules.values)
        # Rules of the values found in a text whose answer will be cached.
        self._found: list[str] | None = None
        self._within = 0
        self._unpacked: list[str] = []
        self._remembered: ResultCache[_CacheKey, str, str] = ResultCache(memory.cached)
        # Values in which no other values were found.
        self._empty: RecentlyUsed[tuple[str, tuple[Rule, ...]], bool] = RecentlyUsed(
            memory.cached // 16
        )
        # Fields, and what contains fields. Few fields differ between the events of a container.
        self._fields: _PartCache = ResultCache(memory.cached // 2)
        self._wholes: _PartCache = ResultCache(memory.cached // 2)
        self._memory = memory
        self._left = memory.message
        # Rules and places of the values found in a message part whose answer will be cached.
        self._log: list[tuple[str, str]] | None = None

    def unlink(self) -> None:
        """Begin another event, whose tokens must not be linkable to earlier tokens."""
        self._event += 1

    def begin_message(self, *, is_part: bool = False) -> None:
        """Begin another message; ``is_part``: only about one container."""
        self.work.spend(MESSAGE)
        self._left = self._memory.part if is_part else self._memory.message

    def is_spent(self) -> bool:
        """Return whether this message has used up its work limit, so the rest is not searched."""
        return (
            self._left < 0
            and self._found is None
            and self.scope is not NAMES_SCOPE
            and self.is_on("long-texts")
        )

    def rest(self, texts: Iterable[str], place: str) -> str:
        """Return a single token for the rest of a list."""
        return self._unseen("\0".join(texts), place)

    def _unseen(self, value: str, place: str) -> str:
        self.hit("long-texts", place)
        return self._tokens.of(value)

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
        own = self._event and scope is not NAMES_SCOPE
        self._tokens.scope = f"{scope.name} in {self._event}" if own else scope.name

    def is_on(self, rule: str) -> bool:
        """Return whether a rule of `builtin` is on."""
        return rule in self.rules.on

    def hit(self, rule: str, place: str) -> None:
        """Count one replacement."""
        if self._found is not None:
            self._found.append(rule)
            return
        self._left -= _REPLACEMENT_COST
        if self._log is not None:
            self._log.append((rule, place))
        if self.is_counting:
            self.tally.add(rule, place)

    def put(self, rule: str, value: str, strength: Strength, place: str) -> str:
        """Return the token for ``value`` and count it, unless ``value`` is already a token."""
        bare = value.strip()
        if not bare or is_token(bare) or value in self._values:
            return value
        if self.is_spent() and strength is not Strength.NAME:
            return self._unseen(value, place)
        self.hit(rule, place)
        if len(value) > MAX_TEXT and self.is_on("long-texts"):
            # A text that contained it would be replaced as a whole: there is nothing to search for.
            self.work.spend(len(value))
            return self._tokens.of(value, None)
        token = self.known.add(value, rule, strength)
        if bare != value:
            self.known.add(bare, rule, strength)
        return token

    def whole(self, rule: str, value: str, strength: Strength, place: str) -> str:
        """Replace a value as `put` does, after learning the values inside it."""
        if is_token(value.strip()):
            return value
        if self._found is None:
            self._left -= len(value) + _TEXT_COST
        is_new = len(value) <= MAX_TEXT and not self.known.is_known(value, strength)
        if is_new and self._within < _MAX_NESTED and not self.is_spent():
            question = value, self.asked(place, "")
            if question not in self._empty:
                found, self._found = self._found, []
                self._within += 1
                try:
                    self.text(value, place)
                    if not self._found:
                        self._empty.put(question, True, len(value) + _TEXT_COST)
                finally:
                    self._within -= 1
                    self._found = found
        return self.put(rule, value, strength, place)

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a host name may be shown."""
        host = host.lower().rstrip(".")
        return any(pattern.fullmatch(host) is not None for pattern in self._hosts)

    # -- the user's rules -------------------------------------------------------------------

    def asked(self, place: str, key: str) -> tuple[Rule, ...]:
        """Return the user's rules for a value; rules for keys apply only to values with a key."""
        rules = self.rules.rules
        return tuple(rule for rule in rules if rule.fits(place, key)) if rules else ()

    def by_user(self, value: str, place: str, key: str = "") -> str | None:
        """Return the result of the user's rules for a value, or None if none applies."""
        if value in self._values:
            self.known.show(value)
            return value
        for rule in self.asked(place, key):
            pattern = rule.pattern
            if rule.action is Action.KEEP:
                if pattern is None or pattern.search(value) is not None:
                    self.known.show(value, self.scope.pod)
                    return value
            elif pattern is None and (rule.key or rule.path):
                return self.whole(rule.name, value, Strength.SECRET, place)
        return None

    # -- texts ------------------------------------------------------------------------------

    def text(self, text: str, place: str, depth: int = 0) -> str:
        """Return ``text`` with tokens in place of the values found."""
        return self._remember(text, place, depth, is_key=False)

    def key(self, key: str, place: str) -> str:
        """Redact a key or name, using only reliable signs of a secret."""
        return self._remember(key, place, 0, is_key=True)

    def keeps(self, name: str) -> bool:
        """Return whether a name currently stays unchanged. Counts nothing."""
        found, self._found = self._found, []
        try:
            return self.key(name, "") == name
        finally:
            self._found = found

    def _remember(self, text: str, place: str, depth: int, *, is_key: bool) -> str:
        if not text or is_token(text):
            return text
        if len(text) > MAX_TEXT and self.is_on("long-texts"):
            return self.put("long-texts", text, Strength.PRIVATE, place)
        if depth > MAX_DEPTH:
            # Text that is encoded at this depth is replaced without a search.
            return self.put("unreadable", text, Strength.PRIVATE, place)
        if self._found is None:
            # Also for a cached answer: replacements must not depend on the cache.
            self._left -= len(text) + _TEXT_COST
            if self.is_spent():
                return self._unseen(text, place)
        if depth:
            self._unpacked.append(text)
        self.work.spend(_TEXT_LOOKUP)
        known = self.known
        asked = self.asked(place, "")
        for scope in None, self._tokens.scope:
            answer = self._remembered.get((text, is_key, asked, scope))
            if answer is not None and self._is_valid(answer):
                for rule in answer.found:
                    self.hit(rule, place)
                return answer.text
        skipped = known.owners.skipped
        found, self._found = self._found, []
        unpacked, self._unpacked = self._unpacked, []
        try:
            given = self._redacted(text, place, depth, is_key=is_key)
            rules = tuple(self._found)
            is_same = given == text
            looked_at = "\n".join((text, *(() if is_same else (given,)), *self._unpacked))
            is_of_all = is_same and known.owners.skipped == skipped
            self._remembered.keep(
                (text, is_key, asked, None if is_of_all else self._tokens.scope),
                CachedResult(
                    given,
                    rules,
                    looked_at,
                    known.count,
                    known.epoch,
                    None if is_of_all else known.owners.late,
                ),
            )
            unpacked += self._unpacked
        finally:
            self._found, self._unpacked = found, unpacked
        for rule in rules:
            self.hit(rule, place)
        return given

    def _is_valid(
        self, answer: CachedResult[str, str] | CachedResult[object, tuple[str, str]]
    ) -> bool:
        known = self.known
        if answer.epoch != known.epoch or answer.late not in {None, known.owners.late}:
            return False
        if known.has_new(answer.looked_at, answer.known):
            return False
        answer.known = known.count
        return True

    @property
    def is_unbounded(self) -> bool:
        """Whether messages have no work limit, so that their parts do not affect each other."""
        return self._memory.part == self._memory.message == UNBOUNDED

    def part(
        self, content: bytes, redacted: Callable[[], _Redacted], *, is_field: bool = False
    ) -> _Redacted:
        """Return the redacted form of a message part that many events repeat, cached if possible.

        ``content`` identifies the part; ``redacted`` does the work if it is not in the cache.
        """
        self.work.spend(_PART_LOOKUP + len(content) // 32)
        question = content, self._tokens.scope
        parts = self._fields if is_field else self._wholes
        answer = parts.get(question)
        if answer is None or not self._is_valid(answer):
            before = self.known.count, self.known.epoch, self.known.owners.late
            left = self._left
            self._left = min(left, self._memory.part)
            begun = self._left
            outer, self._log = self._log, []
            unpacked, self._unpacked = self._unpacked, []
            try:
                given = redacted()
                read = content.decode("utf-8", "replace")
                answer = CachedResult[object, tuple[str, str]](
                    given,
                    tuple(self._log),
                    "\n".join((read, *self._unpacked)),
                    *before,
                )
            finally:
                self._left = left - (begun - self._left)
                if outer is not None:
                    outer += self._log
                self._log = outer
                unpacked += self._unpacked
                self._unpacked = unpacked
            parts.keep(question, answer)
        else:
            if self.is_counting:
                self.tally.repeat(answer.found)
            if self._log is not None:
                # This text is in a part that is being redacted.
                self._log += answer.found
                self._unpacked.append(answer.looked_at)
        return cast("_Redacted", answer.text)

    def _redacted(self, text: str, place: str, depth: int, *, is_key: bool) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair, which can only originate from JSON.
            return self.put("unreadable", text, Strength.PRIVATE, place)
        finders = self._key_finders if is_key else self._finders
        # A token may complete another match, and one secret may reveal another one.
        for _ in range(_MAX_ROUNDS):
            before = text, self.known.progress
            self.work.spend(TEXT + len(text))
            if not is_key and (self.rules.rules or self._values):
                given = self.by_user(text, place)
                if given is not None:
                    return given
                for asked in self.asked(place, ""):
                    if asked.pattern is not None and asked.action is Action.REPLACE:
                        text = self.replaced(asked, text, place)
            for find in finders:
                text = find(self, text, place, depth)
            text, rules = self.known.replace(text)
            for rule in rules:
                self.hit(rule, place)
            if (text, self.known.progress) == before:
                break
        return text

    def replaced(self, rule: Rule, text: str, place: str) -> str:
        """Return ``text`` with tokens in place of the matches of a user's rule."""
        pattern = rule.pattern
        assert pattern is not None
        pieces: list[str] = []
        at = 0
        for match in pattern.finditer(text):
            group = 1 if pattern.groups and match[1] is not None else 0
            start, end = match.start(group), match.end(group)
            if start < at or start == end:
                continue
            pieces += text[at:start], self.put(rule.name, text[start:end], Strength.SECRET, place)
            at = end
        return "".join((*pieces, text[at:]))


class _ScopeContext:
    """The context of `Engine.within`: entered for each name and id, so not a slower generator."""

    __slots__ = ("_before", "_engine", "_scope")

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope
        self._before = engine.scope

    def __enter__(self) -> None:
        self._engine.enter(self._scope)

    def __exit__(self, *_: object) -> None:
        self._engine.enter(self._before)
