"""paddle.profiler's ``RecordEvent``: the native range, with Paddle's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from stepscope import _native
from stepscope._native import record_function
from stepscope.enums import member_of
from stepscope.frameworks.paddle.dialect.event_types import own_of_paddle
from stepscope.frameworks.paddle.event_types import TracerEventType, event_type_fragment
from stepscope.notices import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable

    _F = TypeVar("_F", bound=Callable[..., Any])

# Types that Python programs may record; the others are for Paddle's C++.
ALLOWED = (
    TracerEventType.Dataloader,
    TracerEventType.ProfileStep,
    TracerEventType.Forward,
    TracerEventType.Backward,
    TracerEventType.Optimization,
    TracerEventType.PythonOp,
    TracerEventType.PythonUserDefined,
)
_USER_DEFINED = TracerEventType.PythonUserDefined
# A range without a fragment is a plain range of the user's.
_FRAGMENT_OF = {t: None if t is _USER_DEFINED else event_type_fragment(t) for t in ALLOWED}
_TYPE_OF = {fragment: event_type for event_type, fragment in _FRAGMENT_OF.items()}
_new_range = record_function.__new__


@_native.hasten
class RecordEvent(record_function):
    """A named range of the program: a context manager, a decorator, or begin() and end().

    It may be entered again before it ends, be ended twice, and be shared by threads and tasks.
    """

    __slots__ = ()

    # The native type binds these attributes without a Python frame.
    begin = record_function.__enter__
    end = record_function.__exit__

    def __new__(cls, name: str, event_type: Any = _USER_DEFINED) -> Self:
        if event_type is _USER_DEFINED:
            return _new_range(cls, name)
        if type(event_type) is not TracerEventType:
            event_type = member_of(TracerEventType, event_type, "the event type")
        if event_type in _FRAGMENT_OF:
            return _new_range(cls, name, _FRAGMENT_OF[event_type])
        return _new_range(_Refused, name, event_type_fragment(event_type))  # type: ignore[return-value]

    @property
    def event_type(self) -> Any:
        """Return the type of the range: Paddle's own where Paddle is imported, else ours."""
        return own_of_paddle(_TYPE_OF[self.args])

    def __reduce__(self) -> tuple[type[RecordEvent], tuple[str, Any]]:
        return RecordEvent, (self.name, self.event_type)

    def __repr__(self) -> str:
        return f"RecordEvent({self.name!r}, {self.event_type})"


class _Refused(RecordEvent):
    """A range whose type Python programs may not record: it warns and records nothing."""

    __slots__ = ()

    @property
    def event_type(self) -> Any:
        types = (t for t in TracerEventType if event_type_fragment(t) == self.args)
        return own_of_paddle(next(types))

    def __enter__(self) -> Self:
        if _native.recording():
            allowed = ", ".join(event_type.name for event_type in ALLOWED)
            warn_user(
                f"RecordEvent({self.name!r}, {self.event_type.name}) is not recorded: "
                f"only the event types {allowed} can be recorded from Python"
            )
        return self

    def __exit__(self, *_: object) -> None:
        pass

    begin = __enter__
    end = __exit__

    def __call__(self, function: _F) -> _F:
        with self:
            return function
