"""Search: the passages of an index that answer a question, ranked and explained.

These are the public names of the package; each is imported when it is first read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_names

if TYPE_CHECKING:
    from vademecum.search.base import Answer as Answer
    from vademecum.search.base import Cited as Cited
    from vademecum.search.base import Coverage as Coverage
    from vademecum.search.base import Passage as Passage
    from vademecum.search.base import Query as Query
    from vademecum.search.engine import MODES as MODES
    from vademecum.search.engine import ORDERS as ORDERS
    from vademecum.search.engine import Engine as Engine
    from vademecum.search.engine import Options as Options
    from vademecum.search.engine import Ranking as Ranking
    from vademecum.search.finder import Finder as Finder
    from vademecum.search.question_times import moment_of as moment_of
    from vademecum.search.question_times import times_asked as times_asked
    from vademecum.search.searcher import ChunkShape as ChunkShape
    from vademecum.search.searcher import Searcher as Searcher
    from vademecum.search.searcher import passage as passage
    from vademecum.search.session_keywords import Hit as Hit
    from vademecum.search.session_keywords import SessionHits as SessionHits

_HOMES = {
    "base": "Answer Cited Coverage Passage Query",
    "engine": "Engine MODES ORDERS Options Ranking",
    "finder": "Finder",
    "question_times": "moment_of times_asked",
    "searcher": "ChunkShape Searcher passage",
    "session_keywords": "Hit SessionHits",
}

__all__ = [name for names in _HOMES.values() for name in names.split()]

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake
    __getattr__ = lazy_names(__name__, _HOMES)
