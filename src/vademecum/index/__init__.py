"""The index: rows made from the files, which answer a question quickly and can be deleted and rebuilt.

These are the public names of the package; each is imported when it is first read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_names

if TYPE_CHECKING:
    from vademecum.index import languages as languages
    from vademecum.index import similar as similar
    from vademecum.index import words as words
    from vademecum.index.base import EVERYTHING as EVERYTHING
    from vademecum.index.base import JOURNAL as JOURNAL
    from vademecum.index.base import MEMORY as MEMORY
    from vademecum.index.base import PINNED as PINNED
    from vademecum.index.base import ChunkRow as ChunkRow
    from vademecum.index.base import Filter as Filter
    from vademecum.index.base import Index as Index
    from vademecum.index.base import IndexDocument as IndexDocument
    from vademecum.index.base import IndexedFolder as IndexedFolder
    from vademecum.index.base import IndexItem as IndexItem
    from vademecum.index.base import KnownFile as KnownFile
    from vademecum.index.base import Labels as Labels
    from vademecum.index.base import Mark as Mark
    from vademecum.index.base import Nearest as Nearest
    from vademecum.index.base import Piece as Piece
    from vademecum.index.base import SimilarTerm as SimilarTerm
    from vademecum.index.base import Stamp as Stamp
    from vademecum.index.base import Stats as Stats
    from vademecum.index.corpus import Corpus as Corpus
    from vademecum.index.corpus import moment as moment
    from vademecum.index.corpus import read_document as read_document
    from vademecum.index.corpus import text_to_embed as text_to_embed
    from vademecum.index.embed.base import Embedder as Embedder
    from vademecum.index.embed.base import PassageReader as PassageReader
    from vademecum.index.embed.select import EmbedderSetting as EmbedderSetting
    from vademecum.index.embed.select import LazyEmbedder as LazyEmbedder
    from vademecum.index.embed.select import lazily_shipped as lazily_shipped
    from vademecum.index.embed.select import select_reader as select_reader
    from vademecum.index.embed.select import shipped as shipped
    from vademecum.index.freshness import Freshness as Freshness
    from vademecum.index.languages import language_of as language_of
    from vademecum.index.sqlite import SqliteIndex as SqliteIndex
    from vademecum.index.sqlite import Stems as Stems
    from vademecum.index.sqlite import mark_of as mark_of
    from vademecum.index.sqlite import new_stems as new_stems
    from vademecum.index.sqlite import stems_version as stems_version
    from vademecum.index.sync import Survey as Survey
    from vademecum.index.sync import Sync as Sync
    from vademecum.index.sync import SyncReport as SyncReport
    from vademecum.index.upkeep import IndexFile as IndexFile
    from vademecum.index.vectors import cosines_of as cosines_of
    from vademecum.index.vectors import pack as pack
    from vademecum.index.vectors import unpack as unpack
    from vademecum.index.words import ENGLISH as ENGLISH
    from vademecum.index.words import QuestionCues as QuestionCues
    from vademecum.index.words import Speech as Speech
    from vademecum.index.words import Terms as Terms

_HOMES = {
    "base": (
        "ChunkRow EVERYTHING Filter Index IndexDocument IndexItem IndexedFolder JOURNAL KnownFile "
        "Labels MEMORY Mark Nearest PINNED Piece SimilarTerm Stamp Stats"
    ),
    "corpus": "Corpus moment read_document text_to_embed",
    "embed.base": "Embedder PassageReader",
    "embed.select": "EmbedderSetting LazyEmbedder lazily_shipped select_reader shipped",
    "freshness": "Freshness",
    "languages": "language_of",
    "sqlite": "SqliteIndex Stems mark_of new_stems stems_version",
    "sync": "Survey Sync SyncReport",
    "upkeep": "IndexFile",
    "vectors": "cosines_of pack unpack",
    "words": "ENGLISH QuestionCues Speech Terms",
}
SUBJECTS = ("languages", "similar", "words")

__all__ = [*(name for names in _HOMES.values() for name in names.split()), *SUBJECTS]  # noqa: PLE0604  they are strings

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake
    __getattr__ = lazy_names(__name__, _HOMES)
