"""The values that calls on memory give, by name, for whoever writes down what they get; loads nothing."""

# ruff: noqa: PLC0414  a name told again by itself is one that others may import

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vademecum.context.engine import DryRun as DryRun
    from vademecum.context.exchange import Turn as Turn
    from vademecum.context.window import Inspection as Inspection
    from vademecum.context.window import Sections as Sections
    from vademecum.index.sync import Survey as Survey
    from vademecum.index.sync import SyncReport as SyncReport
    from vademecum.inject.build import Block as Block
    from vademecum.inject.injection import Delivery as Delivery
    from vademecum.inject.topics import BlockItem as BlockItem
    from vademecum.inject.topics import BlockSection as BlockSection
    from vademecum.knowledge.graph import Graph as Graph
    from vademecum.knowledge.intake import ImportReport as ImportReport
    from vademecum.knowledge.signals import Signal as Signal
    from vademecum.knowledge.trust import LessonFigures as LessonFigures
    from vademecum.knowledge.trust import Trust as Trust
    from vademecum.knowledge.trust import Unverified as Unverified
    from vademecum.lifecycle.passes import Proposal as Proposal
    from vademecum.lifecycle.passes import RunOutcome as RunOutcome
    from vademecum.lifecycle.profile import ProfileDraft as ProfileDraft
    from vademecum.lifecycle.promote import Promoted as Promoted
    from vademecum.lifecycle.reword import Rewording as Rewording
    from vademecum.lifecycle.rewrite import Rewritten as Rewritten
    from vademecum.lifecycle.transfer import ExportedBundle as ExportedBundle
    from vademecum.llm.base import ModelAnswer as ModelAnswer
    from vademecum.memory.archive import HistoryStep as HistoryStep
    from vademecum.store import Home as Home
    from vademecum.store import Pinned as Pinned
    from vademecum.store import Told as Told
    from vademecum.store.arrange import Arranged as Arranged
    from vademecum.store.projects import KnownProject as KnownProject
    from vademecum.store.purge import Purge as Purge
    from vademecum.store.reading import Text as Text
    from vademecum.store.requests import Waiting as Waiting
    from vademecum.store.runs import Brief as Brief
    from vademecum.store.sources import Source as Source
    from vademecum.store.tombstones import Tombstone as Tombstone
    from vademecum.transcripts.events import Usage as Usage
    from vademecum.transcripts.importing import ImportedSession as ImportedSession
    from vademecum.transcripts.log import Line as Line
    from vademecum.transcripts.turns import SessionTurn as SessionTurn
    from vademecum.transcripts.turns import TurnPart as TurnPart
