"""Find credentials in a text, and replace them.

Knows texts only: nothing of files, records or scopes. A result gives the kind and position of a secret, never
its value, so that nothing built on it can print a secret.

Time is linear in the text. Every search starts at a literal that `str.find` looks for; the match from there
is bounded (`_WINDOW`, and the widths in the patterns) until it is accepted, and accepted text is not read
again. The function `clues` finds once, for a whole text, which of these literals it contains; a caller with
many parts of one text, such as the strings in a line of JSON, passes the clues of the whole line.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import SecretFound
from vademecum.named_tuple import NamedTuple
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Secret(NamedTuple):
    """The kind of a secret and its position; `start` and `end` are offsets into the text."""

    kind: str
    start: int
    end: int


def find(text: str, among: Clues | None = None) -> list[Secret]:
    """Return the secrets of a text in order, none overlapping, each as wide as the whole value.

    `among` are the clues that `clues` found in a larger text of which this text is a part.
    """
    clue = clues(text) if among is None else among
    if not any(clue):
        return []
    found: list[Secret] = []
    marks = [match.span() for match in _re(_MARK).finditer(text)] if clue.marked else []
    pending = _between(0, len(text), marks)
    # What a redaction leaves on both sides is looked at again, alone, so that a redacted text is clean: a
    # replaced value can turn its neighbour into one. Two rounds are the rule; the cap keeps the time linear.
    for _ in range(_ROUNDS):
        cut: list[tuple[int, int]] = []
        for start, end in pending:
            hits = [Secret(kind, start + a, start + b) for kind, a, b in _scan(text[start:end], clue)]
            if hits:
                found += hits
                cut += _between(start, end, [(hit.start, hit.end) for hit in hits])
        if not cut:
            break
        pending = cut
    return sorted(found, key=lambda secret: secret.start)


def redact(text: str, secrets: Sequence[Secret]) -> str:
    """Return a text with `[REDACTED:kind]` in place of each secret."""
    parts: list[str] = []
    at = 0
    for secret in sorted(secrets, key=lambda secret: secret.start):
        parts += [text[at : secret.start], f"[REDACTED:{secret.kind}]"]
        at = secret.end
    return "".join([*parts, text[at:]])


def mark(text: str, secrets: Sequence[Secret]) -> str:
    """Return a text with a note of its kind after each secret; the secrets themselves stay."""
    parts: list[str] = []
    at = 0
    for secret in sorted(secrets, key=lambda secret: secret.start):
        parts += [text[at : secret.end], f" ⟨secret: {secret.kind}⟩"]
        at = secret.end
    return "".join([*parts, text[at:]])


def gate(text: str, policy: SecretPolicy, among: Clues | None = None) -> tuple[str, tuple[str, ...]]:
    """Return a text as the policy lets it be saved, and the kinds of secrets in it; raise if it
    is refused.
    """
    secrets = find(text, among)
    if not secrets:
        return text, ()
    kinds = tuple(sorted({secret.kind for secret in secrets}))
    if policy is SecretPolicy.REFUSE:
        raise SecretFound(f"the text contains what looks like a secret: {_places(text, secrets)}")
    if policy is SecretPolicy.REDACT:
        text = redact(text, secrets)
    return text, kinds


def _places(text: str, secrets: Iterable[Secret]) -> str:
    """Return in words which kinds of secrets stand on which lines of a text."""
    lines: dict[str, list[int]] = {}
    line, at = 1, 0
    for secret in secrets:
        line, at = line + text.count("\n", at, secret.start), secret.start
        if line not in lines.setdefault(secret.kind, []):
            lines[secret.kind].append(line)
    return "; ".join(
        f"{kind} (line{'s' if len(where) > 1 else ''} {', '.join(map(str, where))})"
        for kind, where in sorted(lines.items())
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- what is known by its own shape -------------------------------------------------------------------------


class _Form(NamedTuple):
    """A credential with a known shape: its pattern is tried where one of its anchor texts stands."""

    kind: str
    meaning: str
    anchors: str  # separated by blanks; they double as the prefilter
    pattern: str  # a group named `secret` narrows what is replaced
    edge: bool  # whether a letter or digit before the anchor means that it is part of a longer word
    jumbled: bool  # whether the prefix is so short that the rest must look random
    left: bool  # whether the value begins before the anchor
    typed: bool  # whether a person chose the value, so that a variable or a sample may stand there
    example: str  # made up, with places for random characters


RULES = Path(__file__).with_name("secret_rules.txt")  # its head says what the columns are
_W = r"[A-Za-z0-9_-]"
_CLASSES = (
    ("<W>", _W),
    ("<A>", "[A-Za-z0-9]"),
    ("<B>", "[A-Za-z0-9+/]"),
    ("<H>", "[0-9a-f]"),
    ("<D>", "[0-9]"),
)


def read_rules(text: str) -> tuple[_Form, ...]:
    """Return the rules in the text of a rule list, in the order of the list."""
    rows = (line.split("  ") for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_rule([column.strip() for column in row if column]) for row in rows)


def _rule(columns: list[str]) -> _Form:
    kind, meaning, flags, anchors, pattern, example = columns
    for short, full in _CLASSES:
        pattern = pattern.replace(short, full)
    options = flags.split(",")
    return _Form(
        kind,
        "" if meaning == "-" else meaning,
        anchors,
        pattern,
        edge="inside" not in options,
        jumbled="jumbled" in options,
        left="left" in options,
        typed="typed" in options,
        example=example,
    )


_FORMS = read_rules(RULES.read_text("utf-8"))

_OTHERS = (
    ("discord-token", "Discord bot token"),
    ("private-key", "private key in PEM, OpenSSH, PGP or PuTTY form, also with escaped line ends"),
    ("gcp-service-account", "private key in a Google service account file"),
    ("url-password", "password in an address (`scheme://user:password@host`, `curl -u user:password`)"),
    ("aws-secret-key", "AWS secret access key or session token, by the name it is assigned to"),
    ("password", "password or passphrase, by the name it is assigned to"),
    ("secret", "client, signing or other secret, by the name it is assigned to"),
    ("api-key", "API, access or encryption key, by the name it is assigned to"),
    ("token", "token or credential, by the name it is assigned to or as an authorization header"),
)

# Providers whose keys have no shape of their own: the name that they are assigned to tells.
_PROVIDERS = {
    name: (f"{name}-credential", f"{title} credential, by the name it is assigned to")
    for name, title in (
        ("azure", "Azure"),
        ("bitbucket", "Bitbucket"),
        ("cloudflare", "Cloudflare"),
        ("cohere", "Cohere"),
        ("datadog", "Datadog"),
        ("deepgram", "Deepgram"),
        ("heroku", "Heroku"),
        ("mailgun", "Mailgun"),
        ("mistral", "Mistral"),
        ("okta", "Okta"),
        ("twilio", "Twilio"),
        ("vercel", "Vercel"),
        ("wandb", "Weights & Biases"),
    )
}

KINDS: tuple[tuple[str, str], ...] = (
    *((form.kind, form.meaning) for form in _FORMS if form.meaning),
    *_OTHERS,
    *_PROVIDERS.values(),
)

# --- the scan -----------------------------------------------------------------------------------------------

_ROUNDS = 32
_SHORTEST = 20  # of what has a shape of its own: an AWS access key id
_WINDOW = 128  # how much of a value is read before it is accepted
_JUDGED = 64  # how much of that is looked at letter by letter; enough to tell words from chance
_MARK = r"\[REDACTED:[a-z0-9-]{1,40}\]"
_HIDDEN = "[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"


class _Hit(NamedTuple):
    rank: int  # the lower, the more is known about it
    kind: str
    start: int
    end: int


_RANKS = {kind: rank for rank, (kind, _) in enumerate(KINDS)}


@cache
def _re(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern, compiled on first use, so that importing this module compiles nothing."""
    return re.compile(pattern)


def _between(start: int, end: int, holes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the stretches from `start` to `end` that lie outside the holes."""
    edges = [start, *(edge for hole in holes for edge in hole), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def _scan(text: str, clue: Clues) -> list[tuple[str, int, int]]:
    """Return the secrets of a text; overlapping matches become one, of the kind that is known best."""
    hits = list(_look(text, clue))
    if clue.hidden and not text.isascii() and _re(_HIDDEN).search(text):
        # Characters that nobody sees can split a secret; each find is mapped back over what was left out.
        holes = [match.span() for match in _re(_HIDDEN).finditer(text)]
        seen = _between(0, len(text), holes)
        positions = [at for start, end in seen for at in range(start, end)]
        plain = "".join([text[start:end] for start, end in seen])
        hits += [
            hit._replace(start=positions[hit.start], end=positions[hit.end - 1] + 1)
            for hit in _look(plain, clue)
        ]
    hits.sort(key=lambda hit: hit.start)
    united: list[_Hit] = []
    for hit in hits:
        if united and hit.start < united[-1].end:
            last = united[-1]
            united[-1] = _Hit(*min(last[:2], hit[:2]), last.start, max(last.end, hit.end))
        else:
            united.append(hit)
    return [(hit.kind, hit.start, hit.end) for hit in united]


def _look(text: str, clue: Clues) -> Iterator[_Hit]:
    if clue.anchored:
        yield from _find_formed(text, clue.anchored)
    if clue.dotted:
        yield from _find_discord_tokens(text)
    if clue.keyed:
        yield from _find_key_blocks(text)
    if clue.addressed:
        yield from _find_in_addresses(text)
    if clue.stems:
        yield from _find_assigned(text, clue.stems)


def _hit(kind: str, start: int, end: int) -> _Hit:
    return _Hit(_RANKS[kind], kind, start, end)


def _occurrences(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _starts_word(text: str, at: int) -> bool:
    """Whether a word can begin here: no letter or digit is right before, except in an escaped line end."""
    before = text[at - 1 : at]
    return not (before.isascii() and before.isalnum()) or text[max(at - 2, 0) : at] in ("\\n", "\\r", "\\t")


def _find_formed(text: str, anchored: Iterable[tuple[_Form, str]]) -> Iterator[_Hit]:
    """Yield the credentials that have a shape of their own, such as a fixed prefix."""
    for form, anchor in anchored:
        past = 0
        for at in _occurrences(text, anchor):
            if at < past or (form.edge and not _starts_word(text, at)):
                continue
            match = _re(form.pattern).match(text, at)
            if match is None:
                continue
            start, end = match.span("secret" if match.re.groups else 0)
            if form.left:
                start = _widen_left(text, start)
            value = text[start : min(end, start + _WINDOW)]
            if _is_sample(value) or (form.jumbled and _is_wordy(text[start:end])):
                continue
            if form.typed and (_is_code(value, "=") or not _could_be_address_password("", value)):
                continue
            past = _widen_right(text, end)
            yield _hit(form.kind, start, past)


def _find_discord_tokens(text: str) -> Iterator[_Hit]:
    """Yield the tokens of Discord, whose only fixed characters are the dots between their three parts."""
    for match in _re(rf"\.(?={_W}{{6}}\.({_W}{{27,60}}+))").finditer(text):
        start = _widen_left(text, match.start())
        if match.start() - start >= 23 and not _is_wordy(text[start : match.end(1)]):
            yield _hit("discord-token", start, _widen_right(text, match.end(1)))


def _widen_left(text: str, at: int) -> int:
    """Return where the value around this position begins, at most as far left as the longest known value."""
    floor = max(at - 90, 0)
    while at > floor and (text[at - 1] in "_-~" or (text[at - 1].isascii() and text[at - 1].isalnum())):
        at -= 1
    return at


def _widen_right(text: str, at: int) -> int:
    """Return where the word around this position ends, so that no rest of a value stays unredacted."""
    match = _re(rf"{_W}*+").match(text, at)
    return match.end() if match else at


# --- private keys -------------------------------------------------------------------------------------------

_GAP = r"(?:[\s\"'`+,>|#*]|\\++[nrt\"'])*+"
_KEY_BEGIN = (
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-[0-9]:[^\n]{0,80}+"
)
_KEY_LINE = (
    rf"{_GAP}(?:(?P<body>[A-Za-z0-9+/]{{20,}}+={{0,2}})"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Encryption|Hash|Charset|Subject|"
    r"Public-Lines|Private-Lines|Private-MAC|Key-Derivation|Argon2-[A-Za-z]{3,12}):(?:(?![A-Za-z0-9+/]{40})[^\n\\]){0,200}+)"
)
_KEY_END = (
    rf"{_GAP}(?:[A-Za-z0-9+/]{{1,19}}+={{0,2}}{_GAP})?(?:=[A-Za-z0-9+/]{{4}}{_GAP})?"
    r"(?:-{4,5} ?END [A-Z0-9 ]{3,50}-{4,5})?"
)


_KEY_ANCHORS = ("---- BEGIN ", "-----BEGIN ", "PuTTY-User-Key-File-")


def _find_key_blocks(text: str) -> Iterator[_Hit]:
    """Yield private key blocks, whole or cut off; a lone header line, as in prose, is no key."""
    past = 0
    for anchor in _KEY_ANCHORS:
        for at in _occurrences(text, anchor):
            begin = _re(_KEY_BEGIN).match(text, at)
            if begin is None or at < past:
                continue
            end, body = begin.end(), False
            while line := _re(_KEY_LINE).match(text, end):
                end, body = line.end(), body or line["body"] is not None
            if body:
                rest = _re(_KEY_END).match(text, end)
                # An end line proves that what stands before it is of the key; without one it may be prose.
                if rest and "END " in text[max(rest.end() - 60, end) : rest.end()]:
                    end = rest.end()
                past = end
                google = re.search(r"private_key\\?[\"']\s{0,4}:", text[max(at - 30, 0) : at])
                yield _hit("gcp-service-account" if google else "private-key", at, end)


# --- passwords in addresses ---------------------------------------------------------------------------------

_ADDRESS = r"://(?P<user>[^\s/?#:@\"'<>`]{0,100}+):(?P<secret>[^\s/@\"'<>`]{4,200}+)@(?=[\w\[$.])"
_CURL_USER = r"(?:-u|--user)[ =]{1,3}[\"']?(?P<user>[^\s:\"'`$<]{1,64}+):(?P<secret>[^\s\"'`]{4,128}+)"


def _find_in_addresses(text: str) -> Iterator[_Hit]:
    """Yield passwords in `scheme://user:password@host` and `curl -u user:password`."""
    anchors = [("://", _ADDRESS)] if "@" in text else []
    if "curl" in text:
        anchors += [(" -u", r" " + _CURL_USER), (" --user", r" " + _CURL_USER)]
    for anchor, pattern in anchors:
        for at in _occurrences(text, anchor):
            match = _re(pattern).match(text, at)
            if match and _could_be_address_password(match["user"], match["secret"]):
                yield _hit("url-password", *match.span("secret"))


def _could_be_address_password(user: str, value: str) -> bool:
    """Whether the text in the place of a password is a password, not a port, a sample or a variable."""
    port = _re(r"[0-9]{1,5}(?:[?#]|$)").match(value)
    reference = _re(r"[$%{\[(*.]").match(value)
    return not (port or reference or value == user or _is_filler(value) or _is_sample(value))


# --- values that a name makes secret ------------------------------------------------------------------------

# Literals that names of secrets contain. Looked for in lower case.
_PASSWORDS_ELSEWHERE = ("kennwort", "contraseña", "пароль", "密码", "密碼", "パスワード", "비밀번호")
_STEMS = (
    "pass",
    "pwd",
    "pw",
    "secret",
    "token",
    "key",
    "auth",
    "bearer",
    "credential",
    *_PASSWORDS_ELSEWHERE,
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd", "passwort", *_PASSWORDS_ELSEWHERE)
_AUTHS = _words("auth authorization bearer credential credentials")
# What makes a key a secret one: `api_key`, but not `sort_key`.
_KEY_WORDS = _words("""
    access account admin anthropic api app application auth client database db deploy encrypt encryption
    gemini groq hmac jwt license master openai private project root secret service session shared sign
    signing storage subscription webhook
""")
# Words that may follow the noun without changing what it is: `DB_PASSWORD_PROD`.
_SUFFIXES = _words("""
    b64 backup base base64 current default dev development header hex live local main new old plain prod
    production raw stage staging test testing value
""")
# Words that make the whole name harmless: `next_page_token`, `public_key`.
_HARMLESS = _words("""
    bos cancel cancellation continuation count csrf eos error expires hash hashed hint idempotency label
    mask max min next num pad page placeholder policy prev previous pub public special stop sync unk xsrf
""")

_NAME_REST = r"[A-Za-z0-9_-]{0,40}+"
_SPACE = r"[ \t]{0,8}"
_TYPE = r"&?[A-Za-z_][A-Za-z0-9_.|\[\]<>?]{0,40}"
_SEPARATOR = (
    rf"[\\\"'`*\])]{{0,4}}{_SPACE}(?:"
    rf"(?P<plain>:{_SPACE}{_TYPE}{_SPACE}=(?![=>])(?={_SPACE}[^\s=])|(?:str|string)?{_SPACE}:?={{1,3}}>?|\?[:=]|[:：]|->|>(?=[^\s<@:/)]))"
    rf"[*]{{0,2}}{_SPACE}"
    rf"|(?P<loose>\|{_SPACE}|,{_SPACE}(?=\\?[\"'])|\({_SPACE}(?=[\"'])"
    rf"|(?: (?:for|of|to|on|at)(?: [\w.@/'-]{{1,40}}+){{1,6}}+|[ \t]{{1,2}}\([^()\n]{{1,60}}\)):{_SPACE}"
    rf"|(?:is|was|是)(?: now)?:?{_SPACE}|value{_SPACE}=|\r?\n[ \t]{{0,40}}value:[ \t]"
    rf"|(?=[\"'][^\s\"']))"
    rf")"
)
_LEAD = (
    r"(?:[brfuBRFU]{0,2}(?P<quote>\\{0,3}[\"'`]))?"
    r"(?:(?:[Bb]earer|BEARER|[Bb]asic|[Tt]oken|[Aa]pi-?[Kk]ey|Bot)[ \t]{1,4}(?=\S))?"
)
_UNLIKE_WORDS = r"[0-9!@#$%^&?~+]|[a-z][A-Z]"  # one of these is in every value that is accepted
_RUN = r"[^\s\"'`<>,;|，。；、）」]{1,128}+"


def _lower(text: str) -> str:
    """Return a text in lower case whose length and positions are those of the original."""
    return text.replace("\u0130", "I").lower()


def _find_assigned(text: str, stems: Iterable[str]) -> Iterator[_Hit]:
    """Yield the values assigned to a name that says they are secret, such as `password = …`."""
    lower = _lower(text)
    for stem in stems:
        past = 0
        for at in _occurrences(lower, stem):
            if at < past:
                continue
            rest = _re(_NAME_REST).match(text, at + len(stem))
            name_end = rest.end() if rest else at + len(stem)
            found = _value(text, at, name_end)
            if found is None or not _re(_UNLIKE_WORDS).search(found.text):
                continue
            name = _name(text, at, name_end)
            kind = _kind(name, found)
            if kind is not None:
                past = _end_of_value(text, found)
                yield _hit(kind, found.start, past)


class _Value(NamedTuple):
    """A value assigned to a name, as far as it was read, and how it is written."""

    text: str
    start: int
    quote: str  # what closes it, if anything does
    firm: bool  # whether it is written like an assignment, not like a sentence


def _value(text: str, at: int, name_end: int) -> _Value | None:
    """Return the value assigned to the name from `at` to `name_end`; None when nothing is assigned."""
    separator = _re(_SEPARATOR).match(text, name_end)
    if separator is not None:
        start = separator.end()
        firm = separator["plain"] is not None
        tight = firm and "=" in separator["plain"]
    else:
        # `--password VALUE`, `Authorization: Bearer VALUE`, `login me password VALUE`
        blank = _re(r"[ \t]{1,4}(?=\S)").match(text, name_end)
        option = text[max(at - 24, 0) : at].rpartition(" ")[2].startswith("--")
        netrc = (
            _re(r"(?:login|user)[ \t]\S{1,64}+\s{1,8}$").search(text[max(at - 80, 0) : at].lower())
            is not None
        )
        if blank is None or not (option or netrc or text[at:name_end].lower() == "bearer"):
            return None
        start, firm, tight = blank.end(), option or netrc, option
    lead = _re(_LEAD).match(text, start)
    if lead is not None:
        start = lead.end()
    quote = (lead["quote"] if lead else "") or ""
    if quote:
        end = text.find(quote, start, start + _WINDOW)
        inner = text[start : end if end >= 0 else start + _WINDOW]
        # A quoted sentence is no secret.
        return None if not inner or _re(r"\s").search(inner) else _Value(inner, start, quote, firm)
    run = _re(_RUN).match(text, start)
    if run is None:
        return None
    value = _re(r"&(?=[A-Za-z0-9_.-]{1,40}=)").split(run[0], maxsplit=1)[0].rstrip(".:)]}*\\")
    return _Value(value, start, "=" if tight else "", firm) if value else None


def _end_of_value(text: str, value: _Value) -> int:
    """Return where an accepted value ends, however long the value is."""
    end = value.start + len(value.text)
    if len(value.text) < _WINDOW:
        return end
    rest = _re(r"[^\s\"'`<>,;|，。；、）」\\]*+").match(text, end)
    return rest.end() if rest else end


def _name(text: str, at: int, name_end: int) -> list[str]:
    """Return the words, in lower case, of the whole name around a stem; for `API key` both words."""
    floor = max(at - 48, 0)
    start = at
    while start > floor and (text[start - 1] in "_-." or text[start - 1].isalnum()):
        start -= 1
    name = text[start:name_end]
    if name[:3].lower() == "key" and text[start - 1 : start] == " ":
        name = text[max(start - 16, 0) : start].rpartition("\n")[2].split(" ")[-2] + " " + name
    return [word.lower() for word in _re(_WORDS).findall(name)]


_WORDS = r"[A-Z]+(?![a-z])|[^\W\d_][^\W\d_A-Z]*|[0-9]+"


def _kind(words: list[str], value: _Value) -> str | None:
    """Return the kind of secret that is assigned to a name of these words; None when it is no secret."""
    while len(words) > 1 and (words[-1] in _SUFFIXES or words[-1].isdecimal()):
        words = words[:-1]
    if not words or not _HARMLESS.isdisjoint(words):
        return None
    noun = _noun(words)
    if noun is None or not (
        _could_be_password(value) if noun == "password" else _could_be_token(value, noun)
    ):
        return None
    if words in (["pass"], ["pw"]) and _is_wordy(value.text) and not _re(_MARKS).search(value.text):
        return None  # a test that passed, a first pass
    if "aws" in words or words[-3:] == ["secret", "access", "key"]:
        return "aws-secret-key"
    return next((_PROVIDERS[word][0] for word in words if word in _PROVIDERS), noun)


def _noun(words: list[str]) -> str | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORDS) or last in ("pass", "pw"):
        return "password"
    if last.endswith("secret"):
        return "secret"
    if last.endswith("token") or last in _AUTHS:
        return "token"
    if last == "key" and (before in _KEY_WORDS or before in _PROVIDERS):
        return "api-key"
    if last.endswith("key") and last[:-3].endswith(tuple(_KEY_WORDS)):
        return "api-key"
    return None


_MARKS = r"[!@#$%^&?~+]"  # such as no word has


def _could_be_password(value: _Value) -> bool:
    """Whether a value may be a password that a person chose: letters mixed with digits, or unusual marks."""
    text, size = value.text, len(value.text)
    if (
        size < (6 if value.quote else 8)
        or _is_sample(text)
        or _is_code(text, value.quote)
        or _is_filler(text)
    ):
        return False
    mixed = any(
        part and not part.isalpha() and not part.isdecimal() and part.lower() not in _TERMS
        for part in _re(r"[^0-9A-Za-z]+").split(text)
    )
    marked = size >= 8 and bool(_re(_MARKS).search(text)) and bool(_re(r"[A-Za-z]").search(text))
    if value.firm:
        return mixed or marked or (value.quote != "" and size >= 12 and _is_jumbled(text))
    return mixed and (marked or _has_cases(text) or not _is_wordy(text))


def _could_be_token(value: _Value, noun: str) -> bool:
    """Whether a value may be a token that a machine made: long enough, and without words in it."""
    text, size = value.text, len(value.text)
    if size < 8 or _is_sample(text) or _is_code(text, value.quote) or _is_filler(text):
        return False
    letters, digits = bool(_re(r"[A-Za-z]").search(text)), bool(_re(r"[0-9]").search(text))
    if size >= 16:
        return (
            letters
            and not _is_wordy(text)
            and (digits or (_is_jumbled(text) and (size >= 20 or value.quote != "")))
        )
    if not (value.firm and value.quote and letters and digits):
        return False
    marked = bool(_re(_MARKS).search(text))
    return (marked and noun == "secret") or (size >= 12 and _has_cases(text) and not _is_wordy(text))


# --- what a value looks like --------------------------------------------------------------------------------

_SAMPLE_WORDS = _words("""
    example placeholder changeme change-me change_me replace your redacted dummy sample fake insert
    foobar deadbeef not-real notreal xxxx **** .... …
""")
_FILLERS = _words("""
    a abc access admin an api app auth bar baz client db default dev email false foo guest here host key
    local login long mongo my mysql name new none null object old p4ssw0rd pass passphrase passw0rd
    passwd password postgres pwd qwerty random redis root s3cret secret some string strong super test
    testing the token true user username value very
""")
# Names that mix letters and digits and are no passwords.
_TERMS = _words("""
    1st 2fa 2nd 3rd a11y aes128 aes256 angular2 argon2 argon2i argon2id arm64 base32 base58 base64 boto3
    ec2 ed25519 es2015 es2020 es256 es6 fido2 float32 float64 gpt4 h264 hs256 hs512 http1 http2 http3
    i18n int16 int32 int64 int8 ipv4 ipv6 k8s l10n log4j md5 mp3 mp4 neo4j ntlmv2 oauth1 oauth2 p256 p384
    pbkdf2 pkcs1 pkcs12 pkcs8 ps256 psr4 python2 python3 rs256 rs512 rsa2048 rsa4096 s3 saml2 saml20
    secp256k1 sha1 sha224 sha256 sha384 sha512 sqlite3 ssl3 step1 step2 tls1 tls12 tls13 u2f uint32
    uint64 uint8 urllib3 utf16 utf8 vue3 web3 win32 win64 wpa2 wpa3 x25519 x509 x64 x86
""")
# The pairs of letters that make up seven eighths of the words in program text and its manuals; counted over
# the Python library and Node's manual. Random letters hit one in four.
_PAIRS = _words("""
    ab ac ad ag ai al am an ap ar as at au ba be bl bu ca ce ch ci ck cl co cr ct cu da de di do ds du ea
    ec ed ee ef el em en ep er es et ev ex fa fe ff fi fo fu ge gi ha he hi ho ia ib ic id ie if ig il im
    in io ip ir is it iv ke la ld le li ll lo ls lt lu ly ma me mi mo mp na nc nd ne ng ni no ns nt oc od
    ol om on oo op or os ot ou ov ow pa pe pl po pp pr pt qu ra re rg ri rm rn ro rr rs rt ru ry sa sc se
    sh si so sp ss st su sy ta te th ti to tr ts tt tu ty ue ul um un up ur us ut va ve vi wa wh wi xt yp
""")


def _is_wordy(value: str) -> bool:
    """Whether most pairs of neighbouring letters in a value are common in words."""
    common = seen = 0
    value = value[:_JUDGED]
    for left, right in pairwise(value):
        if not (left.isalnum() and right.isalnum()) or (left.isdecimal() and right.isdecimal()):
            continue
        seen += 1
        # A capital after a small letter begins a word in a name, and is everywhere in random text.
        common += (left + right).lower() in _PAIRS and not (left.islower() and right.isupper())
    return seen > 0 and common / seen >= 0.5


def _has_cases(value: str) -> bool:
    return not (value.islower() or value.isupper())


def _is_jumbled(value: str) -> bool:
    """Whether a value has capitals after small letters more often than a name of several words has."""
    turns = sum(left.islower() and right.isupper() for left, right in pairwise(value))
    return turns * 6 >= len(value) and not _is_wordy(value)


def _is_sample(value: str) -> bool:
    """Whether a value is a sample: `your-key`, `xxxxxxxx`, `abcdef123456`."""
    value = value[:_JUDGED]
    lower = value.lower()
    if any(word in lower for word in _SAMPLE_WORDS) or _re(r"(.)\1{5}").search(value):
        return True
    steps = sum(0 <= ord(right) - ord(left) <= 1 for left, right in pairwise(value))
    return len(value) > 1 and steps / (len(value) - 1) >= 0.5


@cache
def _fillers() -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, _FILLERS), key=len, reverse=True)
    return re.compile(rf"(?>{'|'.join(longest_first)}|[-_.!@#]|[0-9]{{1,4}}(?![0-9]))*+")


def _is_filler(value: str) -> bool:
    """Whether a value consists of words that are typical of samples: `my-secret-password1`."""
    return _fillers().fullmatch(value.lower()) is not None


_REFERENCE = (
    r"[<{\[(\\]|AWS4-HMAC|\$[({]|\$\w+(?:$|::|->|\.|\[)|%[A-Za-z_]\w*%|[*&!][A-Za-z]\w*$|"
    r"\.{1,2}[/\\]|~[/\\]|[A-Za-z]:\\|ENC\[|ref\+|"
    r"(?:arn|vault|env|file|op|ssm|sops|keyring|keychain|secret|data|urn|sha1|sha256|sha512)[:]|"
    r"(?:projects|secrets|refs)/|sha(?:256|384|512)-|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[\w.+-]{1,64}+@[\w-]{1,60}+\.[A-Za-z]|//|[A-Za-z][A-Za-z0-9+.-]{1,20}+://"
)
_EXPRESSION = r"[A-Za-z_$][\w$]{0,60}+(?:(?:\.|->|::|\?\.)[A-Za-z_]\w{0,60}+){0,8}+(?:[(\[{]|=>|\?\.)"
_MEMBER = r"[A-Za-z_]\w{0,60}+(?:(?:\.|->|::)[A-Za-z_]\w{0,60}+){1,8}+"


def _is_code(value: str, quote: str) -> bool:
    """Whether a value only refers to a secret: a variable, a call, a path."""
    if _re(_REFERENCE).match(value) or (quote in ("", "=") and _re(_EXPRESSION).match(value)):
        return True
    if _re(r"\\[sSwWdDbx.]|\[:|\[\^").search(value):  # a regular expression
        return True
    if value.startswith("/"):
        return _is_wordy(value) or (value.count("/") > 1 and len(value) < 32)
    return _re(_MEMBER).fullmatch(value) is not None and _is_wordy(value)


# --- what there is to look for ------------------------------------------------------------------------------


class Clues(NamedTuple):
    """The literals in a text at which a search for secrets can start; a part of the text has no others."""

    anchored: tuple[tuple[_Form, str], ...]
    stems: tuple[str, ...]
    keyed: bool
    addressed: bool
    dotted: bool
    marked: bool
    hidden: bool


_ANCHORED = tuple((form, anchor) for form in _FORMS for anchor in form.anchors.split())
EVERYTHING = Clues(_ANCHORED, _STEMS, *(True,) * 5)  # the full search: of a text nothing is known of

_BLOCK = 1 << 20
_OVERLAP = 512  # more than an anchor and what must stand around it
_BRIEF = 4096  # bytes of words
_DOTTED = 58  # the shortest that Discord's can be
# All that a credential with a shape of its own consists of, and whatever else as a blank.
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%+/=.@~-"
_BLANKED = bytes(byte if byte in _LETTERS else 0x20 for byte in range(256))


def clues(text: str) -> Clues:
    """Return the literals in a text at which a search for secrets can start; they also serve for its parts.

    The text may be a line of JSON that was written without escapes to ASCII. Its clues then serve for each
    string in it, because these literals have no character that JSON escapes.
    """
    if not text.isascii() and _re(_HIDDEN).search(text):
        return EVERYTHING  # what they split is not seen here
    lower = _lower(text)
    stems = _STEMS[: -len(_PASSWORDS_ELSEWHERE)] if lower.isascii() else _STEMS
    anchors, dotted = _anchors(text.encode(errors="replace"))
    return Clues(
        tuple(each for each in _ANCHORED if each[1] in anchors) if anchors else (),
        tuple(stem for stem in stems if stem in lower),
        keyed=any(anchor in text for anchor in _KEY_ANCHORS),
        addressed=("@" in text and "://" in text) or "curl" in text,
        dotted=dotted,
        marked="[REDACTED:" in text,
        hidden=False,
    )


def _anchors(content: bytes) -> tuple[set[str], bool]:
    """Return the anchors that occur in a text, and whether a long word has dots like a Discord token.

    Ordinary words are short, and a credential that is one word is long, so most texts need no more than a
    split into words. The text is read block by block, so that the words of a large text are never all in
    memory.
    """
    found: set[str] = set()
    dotted = False
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK + _OVERLAP]
        found |= {anchor for anchor, literal in _inner() if literal in block}
        words = {word for word in block.translate(_BLANKED).split() if len(word) >= _SHORTEST}
        if not words:
            continue
        dotted = dotted or any(len(word) >= _DOTTED and word.count(b".") > 1 for word in words)
        long_words = b" ".join([b"", *words])
        # Compiling the pattern takes longer than looking for each anchor in a short text.
        if len(long_words) > _BRIEF and not _edges().search(long_words):
            continue
        begun = {anchor for form, anchor in _ANCHORED if form.edge and anchor.encode() in long_words}
        if begun and _edges().search(long_words):
            found |= begun
    return found, dotted


@cache
def _edges() -> re.Pattern[bytes]:
    """Return the pattern of an anchor that begins a word: after a mark, an escaped line end or control
    character.
    """
    anchors = "|".join(re.escape(anchor) for form, anchor in _ANCHORED if form.edge)
    behind = r"(?:(?<![A-Za-z0-9])|(?<= [bfnrt])|(?<= u00[01][0-9a-f]))"
    return re.compile(f"{behind}(?:{anchors})".encode())


@cache
def _inner() -> list[tuple[str, bytes]]:
    return [(anchor, anchor.encode()) for form, anchor in _ANCHORED if not form.edge]
