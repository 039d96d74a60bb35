"""The command line under abuse: names that are markup or control codes, odd streams, absurd options, signals.

Whatever happens, there is no traceback, and the exit code says what happened.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")


import kinetree as kt
from kinetree.interrupts import UNUSABLE

INERTIAL = (
    '<inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>'
)  # fmt: skip
MAIN = [sys.executable, "-c", "from kinetree.cli import main; main()"]


def urdf(name: str, inertial: str = INERTIAL) -> str:
    """A robot of two links; robot, links and joint all have the name in theirs."""
    return (
        f'<robot name="{name}"><link name="base{name}">{inertial}</link><link name="rod{name}">{inertial}</link>'
        f'<joint name="hinge{name}" type="continuous"><parent link="base{name}"/><child link="rod{name}"/></joint>'
        "</robot>"
    )


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("robot"))
    return path


def run(*words: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own."""
    return subprocess.run(
        [*MAIN, *map(str, words)],
        env={**os.environ, **(env or {})},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


# -- names from files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["[/x]", "[bold]", ":smile:", "[link=http://x]y[/link]", "{x}", "%s"])
@pytest.mark.parametrize("command", ["info", "check", "demo"])
def test_names_are_not_markup(output_of: Callable[..., str], tmp_path: Path, command: str, name: str) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(name))
    output = output_of(command, path, *(["--batch", 2] if command == "demo" else []))
    assert name in output


@pytest.mark.parametrize(
    ("character", "shown"),
    [("\x9b", "\\x9b"), ("\x85", "\\x85"), ("\x7f", "\\x7f"), ("\n", "\\n"), ("\t", "\\t"), ("\u202e", "\\u202e")],
)
@pytest.mark.parametrize("command", ["info", "check", "demo"])
def test_control_characters_are_shown_not_sent(
    output_of: Callable[..., str], tmp_path: Path, command: str, character: str, shown: str
) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(f"a&#{ord(character)};b"), encoding="utf-8")
    output = output_of(command, path, *(["--batch", 2] if command == "demo" else []))
    assert f"a{shown}b" in output
    assert f"a{character}b" not in output


def test_control_characters_in_warnings_and_errors(call: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "robot\x9b.urdf"
    path.write_text(urdf("x").replace('type="continuous"', 'type="revolute"'))
    for command in ("info", "check"):
        result = call(command, path)
        assert result.exit_code == 0
        assert "without <limit>" in result.output
        assert "\x9b" not in result.output
    result = call("info", tmp_path / "missing\x1b[31m.urdf")
    assert result.exit_code == UNUSABLE
    assert "missing\\x1b[31m.urdf" in result.output


def test_control_characters_in_lists_of_names(tmp_path: Path) -> None:
    """An unknown frame is answered with the names that exist, which come from the file."""
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("a&#x9b;b"), encoding="utf-8")
    done = run(
        "export", path, "--functions", "pose", "--frames", "hand", "--directory", tmp_path, stdout=subprocess.PIPE
    )
    assert done.returncode == UNUSABLE
    assert "\x9b" not in done.stderr
    assert "basea\\x9bb" in done.stderr
    with pytest.raises(kt.errors.UnknownNameError) as caught:
        kt.load(path).pose([0.0], "hand")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["/* ev-il", "*/ ev-il", "*\\&#10;/ ev-il", "*&#10;/ ev-il", "a&#10;#error ev-il"])
def test_names_do_not_end_comments_of_exported_c(tmp_path: Path, name: str) -> None:
    """Neither directly nor after C has joined the lines that end in a backslash."""
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(name), encoding="utf-8")
    for file in kt.load(path).export_c(["mass_matrix"], tmp_path / "c"):
        joined = file.read_text(encoding="utf-8").replace("\\\n", "")
        assert "ev-il" in joined
        assert "/* ev-il" not in joined.replace("/* ", "", 1)  # compilers warn of comments in comments
        assert "ev-il" not in re.sub(r"/\*.*?\*/", "", joined, flags=re.DOTALL)


def test_a_model_prints_without_control_characters() -> None:
    builder = kt.Builder("a\x1bb")
    builder.add_body("c\nd", joint_name="e\x9bf", mass=1.0)
    builder.add_frame("g\x07h", body="c\nd")
    text = str(builder.build())
    assert text.replace("\n", "").isprintable()
    assert len(text.splitlines()) == 3
    for shown in ("a\\x1bb", "c\\nd", "e\\x9bf", "g\\x07h"):
        assert shown in text


# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict"])
def test_symbols_are_spelled_where_the_encoding_lacks_them(robot: Path, encoding: str) -> None:
    done = run("check", robot, "--samples", 2, env={"PYTHONIOENCODING": encoding}, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert "M M^-1 = 1" in done.stdout
    assert "lambdamin" in done.stdout


def test_names_that_cannot_be_encoded_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("ロボット"), encoding="utf-8")
    done = run("info", path, env={"PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert "\\u30ed" in done.stdout


def test_a_closed_pipe_ends_the_process_quietly(robot: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("info", robot, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == -signal.SIGPIPE
    assert not done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["info", "ROBOT"], ["info", "ROBOT", "--json"], ["--help"], ["--version"]])
def test_a_full_disk_is_reported(robot: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = run(*(robot if word == "ROBOT" else word for word in words), stdout=full)
    assert done.returncode == UNUSABLE
    assert done.stderr == "cannot write the output: No space left on device\n"


def test_closed_standard_output(robot: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *MAIN, "check", str(robot), "--samples", "1"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module", params=["info", "check"])
def on_a_wide_terminal(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """A command, a robot, and what the command prints about it where there is room."""
    path = tmp_path_factory.mktemp("wide") / "robot.urdf"
    path.write_text(urdf("robot"))
    return request.param, path, run(request.param, path, env={"COLUMNS": "200"}, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("columns", ["1", "20", "no"])
def test_narrow_terminals_cut_nothing_off(on_a_wide_terminal: tuple[str, Path, str], columns: str) -> None:
    command, path, wide = on_a_wide_terminal
    narrow = run(command, path, env={"COLUMNS": columns}, stdout=subprocess.PIPE).stdout
    assert narrow == wide
    assert "…" not in narrow


def test_no_colour_where_it_is_unwanted(robot: Path) -> None:
    done = run("check", robot, "--samples", 1, env={"NO_COLOR": "1", "FORCE_COLOR": "1"}, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert "\x1b[32m" not in done.stdout


# -- files and options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/tmp", "/dev/zero", "", "missing.urdf", "\udcff"])
@pytest.mark.parametrize("command", ["info", "check", "demo"])
def test_paths_that_are_no_files(call: Callable[..., Any], command: str, path: str) -> None:
    result = call(command, path)
    assert result.exit_code == UNUSABLE
    assert result.output.startswith("LoadError: ")


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--batch", "0"],
        ["demo", "--batch", "-5"],
        ["demo", "--batch", "[/x]"],
        ["demo", "--batch", "1e3"],
        ["demo", "--batch", str(10**12)],
        ["demo", "--batch", str(10**30)],
        ["demo", "--seed", "-1"],
        ["check", "ROBOT", "--samples", "0"],
        ["check", "ROBOT", "--samples", str(10**12)],
        ["info"],
        ["info", "a", "b"],
        ["nothing"],
        ["--nothing"],
    ],
)
def test_impossible_options(call: Callable[..., Any], robot: Path, words: list[str]) -> None:
    result = call(*(robot if word == "ROBOT" else word for word in words))
    assert result.exit_code == UNUSABLE
    assert "Error: " in result.output


def test_too_large_a_batch_is_refused_with_the_largest_possible(call: Callable[..., Any]) -> None:
    result = call("demo", "--batch", 10**12)
    assert "do not fit into memory; at most 1398101" in result.output


def test_settings_that_are_wrong(robot: Path) -> None:
    done = run("check", robot, "--samples", 1, env={"KINETREE_THREADS": "many"}, stdout=subprocess.PIPE)
    assert done.returncode == UNUSABLE
    assert done.stderr.startswith("InputError: KINETREE_THREADS")


def test_many_samples_are_checked_in_parts(
    call: Callable[..., Any], robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinetree.cli import terminal

    whole = call("check", robot, "--samples", 7).output
    monkeypatch.setattr(terminal, "_LARGEST", 3 * 8 * 16 * 3)  # three samples at a time
    assert call("check", robot, "--samples", 7).output == whole


# -- signals -----------------------------------------------------------------------------------------------------------


def test_interrupted(robot: Path) -> None:
    """Ctrl-C, once the command is running: no traceback, and the exit code of every interrupted command."""
    words = [*MAIN, "check", str(robot), "--samples", "20000000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "random states" in process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors


#: The script that installers write, with a module of its imports that Ctrl-C hits.
SCRIPT = """import sys
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            import os, signal
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from kinetree.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.mark.parametrize("module", ["numpy", "llvmlite", "kinetree.model.model", "kinetree.io", "typer", "rich"])
def test_interrupted_while_it_is_imported(module: str, tmp_path: Path) -> None:
    script = tmp_path / "kinetree"
    script.write_text(SCRIPT.format(module=module))
    done = subprocess.run([sys.executable, str(script), "info"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "interrupted\n")


def test_an_interrupted_import_of_the_library_is_left_alone(tmp_path: Path) -> None:
    """Only the command hides where it was."""
    script = tmp_path / "controller.py"
    script.write_text(SCRIPT.format(module="kinetree.io"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert "Traceback" in done.stderr
