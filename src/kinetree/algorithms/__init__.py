"""The recursions, one per file, named as in the literature. Each is written once and runs on every engine.

Identifiers are those of `docs/notation.md`; `@algorithm` declares the shape of every argument. `wrench` is in the
coordinates of its frame, `dt` in seconds. In `derivatives`, the inputs dq, dv, da and dtau are directions, dq along the
tangent; outputs of these names are derivatives.
"""
