"""Reranking: the best answers seen again by a cross-encoder, a server or a language model, if one is set.

It can only change an order. What fails, takes too long or makes no sense leaves the order as it was, and the
answer says so. What leaves the machine is clean of secrets.
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

    # How well each text answers a question, the higher the better; a VadeError for what is no answer.
    Score = Callable[[str, Sequence[str]], list[float]]

MOST = 20  # answers that are looked at again
LONGEST = 2_000  # characters of each
QUIET = 30.0  # seconds for which what failed is not asked again
LLM = "llm"
NOT_RERANKED = "not reranked"  # how it is told
_HUGE = 1e300  # what is larger, or no number, is no score


class RerankProvider(NamedTuple):
    """What is usual at one provider."""

    model: str
    key_env: str


PROVIDERS = {
    "api.cohere.com": RerankProvider("rerank-v3.5", "COHERE_API_KEY"),
    "api.jina.ai": RerankProvider("jina-reranker-v2-base-multilingual", "JINA_API_KEY"),
    "api.voyageai.com": RerankProvider("rerank-2.5", "VOYAGE_API_KEY"),
}


class Rerank:
    """Scores texts, and is left alone for a while after it failed."""

    most = MOST

    def __init__(self, name: str, score: Score) -> None:
        self.name = name
        self._score = score
        self._failed = ""
        self._until = -math.inf

    def __call__(self, question: str, texts: Sequence[str]) -> list[float] | str:
        """A score for each text, or why there is none."""
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
        """Put the best hits in another order and leave as many as were asked for; scores stay in order."""
        hits = found.hits[: self.most]
        order = self.ordered(question, [hit.row.body for hit in hits])
        if isinstance(order, str):
            found.degraded.append(order)
        elif order:
            found.hits[: len(hits)] = [
                _moved(hits[at], hits[place].score, made, at + 1) for place, (at, made) in enumerate(order)
            ]
        del found.hits[options.max_results :]

    def ordered(self, question: str, texts: Sequence[str]) -> list[tuple[int, float]] | str:
        """Where each text stood and how well it answers, the best first; or what to tell instead.

        Nothing for a single text: it has no other order.
        """
        made = self(question, texts) if len(texts) > 1 else []
        if isinstance(made, str):
            return f"{NOT_RERANKED}: {made}"
        return [(at, made[at]) for at in sorted(range(len(made)), key=lambda at: (-made[at], at))]


def _moved(hit: RankedRow, score: float, made: float, before: int) -> RankedRow:
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
    """What a setting names; what is wrong with it is told when it is first asked."""
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
    """A `/rerank` as Cohere, Jina and Voyage have it: one request for all, scores by index."""

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
        if isinstance(answer, net.Trouble):
            raise ModelFailed(f"{self.name} failed: {answer.reason}")
        scores = _read_scores(net.parse_body(answer), len(texts))
        if scores is None:
            raise ModelFailed(f"{self.name} failed: invalid response")
        return scores


def _read_scores(body: Any, count: int) -> list[float] | None:
    """The score of each text; None unless there is one sound number for every one of them."""
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
    """A cross-encoder's file, loaded when it is first asked."""

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
    """Ask a language model for an order; those it names score by their place, the rest follow."""
    passages = "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))
    prompt = read_prompt(__package__ or "", "rerank").format(question=question, passages=passages)
    answer = model.text(prompt, limits=Limits(seconds=seconds)).text
    array = re.search(r"\[[\d,\s]*\]", answer)
    order = [number - 1 for number in json.loads(array[0])] if array else []
    if not order or len({*order}) != len(order) or not {*order} <= {*range(len(texts))}:
        raise ModelFailed(f"{model.name} failed: its answer is not an order of the passages")
    places = {at: place for place, at in enumerate([*order, *sorted({*range(len(texts))} - {*order})])}
    return [1.0 - places[at] / len(texts) for at in range(len(texts))]
