"""Every exception and warning that Kinetree raises on purpose.

Each message names the thing, says where it is and how to mend it; the data behind the message are attributes.
"""

from __future__ import annotations

import difflib


class KinetreeError(Exception):
    """Base of all errors of this library."""


class ModelError(KinetreeError, ValueError):
    """A mechanism that cannot exist: a cycle, a negative mass, two joints of one name."""


class InputError(KinetreeError, ValueError):
    """Arguments of the wrong shape, type or name."""


class UnknownNameError(InputError, KeyError):
    """A frame, joint, body, function or engine that does not exist.

    Attributes:
        what: What was looked for.
        name: What it was called.
        choices: What there is.
        nearest: The choices most like the name, best first.
    """

    def __init__(self, what: str, name: object, choices: tuple[str, ...]) -> None:
        self.what, self.name, self.choices = what, name, choices
        self.nearest = _nearest(name, choices)
        meant = f"; did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else "."
        shown = ", ".join(choices[:20]) + (f", … ({len(choices)} in all)" if len(choices) > 20 else "")
        super().__init__(f"no {what} is called {name!r}{meant} There are: {shown or 'none'}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.name, self.choices)

    def __str__(self) -> str:
        return str(self.args[0])


def _nearest(name: object, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Up to three choices that contain a name or are contained in it, then those spelt alike."""
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        return ()
    folded = {choice: choice.casefold() for choice in choices if choice}
    asked = name.casefold()
    containing = sorted((c for c, text in folded.items() if asked in text or text in asked), key=len)
    alike = difflib.get_close_matches(asked, folded.values(), 3)
    spelt = [choice for text in alike for choice, other in folded.items() if other == text]
    return tuple(dict.fromkeys([*containing, *spelt]))[:3]


class LoadError(KinetreeError, ValueError):
    """A file that is not the description of a robot.

    Attributes:
        problem: What is wrong, and how to mend it.
        file: Where it was read from; "<string>" for a text.
        line: Line of the file, counted from one; None if the whole file is meant.
    """

    def __init__(self, problem: str, file: str = "<string>", line: int | None = None) -> None:
        self.problem, self.file, self.line = problem, file, line
        super().__init__(problem, file, line)

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.problem}"


class SingularMechanismError(KinetreeError, ArithmeticError):
    """A mechanism whose mass matrix has no inverse, found from its structure."""


class SingularTaskError(KinetreeError, ArithmeticError):
    """A task that the robot cannot follow in all directions where it is, with `singular="raise"`.

    Attributes:
        rows: Rows of all tasks together.
        samples: Where in the batch, one index tuple each; empty for a single sample.
        ranks: Rank of the task in each of these samples.
    """

    def __init__(self, tasks: str, rows: int, samples: tuple[tuple[int, ...], ...], ranks: tuple[int, ...]) -> None:
        self.tasks, self.rows, self.samples, self.ranks = tasks, rows, samples, ranks
        shown = ", ".join(f"{i} (rank {r})" for i, r in list(zip(samples, ranks))[:8])
        where = f"samples {shown}{', …' if len(samples) > 8 else ''}" if samples else f"rank {ranks[0]}"
        super().__init__(
            f"{tasks}: {rows} rows, but singular: {where}. Choose singular='damped' or 'truncated', or fewer rows"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.tasks, self.rows, self.samples, self.ranks)


class SecondDerivativeError(KinetreeError, NotImplementedError):
    """Derivatives that JAX or PyTorch were asked to differentiate again."""


class ViewerError(KinetreeError, OSError):
    """The viewer cannot start."""


class ContractError(KinetreeError, TypeError):
    """An algorithm that breaks the rules of the tree language; names the line that does."""


class ModelWarning(UserWarning):
    """A model that can be used, with something in it that its author should know."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept on disk; everything works, but is compiled again in each process."""
