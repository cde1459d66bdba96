"""What the hub answers when it does not do what was asked: a status, a word for programs, a sentence."""

from __future__ import annotations

from typing import Any


class Rejection(Exception):
    """A request that is not served; nothing of it was done."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more

    def body(self) -> dict[str, Any]:
        """The answer for programs."""
        return {"error": {"code": self.code, "message": str(self), **self.more}}


def absent() -> Rejection:
    """The one answer for what is not there and for what is somebody else's."""
    return Rejection(404, "absent", "there is nothing by that name in this workspace")


def unknown_caller() -> Rejection:
    """The one answer for a token that is wrong, expired or revoked, and for a member who was removed."""
    return Rejection(401, "token", "this token is not valid any more; join again with `vade hub join`")


def forbidden(why: str, **more: Any) -> Rejection:
    """A right that this role or token does not have."""
    return Rejection(403, "forbidden", why, **more)


def propose(why: str, **more: Any) -> Rejection:
    """What an agent may only propose to a person."""
    return Rejection(403, "propose", f"{why}: an agent's token may only add and propose", **more)


def wrong(why: str) -> Rejection:
    """A request that says something else than the protocol."""
    return Rejection(422, "malformed", why)
