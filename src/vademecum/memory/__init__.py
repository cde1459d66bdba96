"""Memory, the one object that every interface talks to: verbs, and nouns behind them."""

from vademecum.memory.core import Listing, Memory
from vademecum.memory.opening import connect

__all__ = ["Listing", "Memory", "connect"]
