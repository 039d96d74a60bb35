"""Does exported C compute the same bits on another machine? Compiles it for that machine, and runs it there.

The programs read states and write results as raw numbers; what they write is compared with the native engine here.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from tools.bits import Array, Tally, robots, states, urdf_files

FUNCTIONS = (
    "inverse_dynamics",
    "inverse_dynamics.vjp",
    "forward_dynamics",
    "forward_dynamics.vjp",
    "forward_dynamics.hvp",
    "bias_forces",
    "gravity_forces",
    "mass_matrix",
    "mass_matrix_inverse",
    "energy",
    "integrate",
    "step",
    "pose",
    "velocity",
    "jacobian",
    "inverse_inertia",
)
OF_FRAMES = ("pose", "velocity", "jacobian")
PROTOTYPE = re.compile(r"^void (\w+)\(([^;]*)\);", re.MULTILINE)
PARAMETER = re.compile(r"(const )?(?:double|float) (\w+)\[(\d+)\]")


@dataclass(frozen=True)
class Declared:
    """A function of a header: lengths of its inputs by name, and of its outputs."""

    name: str
    inputs: dict[str, int]
    outputs: tuple[int, ...]


def declared(header: str) -> list[Declared]:
    """The functions of a header, in order."""
    found = []
    for name, parameters in PROTOTYPE.findall(header):
        parts = PARAMETER.findall(parameters)
        inputs = {part: int(length) for constant, part, length in parts if constant}
        found.append(Declared(name, inputs, tuple(int(length) for constant, _, length in parts if not constant)))
    return found


def program(header: Path, count: int, scalar: str) -> str:
    """C that calls each function on `count` states, read from standard input, and writes to standard output."""
    lines = [f'#include "{header.name}"', "#include <stdio.h>", f"static {scalar} in[100000], out[100000];"]
    lines += ["int main(void) {", "  int i;"]
    for function in declared(header.read_text("utf-8")):
        n, m = sum(function.inputs.values()), sum(function.outputs)
        starts = np.cumsum([0, *function.inputs.values()])[:-1], np.cumsum([0, *function.outputs])[:-1]
        arguments = ", ".join([*(f"in + {at}" for at in starts[0]), *(f"out + {at}" for at in starts[1])])
        lines.append(f"  for (i = 0; i < {count}; i++) {{")
        lines.append(f"    if (fread(in, sizeof *in, {n}, stdin) != {n}) return 2;")
        lines.append(f"    {function.name}({arguments});")
        lines.append(f"    if (fwrite(out, sizeof *out, {m}, stdout) != {m}) return 2;")
        lines.append("  }")
    return "\n".join([*lines, "  return 0;", "}", ""])


def arguments(model: kt.Model, function: Declared) -> dict[str, Array]:
    """Inputs of a function at the states of `tools.bits`."""
    q, v, x = states(model)
    given = {"q": q, "v": v, "a": x, "tau": x, "dt": np.full((len(q), 1), 0.01)}
    rng = np.random.default_rng(11)
    inputs = {
        name: given[name] if name in given else rng.uniform(-1.0, 1.0, (len(q), length))
        for name, length in function.inputs.items()
    }
    return {name: array.astype(model.dtype) for name, array in inputs.items()}


def expected(model: kt.Model, name: str, inputs: dict[str, Array], frames: list[str]) -> list[Array]:
    """What the native engine computes, one array per output."""
    arrays = [array[:, 0] if key == "dt" else array for key, array in inputs.items()]
    if name == "inverse_inertia":
        result: Any = model.tasks(frames).inverse_inertia(*arrays)
    else:
        result = attrgetter(name)(model)(*arrays, *([frames] if name in OF_FRAMES else []))
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part).reshape(len(arrays[0]), -1) for part in parts]


def compared(
    name: str, model: kt.Model, folder: Path, compiler: Sequence[str], runner: Sequence[str], wanted: Sequence[str]
) -> Iterator[tuple[str, Array, Array]]:
    """Export, compile and run functions of a robot; yields a name, the actual and the expected bits of each output."""
    frames = [frame for frame in model.frames if model.site(frame).node >= 0][-2:]
    header, source = model.export_c(wanted, folder, frames=frames)
    main, binary = folder / "main.c", folder / "main"
    scalar = "double" if model.dtype == float else "float"
    main.write_text(program(header, len(states(model)[0]), scalar), encoding="utf-8")
    files = [str(path) for path in (main, source)]
    subprocess.run([*compiler, "-O2", "-std=c99", "-static", *files, "-o", str(binary), "-lm"], check=True)
    functions = declared(header.read_text("utf-8"))
    inputs = [arguments(model, function) for function in functions]
    given = b"".join(np.concatenate([*each.values()], axis=1).tobytes() for each in inputs)
    written = subprocess.run([*runner, str(binary)], input=given, capture_output=True, check=True).stdout
    numbers, at = np.frombuffer(written, model.dtype), 0
    for public, function, each in zip(wanted, functions, inputs, strict=True):
        rows, size = len(each["q"]), sum(function.outputs)
        block = numbers[at : at + rows * size].reshape(rows, size)
        at += rows * size
        parts = np.split(block, np.cumsum(function.outputs)[:-1], axis=1)
        for number, (actual, exact) in enumerate(zip(parts, expected(model, public, each, frames), strict=True)):
            yield f"{name}/{public}/{number}", actual, exact
    if at != numbers.size:
        raise ValueError(f"{name}: the program wrote {numbers.size} numbers, not {at}")


def compare(folder: Path, compiler: Sequence[str], runner: Sequence[str]) -> Tally:
    """Compare all robots, and report after each.

    Args:
        folder: Where sources and programs go.
        compiler: Command that compiles C for the other machine.
        runner: Words before the command that is run there.
    """
    tally = Tally()
    # functions of frames and second derivatives of coupled joints cannot be exported
    for place, (name, model) in enumerate(robots(urdf_files(), mimic="lock").items()):
        where = folder / str(place)
        where.mkdir(parents=True, exist_ok=True)
        for label, actual, exact in compared(name, model, where, compiler, runner, FUNCTIONS):
            differing = len(tally.differing)
            tally.add(label, actual, exact)
            for line in tally.differing[differing:]:
                print(f"differs: {line}", flush=True)
        print(f"exported C, {len(FUNCTIONS)} functions, up to {name}: {tally}", flush=True)
    return tally
