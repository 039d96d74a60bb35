"""Compiled objects on disk.

The files hold executable code, so they are used only from a directory and files that nobody but the user can write, and
only when their SHA-256 fits: LLVM never sees a damaged byte. The directory is `KINETREE_CACHE_DIR`, else
`$XDG_CACHE_HOME/kinetree`, else `~/.cache/kinetree`; `KINETREE_CACHE_DIR=off` (or empty) switches the cache off. Where
the directory cannot be used everything works, uncached, and says so once.

A file is magic, digest of all that follows, length of the metadata, metadata (JSON), object code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from kinetree.errors import CacheWarning

LIMIT_BYTES = 256 << 20
"""When the cache outgrows this, the files that were not used for longest go until it is three quarters full."""

_MAGIC = b"kinetree-object-1\n"
_LENGTH = struct.Struct("<Q")
_HEADER = len(_MAGIC) + 32
_SUFFIX = ".object"

_warned = False


def key(*parts: object) -> str:
    """A file name for what `parts` describe, compiled by this version of the library.

    Args:
        parts: Whatever distinguishes the code; compared by their `repr`.
    """
    return hashlib.sha256(repr((source_fingerprint(), parts)).encode()).hexdigest()


@lru_cache(maxsize=1)
def source_fingerprint() -> str:
    """SHA-256 over the package's own sources and the versions of what it compiles with."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    digest.update(f"numpy {np.__version__}, llvmlite {llvmlite.__version__}\n".encode())
    for directory, folders, files in os.walk(package):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                content = Path(directory, name).read_bytes()
                digest.update(f"{os.path.relpath(directory, package)}/{name} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()


def load(name: str) -> tuple[dict[str, Any], bytes] | None:
    """The metadata and object code stored under a key, or None if there are none that can be trusted."""
    directory = _directory()
    if directory is None:
        return None
    path = directory / (name + _SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not _is_private(os.fstat(descriptor)):
            _warn(f"{path} is owned or may be written by others")
            return None
        content = file.read()
    unpacked = _unpack(content)
    if unpacked is not None:
        with contextlib.suppress(OSError):
            os.utime(path)  # remembers the use, for pruning
    return unpacked


def store(name: str, metadata: dict[str, Any], code: bytes) -> None:
    """Keep object code and JSON-able metadata under a key. Failing to is no error."""
    directory = _directory(create=True)
    if directory is None:
        return
    described = json.dumps(metadata).encode()
    body = _LENGTH.pack(len(described)) + described + code
    temporary = None
    try:
        # Readers and writers of other processes see either no file or a whole one.
        descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".", suffix=_SUFFIX)
        with open(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        os.replace(temporary, directory / (name + _SUFFIX))
    except OSError as error:
        _warn(f"{directory} cannot be written ({error.strerror})")
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        return
    _prune(directory)


def _unpack(content: bytes) -> tuple[dict[str, Any], bytes] | None:
    digest, body = content[len(_MAGIC) : _HEADER], content[_HEADER:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != digest:
        return None
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    return json.loads(body[_LENGTH.size : end]), body[end:]


def _directory(create: bool = False) -> Path | None:
    """The cache directory if it exists and only the user can write it."""
    setting = os.environ.get("KINETREE_CACHE_DIR")
    if setting is not None and setting in ("", "off"):
        return None
    try:
        path = Path(setting or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        path = path.expanduser() if setting else path / "kinetree"
        if create:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        _warn(f"the cache directory cannot be made or read ({error})")
        return None
    if not stat.S_ISDIR(status.st_mode) or not _is_private(status):
        _warn(f"{path} is not a directory of yours that only you can write (chmod go-w)")
        return None
    return path


def _is_private(status: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _prune(directory: Path) -> None:
    files = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    files.append((entry.stat(), entry.path))
    excess = sum(status.st_size for status, _ in files) - LIMIT_BYTES
    if excess <= 0:
        return
    excess += LIMIT_BYTES // 4
    for status, path in sorted(files, key=lambda file: file[0].st_mtime):
        if excess <= 0:
            break
        excess -= status.st_size
        Path(path).unlink(missing_ok=True)


def _warn(reason: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"compiled code is not cached: {reason}. Set KINETREE_CACHE_DIR to a private directory, "
            "or to 'off' to silence this.",
            CacheWarning,
            stacklevel=2,
        )
