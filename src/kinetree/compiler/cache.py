"""The on-disk cache of compiled code.

The files hold executable code. So the directory and the files must be writable by the user alone, and a SHA-256 digest
is verified before anything is passed to LLVM. The directory is `KINETREE_CACHE_DIR`, else `kinetree` in the user's
cache directory: `$XDG_CACHE_HOME`, `~/.cache`, on macOS `~/Library/Caches`, on Windows `%LOCALAPPDATA%`.
`KINETREE_CACHE_DIR=off` (or empty) disables the cache. If the directory cannot be used, everything works uncached, and
one warning says so.

The code of a library is found in two steps. Its name covers all sources of this package, and needs no trace; it leads
to metadata and the names of modules. Names of modules cover what they were compiled from, so that another version of
the package compiles only those that differ.

A file consists of a magic string, a digest of its name and of everything after the digest, the length of the metadata,
the metadata (JSON) and the object code. Anything else under its name (a directory, a pipe, a link, a truncated or huge
file) is a miss, and the code is compiled again.

Programs often start several processes at once, with the same robot. The first one that needs a library locks a file in
the cache, and the others wait for its code (`cache_lock`). The system releases the locks of a process that ends,
however it ends. They are advisory: whoever cannot lock, or has waited for too long, compiles on its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import stat
import struct
import sys
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from kinetree.errors import CacheWarning

try:
    import fcntl
except ImportError:  # Windows has other locks
    _CAN_LOCK = False
else:
    _CAN_LOCK = True

LIMIT_BYTES = 256 << 20
"""When the cache grows beyond this, the least recently used files are removed until it is three quarters full."""

ENTRY_BYTES = 64 << 20
"""Larger files are neither written nor read; the largest kernels take 2 MB."""

_MAGIC = b"kinetree-object-2\n"
_LENGTH = struct.Struct("<Q")
_HEADER = len(_MAGIC) + 32
_SUFFIX = ".object"
_PART = ".part"
_LOCK = ".lock"
_ABANDONED_SECONDS = 3600  # age at which an unfinished file, or a lock, is considered abandoned
_PATIENCE_SECONDS = 20.0  # the largest kernels take 5 s to compile
_POLL_SECONDS = 0.005

_PACKAGE = Path(__file__).parents[1]
_COMPILER = "compiler/llvm/machine_code.py"

# Whether files have owners that `os` knows: everywhere but on Windows.
_OWNERS = hasattr(os, "geteuid")

_warned = False
_log = logging.getLogger("kinetree")


def key(*parts: object) -> str | None:
    """A file name for code that the `repr` of these objects identifies; None if it must not be cached."""
    fingerprint = source_fingerprint()
    return None if fingerprint is None else hashlib.sha256(repr((fingerprint, parts)).encode()).hexdigest()


def module_key(text: str, *parts: object) -> str | None:
    """A file name for the object code of a module in LLVM's assembly language; None if it must not be cached.

    The text says what to compile, the `repr` of the parts for what. So other versions of the library find it too, if
    they compile in the same way.
    """
    if source_fingerprint() is None:
        return None
    return hashlib.sha256(f"{_compiler_fingerprint()} {parts!r}\n{text}".encode()).hexdigest()


@lru_cache(maxsize=1)
def _compiler_fingerprint() -> str:
    """SHA-256 over what turns the text of a module into object code."""
    versions = f"llvmlite {llvmlite.__version__}\n"
    return hashlib.sha256(versions.encode() + _content(_COMPILER)).hexdigest()


def _content(path: str) -> bytes:
    """What is in a source file of the package. There are hundreds, and `Path` would take twice the time."""
    with open(f"{_PACKAGE}/{path}", "rb", buffering=0) as file:
        return file.read()


def _sources() -> dict[str, tuple[int, ...]]:
    """The package's source files, with the size, times and inode that reveal a replacement."""
    found: dict[str, tuple[int, ...]] = {}
    folders = [""]
    for folder in folders:
        with os.scandir(_PACKAGE / folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    own = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
                    found[folder + entry.name] = own
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(f"{folder}{entry.name}/")
    return dict(sorted(found.items()))


# The files that this process imported. Their contents are read later, when they may have been replaced.
_IMPORTED = _sources()


@lru_cache(maxsize=1)
def source_fingerprint() -> str | None:
    """SHA-256 over the package's sources and the versions of NumPy and llvmlite.

    None if the sources have changed since they were imported, since this process would then compile other code. Reading
    all of them takes a third of the time of a first call, so the result is kept in the cache for unchanged files.
    """
    versions = f"numpy {np.__version__}, llvmlite {llvmlite.__version__}\n"
    try:
        if _sources() != _IMPORTED:
            return None
        name = hashlib.sha256(repr((str(_PACKAGE), versions, _IMPORTED)).encode()).hexdigest()
        kept = load(name)
        if kept is not None:
            return str(kept[0]["fingerprint"])
        digest = hashlib.sha256(versions.encode())
        for path in _IMPORTED:
            content = _content(path)
            digest.update(f"{path} {len(content)}\n".encode())
            digest.update(content)
        if _sources() != _IMPORTED:
            return None
    except OSError:
        return None
    fingerprint = digest.hexdigest()
    with contextlib.suppress(OSError):
        if (directory := _directory(create=True)) is not None:
            _write(directory, name, {"fingerprint": fingerprint}, b"")
    return fingerprint


def enabled() -> bool:
    """Whether code can be cached: the directory exists or can be created."""
    return source_fingerprint() is not None and _directory(create=True) is not None


def load(name: str | None) -> tuple[dict[str, Any], bytes] | None:
    """The metadata and object code stored under a key, or None if there is no trustworthy entry."""
    directory = None if name is None else _directory()
    if directory is None or name is None:
        return None
    path = directory / (name + _SUFFIX)
    flags = (getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_BINARY", "O_NONBLOCK", "O_CLOEXEC"))
    try:
        descriptor = os.open(path, os.O_RDONLY | sum(flags))
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _HEADER < status.st_size <= ENTRY_BYTES:
            return None
        if not _is_private(status):
            _warn(f"{path} is owned or writable by others")
            return None
        with open(descriptor, "rb", closefd=False) as file:
            unpacked = _unpack(name, file.read(status.st_size))
        if unpacked is None:
            _log.info("%s is damaged; its code is compiled again", path)
        else:
            os.utime(path)  # marks the entry as used, for pruning
        return unpacked
    except OSError:
        return None
    finally:
        os.close(descriptor)


def store(name: str | None, metadata: dict[str, Any], code: bytes) -> None:
    """Store object code and JSON-serialisable metadata under a key. Failure is not an error."""
    directory = None if name is None else _directory(create=True)
    if directory is None or name is None:
        return
    try:
        _write(directory, name, metadata, code)
    except OSError as error:
        # Windows does not replace a file that another process is reading, which has the same content
        if not isinstance(error, PermissionError) or not (directory / (name + _SUFFIX)).exists():
            _warn(f"{directory} cannot be written ({error.strerror})")


def _write(directory: Path, name: str, metadata: dict[str, Any], code: bytes) -> None:
    described = json.dumps(metadata).encode()
    body = _LENGTH.pack(len(described)) + described + code
    if _HEADER + len(body) > ENTRY_BYTES:
        return
    import tempfile  # takes a while to import

    # other processes see either no file or a complete one
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".", suffix=_PART)
    try:
        with open(descriptor, "wb") as file:
            file.write(_MAGIC + _digest(name, body) + body)
        os.replace(temporary, directory / (name + _SUFFIX))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _prune_after(directory, len(body))


@contextlib.contextmanager
def cache_lock(name: str | None) -> Iterator[None]:
    """Lock an entry that is about to be compiled, after waiting for a process that has done so before."""
    directory = None if name is None or not _CAN_LOCK else _directory(create=True)
    path, descriptor = None if directory is None else directory / f".{name}{_LOCK}", None
    if path is not None:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            end = time.monotonic() + _PATIENCE_SECONDS
            while not _locked(descriptor) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if path is not None and descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Try to lock a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(name: str, body: bytes) -> bytes:
    """The digest of a file's name and contents, so that no file can be mistaken for another."""
    return hashlib.sha256(name.encode() + b"\n" + body).digest()


def _unpack(name: str, content: bytes) -> tuple[dict[str, Any], bytes] | None:
    digest, body = content[len(_MAGIC) : _HEADER], content[_HEADER:]
    if content[: len(_MAGIC)] != _MAGIC or len(body) < _LENGTH.size or _digest(name, body) != digest:
        return None
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    return json.loads(body[_LENGTH.size : end]), body[end:]


def _directory(create: bool = False) -> Path | None:
    """The cache directory, if it exists and is writable by the user alone."""
    setting = os.environ.get("KINETREE_CACHE_DIR")
    if setting is not None and setting in ("", "off"):
        return None
    try:
        path = Path(setting).expanduser() if setting else _user_directory() / "kinetree"
        if create:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        private = _is_private(status) and _is_guarded(path)
    except (OSError, RuntimeError, ValueError) as error:  # no home directory; an invalid name
        # a missing directory is created when there is something to store; below /proc that also fails with "not found"
        if create or not isinstance(error, FileNotFoundError):
            _warn(f"the cache directory cannot be made or read ({error})")
        return None
    if not stat.S_ISDIR(status.st_mode) or not private:
        wanted = "that you own and that you alone can write to (chmod go-w)" if _OWNERS else "in your user profile"
        _warn(f"{path} is not a directory {wanted}")
        return None
    return path


def _user_directory() -> Path:
    """The user's directory for caches."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _is_private(status: os.stat_result) -> bool:
    if not _OWNERS:
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_guarded(path: Path) -> bool:
    """Whether the system keeps others out: on Windows, `stat` knows no owner, but user profiles are private."""
    return _OWNERS or path.resolve().is_relative_to(Path.home().resolve())


def _prune_after(directory: Path, written: int) -> None:
    """Prune once this process has written enough since the last time that the cache may be too large."""
    pending = _unchecked.get(directory, LIMIT_BYTES) + written
    _unchecked[directory] = pending
    if pending > LIMIT_BYTES // 32:
        _unchecked[directory] = 0
        _prune(directory)


# Bytes written to each directory since it was last pruned.
_unchecked: dict[Path, int] = {}


def _prune(directory: Path) -> None:
    """Remove the least recently used entries if the cache is too large, and abandoned temporary files."""
    files = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have removed it
                if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False):
                    files.append((entry.stat(follow_symlinks=False), entry.path))
                elif entry.name.endswith((_PART, _LOCK)) and _age(entry) > _ABANDONED_SECONDS:
                    os.unlink(entry.path)
    excess = sum(status.st_size for status, _ in files) - LIMIT_BYTES
    if excess <= 0:
        return
    excess += LIMIT_BYTES // 4
    for status, path in sorted(files, key=lambda file: file[0].st_mtime):
        if excess <= 0:
            break
        excess -= status.st_size
        _log.debug("%s is removed from the full cache", path)
        with contextlib.suppress(OSError):
            os.unlink(path)


def _age(entry: os.DirEntry[str]) -> float:
    return time.time() - entry.stat(follow_symlinks=False).st_mtime


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
