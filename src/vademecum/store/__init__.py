"""Storage of all memory in Markdown that a person can read; only this package knows the files of records.

Other packages use only the names exported here: functions, classes, and the modules in `SUBJECTS`, whose
functions each take a home. A name is imported when it is first read. The rest of the package may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_names

if TYPE_CHECKING:
    from vademecum.store import archive as archive
    from vademecum.store import audit as audit
    from vademecum.store import decisions as decisions
    from vademecum.store import heard as heard
    from vademecum.store import history as history
    from vademecum.store import hook_counts as hook_counts
    from vademecum.store import hook_log as hook_log
    from vademecum.store import hook_sessions as hook_sessions
    from vademecum.store import hub_rules as hub_rules
    from vademecum.store import pending_writes as pending_writes
    from vademecum.store import scopes as scopes
    from vademecum.store import sources as sources
    from vademecum.store import teams as teams
    from vademecum.store.arrange import Arranged as Arranged
    from vademecum.store.audit import AuditLog as AuditLog
    from vademecum.store.backend import Backend as Backend
    from vademecum.store.backend import Directory as Directory
    from vademecum.store.backup import Backup as Backup
    from vademecum.store.catalogue import Catalogue as Catalogue
    from vademecum.store.catalogue import Fact as Fact
    from vademecum.store.catalogue import Facts as Facts
    from vademecum.store.copies import SecondCopy as SecondCopy
    from vademecum.store.files import Disk as Disk
    from vademecum.store.files import DiskFolder as DiskFolder
    from vademecum.store.files import reported as reported
    from vademecum.store.folders import Folder as Folder
    from vademecum.store.folders import Watch as Watch
    from vademecum.store.history import HistoryEvent as HistoryEvent
    from vademecum.store.history import HistorySubject as HistorySubject
    from vademecum.store.home import Home as Home
    from vademecum.store.home import ScopeFolder as ScopeFolder
    from vademecum.store.hook_log import BackgroundSync as BackgroundSync
    from vademecum.store.journal import Day as Day
    from vademecum.store.journal import Journal as Journal
    from vademecum.store.lookup import FileLines as FileLines
    from vademecum.store.lookup import Version as Version
    from vademecum.store.merge import Draft as Draft
    from vademecum.store.merge import is_consolidation as is_consolidation
    from vademecum.store.merge import is_guarded as is_guarded
    from vademecum.store.merge import may_supersede as may_supersede
    from vademecum.store.merge import spread as spread
    from vademecum.store.pending_writes import PendingRequest as PendingRequest
    from vademecum.store.pinned import Documents as Documents
    from vademecum.store.pinned import Pinned as Pinned
    from vademecum.store.projects import KnownProject as KnownProject
    from vademecum.store.projects import Projects as Projects
    from vademecum.store.purge import Purge as Purge
    from vademecum.store.purge import Purged as Purged
    from vademecum.store.records import Found as Found
    from vademecum.store.records import Listed as Listed
    from vademecum.store.records import Records as Records
    from vademecum.store.records import in_folder as in_folder
    from vademecum.store.runs import Brief as Brief
    from vademecum.store.runs import Edit as Edit
    from vademecum.store.runs import EditResult as EditResult
    from vademecum.store.runs import Run as Run
    from vademecum.store.runs import Staged as Staged
    from vademecum.store.scopes import Caller as Caller
    from vademecum.store.scopes import Project as Project
    from vademecum.store.sources import Source as Source
    from vademecum.store.sources import Sources as Sources
    from vademecum.store.state import State as State
    from vademecum.store.tombstones import Marks as Marks
    from vademecum.store.tombstones import Tombstone as Tombstone
    from vademecum.store.view import look_at as look_at
    from vademecum.store.view import request_view as request_view
    from vademecum.store.workspace import Workspace as Workspace
    from vademecum.store.workspace import listing_order as listing_order
    from vademecum.store.workspace import parse_audience as parse_audience

_HOMES = {
    "arrange": "Arranged",
    "audit": "AuditLog",
    "backend": "Backend Directory",
    "backup": "Backup",
    "catalogue": "Catalogue Fact Facts",
    "copies": "SecondCopy",
    "files": "Disk DiskFolder reported",
    "folders": "Folder Watch",
    "history": "HistoryEvent HistorySubject",
    "home": "Home ScopeFolder",
    "hook_log": "BackgroundSync",
    "journal": "Day Journal",
    "merge": "Draft is_consolidation is_guarded may_supersede spread",
    "pinned": "Documents Pinned",
    "projects": "KnownProject Projects",
    "purge": "Purge Purged",
    "lookup": "FileLines Version",
    "records": "Found Listed Records in_folder",
    "pending_writes": "PendingRequest",
    "runs": "Brief Edit EditResult Run Staged",
    "scopes": "Caller Project",
    "sources": "Source Sources",
    "state": "State",
    "tombstones": "Marks Tombstone",
    "view": "look_at request_view",
    "workspace": "Workspace listing_order parse_audience",
}
SUBJECTS = (
    "archive",
    "audit",
    "decisions",
    "heard",
    "history",
    "hook_counts",
    "hook_log",
    "hook_sessions",
    "hub_rules",
    "pending_writes",
    "scopes",
    "sources",
    "teams",
)

__all__ = [*(name for names in _HOMES.values() for name in names.split()), *SUBJECTS]  # noqa: PLE0604  they are strings

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake
    __getattr__ = lazy_names(__name__, _HOMES)
