"""Every `kinetree` command that the documents show, run in an environment with only the extras that it needs."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/*.md")

#: Files that documented commands read. The robots are built-in ones; Zarr groups have 64 states of them.
FILES = """
import pathlib, re, numpy as np, kinetree as kt
pathlib.Path("robot.urdf").write_text(kt.to_urdf(kt.zoo.humanoid24()))
text = kt.to_urdf(kt.zoo.asimo35()).replace('<link name="world"/>', "")
pathlib.Path("talos.urdf").write_text(re.sub('<joint name="[^"]*" type="floating">.*?</joint>', "", text, flags=re.S))
pathlib.Path("arm.urdf").write_text(kt.to_urdf(kt.zoo.arm7()))
pathlib.Path("ws/share").mkdir(parents=True)
try:
    import zarr
except ModuleNotFoundError:
    raise SystemExit
for name, robot in (("data", kt.load("robot.urdf")), ("log", kt.load("talos.urdf", floating_base=True))):
    group, rng = zarr.open_group(f"{name}.zarr", mode="w"), np.random.default_rng(0)
    group["q"] = robot.random_configuration(rng, (64,))
    group["v"], group["tau"] = rng.standard_normal((2, 64, robot.nv))
"""
#: What a machine of its own cannot try, and why.
LEFT_OUT = {"--scheduler": "needs a running cluster"}
#: How long a command may take [s].
_PATIENCE = 1800.0

Run = Callable[..., str]


def documented() -> list[list[str]]:
    """The words of each command that shell blocks of documents show, without comments."""
    found: list[list[str]] = []
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            for block in re.findall(r"^```sh\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL):
                lines = (shlex.split(line, comments=True) for line in block.splitlines())
                found += [words for words in lines if words[:1] == ["kinetree"] and words not in found]
    return found


def extras_of(words: list[str]) -> str:
    """The extras that a command needs, and no others."""
    needed = {"view": "viewer", "compute": "dask"}.get(words[1])
    if any(word.endswith(".mp4") for word in words):
        needed = "video"
    return "cli" if needed is None else f"cli,{needed}"


def stays(words: list[str]) -> bool:
    """Whether a command shows something until it is interrupted."""
    return words[1] == "view" and not {"--film", "--picture"} & set(words)


def _interruptible() -> None:
    """As in a terminal; what runs in the background of a shell ignores interrupts, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def try_command(words: list[str], program: Path, where: Path) -> str:
    """Run a command in a folder; what went wrong, or nothing."""
    given = [word.replace("~", ".", 1) if word.startswith("~/") else word for word in words[1:]]
    if stays(words) and "--port" not in given:
        given += ["--port", "0"]
    process = subprocess.Popen(
        [program, *given],
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=_interruptible,
    )
    shown = ""
    if stays(words) and process.stdout is not None:
        shown = process.stdout.readline()
        process.send_signal(signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{shlex.join(words)}: not within {_PATIENCE:.0f} s"
    if process.returncode or (stays(words) and "http://127.0.0.1:" not in shown):
        return f"{shlex.join(words)}: exit code {process.returncode}\n{shown}{output}{errors}"
    return ""


def try_all(environment: Callable[[Path, str], Path], wheel: Path, scratch: Path, run: Run) -> Iterable[str]:
    """Try all of them, in one environment for each set of extras; what went wrong, as it happens."""
    groups: dict[str, list[list[str]]] = {}
    for words in documented():
        if not LEFT_OUT.keys() & set(words):
            groups.setdefault(extras_of(words), []).append(words)
    for extras, commands in groups.items():
        name = f"commands-{extras.replace(',', '-')}"
        python = environment(scratch / name, f"kinetree[{extras}] @ {wheel.as_uri()}")
        where = scratch / f"{name}-use"
        where.mkdir()
        run(python, "-I", "-W", "ignore", "-c", FILES, cwd=where)
        for words in commands:
            trouble = try_command(words, python.with_name("kinetree"), where)
            if trouble:
                yield f"[{extras}] {trouble}"
