"""Judge texts: the code that they cite, their relations, and how far they are trusted; and import texts of
other systems.

The public names are listed here, and each is imported when it is first read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_names

if TYPE_CHECKING:
    from vademecum.knowledge import citations as citations
    from vademecum.knowledge import graph as graph
    from vademecum.knowledge import judge as judge
    from vademecum.knowledge import lessons as lessons
    from vademecum.knowledge import signals as signals
    from vademecum.knowledge import trust as trust
    from vademecum.knowledge import typed as typed
    from vademecum.knowledge.citations import CheckedClaim as CheckedClaim
    from vademecum.knowledge.citations import Standing as Standing
    from vademecum.knowledge.entry_statements import first_line as first_line
    from vademecum.knowledge.entry_statements import split_entries as split_entries
    from vademecum.knowledge.entry_statements import split_file as split_file
    from vademecum.knowledge.graph import Graph as Graph
    from vademecum.knowledge.graph import Relation as Relation
    from vademecum.knowledge.graph import Sight as Sight
    from vademecum.knowledge.intake import Conversation as Conversation
    from vademecum.knowledge.intake import ImportReport as ImportReport
    from vademecum.knowledge.intake import LessonsPiece as LessonsPiece
    from vademecum.knowledge.intake import NotesPiece as NotesPiece
    from vademecum.knowledge.intake import Piece as Piece
    from vademecum.knowledge.intake import SectionPiece as SectionPiece
    from vademecum.knowledge.intake import Skipped as Skipped
    from vademecum.knowledge.intake import TopicPiece as TopicPiece
    from vademecum.knowledge.intake import TranscriptPiece as TranscriptPiece
    from vademecum.knowledge.judge import DeclineReason as DeclineReason
    from vademecum.knowledge.judge import Signal as Signal
    from vademecum.knowledge.judge import SignalKind as SignalKind
    from vademecum.knowledge.judge import SignalReading as SignalReading
    from vademecum.knowledge.lesson_figures import LessonFigures as LessonFigures
    from vademecum.knowledge.lesson_figures import LessonStats as LessonStats
    from vademecum.knowledge.project_tree import ProjectTree as ProjectTree
    from vademecum.knowledge.trust import Level as Level
    from vademecum.knowledge.trust import Trust as Trust
    from vademecum.knowledge.trust import Unverified as Unverified

_HOMES = {
    "citations": "CheckedClaim Standing",
    "entry_statements": "first_line split_entries split_file",
    "graph": "Graph Relation Sight",
    "intake": (
        "Conversation ImportReport LessonsPiece NotesPiece Piece SectionPiece Skipped TopicPiece "
        "TranscriptPiece"
    ),
    "judge": "DeclineReason Signal SignalKind SignalReading",
    "project_tree": "ProjectTree",
    "lesson_figures": "LessonFigures LessonStats",
    "trust": "Level Trust Unverified",
}
SUBJECTS = ("citations", "graph", "judge", "lessons", "signals", "trust", "typed")

__all__ = [*(name for names in _HOMES.values() for name in names.split()), *SUBJECTS]  # noqa: PLE0604  they are strings

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake
    __getattr__ = lazy_names(__name__, _HOMES)
