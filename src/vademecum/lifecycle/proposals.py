"""Check what a language model proposes to remember of a session, against the session itself.

Each proposal must quote words of the session, and code decides whether the quoted sentences support the
proposal. This module knows texts and turns; it knows no model, no search and no files.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.index import words as indexed
from vademecum.knowledge import judge, signals, typed
from vademecum.llm.base import InvalidAnswer, find_json
from vademecum.text import SPOKEN, conflict, lexicon, secrets, sentence_spans, similarity, visible, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST = 40  # proposals of one answer; an answer with more is invalid
LONGEST = 300  # characters of a proposal
USER, AGENT = "user", "agent"
LESSON = "lesson"
OF_USERS = frozenset(
    {"rule", "preference", "correction", "decision"}
)  # kinds that only a user's words support
KINDS = OF_USERS | {"fact", LESSON}
_SHORTEST_QUOTE = 12  # characters
_FEWEST_WORDS = 3  # of a proposal, and of a quote
_MOST_WORDS = 45
_FEWEST_CONTENT = 2  # words of a proposal that say something


class ProposalRefusal(StrEnum):
    """The reason why a proposal was refused."""

    FORM = "not one plain sentence of a known kind"
    NO_QUOTE = "its quote is not in the session"
    ANOTHER_SPEAKER = "somebody else said what it quotes"
    PASTED = "it quotes pasted text"
    UNSUPPORTED = "its quote does not support it"
    OPPOSITE = "its quote says otherwise"
    ONLY_AGENT = "only the agent said it"
    REJECTED = "the user rejected it"
    TAKEN_BACK = "the user said otherwise later"
    PASSING = "it is a task, a question or a guess, or holds for today"
    SECRET = "it holds a secret"
    ORDER = "it gives orders to agents"
    REPEATED = "memory has it"
    CONTRADICTS = "it contradicts what a person saved"


class ModelProposal(NamedTuple):
    """What a model proposes to remember: a sentence, its kind, and the quoted words that support it."""

    kind: str
    text: str
    by: str  # the speaker of the quote, `user` or `agent`
    quote: str


class ConversationTurn(NamedTuple):
    """A message of a session, by its place in the log."""

    place: str
    role: str  # `user` or `agent`
    text: str
    time: str = ""


class Supported(NamedTuple):
    """A proposal that the session supports, with the quoted turn and the whole sentences of the quote."""

    proposal: ModelProposal
    turn: ConversationTurn
    sentences: str


def parse_proposals(answer: str) -> list[ModelProposal]:
    """Return the proposals in a model's answer; raises InvalidAnswer for an answer without a list of them.

    A proposal of the wrong form is kept with empty fields, which `check` refuses.
    """
    listed = find_json(answer).get("proposals")
    if not isinstance(listed, list):
        raise InvalidAnswer("- it has no list of proposals")
    if len(listed) > MOST:
        raise InvalidAnswer(f"- it has {len(listed)} proposals, and {MOST} are the most")
    return [_parse(each) for each in listed]


def _parse(given: Any) -> ModelProposal:
    fields = given if isinstance(given, dict) else {}
    kind, text, by, quote = (
        value if isinstance(value := fields.get(name), str) else "" for name in ModelProposal._fields
    )
    by = AGENT if by.strip().lower() in ("assistant", AGENT) else by.strip().lower()
    return ModelProposal(kind.strip().lower(), " ".join(text.split()), by, quote.strip())


def check(proposal: ModelProposal, turns: Sequence[ConversationTurn]) -> Supported | ProposalRefusal:
    """Return a proposal with its place in the session, or the reason why the session does not support it."""
    if not _is_sentence(proposal):
        return ProposalRefusal.FORM
    if any(map(_has_secret, (proposal.text, proposal.quote))):
        return ProposalRefusal.SECRET
    if _ORDERS.search(proposal.text):
        return ProposalRefusal.ORDER
    found: Supported | ProposalRefusal = ProposalRefusal.NO_QUOTE
    for at in _places(proposal.quote, turns):
        found = _check_place(proposal, turns, at)
        if isinstance(found, Supported):
            break
    return found


# -------------------------------------------------------------------- the form

_MARKUP = re.compile(r"<[^>\s][^>]*>|```|[\x00-\x1f\x7f]|&(?:lt|gt|amp|#\d+);")
# A secret that no rule of `secrets` knows: only the word before it shows that it is one.
_NAMED_SECRET = re.compile(
    r"\b(?:password|passwd|pwd|passphrase|secret|token|api key|credentials?|pin)\b"
    r"[^.\n]{0,20}?(?:\bis\b|=|:|\bist\b)\s*\S",
    re.IGNORECASE,
)
# Orders to a later reader, which no memory has.
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:instructions?|rules?|prompts?|memory|memories)\b"
    r"|\bsystem prompt\b|\bas an ai\b|\byou are (?:now|a|an)\b|\bmemory_\w+|\bdo anything now\b"
    r"|\b(?:curl|wget)\b.{0,80}\|\s*(?:ba|z)?sh\b|\bwithout (?:asking|telling) (?:the )?user\b",
    re.IGNORECASE,
)


def _has_secret(text: str) -> bool:
    return bool(secrets.find(text) or _NAMED_SECRET.search(text)) or similarity.is_redacted(text)


def _is_sentence(proposal: ModelProposal) -> bool:
    """Whether a proposal is one plain sentence of a known kind."""
    text = proposal.text
    return (
        proposal.kind in KINDS
        and proposal.by in (USER, AGENT)
        and len(text) <= LONGEST
        and _FEWEST_WORDS <= len(SPOKEN.findall(text)) <= _MOST_WORDS
        and not _MARKUP.search(text)
    )


# -------------------------------------------------------------------- the quote

_SAME_SIGNS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})


def _plain(text: str) -> str:
    """Return a text with plain quotation marks, dashes and white space, for comparing; letters stay."""
    return " ".join(text.translate(_SAME_SIGNS).split())


def _places(quote: str, turns: Sequence[ConversationTurn]) -> Iterator[int]:
    """Yield the numbers of the turns that have a quote, letter by letter; none for a short quote."""
    wanted = _plain(quote).strip("\"'").rstrip(".!…")
    if len(wanted) < _SHORTEST_QUOTE or len(SPOKEN.findall(wanted)) < _FEWEST_WORDS:
        return
    yield from (at for at, turn in enumerate(turns) if wanted in _plain(turn.text))


def _check_place(
    proposal: ModelProposal, turns: Sequence[ConversationTurn], at: int
) -> Supported | ProposalRefusal:
    """Return whether one turn that has the quote supports a proposal."""
    turn = turns[at]
    if turn.role != proposal.by:
        return ProposalRefusal.ANOTHER_SPEAKER
    own = visible(typed.own_words(turn.text) if turn.role == USER else _without_code(turn.text))
    sentences = _quoted_sentences(proposal.quote, own)
    if not sentences:
        return ProposalRefusal.PASTED
    if turn.role == AGENT and proposal.kind in OF_USERS:
        return ProposalRefusal.ONLY_AGENT
    if _has_secret(sentences):
        return ProposalRefusal.SECRET
    if _ORDERS.search(sentences):
        return ProposalRefusal.ORDER
    if turn.role == AGENT and _is_rejected(turns, at):
        return ProposalRefusal.REJECTED
    refusal = _find_unsupported(proposal.text, sentences) or _find_passing(proposal, sentences)
    if refusal is not None:
        return refusal
    if _is_taken_back(proposal.text, sentences, turns[at:]):
        return ProposalRefusal.TAKEN_BACK
    return Supported(proposal, turn, sentences)


def _without_code(text: str) -> str:
    from vademecum.text import fences

    return fences.blank(text)


def _quoted_sentences(quote: str, own: str) -> str:
    """Return the whole sentences that a quote touches; empty when the text does not have the quote.

    So a quote that was cut out of its sentence, such as "we use tabs" of "I doubt that we use tabs", is read
    with the rest of the sentence.
    """
    text, wanted = _plain(own), _plain(quote).strip("\"'").rstrip(".!…")
    start = text.find(wanted)
    if start < 0:
        return ""
    end = start + len(wanted)
    spans = [span for span in sentence_spans(text) if span[0] < end and start < span[1]]
    return text[min(span[0] for span in spans) : max(span[1] for span in spans)] if spans else ""


# -------------------------------------------------------------------- support

_NAMED = re.compile(r"[\w$@~]*[\d_/\\@$~.:][\w$@~./\\:-]*\w|\w*[a-z][A-Z]\w*|\b[A-Z]{2,}\b|\d+")
_CAPITAL = re.compile(r"(?<=[\w,;:)] )[A-Z][a-zäöüß]+")
_CLAUSES = re.compile(r"[,;:()–—]| - |\b(?:but|because|since|so|and|aber|weil|und|sondern|denn)\b")
_NOTHING = frozenset(  # words of German that say nothing; those of English are `STOP`
    """der die das den dem des ein eine einen einem einer ist sind war wir ich ihr er es im in am an auf
    mit von zu zum zur für bei und oder aber weil dass auch nur noch bitte wird werden hat haben mir mich
    uns""".split()
)
# Words that a statement may have although the quoted sentences have none of them.
_ABOUT = frozenset(
    """user users user's prefer prefers preferred preference want wants like likes team project
    repository repo decided decide decision choose chose chosen agreed should must use used uses using need
    needs agent said says rather people keep kept since
    nutzer projekt team bevorzugt möchte soll sollen muss entschieden""".split()
)
# Words by which a statement claims more cases, and words of the quoted sentences that allow such a claim.
_REACHING = re.compile(r"\b(?:always|never|all|every|everywhere|only|any|must|immer|nie|jede\w*|nur)\b", re.I)
_ALLOWS = re.compile(
    r"\b(?:always|never|all|every\w*|only|any\w*|must|no|not|from now on|going forward|in future|in general"
    r"|by default|each|don[’']?t|do not|stop|should|nothing|none|both|ever|just|have to|need to"
    r"|immer|nie\w*|jede\w*|nur|ab jetzt|künftig|grundsätzlich|nicht|kein\w*|muss|soll\w*)\b",
    re.I,
)
_DENYING = re.compile(r"n't$|^(?:kein\w*|nicht|nie|niemals|ohne|statt)$")
# Words that end the use of something: a statement in which it is still used says the opposite.
_ENDING = frozenset(
    """drop drops dropped dropping remove removes removed removing delete deletes deleted disable disables
    disabled abandon abandoned ban banned forbid forbidden hate hates""".split()
)
_SHARED = 0.75  # the share of words that two statements about the same subject have in common
_NEAR = 4  # the most content words from a name or number to a word that belongs to it


def _find_unsupported(text: str, sentences: str) -> ProposalRefusal | None:
    """Return why the sentences of a quote do not support a text; None if they do."""
    known = _stems(sentences)
    content = [word for word in _content(text) if word not in _ABOUT and not _denies(word)]
    if len(content) < _FEWEST_CONTENT or any(vocabulary.stem(word) not in known for word in content):
        return ProposalRefusal.UNSUPPORTED
    place = sentences.casefold()
    names = {each.casefold() for each in (*_NAMED.findall(text), *_CAPITAL.findall(text))}
    if any(not re.search(rf"(?<!\w){re.escape(each)}(?!\w)", place) for each in names):
        return ProposalRefusal.UNSUPPORTED
    if _REACHING.search(text) and not _ALLOWS.search(sentences):
        return ProposalRefusal.UNSUPPORTED
    if not _stand_together(text, sentences, names):
        return ProposalRefusal.UNSUPPORTED
    if _says_opposite(text, sentences) or conflict.contradiction(text, sentences):
        return ProposalRefusal.OPPOSITE
    return None


def _content(text: str) -> list[str]:
    """Return the words of a text that say something, in lower case."""
    found = (each.casefold().replace("’", "'") for each in SPOKEN.findall(text))
    return [
        each
        for each in found
        if len(each) > 1
        and each not in _NOTHING
        and (each.split("'")[0] not in indexed.STOP or _denies(each))
    ]


def _stems(text: str) -> frozenset[str]:
    whole = _content(text)
    parts = (part for word in whole for part in re.split(r"[-']", word))
    return frozenset(vocabulary.stem(word) for word in (*whole, *parts))


def _denies(word: str) -> bool:
    """Whether a word denies, forbids or ends something."""
    return bool(_DENYING.search(word)) or word.replace("'", "") in lexicon.NEGATIONS or word in _ENDING


def _stand_together(text: str, sentences: str, names: Iterable[str]) -> bool:
    """Whether each name and number of a text stands near the same words in the sentences of its quote."""
    mine, theirs = ([vocabulary.stem(word) for word in _content(each)] for each in (text, sentences))
    named = {vocabulary.stem(part) for name in names for part in _content(name)}
    for at, word in enumerate(mine):
        beside = [each for each in mine[max(0, at - 1) : at + 2] if each != word and each in theirs]
        if word not in named or not beside or word not in theirs:
            continue
        places = [number for number, each in enumerate(theirs) if each == word]
        if not any(
            abs(number - other) <= _NEAR
            for other, each in enumerate(theirs)
            if each in beside
            for number in places
        ):
            return False
    return True


class _Sides(NamedTuple):
    """The stems that a text affirms, and those that it denies."""

    affirmed: frozenset[str]
    denied: frozenset[str]


def _sides(text: str) -> _Sides:
    """Return what a text affirms and denies: a word such as "never" denies the rest of its clause.

    At the end of a clause it denies the whole clause: "Redis was dropped".
    """
    affirmed: set[str] = set()
    denied: set[str] = set()
    for clause in _CLAUSES.split(text):
        words = _content(clause)
        first = next((at for at, word in enumerate(words) if _denies(word)), len(words))
        rest = [word for word in words[first + 1 :] if not _denies(word)]
        before = words[:first]
        if first < len(words) and not rest:
            before, rest = [], before
        affirmed |= {vocabulary.stem(word) for word in before}
        denied |= {vocabulary.stem(word) for word in rest}
    return _Sides(frozenset(affirmed), frozenset(denied))


def _says_opposite(text: str, other: str) -> bool:
    """Whether one text denies what the other affirms."""
    mine, theirs = _sides(text), _sides(other)
    about = {vocabulary.stem(word) for word in _ABOUT}
    return bool(
        ((mine.affirmed - mine.denied) & (theirs.denied - theirs.affirmed)) - about
        or ((mine.denied - mine.affirmed) & (theirs.affirmed - theirs.denied)) - about
    )


# -------------------------------------------------------------------- for now only, and rejected

_PASSING = frozenset(
    {
        judge.DeclineReason.QUESTION,
        judge.DeclineReason.SPECULATION,
        judge.DeclineReason.TRANSIENT,
        judge.DeclineReason.UNCERTAIN,
    }
)
_FOR_ONCE = re.compile(
    r"\b(?:today|tonight|tomorrow|for now"
    r"|this (?:time|week|morning|afternoon|evening|pr|branch|commit|session|turn|run)"
    r"|right now|next step|currently working|will (?:now )?(?:fix|check|look|try|run|start)|let me"
    r"|heute|morgen|diesmal|erstmal|vorerst)\b",
    re.IGNORECASE,
)
_REJECTS = re.compile(
    r"\s*(?:no\b|nope|nah\b|wrong|incorrect|stop\b|don[’']?t\b|do not\b|actually,? no"
    r"|that[’']?s (?:not|wrong|incorrect|false)"
    r"|not (?:true|right|correct|what)|nein\b|falsch|stimmt nicht)",
    re.IGNORECASE,
)


def _find_passing(proposal: ModelProposal, sentences: str) -> ProposalRefusal | None:
    """Return a refusal for what is a task, a question or a guess, or holds for today."""
    if _FOR_ONCE.search(proposal.text) or _FOR_ONCE.search(sentences):
        return ProposalRefusal.PASSING
    # An agent reports in the past tense, which cues take for something that passes.
    is_report = proposal.by == AGENT
    passing = _PASSING - {judge.DeclineReason.TRANSIENT} if is_report else _PASSING
    for text in (sentences, proposal.text):
        reading = signals.read_cues(text)
        if not reading.signals and reading.declined in passing:
            return ProposalRefusal.PASSING
    reading = signals.read_cues(sentences)
    if not reading.signals and reading.declined is judge.DeclineReason.REQUEST:
        return ProposalRefusal.PASSING
    return None


def _is_rejected(turns: Sequence[ConversationTurn], at: int) -> bool:
    """Whether the user's next message rejects a turn of the agent."""
    following = next((each for each in turns[at + 1 :] if each.role == USER), None)
    return following is not None and bool(_REJECTS.match(following.text))


def _is_taken_back(text: str, sentences: str, later: Iterable[ConversationTurn]) -> bool:
    """Whether the user said the opposite of a statement after it."""
    own = _plain(sentences)
    for turn in later:
        if turn.role != USER:
            continue
        said = _plain(visible(typed.own_words(turn.text)))
        after = said.partition(own)[2] if own in said else said
        for start, end in sentence_spans(after):
            if contradicts(text, after[start:end]):
                return True
    return False


def contradicts(text: str, other: str) -> bool:
    """Whether two statements contradict each other: in their values, or because one denies the other."""
    if conflict.contradiction(text, other):
        return True
    mine, theirs = ({*_stems(each)} - _PLAIN for each in (text, other))
    shared = len(mine & theirs)
    is_about_same = shared >= max(_FEWEST_CONTENT, _SHARED * min(len(mine), len(theirs)))
    return is_about_same and _says_opposite(text, other)


_PLAIN = frozenset(vocabulary.stem(word) for word in (*lexicon.NEGATIONS, *_ABOUT, *_ENDING, "don", "longer"))
