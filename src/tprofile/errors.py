"""The error that everything of ours raises."""


class TprofileError(Exception):
    """What happened, the value, and what to do, in one message.

    Errors raised by the profiled code are never wrapped in it: they stay the user's.
    """

    def _render_traceback_(self) -> list[str]:
        # IPython shows this instead of a stack: the message says all, and our frames say nothing.
        return [f"{type(self).__name__}: {self}"]
