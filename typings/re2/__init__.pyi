# SPDX-License-Identifier: Apache-2.0
# What we use of google-re2, which ships no types.
from typing import AnyStr, Generic

class error(Exception): ...

class Options:
    max_mem: int
    log_errors: bool

class _Match(Generic[AnyStr]): ...

class _Regexp(Generic[AnyStr]):
    def search(self, text: AnyStr) -> _Match[AnyStr] | None: ...

def compile(pattern: AnyStr, options: Options | None = None) -> _Regexp[AnyStr]: ...
