# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds what the lab is made of, each part under the checksum of its recipe.

A part is there or not: it is made beside its place and renamed last. A recipe that changes gives another
checksum, and so do all parts that need it; the others stay.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import fcntl
import functools
import hashlib
import inspect
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: How long the result of an earlier recipe is kept: other checkouts may use it
_KEEP_SECONDS = 24 * 3600

HERE = pathlib.Path(__file__).resolve().parent


class LabError(Exception):
    """What keeps the lab from being built or used, in words for the person in front of it."""


class StaleError(LabError):
    """Parts that were built at different times do not fit together."""

    def __init__(self, words: str, *parts: Part) -> None:
        super().__init__(words)
        self.parts = parts


@dataclass(frozen=True)
class Part:
    """Something to build. The first function of recipe makes it; all that is given here is in the checksum.

    sources: files and folders beside this one.
    """

    name: str
    recipe: tuple[Callable[..., None], ...]
    parameters: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    needs: tuple[Part, ...] = ()

    # Asked for by every path of every machine, and the sources do not change within one process.
    @functools.cached_property
    def key(self) -> str:
        digest = hashlib.sha256()
        # Without comments and line breaks, which change nothing in what is built.
        texts = [ast.unparse(ast.parse(inspect.getsource(function))) for function in self.recipe]
        for text in (self.name, *texts, *self.parameters, *(need.key for need in self.needs)):
            digest.update(text.encode() + b"\0")
        for path in self._files():
            mode = path.stat().st_mode & 0o777
            digest.update(f"{path.relative_to(HERE)} {mode:o}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:16]

    def _files(self) -> Iterator[pathlib.Path]:
        for source in self.sources:
            path = HERE / source
            found = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)

    @property
    def path(self) -> pathlib.Path:
        """Where it lies once it is built."""
        return cache() / f"{self.name}-{self.key}"

    def closure(self) -> list[Part]:
        """This part and all it needs, needs first."""
        found = [inner for need in self.needs for inner in need.closure()]
        return list(dict.fromkeys([*found, self]))


def cache() -> pathlib.Path:
    top = os.environ.get("MLNODE_CACHE") or pathlib.Path.home() / ".cache" / "mlnode"
    return pathlib.Path(top).resolve() / "lab"


@dataclass(frozen=True)
class Job:
    """A part in the making: out is its folder to be."""

    part: Part
    out: pathlib.Path

    def say(self, words: str) -> None:
        print(f"lab: [{self.part.name}] {words}", flush=True)

    def run(self, *command: str | pathlib.Path) -> None:
        """Run a command. Its output goes to the log, what mmdebstrap announces to the terminal too."""
        log = self.out.with_suffix(".log")
        with log.open("a") as stream:
            stream.write(f"$ {' '.join(map(str, command))}\n")
            stream.flush()
            with subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            ) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    stream.write(line)
                    if line.startswith("I: ") and "hook" not in line:
                        self.say(line[3:].strip())
        if process.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
            raise LabError(f"{self.part.name}: {command[0]} failed. The end of {log}:\n{tail}")


def build(wanted: list[Part]) -> None:
    """Make the parts that are not there yet, side by side where they do not need each other."""
    if all(part.path.exists() for part in wanted):
        return
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _build(wanted)
        except StaleError as stale:
            print(f"lab: {stale}: building again", flush=True)
            for part in stale.parts:
                remove(part.path)
            _build(wanted)


def _build(wanted: list[Part]) -> None:
    order = list(dict.fromkeys(inner for part in wanted for inner in part.closure()))
    futures: dict[Part, concurrent.futures.Future[None]] = {}
    # A thread for each: those that wait for what they need take no time.
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(order)) as pool:
        for part in order:
            before = [futures[need] for need in part.needs]
            futures[part] = pool.submit(_make, part, before)
        for future in futures.values():
            future.result()


def _make(part: Part, before: list[concurrent.futures.Future[None]]) -> None:
    for future in before:
        future.result()
    if part.path.exists():
        return
    job = Job(part, part.path.with_suffix(".new"))
    remove(job.out)
    job.out.mkdir()
    job.out.with_suffix(".log").unlink(missing_ok=True)
    start = time.monotonic()
    job.say("building")
    part.recipe[0](job)
    job.out.rename(part.path)
    job.say(f"ready ({time.monotonic() - start:.0f} s)")
    job.out.with_suffix(".log").unlink(missing_ok=True)
    _forget_older(part)


def _forget_older(part: Part) -> None:
    """Remove results of earlier recipes of a part, once no test can be running on them any more."""
    for path in cache().glob(f"{part.name}-????????????????"):
        if path != part.path and time.time() - path.stat().st_mtime > _KEEP_SECONDS:
            remove(path)


def remove(path: pathlib.Path) -> None:
    """Remove a folder. Never crosses into a mount that an interrupted build may have left."""
    if path.exists():
        subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def main() -> int:
    from . import host, profiles

    parser = argparse.ArgumentParser(
        description="Build what the lab machines need; does nothing where it is there."
    )
    parser.add_argument(
        "profiles", nargs="*", metavar="PROFILE", help=f"one of {', '.join(profiles.PROFILES)}"
    )
    parser.add_argument("--long", action="store_true", help="also what only the long tests need")
    options = parser.parse_args()
    names = options.profiles or (*profiles.DEFAULT, *(profiles.LONG if options.long else ()))
    try:
        wanted = list(dict.fromkeys(part for name in names for part in profiles.named(name).parts))
        if all(part.path.exists() for part in wanted):
            print(f"lab: ready below {cache()}")
            return 0
        start = time.monotonic()
        host.prepare()
        build(wanted)
        print(f"lab: ready below {cache()} ({time.monotonic() - start:.0f} s)")
    except LabError as error:
        print(f"lab: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
