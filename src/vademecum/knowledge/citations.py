"""Find the claims that a text makes about code, and check these claims against the project's files.

The state of the cited code is saved beside a text when it is stored. So later checks can tell code that is
gone from code that was never in this project. Of search results, only those that are shown are checked.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge.project_tree import SKIPPED, SOURCE, ProjectTree, fingerprint, normal_value
from vademecum.lazy import lazy_pattern
from vademecum.text import fences, may_cite, statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from vademecum.types import Entry

__all__ = ["ProjectTree", "fingerprint"]

MOST_CLAIMS = 50  # of one text
MOST_MARKS = 20  # of one entry
MOST_NAMES = 2000  # looked for at once

# `src/app.py`, `src/app.py#L3-L9`, `src/app.py:12`; not part of an address.
_PATH = lazy_pattern(
    r"(?<![\w/.:@~$%&=?#+-])"
    r"(?P<path>(?:\./)?[\w.@+-]+(?:/[\w.@+-]+)+/?|[\w.@+-]+/(?![\w*])|[\w+-]+\.[A-Za-z]\w{0,7})"
    r"(?:(?:#L|:)(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?)?(?![\w/@-])"
)
_ADDRESS = lazy_pattern(
    r"(?i)\b[a-z][a-z0-9+.-]{0,20}://[^\s)>\]]+|\bwww\.[^\s)>\]]+|(?<![^\s@])[^\s@]{1,200}+@[^\s@]{1,200}\.\S+"
)
_RUN = lazy_pattern(r"\S+")
_LONGEST = 300  # characters without a blank: more of them are no path, and take long to look at
_CODE = lazy_pattern(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_SYMBOL = lazy_pattern(r"(?:[A-Za-z_]\w*(?:\.|::|#|->))*(?P<name>[A-Za-z_]\w{2,79})(?P<call>\(\s*\))?")
# `notes.md`, `config.yaml`: a file, and whether it is there is no matter of names in files.
_FILE = lazy_pattern(r"\.[a-z]{1,2}$|\.(?:[a-z]{3}|json|yaml|toml|html|jsonl|lock|conf)$")
_INVENTED = frozenset("path foo bar baz your my some example examples user owner".split())
_HUMPS = lazy_pattern(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+[0-9]*(?:[A-Z][a-z0-9]*)+")
_ENVIRONMENT = lazy_pattern(r"[A-Z][A-Z0-9_]*")
# Names of the languages themselves, which no project has to define.
_BUILT_IN = frozenset(
    """print len range open input sorted map filter zip sum min max abs any all int str float bool list dict
    set tuple type isinstance getattr setattr hasattr super repr hash iter next enumerate reversed round eval
    exec vars dir printf println sprintf malloc free sizeof append make panic require setTimeout
    setInterval fetch parseInt parseFloat alert useState useEffect useMemo useRef useCallback main init
    False NaN""".split()
)
_NUMBER_WORDS = {
    word: str(number)
    for number, words in enumerate(
        """zero|null, one|eins, two|zwei, three|drei, four|vier, five|fünf, six|sechs, seven|sieben,
        eight|acht, nine|neun, ten|zehn, eleven|elf, twelve|zwölf""".split(",")
    )
    for word in words.strip().split("|")
}
_VALUE = lazy_pattern(r"(?<![\w.-])(?:\d[\d_,]*(?:\.\d+)*|\"[^\"\n]{1,60}\"|`[^`\n]{1,60}`)(?![\w-])")
_EXPLICIT = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]*?)\s*(?:=|:(?=\s))\s*(?P<value>[^\s=][^=\n]{0,60})")
_SET_FOR_COMMAND = lazy_pattern(r"[A-Z][A-Z0-9_]*=\S")
_SAYS = lazy_pattern(
    r"`(?P<name>[A-Za-z_][\w.-]*)`\s+(?:is|equals|ist|=|is\s+set\s+to|steht\s+auf)\s+"
    r"(?P<value>\d\w*(?:\.\w+)*|\"[^\"\n]{1,60}\"|`[^`\n]{1,60}`|true|false|on|off)(?![\w-])",
    re.IGNORECASE,
)
# "`round_cents` in src/billing/invoice.py": where a name is said to be.
_SAID_IN = lazy_pattern(
    r"`(?P<code>[^`\n]{1,200})`\s+(?:\w+\s+){0,2}(?:in|at|from|of|aus)\s+`?(?P<path>[\w./-]+/[\w.-]*\w)"
)
_BELOW = lazy_pattern(r"(?i)\b(?:below|under|inside|beneath|unterhalb(?: von)?|unter)\s+`?\Z")
_SETTINGS = lazy_pattern(r"\.(?:ya?ml|json|toml|ini|cfg|conf|env|properties)$")
_WORD = lazy_pattern(r"[\w./:+-]+")
_NEAR = 4  # words between a value and the name of what has it
_MARKED_VALUE = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]*) = (?P<value>.+)")
_GENERIC = frozenset("max min default num no count the of in on is a an by to per all set size value".split())

# What says that something is not, or was and is no more: of the clause in which it is cited.
_NO_MORE = lazy_pattern(
    r"""(?ix)(?<![\w-])(?: was | were | wasn't | weren't | had | used\ to | formerly | previously | earlier
    | originally | initially | historically | back\ then | until | till | removed | deleted | dropped
    | renamed | replaced | superseded | migrated | moved | gone | no\ longer | missing | absent | any\ more
    | anymore | (?:does\ not|doesn't|did\ not|didn't)\ exist | there\ (?:is|are)\ no | ago | yesterday
    | last\ (?:week|month|year) | if\ there\ (?:is|are) | falls\ es
    | war | waren | wurde | wurden | früher | ehemals | bis\ \d{4} | gelöscht | entfernt | umbenannt
    | verschoben | nicht\ mehr | gibt\ es\ nicht | fehlt )(?![\w-])"""
)
_MOVED_TO = lazy_pattern(
    r"(?i)\b(?:moved|migrated|renamed|switched|verschoben|umbenannt)\b[^.;]{0,60}\b(?:to|into|in|nach)\W{0,3}\Z"
)
_NOT_THIS = lazy_pattern(
    r"""(?ix)\b(?:instead\ of | rather\ than | not\ (?:in|at|under|below) | without | no | statt | anstatt
    | nicht\ (?:in|unter|bei) | (?:moved|taken)\ out\ of )\s+(?:the\s+|a\s+|der\s+|die\s+|das\s+)?\W{0,3}\Z"""
)
# A plan, an example, or what a tool makes: it need not be there.
_PLANNED = lazy_pattern(
    r"""(?ix)(?<![\w-])(?: will | shall | going\ to | plan(?:s|ned)?\ to | todo | to\ do | wants?\ to | would
    | could | create[sd]? | scaffold\w* | placeholder | suppose | imagine | for\ example | for\ instance
    | e\.g | such\ as | propose[sd]? | someday | eventually | not\ yet | soll | sollte | geplant
    | zum\ Beispiel | z\.B )(?![\w-])"""
)
_MADE = lazy_pattern(r"(?i)(?<![\w-])(?:generates?|outputs?|emits?|erzeugt|writes|produces)(?![\w-])")
_CLAUSE_END = lazy_pattern(r"[;,()–—]\s|\bbut\b|\baber\b|\bund\b|\band\b|\|")

WAS_THERE, NEVER_HERE = "~", "-"  # marks of what cannot change, and of what was not of this project
_MARK = lazy_pattern(r"[^\s,@|]+")
_OF_FILES = lazy_pattern(r"[0-9a-f]{12}|~|-")


class Standing(StrEnum):
    """The result of checking a claim against the project's files; listed from best to worst."""

    VERIFIED = "verified"
    MOVED = "moved"
    CHANGED = "changed"
    GONE = "gone"


class Claim(NamedTuple):
    """A path, a range of lines, a name or a value that a text cites."""

    kind: str  # path, lines, symbol or value
    cited: str  # as the text has it
    path: str = ""  # of a name: the file that it is said to be in
    first: int = 0
    last: int = 0
    symbol: str = ""
    owner: str = ""  # what a symbol belongs to: `db` of `db.open_pool`
    value: str = ""  # that a symbol is said to have
    mark: str = ""  # what was known of it when the text was stored


class CheckedClaim(NamedTuple):
    """A claim, the result of checking it, and the reason."""

    claim: Claim
    standing: Standing
    why: str = ""


class StatedClaim(NamedTuple):
    """A claim about the present, and the number of the text line that makes the claim."""

    claim: Claim
    line: int  # counted from 0


# -------------------------------------------------------------------- what a text claims


def find_claims(
    text: str, *, tree: ProjectTree, bare: bool = True, marks: Mapping[str, str] | None = None
) -> list[Claim]:
    """Return the claims that a text makes about this project's code: paths, then names, then values.

    Without `bare`, a file name without a folder counts only at the root, because finding the file elsewhere
    takes a walk over all files. `marks` is the saved state of the cited code.
    """
    return [claim for claim, _ in _locate_claims(text, tree, bare=bare, marks=marks or {})][:MOST_CLAIMS]


def find_stated(
    text: str, *, tree: ProjectTree, bare: bool = True, marks: Mapping[str, str] | None = None
) -> list[StatedClaim]:
    """Return a text's claims about the present; claims about the past, plans and other projects are left out.

    `bare` and `marks` are as in `find_claims`.
    """
    known = marks or {}
    found: dict[Claim, int] = {}
    values = {cited: mark for cited, mark in known.items() if _MARKED_VALUE.fullmatch(cited)}
    for row, line in _sentences(text):
        for claim, at in _locate_claims(row, tree, bare=bare, marks=known):
            if not _is_denied(row, at, known=bool(claim.mark)):
                found.setdefault(claim, line)
        for cited in [each for each in values if _states(row, each)]:
            claim = _value_claim(cited, values.pop(cited))
            if not _NO_MORE.search(row):
                found.setdefault(claim, line)
    return [StatedClaim(claim, line) for claim, line in found.items()][:MOST_CLAIMS]


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """Yield the sentences, except questions, and table rows of a text, each with its line number from 0."""
    for statement_found in statement.split(text):
        if statement_found.kind == statement.TABLE:
            yield from (
                (row, statement_found.line - 1 + at)
                for at, row in enumerate(statement_found.text.split("\n"))
            )
        elif statement_found.kind == statement.SENTENCE and not statement_found.text.rstrip().endswith("?"):
            yield statement_found.text, statement_found.line - 1


def _locate_claims(
    text: str, tree: ProjectTree, *, bare: bool, marks: Mapping[str, str]
) -> Iterator[tuple[Claim, tuple[int, int]]]:
    """Yield each claim of a text once, with its start and end in the text."""
    plain = fences.blank(text)
    plain = _RUN.sub(lambda run: run[0] if len(run[0]) <= _LONGEST else " " * len(run[0]), plain)
    if "@" in plain or "://" in plain or "www." in plain:
        plain = _ADDRESS.sub(lambda match: " " * len(match[0]), plain)
    found: dict[Claim, tuple[int, int]] = {}
    for match in _PATH.finditer(plain):
        claim = _path_claim(match, tree, bare=bare, marks=marks)
        if claim is not None:
            found.setdefault(claim, match.span())
    files = [claim.path for claim in found if claim.kind == "path" and _FILE.search(claim.path)]
    named_file = files[0] if len(files) == 1 else ""
    homes = {match["code"]: match["path"].removeprefix("./") for match in _SAID_IN.finditer(plain)}
    for code in _CODE.finditer(plain):
        claim = _symbol_claim(code[1].strip(), named_file, marks)
        if claim is not None:
            placed = not marks and bool(named_file) and homes.get(code[1]) == named_file
            found.setdefault(claim._replace(path=named_file) if placed else claim, code.span())
    for name, value, span in _explicit_values(plain, placed=bool(named_file)):
        cited = f"{name.rpartition('.')[2]} = {value}"
        if cited not in marks:
            found.setdefault(Claim("value", cited, named_file, symbol=name, value=value), span)
    if named_file and not marks:
        valued = {each.symbol for each in found if each.kind == "value"}
        found |= {
            claim: span
            for claim, span in _unmarked_value_claims(plain, named_file, tree)
            if claim.symbol not in valued
        }
    yield from found.items()


def _unmarked_value_claims(
    text: str, path: str, tree: ProjectTree
) -> Iterator[tuple[Claim, tuple[int, int]]]:
    """Yield the claims about values in a text that was saved without the state of the cited code.

    A value counts only if the words name one constant of the cited file, and no other value stands beside it.
    """
    every: dict[str, set[str]] = {}
    for each, given in tree.assigned(path):
        every.setdefault(each.rpartition(".")[2], set()).add(given)
    apart = _PATH.sub(lambda match: " " * len(match[0]) if "/" in match[0] else match[0], text)
    given_now = set[str]().union(*every.values())
    for number in (True, False):
        told = [each for each in _find_values(apart, every) if _is_number(each[0]) is number]
        name = ""
        if len(told) == 1 and told[0][0] not in given_now:
            alone = [each for each in every if _is_alone(every[each], number=number)]
            # In code a word behind a name may be its type, or another name.
            name = _nearest_constant(
                apart, told[0][1], alone, only_named=not number and not _SETTINGS.search(path)
            )
        if name:
            yield Claim("value", f"{name} = {told[0][0]}", path, symbol=name, value=told[0][0]), told[0][1]


def _find_values(text: str, names: Collection[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the values in a text with their positions; words that are names of constants do not count."""
    for match in _VALUE.finditer(text):
        value = normal_value(match[0].rstrip(","))
        if value not in names and _WORD.fullmatch(value):
            yield value, match.span()
    for match in re.finditer(r"[^\W\d_]+", text.lower()):
        if match[0] in _NUMBER_WORDS:
            yield _NUMBER_WORDS[match[0]], match.span()


def _is_alone(values: Collection[str], *, number: bool) -> bool:
    return len(values) == 1 and all(_is_number(each) is number and _WORD.fullmatch(each) for each in values)


def _is_number(value: str) -> bool:
    return value.replace(".", "").isdigit()


def _nearest_constant(text: str, at: tuple[int, int], names: Sequence[str], *, only_named: bool) -> str:
    """Return the name of the constant that a value in a text belongs to; empty when that is unclear.

    With `only_named`, a constant must be written in code marks.
    """
    codes = {match[1].strip() for match in _CODE.finditer(text)}
    given = [name for name in names if name in codes]
    if given or only_named:
        return given[0] if len(given) == 1 else ""
    before, after = text[: at[0]].split()[-_NEAR:], text[at[1] :].split()[:_NEAR]
    near = _words_of(" ".join((*before, *after)))
    fits = [name for name in names if _words_of(name) and _words_of(name) <= near]
    most = max((len(_words_of(name)) for name in fits), default=0)
    best = [name for name in fits if len(_words_of(name)) == most]
    return best[0] if len(best) == 1 else ""


def _is_denied(sentence: str, at: tuple[int, int], *, known: bool) -> bool:
    """Whether a sentence says that the code cited `at` a position is gone, past or only planned.

    Code whose state was saved (`known`) does not count as only planned.
    """
    begun = max((match.end() for match in _CLAUSE_END.finditer(sentence, 0, at[0])), default=0)
    ended = _CLAUSE_END.search(sentence, at[1])
    clause = sentence[begun : ended.start() if ended else len(sentence)]
    before = sentence[: at[0]]
    if _NOT_THIS.search(before):
        return True
    if _MOVED_TO.search(before):
        return False
    words = _CODE.sub("x", clause[: at[0] - begun]) + " x " + _CODE.sub("x", clause[at[1] - begun :])
    if _NO_MORE.search(words) or _MADE.search(words[: at[0] - begun]):
        return True
    return not known and _PLANNED.search(sentence) is not None


def _path_claim(
    match: re.Match[str], tree: ProjectTree, *, bare: bool, marks: Mapping[str, str]
) -> Claim | None:
    path = match["path"].removeprefix("./").rstrip("./")
    parts = path.split("/")
    if not path or ".." in parts or any(part.strip(".") == "" or part in SKIPPED for part in parts):
        return None
    cited = match[0] if match["first"] else match["path"].rstrip(".")
    mark = marks.get(cited, "")
    mark = mark if _OF_FILES.fullmatch(mark) else ""  # `RetryPolicy.limit` has one too, and is no file
    if mark == NEVER_HERE:
        return None
    known = bool(mark) or "#L" in match[0] or tree.holds(path)
    if len(parts) == 1:
        # A word with a dot is a file only where it is one, or where lines of it are named.
        folder = not marks and match["path"].endswith("/") and _BELOW.search(match.string, 0, match.start())
        if not (known or folder) and not (bare and "/" not in match["path"] and path in tree.named):
            return None
    elif not known and not tree.has_folder(parts[0]) and not _may_be_file(parts, tree):
        return None
    elif not known and not tree.has_folder(parts[0]) and re.search(rf"\b{parts[0].title()}\b", match.string):
        return None  # "Django keeps its models in django/db/models.py"
    if match["first"]:
        first = int(match["first"])
        last = int(match["last"] or first)
        if 1 <= first <= last:
            return Claim("lines", match[0], path, first, last, mark=mark)
    return Claim("path", cited, path, mark=mark)


def _may_be_file(parts: Sequence[str], tree: ProjectTree) -> bool:
    """Whether a path whose first folder does not exist may still mean a file of this project.

    It does not in and/or, TCP/IP, owner/name, example.org/page.html or path/to/file.py. But a file of that
    name may have moved, and a source file below a folder is likely the project's.
    """
    if "." in parts[0] and not parts[0].startswith("."):
        return False
    if "." in parts[-1].strip(".") and parts[-1] in tree.named:
        return True
    return SOURCE.search(parts[-1]) is not None and parts[0].lower() not in _INVENTED


def _symbol_claim(code: str, named_file: str, marks: Mapping[str, str]) -> Claim | None:
    match = _SYMBOL.fullmatch(code)
    if match is None or _FILE.search(code):
        return None
    name, mark = match["name"], marks.get(code, "")
    owner = re.match(r"[A-Za-z_]\w*(?=\.|::|#|->)", code)
    claim = Claim("symbol", code, symbol=name, owner=owner[0] if owner else "", mark=mark)
    if mark == NEVER_HERE or (mark == WAS_THERE and name in _BUILT_IN):
        return None
    if mark:
        # Where it is said to be matters only when it was there.
        return claim._replace(path=named_file if named_file == mark else "")
    return claim if _is_likely_own(match, code) else None


def _is_likely_own(match: re.Match[str], code: str) -> bool:
    """Whether a name that is not yet found in any file is likely a name of this project."""
    name = match["name"]
    if name in _BUILT_IN or _ENVIRONMENT.fullmatch(name):
        return False
    return bool(match["call"] or "_" in name.strip("_") or _HUMPS.fullmatch(name) or name != code)


def _explicit_values(text: str, *, placed: bool) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield names with the values that a text gives them: `limit = 3`, and `limit` is 3.

    `DEBUG=1` counts only with `placed` (the text cites a file that may set it): elsewhere it is a setting for
    a command.
    """
    for code in _CODE.finditer(text):
        match = _EXPLICIT.fullmatch(code[1].strip())
        if match is not None and (placed or not _SET_FOR_COMMAND.match(match[0])):
            yield match["name"], normal_value(match["value"]), code.span()
    for match in _SAYS.finditer(text):
        yield match["name"], normal_value(match["value"]), match.span()


def _value_claim(cited: str, mark: str) -> Claim:
    match = _MARKED_VALUE.fullmatch(cited)
    assert match is not None
    return Claim("value", cited, mark, symbol=match["name"], value=match["value"], mark=mark)


def _states(sentence: str, cited: str) -> bool:
    """Whether a sentence contains the value of a saved citation such as `limit = 3`."""
    match = _MARKED_VALUE.fullmatch(cited)
    return match is not None and match["value"] in {value for value, _ in _values(sentence)}


def _values(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield the values in a sentence, each with whether it stands in quotation or code marks."""
    for name, value, _ in _explicit_values(sentence, placed=True):
        if name:
            yield value, True
    plain = _PATH.sub(lambda match: match[0] if "/" not in match[0] else " ", sentence)
    for match in _VALUE.finditer(plain):
        yield normal_value(match[0].rstrip(",")), match[0][0] in '"`'
    for word in re.findall(r"[^\W\d_]+", plain.lower()):
        if word in _NUMBER_WORDS:
            yield _NUMBER_WORDS[word], False


# -------------------------------------------------------------------- what is kept beside a text


def mark_claims(text: str, tree: ProjectTree) -> dict[str, str]:
    """Return the present state of at most 20 citations in a text, to be saved beside the text."""
    found: dict[str, str] = {}
    for row, _ in _sentences(text):
        found |= {cited: mark for cited, mark in _marks(row, tree) if _is_markable(cited, mark)}
    # Without a look at everything nothing is known to be absent.
    sure = ((cited, mark) for cited, mark in found.items() if tree.whole or mark != NEVER_HERE)
    return dict(list(sure)[:MOST_MARKS])


def _marks(sentence: str, tree: ProjectTree) -> Iterator[tuple[str, str]]:
    plain = _ADDRESS.sub(" ", sentence)
    files: list[str] = []
    for match in _PATH.finditer(plain):
        claim = _path_claim(match, tree, bare=True, marks={})
        if claim is None:
            continue
        mark = _path_mark(claim, tree)
        if mark and mark != NEVER_HERE and tree.read(claim.path) is not None:
            files.append(claim.path)
        if mark:
            yield claim.cited, mark
    for code in _CODE.finditer(plain):
        yield from _symbol_marks(code[1].strip(), files, tree)
    yield from _value_marks(plain, files, tree)


def _path_mark(claim: Claim, tree: ProjectTree) -> str:
    """Return a fingerprint of a cited file or its lines, or a constant for a path without content.

    The constant says whether the path exists or was never here; an unclear path gives an empty text.
    """
    content = tree.read(claim.path)
    if claim.kind == "lines":
        lines = _cut(content, claim.first, claim.last)
        return fingerprint(lines) if lines else ""
    if content is not None:
        return fingerprint(content.split(b"\n"))
    if tree.holds(claim.path) or claim.path in tree.named:
        return WAS_THERE
    known = tree.has_folder(claim.path.split("/")[0]) or claim.path.rpartition("/")[2] in tree.named
    return "" if known else NEVER_HERE


def _symbol_marks(code: str, files: Sequence[str], tree: ProjectTree) -> Iterator[tuple[str, str]]:
    match = _SYMBOL.fullmatch(code)
    if match is None or _FILE.search(code):
        return
    name = match["name"]
    here = next((path for path in files if tree.defines(path, name)), "")
    if here:
        yield code, here
    elif _is_likely_own(match, code) or _ENVIRONMENT.fullmatch(name) or match["call"]:
        defining = tree.defining(name)
        if not defining and name in _BUILT_IN:
            return  # `print()`: that it stands here today says nothing of this project
        if defining:
            yield code, next((path for path in defining if path in files), defining[0])
        else:
            yield code, WAS_THERE if tree.holding([name]) else NEVER_HERE


def _value_marks(sentence: str, files: Sequence[str], tree: ProjectTree) -> Iterator[tuple[str, str]]:
    """Yield the constants whose value a sentence names, as `name = value` and the file that
    sets the value.
    """
    told = {*_values(sentence)}
    explicit = _explicit_values(sentence, placed=bool(files))
    names = {name.rpartition(".")[2] for name, _, _ in explicit}
    words = _words_of(sentence)
    if not told or _NO_MORE.search(sentence):
        return
    for name in names if not files else ():
        for path, values in tree.assigning(name).items():
            for value in {value for value, _ in told if value in values}:
                yield f"{name} = {value}", path
    for path in files:
        every = [(each.rpartition(".")[2], value) for each, value in tree.assigned(path)]
        for value in {value for value, _ in told}:
            best = max(
                ((_fit(name, names, words), name) for name, its in every if its == value), default=(0, "")
            )
            if best[0]:
                yield f"{best[1]} = {value}", path


def _fit(name: str, names: set[str], words: frozenset[str]) -> int:
    """Return how well a sentence names a constant: 100 for the name itself, else the count of
    shared words.
    """
    if name in names:
        return 100
    return len(_words_of(name) & words)


def _words_of(text: str) -> frozenset[str]:
    """Return the words of a text or of a name such as `maxRetries`, in lower case and cut to six letters."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-zÄÖÜäöüß]+", " ", text).lower().split()
    return frozenset(word.rstrip("s")[:6] for word in apart if word not in _GENERIC and len(word) > 1)


def _is_markable(cited: str, mark: str) -> bool:
    return not re.search(r"[,|@\n]|--", f"{cited}{mark}") and _MARK.fullmatch(mark) is not None


# -------------------------------------------------------------------- how claims stand


def check_claims(
    claims: Sequence[Claim], tree: ProjectTree, *, marks: Mapping[str, str] | None = None
) -> list[CheckedClaim]:
    """Return the result of checking each claim; claims that cannot be checked are left out.

    `marks` is the saved state for claims that carry none.
    """
    known = marks or {}
    marked = [claim if claim.mark else claim._replace(mark=known.get(claim.cited, "")) for claim in claims]
    here = look_up(marked, tree)
    return [told for claim in marked if (told := check_claim(claim, tree, here)) is not None]


def check_claim(claim: Claim, tree: ProjectTree, here: Mapping[str, str]) -> CheckedClaim | None:
    """Return the result of checking a claim; None when the claim cannot be checked.

    `here` is the result of `look_up`: a file for each name without a saved file.
    """
    if claim.kind == "symbol":
        told = (
            _check_symbol(claim, tree, here)
            if claim.mark in ("", WAS_THERE)
            else _check_definition(claim, tree)
        )
    elif claim.kind == "value":
        told = _check_value(claim, tree)
    elif claim.kind == "lines":
        told = _check_lines(claim, tree)
    else:
        told = _check_path(claim, tree)
    if told is None or tree.whole:
        return told
    # Nothing is missing, and nothing moved or changed its value, before everything was looked at.
    sure = told.standing is Standing.VERIFIED or claim.kind in ("lines", "path")
    return told if sure and told.standing is not Standing.GONE else None


def look_up(claims: Sequence[Claim], tree: ProjectTree) -> dict[str, str]:
    """Return, for each claimed name without a saved file, a file that contains the name, if there is one.

    A second walk over the files lets `tree` remember where names are that are missing in their expected file.
    """
    names = [claim for claim in claims if claim.kind in ("symbol", "value")]
    loose = {each.symbol for each in names if each.kind == "symbol" and each.mark in ("", WAS_THERE)}
    here = tree.holding(sorted(loose)[:MOST_NAMES])
    lost = {each.owner for each in names if each.owner and not each.mark and each.symbol not in here}
    for each in names:
        if each.kind == "value" and each.value not in _assigned(each, tree):
            lost.add(each.symbol.rpartition(".")[2])
        elif each.mark not in ("", WAS_THERE) and not tree.defines(each.mark, each.symbol):
            lost.add(each.symbol)
    tree.look_for(sorted(lost)[:MOST_NAMES])
    return here


def _assigned(claim: Claim, tree: ProjectTree) -> list[str]:
    """Return the values that the file of a claim gives to the claim's name."""
    name = claim.symbol.rpartition(".")[2]
    every = tree.assigned(claim.path, plain=not claim.mark) if claim.path else []
    return [value for each, value in every if each.rpartition(".")[2] == name]


def _check_path(claim: Claim, tree: ProjectTree) -> CheckedClaim:
    if tree.holds(claim.path):
        return CheckedClaim(claim, Standing.VERIFIED)
    others = _find_elsewhere(claim.path, tree)
    if others and "/" not in claim.path:
        return CheckedClaim(claim, Standing.VERIFIED)  # a bare name, and there are files of that name
    if others and not claim.mark and all(other.endswith(f"/{claim.path}") for other in others):
        return CheckedClaim(claim, Standing.VERIFIED, others[0])  # cited from a folder that all know
    others = others or _find_renamed(claim, tree)
    if len(others) == 1:
        return CheckedClaim(claim, Standing.MOVED, f"{claim.path} is now {others[0]}")
    return CheckedClaim(claim, Standing.GONE, f"{claim.path} does not exist")


def _find_renamed(claim: Claim, tree: ProjectTree) -> list[str]:
    """Return the files that a missing file may be now: with the same content, or else with another ending."""
    folder, _, name = claim.path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not claim.mark or not dot or claim.mark == fingerprint([]):
        return []
    if len(claim.mark) == 12:
        same = tree.same_content(claim.mark, ending=f".{ending}")
        if same:
            return same
    prefix = f"{folder}/{stem}." if folder else f"{stem}."
    return [path for path in sorted(tree.files) if path.startswith(prefix) and SOURCE.search(path)]


def _check_lines(claim: Claim, tree: ProjectTree) -> CheckedClaim:
    known = claim.mark
    others = [claim.path] if tree.holds(claim.path) else _find_elsewhere(claim.path, tree)
    if len(others) != 1:
        return CheckedClaim(claim, Standing.GONE, f"{claim.path} does not exist")
    path = others[0]
    meant = path if "/" not in claim.path else claim.path  # a bare name means the file that has it
    content = tree.read(path)
    lines = content.split(b"\n") if content is not None else []
    here = _cut(content, claim.first, claim.last)
    if path == meant and here and (not known or fingerprint(here) == known):
        return CheckedClaim(claim, Standing.VERIFIED)
    if known:
        at = _find_lines(lines, claim.last - claim.first + 1, known)
        if at:
            return CheckedClaim(claim, Standing.MOVED, f"{claim.cited} is now {path}#L{at[0]}-L{at[1]}")
        return CheckedClaim(claim, Standing.CHANGED, f"the lines {claim.cited} are no longer what was cited")
    if path != meant:
        return CheckedClaim(claim, Standing.MOVED, f"{claim.path} is now {path}")
    return CheckedClaim(claim, Standing.CHANGED, f"{claim.path} has only {len(lines)} lines")


def _check_symbol(claim: Claim, tree: ProjectTree, here: Mapping[str, str]) -> CheckedClaim | None:
    """Return the result for a name whose file is not known: whether it stands in any file of the project."""
    others = _files_defining(claim, tree) if claim.symbol in here else []
    if others:
        return CheckedClaim(claim, Standing.MOVED, f"`{claim.symbol}` is now in {others[0]}")
    if claim.symbol in here:
        tree.proofs.add(here[claim.symbol])
        return CheckedClaim(claim, Standing.VERIFIED, here[claim.symbol])
    if claim.owner and not claim.mark and not (tree.has_part(claim.owner) or tree.defining(claim.owner)):
        return None  # of a library, of which nothing is known here
    return CheckedClaim(claim, Standing.GONE, f"`{claim.symbol}` is in no file of the project")


def _files_defining(claim: Claim, tree: ProjectTree) -> list[str]:
    """Return the files that define a claim's name, if the cited file does not mention the name any more."""
    content = tree.read(claim.path) if claim.path else None
    return [] if content is None or claim.symbol.encode() in content else tree.defining(claim.symbol)


def _check_definition(claim: Claim, tree: ProjectTree) -> CheckedClaim:
    """Return the result for a name whose saved state is the file that defined it."""
    name = claim.symbol
    if tree.defines(claim.mark, name):
        tree.proofs.add(claim.mark)
        return CheckedClaim(claim, Standing.VERIFIED, claim.mark)
    others = tree.defining(name)
    if not others:
        return CheckedClaim(claim, Standing.GONE, f"`{name}` is defined in no file of the project")
    if claim.path:
        return CheckedClaim(claim, Standing.MOVED, f"`{name}` is now in {others[0]}")
    return CheckedClaim(claim, Standing.VERIFIED, others[0])


def _check_value(claim: Claim, tree: ProjectTree) -> CheckedClaim | None:
    name = claim.symbol.rpartition(".")[2]
    here = _assigned(claim, tree)
    if claim.value in here:
        tree.proofs.add(claim.path)
        return CheckedClaim(claim, Standing.VERIFIED, claim.path)
    if here:
        why = f"`{name}` is {here[0]} in {claim.path}, not {claim.value}"
        return CheckedClaim(claim, Standing.CHANGED, why)
    elsewhere = tree.assigning(name)
    if not claim.mark and (claim.path or len(elsewhere) != 1):
        return None  # said of a file that never gave it a value, or of nobody knows which
    if not claim.mark:
        return _check_value(claim._replace(path=next(iter(elsewhere))), tree)
    if any(claim.value in values for values in elsewhere.values()):
        return CheckedClaim(claim, Standing.VERIFIED, next(iter(elsewhere)))
    for path, values in elsewhere.items():
        return CheckedClaim(claim, Standing.CHANGED, f"`{name}` is {values[0]} in {path}, not {claim.value}")
    return CheckedClaim(claim, Standing.GONE, f"`{name}` is given a value in no file of the project")


def _find_elsewhere(path: str, tree: ProjectTree) -> list[str]:
    """Return the files of the same name in other folders whose paths end most like the given path."""
    parts = path.split("/")
    others = tree.named.get(parts[-1], [])

    def common(other: str) -> int:
        theirs = other.split("/")
        return next(
            (n for n in range(min(len(parts), len(theirs))) if parts[-1 - n] != theirs[-1 - n]),
            min(len(parts), len(theirs)),
        )

    best = max(map(common, others), default=0)
    return [other for other in others if common(other) == best]


def _cut(content: bytes | None, first: int, last: int) -> list[bytes]:
    lines = content.split(b"\n") if content is not None else []
    if lines and not lines[-1]:
        lines.pop()
    return lines[first - 1 : last] if last <= len(lines) else []


def _find_lines(lines: Sequence[bytes], count: int, known: str) -> tuple[int, int] | None:
    """Return the first and last line at which lines with this fingerprint stand now; None if
    they are gone.
    """
    return next(
        (
            (at + 1, at + count)
            for at in range(len(lines) - count + 1)
            if lines[at].strip() and fingerprint(lines[at : at + count]) == known
        ),
        None,
    )


def render_marks(marks: dict[str, str]) -> str:
    """Return the saved state of cited code as the text that stands in an entry's signature."""
    return ", ".join(f"{where}@{value}" for where, value in sorted(marks.items()))


def parse_marks(text: str) -> dict[str, str]:
    """Return the saved state that `render_marks` wrote as a text; unreadable parts are left out."""
    found: dict[str, str] = {}
    for each in _pairs(text):
        found[each[0]] = each[1]
    return found


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for piece in text.split(","):
        where, at, value = piece.strip().rpartition("@")
        if at and _MARK.fullmatch(value):
            yield where, value


def check_entry(entry: Entry, tree: ProjectTree) -> list[CheckedClaim]:
    """Return the results for the claims of an entry about the project's code that can be checked."""
    if not may_cite(entry.text):
        return []
    marks = parse_marks(entry.cites or "")
    claims = [each.claim for each in find_stated(entry.text, tree=tree, marks=marks)]
    return check_claims(claims, tree)
