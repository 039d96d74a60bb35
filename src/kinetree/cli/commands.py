"""The commands and their options, descriptions of robots, and motions for films of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

import kinetree as kt
from kinetree.cli import box as experiment
from kinetree.cli import compute as computing
from kinetree.cli import demo as demonstration
from kinetree.cli import job, terminal
from kinetree.cli.terminal import attempt, configuration, console, load, log, safe, table
from kinetree.errors import InputError, LoopError
from kinetree.model.joint import Joint
from kinetree.model.shapes import SolidShape
from kinetree.spatial.value import Array
from kinetree.viewer import browser
from kinetree.viewer.film import FILMS, PICTURES, standing
from kinetree.viewer.view import configuration_of, coordinates, values_of


def center_of_mass(robot: kt.Model, q: Array | None = None) -> Array | None:
    """Centre of mass in a configuration, by default neutral, in the world frame, (3,) [m]; None if no body has mass."""
    if not robot.mass > 0.0:
        return None
    # the reference engine, since compiling takes longer than a single call
    at = robot.neutral() if q is None else q
    poses = robot.pose.engine("reference")(at, [body.name for body in robot.bodies])
    places = [pose[:3, :3] @ body.com + pose[:3, 3] for body, pose in zip(robot.bodies, poses)]
    total: Array = sum(body.mass * place for body, place in zip(robot.bodies, places)) / robot.mass
    return total


def info_as_json(robot: kt.Model, warnings: list[str], notes: list[str], q: Array | None) -> str:
    """A complete description of a robot, in SI units; missing limits are null."""
    com = center_of_mass(robot, q)
    return json.dumps(
        {
            "name": robot.name,
            "nq": robot.nq,
            "nv": robot.nv,
            "mass": robot.mass,
            "center_of_mass": None if com is None else com.tolist(),
            "gravity": robot.gravity.tolist(),
            "bodies": [
                {
                    "name": body.name,
                    "parent": body.parent,
                    "joint": body.joint,
                    "mass": body.mass,
                    "com": body.com.tolist(),
                    "inertia": body.inertia.tolist(),
                    "gravity_compensation": body.gravity_compensation,
                }
                for body in robot.bodies
            ],
            "couplings": [str(coupling) for coupling in robot.couplings],
            "joints": [_joint(joint) for joint in (*robot.joints, *robot.fixed_joints)],
            "frames": list(robot.frames),
            "shapes": [_shape(shape) for shape in robot.shapes],
            "keyframes": {name: at.tolist() for name, at in robot.keyframes.items()},
            "warnings": warnings,
            "notes": notes,
        },
        indent=2,
        allow_nan=False,
    )


def show(console: Console, robot: kt.Model, warnings: list[str], notes: list[str], q: Array | None) -> None:
    """Print a robot's tree, its joints, its mass in a configuration, and warnings and notes about its file."""
    console.print(safe(robot))
    if robot.joints:
        console.print()
        console.print(_joints(robot))
    if robot.couplings:
        console.print("\ncoupled joints:")
        for coupling in robot.couplings:
            console.print(f"  {safe(coupling)}")
    loops = [one for one in robot.joint_constraints if one not in robot.couplings]
    for title, constraints in (("loops", loops), ("constraints", robot.equalities)):
        if constraints:
            console.print(f"\n{title}:")
            for one in constraints:
                console.print(f"  {safe(one)}")
    for name, at in robot.keyframes.items():
        console.print(safe(f"\nkeyframe {name}: {_numbers(at)}"))
    if robot.shapes:
        kinds = Counter(shape.kind for shape in robot.shapes)
        listed = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in kinds.items())
        console.print(f"\ncollision shapes: {listed.replace('boxs', 'boxes')}")
        for shape in robot.shapes:
            console.print(f"  {safe(shape).strip('<>')}")
    com = center_of_mass(robot, q)
    which = "the neutral" if q is None else "this"
    where = "" if com is None else f", centre of mass in {which} configuration {_numbers(com)} m"
    console.print(f"\nmass {robot.mass:.6g} kg{where}")
    if warnings:
        console.print(f"\n{len(warnings)} warning{'s' if len(warnings) > 1 else ''}:", style="yellow")
        for text in warnings:
            console.print(f"  {safe(text)}")
    for text in notes:
        console.print(f"\nnote: {safe(text)}")


def _joint(joint: Joint) -> dict[str, Any]:
    limits = joint.limits
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "placement": joint.placement.tolist(),
        "axes": joint.axes.tolist(),
        "q": [joint.q_slice.start, joint.q_slice.stop] if joint.nq else None,
        "v": [joint.v_slice.start, joint.v_slice.stop] if joint.nv else None,
        "limits": {
            name: [bound if math.isfinite(bound) else None for bound in getattr(limits, name)]
            for name in ("lower", "upper", "velocity", "effort")
        },
        "armature": joint.armature.tolist(),
        "damping": joint.damping.tolist(),
        "friction": joint.friction.tolist(),
        "stiffness": None if joint.spring is None else joint.spring.stiffness.tolist(),
        "spring_reference": None if joint.spring is None else joint.spring.reference.tolist(),
    }


def _shape(shape: SolidShape) -> dict[str, Any]:
    """All of a shape but the points of hulls and the heights of fields, which may be many."""
    values: dict[str, Any] = {"name": shape.name, "kind": shape.kind, "body": shape.body, "placement": shape.placement}
    values |= {field.name: getattr(shape, field.name) for field in fields(shape)}  # type: ignore[arg-type]
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
        if name not in ("points", "heights", "directories", "source")
    }


def _joints(robot: kt.Model) -> Text:
    """One row per moving joint; a dash where there is no limit."""
    rows = []
    for joint in robot.joints:
        limits = joint.limits
        bounds = [_bounds(values) for values in (limits.lower, limits.upper, limits.velocity, limits.effort)]
        armature = _bounds(joint.armature) if joint.armature.any() else "–"
        rows.append([joint.name, joint.kind, *bounds, armature])
    return table(("joint", "kind", "lower", "upper", "velocity", "effort", "armature"), rows, left=2)


def _bounds(values: Any) -> str:
    if not any(math.isfinite(value) for value in values):
        return "–"
    return " ".join(f"{value:.4g}" if math.isfinite(value) else "–" for value in dict.fromkeys(values))


def _numbers(values: Array) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in np.asarray(values) + 0.0) + ")"


# Time for each joint to move through its range and back [s]; less if the film would exceed a minute.
_SECONDS, _LONGEST = 1.5, 60.0


def write_film(path: Path, robot: kt.Model, package_roots: Sequence[Path], start: Array | None, shapes: bool) -> None:
    """Write a film in which the joints move through their ranges one after the other, from a configuration."""
    begin, _ = attempt(lambda: standing(robot, package_roots) if start is None else start)
    q, time = sweep(robot, begin)
    # a browser draws videos picture by picture
    options: dict[str, Any] = {"rate": 15.0, "size": (640, 480)} if path.suffix.lower() == ".mp4" else {}
    options |= {"package_roots": package_roots, "shapes": shapes}
    with terminal.bar("drawing", 1.0) as done:
        written, warnings = attempt(lambda: kt.viewer.film(path, robot, q, time, progress=done, **options))
    _warn(warnings)
    typer.echo(f"{safe(written)}: {time[-1]:.0f} s, {written.stat().st_size / 1e6:.1f} MB")


def write_picture(path: Path, robot: kt.Model, package_roots: Sequence[Path], q: Array | None, shapes: bool) -> None:
    """Write a picture of a robot in a configuration."""
    written, warnings = attempt(lambda: kt.viewer.picture(path, robot, q, package_roots=package_roots, shapes=shapes))
    _warn(warnings)
    typer.echo(safe(written))


def show_in_browser(robot: kt.Model, package_roots: Sequence[Path], port: int, q: Array | None, shapes: bool) -> None:
    """Show a robot, in a configuration, until the user interrupts."""
    made, warnings = attempt(lambda: kt.viewer.View(robot, package_roots=package_roots, port=port))
    _warn(warnings)
    with made as view:
        _, warnings = attempt(lambda: view.show(q, shapes=shapes))
        _warn(warnings)
        try:
            typer.echo(f"{safe(robot.name)}: {view.url} (stop with Ctrl-C)")
            view.wait()
        except KeyboardInterrupt:  # the usual end
            typer.echo()


def sweep(robot: kt.Model, start: Array | None = None) -> tuple[Array, Array]:
    """A motion of each coordinate to its upper limit, its lower limit, and back: q, (T, nq), and times, (T,) [s].

    It starts from a configuration, by default the first keyframe, or neutral.
    """
    start = next(iter(robot.keyframes.values()), robot.neutral()) if start is None else start
    free = [joint for joint in robot.joints if joint.nv]
    moved = [joint for joint in free if not (joint.kind == "floating" and joint.parent == "world")]
    count = sum(joint.nv for joint in moved)
    step = min(_SECONDS, _LONGEST / max(count, 1)) / 8.0
    motion = [start]
    for joint in moved:
        rest = values_of(joint, start[joint.q_slice])
        for i, coordinate in enumerate(coordinates(joint)):
            low, high = coordinate.lower, coordinate.upper
            # no two successive values are half a turn apart, where the direction of rotation would be ambiguous
            for value in (
                *np.linspace(rest[i], high, 3)[1:],
                *np.linspace(high, low, 5)[1:],
                *np.linspace(low, rest[i], 3)[1:],
            ):
                values, q = rest.copy(), start.copy()
                values[i] = value
                q[joint.q_slice] = configuration_of(joint, values)
                try:
                    motion.append(robot.close(q))
                except LoopError:  # beyond what a loop allows
                    continue
    return np.array(motion), step * np.arange(len(motion))


# Help and usage errors are plain text: boxes would truncate option names in narrow terminals
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Missing(str, Enum):
    """What is done about chunks of the data that have no file."""

    FAIL = "fail"
    FILL = "fill"


# Most memory for random states [bytes].
_LARGEST = 2**30


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kinetree {kt.__version__}")
        raise typer.Exit


@app.callback()
def kinetree(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Dynamics of branching robots."""


Robot = Annotated[Path, typer.Argument(metavar="ROBOT", help="Robot file: URDF, SDF, MJCF or USD.")]
FloatingBase = Annotated[bool, typer.Option("--floating-base", help="Let the root float instead of fixing it.")]
Mimic = Annotated[str, typer.Option(help="Joints that follow others: couple, independent or lock.")]
Loops = Annotated[str, typer.Option(help="Closed loops and equality constraints: embed, multipliers or ignore.")]
Xacro = Annotated[
    str | None, typer.Option(metavar="NAME=VALUE,…", help='Expand a xacro file that you trust; "" without arguments.')
]
Configuration = Annotated[
    str | None,
    typer.Option(
        "--configuration", metavar="NAME", help="A keyframe of the file, or elbow=0.5,wrist=1; others are neutral."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random states.")]


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


_PICTURES = (".png", ".pdf", ".svg", ".jpg", ".webp")


def _require_suffix(option: str, path: Path | None, known: Sequence[str]) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    if path is None:
        return
    if path.suffix.lower() not in known:
        given = f"{safe(path.suffix)} files" if path.suffix else "files without a suffix"
        raise typer.BadParameter(f"{given} cannot be written; choose {', '.join(known)}", param_hint=option)
    if not path.expanduser().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {safe(path.parent)}", param_hint=option)


def _require_drawing(option: str, path: Path | None) -> None:
    """Refuse a picture or a video for which programs are missing, before anything is computed for it."""
    if path is None or path.suffix.lower() == ".html":
        return
    try:
        browser.require_browser()
        if path.suffix.lower() == ".mp4":
            browser.require_encoder()
    except (kt.errors.ViewerError, ImportError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _require_memory(option: str, states: int, model: kt.Model) -> None:
    """Reject more states than fit into memory: q, and three arrays of the size of v."""
    most = _LARGEST // (8 * max(1, model.nq + 3 * model.nv))
    if states > most:
        raise typer.BadParameter(
            f"{states} states of this robot do not fit into memory; at most {most}", param_hint=option
        )


@app.command()
def demo(
    robot: Annotated[Path | None, typer.Argument(metavar="ROBOT", help="Robot file: URDF, SDF, MJCF or USD.")] = None,
    floating_base: FloatingBase = False,
    seed: Seed = 0,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = demonstration.DEFAULT_BATCH,
    mimic: Mimic = "independent",
    loops: Loops = "ignore",
    xacro: Xacro = None,
) -> None:
    """Check and time every function, on your robot or a built-in one.

    Prints its tree, checks forward against inverse dynamics, compiles all functions, and shows the cost of each.
    On the built-in humanoid it also computes Λ of both hands by every algorithm. The exit code is 1 if a check fails.
    """
    model, warnings = (None, []) if robot is None else load(robot, floating_base, mimic, loops, xacro)
    _warn(warnings)
    _require_memory("--batch", batch, model or kt.zoo.humanoid24())
    if not demonstration.run(console(), seed, batch, model):
        raise typer.Exit(1)


@app.command()
def info(
    robot: Robot,
    floating_base: FloatingBase = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    where: Configuration = None,
    mimic: Mimic = "couple",
    loops: Loops = "embed",
    xacro: Xacro = None,
) -> None:
    """Print a robot's tree, limits, masses, shapes and keyframes.

    Also warnings about its file, and notes on what is left out, such as actuators.
    """
    with log() as notes:
        model, warnings = load(robot, floating_base, mimic, loops, xacro)
    q = configuration(model, where)
    if as_json:
        typer.echo(info_as_json(model, warnings, notes, q))
    else:
        show(console(), model, warnings, notes, q)


@app.command()
def export(
    robot: Robot,
    functions: Annotated[
        str, typer.Option(metavar="NAMES", help="What to export, such as forward_dynamics,mass_matrix.")
    ],
    frames: Annotated[str, typer.Option(metavar="NAMES", help="Frames of functions that take frames.")] = "",
    directory: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where the files go.")] = Path(),
    scalar: Annotated[str, typer.Option(help="double or float.")] = "double",
    specialize: Annotated[bool, typer.Option("--specialize", help="Code without loops: faster, and longer.")] = False,
    floating_base: FloatingBase = False,
    mimic: Mimic = "couple",
    loops: Loops = "embed",
    xacro: Xacro = None,
) -> None:
    """Export functions of a robot as C99.

    Writes one header and one source file, whose results are bitwise identical to Kinetree's own. The source also
    contains a main, enabled by -D<NAME>_CHECK, that checks the functions against reference values.
    """
    model, warnings = load(robot, floating_base, mimic, loops, xacro)
    _warn(warnings)
    names = [name for name in frames.split(",") if name]
    if specialize:
        model = model.compile((), specialize="batch")  # C has no lanes, so what is faster in batches is faster there
    for path in model.export_c(functions.split(","), directory, frames=names, scalar=scalar):
        typer.echo(str(path))


@app.command()
def compute(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="What to compute, such as forward_dynamics.")],
    robot: Robot,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Zarr group with an array for each argument: q, v, ….")],
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Zarr group for the results.")],
    frames: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Frames; one name has no axis in the result, a list has one.")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="Reference of functions of frames, such as world.")] = None,
    method: Annotated[str | None, typer.Option(help="Method of step and discretize, such as rk4.")] = None,
    block: Annotated[
        int | None, typer.Option(min=1, help="Samples in a block; by default about 32 MB of arguments and results.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of a local cluster; by default it runs in this one.")
    ] = None,
    memory_limit: Annotated[str, typer.Option(metavar="SIZE", help="Memory of each worker, such as 2GB.")] = "auto",
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="An existing Dask cluster, such as tcp://host:8786.")
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="What to do about chunks of DATA that have no file: fail, or take the fill value.")
    ] = Missing.FAIL,
    floating_base: FloatingBase = False,
    mimic: Mimic = "couple",
    loops: Loops = "embed",
    xacro: Xacro = None,
) -> None:
    """Compute a function for all samples of a Zarr group.

    It goes block by block, and writes another Zarr group. DATA has an array (n, nq) or (n, nv) for each argument of
    the function, or one value for all samples, and wrenches in a group f_ext, by frame. Memory is bounded by the
    size of a block. A run that was interrupted or killed continues where it was when the same command is run again,
    unless DATA have changed; results are the same bits.
    """
    if workers is not None and scheduler is not None:
        raise typer.BadParameter("give either --workers or --scheduler", param_hint="--scheduler")
    model, warnings = load(robot, floating_base, mimic, loops, xacro)
    _warn(warnings)
    named = frames.split(",") if frames is not None and "," in frames else frames
    options = {
        "frames": [name for name in named if name] if isinstance(named, list) else named,
        "reference": reference,
        "method": method,
    }
    given = {name: value for name, value in options.items() if value is not None}
    planned = job.plan(model, function, data, out, given, block)
    gone = planned.missing_chunks()
    if gone and missing is Missing.FAIL:
        raise InputError(
            f"{'; '.join(gone)}. Restore them; or, if they were left out because they hold nothing else, as Zarr does "
            "by default, pass --missing fill"
        )
    _warn(gone)
    computing.run(planned, model, workers, scheduler, memory_limit)


@app.command()
def check(
    robot: Robot,
    floating_base: FloatingBase = False,
    seed: Seed = 0,
    samples: Annotated[int, typer.Option(min=1, help="Random states.")] = 32,
    mimic: Mimic = "independent",
    loops: Loops = "ignore",
    xacro: Xacro = None,
) -> None:
    """Check a robot against the laws of mechanics, and other libraries.

    URDF is compared with Pinocchio, MJCF with MuJoCo, if installed: by default the open tree, as they compute with it.
    The exit code is 1 if anything fails.
    """
    model, warnings = load(robot, floating_base, mimic, loops, xacro)
    _warn(warnings)
    _require_memory("--samples", samples, model)
    if not terminal.run(console(), robot, model, floating_base, seed, samples):
        raise typer.Exit(1)


@app.command()
def view(
    robot: Annotated[Path | None, typer.Argument(metavar="ROBOT", help="Robot file: URDF, SDF, MJCF or USD.")] = None,
    floating_base: FloatingBase = False,
    package_root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Directory with packages that meshes may come from. May be given several times."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen on 127.0.0.1; 0 takes a free one.")
    ] = 8080,
    film: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a film that moves every joint, robot.html or robot.mp4, and stop."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture, e.g. robot.png, and stop.")
    ] = None,
    shapes: Annotated[bool, typer.Option("--shapes", help="Show collision shapes from the beginning.")] = False,
    where: Configuration = None,
    mimic: Mimic = "couple",
    loops: Loops = "embed",
    xacro: Xacro = None,
) -> None:
    """Show a robot in a browser, or write a film or a picture of it.

    The page has a slider for each joint. Only this machine can connect, and nothing is downloaded. Meshes are read
    from the directory of the file and from package roots; bodies whose meshes are not found are drawn as capsules.
    Without a file, shows the built-in humanoid.
    """
    if find_spec("viser") is None:
        raise typer.BadParameter("the viewer needs viser: pip install 'kinetree[viewer]'", param_hint="view")
    for option, path, known in (("--film", film, FILMS), ("--picture", picture, PICTURES)):
        _require_suffix(option, path, known)
        _require_drawing(option, path)
    roots = package_root or []
    model, warnings = (
        (kt.zoo.humanoid24(), []) if robot is None else load(robot, floating_base, mimic, loops, xacro, roots)
    )
    _warn(warnings)
    q = configuration(model, where)
    if film is not None:
        write_film(film, model, roots, q, shapes)
    if picture is not None:
        write_picture(picture, model, roots, q, shapes)
    if film is None and picture is None:
        show_in_browser(model, roots, port, q, shapes)


@app.command()
def box(
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw Figures 5 and 6 of the paper, e.g. box.png.")
    ] = None,
    film: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a film, box.html or box.mp4.")] = None,
    view: Annotated[bool, typer.Option("--view", help="Show it in a browser while it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    welded: Annotated[bool, typer.Option("--welded", help="Weld both feet to the floor.")] = False,
    free_foot: Annotated[
        bool, typer.Option("--free-foot", help="Weld the right foot, and let the left one hang.")
    ] = False,
) -> None:
    """Run Chang and Khatib's experiment: a humanoid puts down a box.

    Operational-space control of the box through the closed chain of both arms, with balance on a second level, the
    posture in the null space, joint limits and a servo rate of 300 Hz, in a simulation at 1 kHz: the feet stand by
    friction, the box by contact. The exit code is 1 if a figure is out of bounds.
    """
    if welded and free_foot:
        raise typer.BadParameter("a foot that is welded does not hang: choose one of both", param_hint="--free-foot")
    for wanted, module, extra in ((picture, "matplotlib", "plot"), (film or view, "viser", "viewer")):
        if wanted and find_spec(module) is None:
            raise typer.BadParameter(f"this needs {module}: pip install 'kinetree[{extra}]'", param_hint="box")
    _require_suffix("--picture", picture, _PICTURES)
    _require_suffix("--film", film, FILMS)
    _require_drawing("--film", film)
    stance = "welded" if welded else "free" if free_foot else "friction"
    if not experiment.main(console(), picture, film, view, as_json, stance):
        raise typer.Exit(1)
