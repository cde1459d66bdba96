"""Memory: the object through which every interface reads and writes, with its calls and attributes."""

from vademecum.memory.core import Listing, Memory
from vademecum.memory.opening import connect

__all__ = ["Listing", "Memory", "connect"]
