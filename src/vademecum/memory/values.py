"""The types of the values that calls on memory return, for type annotations; importing loads no module."""

# ruff: noqa: PLC0414  a name told again by itself is one that others may import

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vademecum.context.engine import DryRun as DryRun
    from vademecum.context.turn import Turn as Turn
    from vademecum.context.window import Inspection as Inspection
    from vademecum.context.window import Sections as Sections
    from vademecum.index import Survey as Survey
    from vademecum.index import SyncReport as SyncReport
    from vademecum.inject.build import Block as Block
    from vademecum.inject.injection import HookDelivery as HookDelivery
    from vademecum.inject.topics import BlockItem as BlockItem
    from vademecum.inject.topics import BlockSection as BlockSection
    from vademecum.knowledge import Graph as Graph
    from vademecum.knowledge import ImportReport as ImportReport
    from vademecum.knowledge import LessonFigures as LessonFigures
    from vademecum.knowledge import Signal as Signal
    from vademecum.knowledge import SignalReading as SignalReading
    from vademecum.knowledge import Trust as Trust
    from vademecum.knowledge import Unverified as Unverified
    from vademecum.lifecycle.passes import Proposal as Proposal
    from vademecum.lifecycle.passes import RunOutcome as RunOutcome
    from vademecum.lifecycle.profile import ProfileDraft as ProfileDraft
    from vademecum.lifecycle.promote import PromotionOutcome as PromotionOutcome
    from vademecum.lifecycle.reword import Rewording as Rewording
    from vademecum.lifecycle.rewrite import RewriteOutcome as RewriteOutcome
    from vademecum.lifecycle.transfer import ExportedBundle as ExportedBundle
    from vademecum.llm.base import ModelAnswer as ModelAnswer
    from vademecum.memory.archive import HistoryStep as HistoryStep
    from vademecum.store import Arranged as Arranged
    from vademecum.store import Brief as Brief
    from vademecum.store import EditResult as EditResult
    from vademecum.store import FileLines as FileLines
    from vademecum.store import HistoryEvent as HistoryEvent
    from vademecum.store import Home as Home
    from vademecum.store import KnownProject as KnownProject
    from vademecum.store import PendingRequest as PendingRequest
    from vademecum.store import Pinned as Pinned
    from vademecum.store import Purge as Purge
    from vademecum.store import Source as Source
    from vademecum.store import Tombstone as Tombstone
    from vademecum.store import Version as Version
    from vademecum.store.heard import Distilled as Distilled
    from vademecum.store.heard import HeardStatement as HeardStatement
    from vademecum.transcripts import ImportedSession as ImportedSession
    from vademecum.transcripts import JoinedFolder as JoinedFolder
    from vademecum.transcripts import JoinedFolders as JoinedFolders
    from vademecum.transcripts import Line as Line
    from vademecum.transcripts import SessionTurn as SessionTurn
    from vademecum.transcripts import TurnPart as TurnPart
    from vademecum.transcripts import Usage as Usage
