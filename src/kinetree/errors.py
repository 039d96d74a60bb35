"""The exceptions and warnings that Kinetree raises deliberately.

Each message names the cause, its location and the fix; the data behind it are attributes.
"""

from __future__ import annotations


class KinetreeError(Exception):
    """Base class of all Kinetree errors."""


class ModelError(KinetreeError, ValueError):
    """A mechanism that cannot exist: a cycle, a negative mass, duplicate names."""


class InputError(KinetreeError, ValueError):
    """Arguments of the wrong shape, type or name."""


class UnknownNameError(InputError, KeyError):
    """A frame, joint, body, function or engine that does not exist.

    Attributes:
        what: The kind of thing that was looked up.
        name: The unknown name.
        choices: The names that exist.
        nearest: The most similar names, best first.
    """

    def __init__(self, what: str, name: object, choices: tuple[str, ...]) -> None:
        self.what, self.name, self.choices = what, name, choices
        self.nearest = _nearest(name, choices)
        meant = f"; did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else "."
        # names come from files: escape terminal control characters
        shown = ", ".join(c if c.isprintable() else repr(c) for c in choices[:20]) + (
            f", … ({len(choices)} in all)" if len(choices) > 20 else ""
        )
        super().__init__(f"no {what} is called {name!r}{meant} There are: {shown or 'none'}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.name, self.choices)

    def __str__(self) -> str:
        return str(self.args[0])


def _nearest(name: object, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Up to three choices: those that contain the name or are contained in it, then those with similar spelling."""
    import difflib  # only for messages

    if not isinstance(name, str) or not 0 < len(name) <= 100:
        return ()
    folded = {choice: choice.casefold() for choice in choices if choice}
    asked = name.casefold()
    containing = sorted((c for c, text in folded.items() if asked in text or text in asked), key=len)
    alike = difflib.get_close_matches(asked, folded.values(), 3)
    spelt = [choice for text in alike for choice, other in folded.items() if other == text]
    return tuple(dict.fromkeys([*containing, *spelt]))[:3]


class LoadError(KinetreeError, ValueError):
    """A robot file that cannot be loaded.

    Attributes:
        problem: What is wrong, and how to fix it.
        file: Path of the file; "<string>" for content given as a string.
        line: Line number, counted from one; None if the problem concerns the whole file.
    """

    def __init__(self, problem: str, file: str = "<string>", line: int | None = None) -> None:
        self.problem, self.file, self.line = problem, file, line
        super().__init__(problem, file, line)

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.problem}"


class SingularMechanismError(KinetreeError, ArithmeticError):
    """A mechanism whose structure makes its mass matrix singular."""


class SingularTaskError(KinetreeError, ArithmeticError):
    """A task that is singular at some sample: it cannot move in all of its directions.

    Raised with `singular="raise"`, and by derivatives of Λ.

    Attributes:
        rows: Total number of task rows.
        samples: Batch indices of the singular samples, as tuples; empty for a single sample.
        ranks: Rank of the tasks at each of these samples.
        fix: What to do.
    """

    def __init__(
        self,
        tasks: str,
        rows: int,
        samples: tuple[tuple[int, ...], ...],
        ranks: tuple[int, ...],
        fix: str = "Choose singular='damped' or 'truncated', or fewer rows",
    ) -> None:
        self.tasks, self.rows, self.samples, self.ranks, self.fix = tasks, rows, samples, ranks, fix
        shown = ", ".join(f"{i} (rank {r})" for i, r in list(zip(samples, ranks))[:8])
        where = f"samples {shown}{', …' if len(samples) > 8 else ''}" if samples else f"rank {ranks[0]}"
        super().__init__(f"{tasks}: {rows} rows, but singular: {where}. {fix}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.tasks, self.rows, self.samples, self.ranks, self.fix)


class LoopError(KinetreeError, ArithmeticError):
    """A loop that cannot be closed.

    Attributes:
        loop: The loop, in words.
        residual: How far it stays open [m or rad].
        samples: Batch indices of the samples concerned, as tuples; empty for a single sample.
        fix: What to try.
    """

    def __init__(self, loop: str, residual: float, samples: tuple[tuple[int, ...], ...], fix: str) -> None:
        self.loop, self.residual, self.samples, self.fix = loop, residual, samples, fix
        shown = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
        where = f" in samples {shown}" if samples else ""
        super().__init__(f"{loop} cannot be closed{where}: it stays open by {residual:.3g}. Try {fix}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.loop, self.residual, self.samples, self.fix)


class UnsupportedError(KinetreeError, NotImplementedError):
    """A function that is not available for this kind of robot."""


class UnderactuatedError(KinetreeError, ValueError):
    """A joint with neither a motor nor a constraint that carries it, so its motion cannot be commanded.

    Attributes:
        joints: Names of the joints.
    """

    def __init__(self, joints: tuple[str, ...]) -> None:
        self.joints = joints
        named = ", ".join(map(repr, joints))
        super().__init__(
            f"nothing drives {named}: no motor, and no constraint carries all of it. Add constraints that hold its "
            "body, name only the joints without a motor in undriven=, or use WholeBody, which moves such robots"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.joints,)


class InfeasibleError(KinetreeError, ArithmeticError):
    """No motion satisfies all constraints and limits of a whole-body controller.

    Attributes:
        rows: What would have to give way, worst first.
        sample: Index of the sample in its batch, () for a single one.
    """

    def __init__(self, rows: tuple[str, ...], sample: tuple[int, ...] = ()) -> None:
        self.rows, self.sample = rows, sample
        where = f" in sample {sample[0] if len(sample) == 1 else sample}" if sample else ""
        shown = "; ".join(rows[:6]) + (f"; … ({len(rows)} in all)" if len(rows) > 6 else "")
        super().__init__(
            f"no motion keeps all limits{where}. What would have to give way: {shown or 'unknown'}. "
            'Loosen these, or let them give way with fallback="relax"'
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.rows, self.sample)


class IdentificationError(KinetreeError, ArithmeticError):
    """Measurements that no physically possible robot explains."""


class ConvergenceError(KinetreeError, ArithmeticError):
    """A problem that was not solved, where a solution was asked for."""


class SecondDerivativeError(KinetreeError, NotImplementedError):
    """JAX or PyTorch requested a second derivative."""


class ViewerError(KinetreeError, OSError):
    """The viewer cannot start."""


class ContractError(KinetreeError, TypeError):
    """An algorithm breaks a rule of the tree language; the message names the line."""


class IrreversibleError(ContractError):
    """An algorithm uses loops that reverse mode does not follow, so its gradients take many directional derivatives."""


class ModelWarning(UserWarning):
    """A usable model with a questionable property that its author should know about."""


class DifferencesWarning(UserWarning):
    """Derivatives that come from differences, since their author gave none."""


class ConvergenceWarning(UserWarning):
    """A solver that stopped before its result was accurate; the result says which samples are concerned.

    Attributes:
        samples: Number of samples concerned.
        residual: The largest residual; NaN if numbers overflowed.
    """

    def __init__(self, what: str, samples: int, total: int, residual: float, allowed: float, fix: str) -> None:
        self.what, self.samples, self.total, self.residual, self.allowed, self.fix = (
            what, samples, total, residual, allowed, fix,
        )  # fmt: skip
        among = f" in {samples} of {total} samples" if total > 1 else ""
        super().__init__(f"{what} did not converge{among}: residual {residual:.2g}, not {allowed:g} or less. {fix}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.samples, self.total, self.residual, self.allowed, self.fix)


class CacheWarning(UserWarning):
    """Compiled code cannot be cached on disk; everything still works, but each process recompiles."""
