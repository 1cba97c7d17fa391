# SPDX-License-Identifier: Apache-2.0
"""Decide by a key whether its value is a credential, in 40 languages, or a node's name."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

from .harmless import is_plain, words
from .rules import compiled
from .tokens import is_token

_MAX_KEY = 200
"""Number of characters of a key, at its end, that are looked at."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[\W_]+")

_SURE = words(
    "pass passwd password passwords passphrase passphrases passcode passcodes pwd pwds pw secret "
    "secrets psk requirepass masterauth "
    # Other languages, also without their accents: password, and what else is kept secret.
    "passwort kennwort losungswort geheimnis zugangscode passe motdepasse mdp contraseña "
    "contrasena clave contrasenya contrasinal pasahitza senha segredo segreto secreto parola "
    "parolachiave wachtwoord toegangscode geheim lösenord losenord hemlighet adgangskode kodeord "
    "hemmelighed passord hemmelighet salasana salaisuus tunnussana lykilorð lykilord aðgangsorð "
    "hasło haslo sekret heslo tajemství tajemstvi tajomstvo jelszó jelszo titok parolă parole "
    "parool salasõna slaptažodis slaptazodis lozinka šifra sifra zaporka geslo skrivnost "
    "fjalëkalim fjalekalim fjalëkalimi şifre sifre şifrə gizli pasvorto nenosiri neno sandi "
    "katasandi rahasia matkhau khẩu cyfrinair pasfhocal "
    "пароль пароля секрет парола лозинка шифра тајна таємниця құпиясөз κωδικός κωδικος συνθηματικό "
    "μυστικό סיסמה סיסמא סוד المرور السر سر رمز گذرواژه पासवर्ड कूटशब्द गुप्त পাসওয়ার্ড গোপন "
    "கடவுச்சொல் პაროლი գաղտնաբառ"
)
_SURE_INSIDE = (
    *("password", "passwd", "passphrase", "secret", "passwort", "kennwort", "wachtwoord"),
    *("salasana", "lösenord", "пароль", "パスワード", "暗証番号", "合言葉", "密码", "密碼", "口令"),
    *("密钥", "密鑰", "비밀번호", "암호", "รหัสผ่าน", "нууц"),
)
"""Found anywhere in a part: PGPASSWORD, mysecretkey."""
_SURE_ENDINGS = ("pass", "pwd")
"""Found at the end of a part: dbpass, rootpwd; not in words with the same ending."""
_HARMLESS_PASS_WORDS = words("bypass compass encompass surpass trespass overpass underpass outpass")
_LIKELY = words(
    "token tokens credential credentials creds cred auth authorization authkey apikey cookie "
    "cookies jwt bearer signature sig dsn htpasswd dockercfg dockerconfigjson kubeconfig keytab "
    "webhook connectionstring connstr sessionid pat salt hmac pin otp totp pincode "
    "jeton schlüssel schluessel sleutel nyckel nøgle nøkkel avain klucz klíč klic kľúč kulcs cheie "
    "ključ kljuc anahtar chiave chave ключ κλειδί токен מפתח مفتاح کلید 令牌 토큰 トークン"
)
_LIKELY_INSIDE = ("apikey", "accesskey", "privatekey", "accountkey", "credential", "api密钥")
_LIKELY_ENDINGS = ("token", "tokens")
_PW_ENDING = re.compile(
    r"(?:admin|auth|bind|db|ftp|http|key|ldap|login|mail|my|mysql|new|old|pg|proxy|root|smb|smtp|"
    r"sql|ssh|svn|user|vnc|vpn){1,3}pw"
)
_KEY_PREFIXES = words(
    "access account admin api app application auth client consumer deploy deployment encryption "
    "host jwt license master private root secret server service session shared signing ssh sshrsa "
    "storage subscription tls user vault"
)
"""Words that name a credential if followed by ``key``."""
_PAIRS = frozenset({("connection", "string"), ("conn", "str"), ("session", "id")})
# The last part of keys that are about a credential, but whose value is not a credential.
_ATTRIBUTES = words(
    "file files filename path dir directory name names ttl expiry expiration expires timeout "
    "length size type count enabled disabled enable disable required policy mode provider issuer "
    "audience endpoint version format algorithm alg max min ref refs kind class method methods "
    "scope scopes url uri namespace reviewer ports port host hosts mount mounts domain realm "
    "scheme header headers rotation interval lifetime duration limit limits budget usage strategy "
    "driver backend level selector role roles status state encoding charset stdin fd"
)
_AMOUNT_WORDS = words("max min num total limit count maximum minimum")
"""The first part of keys whose value is an amount."""
_NO_CREDENTIALS = frozenset(
    {("initial", "cluster", "token"), ("etcd", "initial", "cluster", "token")}
)
"""These identify a cluster, and protect nothing."""
_PLURALS = words("credentials creds secrets tokens cookies passwords passwds passphrases pwds")
_PIN_WORDS = words("pin otp totp")
_NODE_KEYS = frozenset(
    {("node", "name"), ("nodename",), ("hostname", "override"), ("host", "name", "override")}
)
_EMPTY_WORDS = words("true false yes no on off null none nil")
PROSE_WORDS = frozenset({"secret", "secrets", "imagepullsecret", "imagepullsecrets"})
"""Keys that are words of sentences, too: secret "name" was not found."""
_REFERENCE = re.compile(
    # A variable in Kubernetes and in a shell, a placeholder, a mask.
    r"\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)|\$(?:[A-Z_][A-Z0-9_]*|\{[A-Z_][A-Z0-9_]*\}|[0-9@*?])"
    r"|\*+|<[a-z-]{1,20}>|%[sdvq]"
)
_PATH = re.compile(r"/[A-Za-z0-9._@+~-]{1,40}(?:/[A-Za-z0-9._@+~-]{1,40}){1,24}/?")


# Every key of a credential contains one of these; RE2 finds out in a microsecond that most keys
# contain none.
_HINTS = (*_SURE, *_SURE_INSIDE, *_SURE_ENDINGS, *_LIKELY, *_LIKELY_INSIDE)
_HINT = compiled("|".join(map(re.escape, sorted({*_HINTS, "pw", "key", "conn", "session"}))))

_ID = re.compile(r"[0-9a-f-]+")
"""Ids have none of them, which takes longer to find out."""

_MAX_PIN_DIGITS = 3
"""Maximum number of digits of a harmless number for a key such as ``pin``: PINs have four."""
_MAX_SETTING_DIGITS = 5
"""The same for other keys: ports, seconds and counts rarely have more."""


class Certainty(IntEnum):
    """How certain it is that the value of a key is a credential."""

    NONE = 0
    LIKELY = 1
    """Likely, except for numbers and words of configuration: ``auth: basic``,
    ``--max-tokens=4096``."""
    SURE = 2
    """Certain for any value: ``password: 4096``."""


def _parts(key: str) -> tuple[str, ...]:
    """Return the words of a key in small letters, without digits at their ends ("PASS1")."""
    found = (
        part.rstrip("0123456789").lower()
        for word in _SEPARATORS.split(key[-_MAX_KEY:])
        for part in _CAMEL.split(word)
    )
    return tuple(part for part in found if part)


def certainty_of(key: str) -> Certainty:
    """Return how certain it is that the value of a key is a credential."""
    return _certainty_of(key[-_MAX_KEY:])


@lru_cache(maxsize=1 << 15)
def _certainty_of(key: str) -> Certainty:
    if _ID.fullmatch(key) is not None or _HINT.search(key.lower()) is None:
        return Certainty.NONE
    parts = _parts(key)
    if parts in _NO_CREDENTIALS or not parts:
        return Certainty.NONE
    if parts[-1] in _ATTRIBUTES:
        return Certainty.NONE
    certainty = max(map(_certainty_of_part, parts))
    if certainty is Certainty.NONE and any(
        pair in _PAIRS or (pair[1] in {"key", "keys"} and pair[0] in _KEY_PREFIXES)
        for pair in pairwise(parts)
    ):
        return Certainty.LIKELY
    return certainty


def _certainty_of_part(part: str) -> Certainty:
    if (
        part in _SURE
        or any(word in part for word in _SURE_INSIDE)
        or (part.endswith(_SURE_ENDINGS) and part not in _HARMLESS_PASS_WORDS)
        or _PW_ENDING.fullmatch(part) is not None
    ):
        return Certainty.SURE
    if (
        part in _LIKELY
        or any(word in part for word in _LIKELY_INSIDE)
        or part.endswith(_LIKELY_ENDINGS)
        or (part.endswith("key") and part[:-3] in _KEY_PREFIXES)
    ):
        return Certainty.LIKELY
    return Certainty.NONE


def names_attribute(key: str) -> bool:
    """Return whether the value of such a key describes something: a name, a path, a time."""
    parts = _parts(key)
    return bool(parts) and parts[-1] in _ATTRIBUTES


def must_replace(key: str, value: str, certainty: Certainty) -> bool:
    """Return whether to replace the value of a key whose certainty is given."""
    bare = value.strip()
    if (
        certainty is Certainty.NONE
        or not bare
        or bare.lower() in _EMPTY_WORDS
        or is_token(bare)
        or _REFERENCE.fullmatch(bare) is not None
        # The shell's variables; in a connection string, it is a password.
        or (key in {"PWD", "OLDPWD"} and bare[0] == "/")
    ):
        return False
    if certainty is Certainty.SURE:
        return True
    if all(map(is_plain, bare.split(","))):
        # --auth=ldap,token, --max-tokens=4096, pin: 1234
        is_pin = not _PIN_WORDS.isdisjoint(_parts(key))
        max_digits = _MAX_PIN_DIGITS if is_pin else _MAX_SETTING_DIGITS
        is_digit = str.isalnum if bare[1:2] in {"x", "X"} else str.isdigit
        return sum(map(is_digit, bare)) > max_digits and not _names_amount(key)
    return _PATH.fullmatch(bare) is None


def _names_amount(key: str) -> bool:
    parts = _parts(key)
    return bool(parts) and (parts[-1] == "tokens" or parts[0] in _AMOUNT_WORDS)


def certainty_below(key: str, above: Certainty = Certainty.NONE) -> Certainty:
    """Return the certainty of everything in a map or list that is the value of a key."""
    parts = _parts(key)
    if parts and parts[-1] in _ATTRIBUTES:
        return Certainty.NONE
    return max(above, certainty_of(key) if not parts or parts[-1] in _PLURALS else Certainty.NONE)


def names_group(key: str) -> bool:
    """Return whether the value of such a key has several credentials, each with any key."""
    parts = _parts(key)
    return not _PLURALS.isdisjoint(parts) and parts[-1] not in _ATTRIBUTES


def names_node(key: str) -> bool:
    """Return whether the value of such a key is a node's name."""
    parts = _parts(key)
    return any(parts[-length:] in _NODE_KEYS for length in (1, 2, 3))
