"""Reranking: a cross-encoder, a server or a language model orders the best answers again.

Settings choose the reranker; by default there is none. A reranker can only change the order. If it fails, is
too slow or returns nonsense, the order stays and the answer says so. Texts are sent without secrets.
"""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from vademecum.errors import EmbedderFailed, ModelFailed, VadeError
from vademecum.llm import net
from vademecum.llm.base import Limits, read_prompt
from vademecum.text.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.llm.base import Model
    from vademecum.search.engine import Options, RankedRow, Ranking

    # How well each text answers a question, the higher the better; a VadeError for an invalid response.
    Score = Callable[[str, Sequence[str]], list[float]]

MOST = 20  # results that are reranked
LONGEST = 2_000  # characters of each text
QUIET = 30.0  # seconds without a request after a failure
LLM = "llm"
NOT_RERANKED = "not reranked"  # the beginning of its message
_HUGE = 1e300  # a larger number is no score


class RerankProvider(NamedTuple):
    """The default settings of a provider of reranking."""

    model: str
    key_env: str


PROVIDERS = {
    "api.cohere.com": RerankProvider("rerank-v3.5", "COHERE_API_KEY"),
    "api.jina.ai": RerankProvider("jina-reranker-v2-base-multilingual", "JINA_API_KEY"),
    "api.voyageai.com": RerankProvider("rerank-2.5", "VOYAGE_API_KEY"),
}


class Rerank:
    """A reranker, which scores texts for a question and pauses for a while after a failure."""

    most = MOST

    def __init__(self, name: str, score: Score) -> None:
        self.name = name
        self._score = score
        self._failed = ""
        self._until = -math.inf

    def __call__(self, question: str, texts: Sequence[str]) -> list[float] | str:
        """Return a score for each text, or a text with the reason why there are no scores."""
        if time.monotonic() < self._until:
            return f"{self._failed}; retried in 30 seconds"
        try:
            scores = self._score(clean_text(question), [clean_text(text)[:LONGEST] for text in texts])
            if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
                raise ModelFailed(f"{self.name} failed: invalid response")
        except VadeError as error:
            self._failed, self._until = str(error), time.monotonic() + QUIET
            return self._failed
        return scores

    def reorder(self, question: str, found: Ranking, options: Options) -> None:
        """Put the best results in the reranker's order, and keep as many as were requested.

        The scores stay where they were, so they are still sorted.
        """
        hits = found.hits[: self.most]
        order = self.ordered(question, [hit.row.body for hit in hits])
        if isinstance(order, str):
            found.degraded.append(order)
        elif order:
            found.hits[: len(hits)] = [
                _move_to_rank(hits[at], hits[place].score, made, at + 1)
                for place, (at, made) in enumerate(order)
            ]
        del found.hits[options.max_results :]

    def ordered(self, question: str, texts: Sequence[str]) -> list[tuple[int, float]] | str:
        """Return the old place and the new score of each text, the best text first.

        Return a message instead if the reranking failed. A single text cannot be reordered and gives an empty
        list.
        """
        made = self(question, texts) if len(texts) > 1 else []
        if isinstance(made, str):
            return f"{NOT_RERANKED}: {made}"
        return [(at, made[at]) for at in sorted(range(len(made)), key=lambda at: (-made[at], at))]


def _move_to_rank(hit: RankedRow, score: float, made: float, before: int) -> RankedRow:
    told = None if hit.arithmetic is None else {**hit.arithmetic, "reranked": made, "place_before": before}
    return hit._replace(score=score, arithmetic=told)


def make_rerank(
    setting: str,
    *,
    model: str | None,
    key_env: str | None,
    seconds: float,
    language_model: Callable[[], Model],
) -> Rerank:
    """Make the reranker that a setting names; an error in the setting is reported at its first use."""
    if setting == LLM:
        return Rerank(
            "the language model", lambda asked, texts: _by_llm(language_model(), asked, texts, seconds)
        )
    if setting.startswith(("http://", "https://")):
        usual = PROVIDERS.get(urlsplit(setting).hostname or "", RerankProvider("", ""))
        server = _Server(setting, model or usual.model, key_env or usual.key_env, seconds)
        return Rerank(server.name, server)
    return Rerank(setting, _Lazy(Path(setting).expanduser(), seconds))


# -------------------------------------------------------------------- a server


class _Server:
    """A reranking server with the protocol of Cohere, Jina and Voyage: one request for all texts."""

    def __init__(self, address: str, model: str, key_env: str, seconds: float) -> None:
        self._address, self._model, self._key_env, self._seconds = address, model, key_env, seconds
        self.name = f"reranking at {urlsplit(address).netloc}"

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        problem = net.find_address_problem(self._address)
        if problem:
            raise ModelFailed(f"`search.rerank` {problem}")
        key = net.read_key(
            (self._key_env,) if self._key_env else (),
            who=self.name,
            needed=bool(self._key_env) and not net.is_local(self._address),
            refused=ModelFailed,
            instead="set `search.rerank` to none",
        )
        asked = {"query": question, "documents": list(texts)} | (
            {"model": self._model} if self._model else {}
        )
        answer = net.post_json(
            self._address,
            "",
            json.dumps(asked).encode(),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            key=key,
            seconds=self._seconds,
        )
        if isinstance(answer, net.RequestProblem):
            raise ModelFailed(f"{self.name} failed: {answer.reason}")
        scores = _read_scores(net.parse_body(answer), len(texts))
        if scores is None:
            raise ModelFailed(f"{self.name} failed: invalid response")
        return scores


def _read_scores(body: Any, count: int) -> list[float] | None:
    """Return the score of each text from a server's answer; None unless every text has one valid score."""
    rows = body.get("results", body.get("data")) if isinstance(body, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        return None
    scores: dict[int, float] = {}
    for row in rows:
        at, score = (row.get("index"), row.get("relevance_score")) if isinstance(row, dict) else (None, None)
        number = score if isinstance(score, int | float) and not isinstance(score, bool) else math.nan
        if type(at) is int and 0 <= at < count and abs(number) < _HUGE:
            scores[at] = float(number)
    return [scores[at] for at in range(count)] if len(scores) == count else None


# -------------------------------------------------------------------- a model of one's own, a language model


class _Lazy:
    """A cross-encoder whose file is loaded when it first scores texts."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._scorer: Callable[..., list[float]] | None = None

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        if self._scorer is None:
            from vademecum.index.embed.local import PairScorer

            if not self._path.is_file():
                raise EmbedderFailed(f"{self._path}: there is no such file")
            self._scorer = PairScorer(self._path)
        return self._scorer(question, texts, seconds=self._seconds)


def _by_llm(model: Model, question: str, texts: Sequence[str], seconds: float) -> list[float]:
    """Return scores from the order in which a language model names the texts; unnamed texts come last."""
    passages = "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))
    prompt = read_prompt(__package__ or "", "rerank").format(question=question, passages=passages)
    answer = model.text(prompt, limits=Limits(seconds=seconds)).text
    array = re.search(r"\[[\d,\s]*\]", answer)
    order = [number - 1 for number in json.loads(array[0])] if array else []
    if not order or len({*order}) != len(order) or not {*order} <= {*range(len(texts))}:
        raise ModelFailed(f"{model.name} failed: its answer is not an order of the passages")
    places = {at: place for place, at in enumerate([*order, *sorted({*range(len(texts))} - {*order})])}
    return [1.0 - places[at] / len(texts) for at in range(len(texts))]
