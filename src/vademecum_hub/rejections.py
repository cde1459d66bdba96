"""Rejections: the hub's answers to refused requests, with a status, a code for programs and a sentence."""

from __future__ import annotations

from typing import Any


class Rejection(Exception):
    """The hub's refusal of a request; the transaction that raises it changes nothing."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more

    def body(self) -> dict[str, Any]:
        """Return the answer as JSON data."""
        return {"error": {"code": self.code, "message": str(self), **self.more}}


def not_found() -> Rejection:
    """Return the rejection for a missing object, the same for an object in another workspace."""
    return Rejection(404, "absent", "there is nothing by that name in this workspace")


def unknown_caller() -> Rejection:
    """Return the rejection for an invalid token, the same for expired and revoked tokens."""
    return Rejection(401, "token", "this token is not valid any more; join again with `vade hub join`")


def forbidden(why: str, **more: Any) -> Rejection:
    """Return the rejection for a caller without the necessary right."""
    return Rejection(403, "forbidden", why, **more)


def propose_only(why: str, **more: Any) -> Rejection:
    """Return the rejection for an agent's change that only a person can make; an agent may propose it."""
    return Rejection(403, "propose", f"{why}: an agent's token may only add and propose", **more)


def malformed(why: str) -> Rejection:
    """Return the rejection for a request that does not follow the protocol."""
    return Rejection(422, "malformed", why)
