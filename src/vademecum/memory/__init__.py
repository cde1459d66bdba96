"""Memory, the one object that every interface talks to, in parts by what is asked of it."""

from vademecum.memory.keeping import Listing
from vademecum.memory.whole import Memory, Status, connect

__all__ = ["Listing", "Memory", "Status", "connect"]
