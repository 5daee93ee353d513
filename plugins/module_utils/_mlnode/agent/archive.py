# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as one executable file: this library as a zip, followed by its compiled code.

The sources come first. They are the same bytes wherever they are packed, so their digest can prove that a
node and a controller have the same version. The compiled code saves most of the time of a start. Another
Python, such as after an upgrade of the distribution, ignores it and uses the sources. Both parts lack
comments and docstrings, which no command shows.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import marshal
import re
import struct
import zipfile
import zlib
from types import CodeType, MappingProxyType
from typing import Mapping, NamedTuple, Tuple

from ..host.places import AGENT_COMMAND
from ..model.errors import DeclarationError

#: Any Python 3.8 or newer that the node has; env, as distributions keep it in different places.
INTERPRETER = "/usr/bin/env python3"

#: PATH for env: the default of systemd, which starts the agent at boot (systemd.exec(5)). A play may have
#: another PATH and find another Python, which cannot use the code compiled for the one at boot.
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: -I: root runs no PYTHON* variable of the caller, no package in a home folder and no file in the present
#: folder. -S: nor the site folders of the machine's Python; the agent uses none of them.
_ISOLATED = "-IS"

#: The kernel splits a first line at blanks and knows no quotes (execve(2)), but the shell of a controller
#: does; any text after a line break would be part of the archive.
_PROGRAM = re.compile(r"""[!-~]+(?: [!-~]+)*\Z""", re.ASCII)
_QUOTES = re.compile(r"""['"\\`$]""")

#: Bytes of the program and its arguments: a kernel reads 255 of a first line (include/uapi/linux/binfmts.h,
#: BINPRM_BUF_SIZE), including `#!`, -S and -I
_LONGEST = 240

#: Bytes at the end of the file among which are two numbers of up to 10 digits, before _MADE_BY of 17
_END = 64

#: The message is for a Python that could not read the rest. Python's own import from a zip opens the file for
#: every module, which would take a tenth of the time of a short command, and so would reading all compiled
#: code. The file stays open, in a detached process too. A late import is then from this agent, even after its
#: replacement. The code that a process compiles is kept for the agent that it may install.
_MAIN = b"""# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
import gc
import sys

if sys.version_info < (3, 8):
    sys.exit("mlnode needs Python 3.8 or newer, and %s is %d.%d" % ((sys.executable,) + sys.version_info[:2]))

import importlib.util
import marshal
import os


class Compiled:
    archive = __loader__.archive

    def find_spec(self, name, path=None, target=None):
        if not name.startswith("mlnode"):
            return None
        known = places.get(name) or modules.get(name) or self.compiled(name)
        return known and importlib.util.spec_from_loader(name, self, is_package=known[0])

    def compiled(self, name):
        for is_package, file in ((True, "/__init__.py"), (False, ".py")):
            file = name.replace(".", "/") + file
            try:
                source = __loader__.get_data(file)
            except OSError:
                continue
            modules[name] = is_package, compile(source, COMMAND/file, "exec", dont_inherit=True, optimize=2)
            return modules[name]
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        if name in places:
            _is_package, start, size = places[name]
            code = marshal.loads(os.pread(opened, size, start))
        else:
            code = modules[name][1]
        exec(code, module.__dict__)


modules = {}
places = {}
try:
    opened = os.open(__loader__.archive, os.O_RDONLY | os.O_CLOEXEC)
    end = os.pread(opened, END, max(0, os.fstat(opened).st_size - END)).split()[-4:]
    if end[2:] == [b"compiled", importlib.util.MAGIC_NUMBER.hex().encode()]:  # or another Python
        places = marshal.loads(os.pread(opened, int(end[1]), int(end[0])))
except (OSError, ValueError, EOFError, TypeError):
    places = {}
whole = bool(places)
sys.meta_path.insert(0, Compiled())

# Its few megabytes end with it: the 700 objects after which Python looks for garbage are a tenth of its time.
gc.set_threshold(100_000)

from mlnode.agent.cli import main

status = main()

# Python's own end frees every object, which takes a tenth of the time. All output is flushed by now.
os._exit(status)
"""
_MAIN = _MAIN.replace(b"COMMAND/file", f'"{AGENT_COMMAND}/" + file'.encode()).replace(b"END", b"%d" % _END)

#: Modules for Ansible only, not for commands of the agent. A process that has imported them for another
#: reason, such as a test, builds the same zip without them.
ELSEWHERE = ("agent.agent_modules", "checks.timed_command", "host.timed")

#: The oldest time a zip can hold: equal sources give equal bytes, whenever and wherever it is built.
_EPOCH = (1980, 1, 1, 0, 0, 0)

#: At the end of the file, so an incomplete file cannot have it: the magic number of this Python's bytecode.
#: The start and the size of the entry _PLACES precede it.
_MADE_BY = f"compiled {importlib.util.MAGIC_NUMBER.hex()}".encode("ascii")

#: Names of two entries in the zip: the code compiled by this Python, and the place of each module in the
#: file, as name → package or not, start, size
_COMPILED = f"compiled-{importlib.util.MAGIC_NUMBER.hex()}"
_PLACES = f"places-{importlib.util.MAGIC_NUMBER.hex()}"

#: Size of the header before the name of an entry (ZIP Application Note, 4.3.7)
_HEADER = 30

#: Prints that number
WHICH = "import importlib.util; print('compiled', importlib.util.MAGIC_NUMBER.hex())"

#: File name in the zip → its content, shortened
Files = Mapping[str, bytes]

#: Whether it is a package, and its code
Module = Tuple[bool, CodeType]

#: Name of a module → its compiled code
Modules = Mapping[str, Module]


class Sources(NamedTuple):
    """Size and SHA-256 of the part after the first line that is the same in each agent of these sources."""

    size: int
    sha256: str


def isolated(interpreter: str) -> str:
    """The first line's program: Python in isolated mode.

    Linux passes all arguments of the program as one (execve(2)). env splits it with -S since coreutils 8.30,
    and Python reads it as a group of one-letter options. Raises DeclarationError for text that cannot be a
    first line.
    """
    if not _PROGRAM.match(interpreter) or _QUOTES.search(interpreter) or len(interpreter) > _LONGEST:
        raise DeclarationError(
            f"interpreter: must be the path of a Python, and its options after a blank, in up to {_LONGEST} "
            f"characters without quotes, as written behind #!, got {interpreter[:80]!a}"
        )
    program, *arguments = started(interpreter)
    if _is_env(program):
        has_option = any(re.match(r"-[a-zA-Z]*I", word) for word in arguments)
        return " ".join([program, "-S", *arguments, *([] if has_option else [_ISOLATED])])
    if len(arguments) == 1 and re.match(r"-[a-zA-Z]+\Z", arguments[0]):
        return interpreter if "I" in arguments[0] else f"{interpreter}{_ISOLATED[1:]}"
    return interpreter if arguments else f"{program} {_ISOLATED}"


def started(interpreter: str) -> list[str]:
    """Program and arguments that start the same Python from every caller's environment."""
    program, *arguments = interpreter.split()
    if not _is_env(program):
        return [program, *arguments]
    if arguments and arguments[0].startswith("-S"):
        arguments[:1] = filter(None, [arguments[0][len("-S") :]])
    path = [] if any(word.startswith("PATH=") for word in arguments) else [_PATH]
    return [program, *path, *arguments]


def _is_env(program: str) -> bool:
    return program.rpartition("/")[2] == "env"


def build(
    files: Files,
    interpreter: str = INTERPRETER,
    compiled: bool = True,
    modules: Modules = MappingProxyType({}),
) -> bytes:
    """The executable zip. modules: code of these files that this process has already compiled."""
    return _packed(files, interpreter, compiled, modules)[0]


def uncompiled(files: Files) -> tuple[bytes, Sources]:
    """The executable zip without compiled code, and the size and digest that each zip of these files has."""
    content, end = _packed(files, INTERPRETER, compiled=False)
    start = content.index(b"\n") + 1
    return content, Sources(end - start, hashlib.sha256(content[start:end]).hexdigest())


def _place(file: tuple[str, bytes]) -> tuple[int, str]:
    return file[0].count("/"), file[0]


def is_right(content: bytes, files: Files, interpreter: str, compiled: bool = True) -> bool:
    """True if the zip is whole, made of these sources, and compiled by this Python, or not at all. The code
    is not compiled again for comparison: a checksum guards it against accidents."""
    if not compiled:
        return content == build(files, interpreter, compiled=False)
    built, end = _packed(files, interpreter, compiled=False)
    return content.startswith(built[:end]) and is_whole(content, interpreter)


def is_whole(content: bytes, interpreter: str) -> bool:
    """True if this is undamaged and compiled by this Python, whatever its sources are."""
    if not content.startswith(_first_line(interpreter)) or not content.endswith(_MADE_BY):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, EOFError, struct.error):
        return False


def is_mine(output: str) -> bool:
    """True if a Python with this output for WHICH runs the code that this one compiles."""
    return output.strip().encode("utf-8") == _MADE_BY


def is_elsewhere(name: str) -> bool:
    """True if a module of this package is not the agent's."""
    return name in ELSEWHERE


def _packed(
    files: Files, interpreter: str, compiled: bool, modules: Modules = MappingProxyType({})
) -> tuple[bytes, int]:
    """The whole file, and where in it the sources end."""
    stream = io.BytesIO()
    stream.write(_first_line(interpreter))
    # Not compressed: unpacking the imports of a short command would take a tenth of its time, and other
    # versions of zlib make other bytes.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # Files of one depth are alike: bz2 makes 2 KiB less of them side by side.
        for name, content in sorted({**files, "__main__.py": _MAIN}.items(), key=_place):
            archive.writestr(_entry(name), content)
        end = stream.tell()
        if compiled:
            names = {_module(file): file for file in sorted(files)}
            code = {
                name: _dumped(*modules[name]) if name in modules else _compiled(file, files[file])
                for name, file in names.items()
            }
            archive.writestr(_entry(_COMPILED), b"".join(bytecode for _is_package, bytecode in code.values()))
            start = archive.getinfo(_COMPILED).header_offset + _HEADER + len(_COMPILED)
            places = {}
            for name, (is_package, bytecode) in code.items():
                places[name] = is_package, start, len(bytecode)
                start += len(bytecode)
            archive.writestr(_entry(_PLACES), marshal.dumps(places))
            start = archive.getinfo(_PLACES).header_offset + _HEADER + len(_PLACES)
            archive.comment = b" %d %d %s" % (start, archive.getinfo(_PLACES).file_size, _MADE_BY)
    return stream.getvalue(), end


def _first_line(interpreter: str) -> bytes:
    return f"#!{isolated(interpreter)}\n".encode()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    return entry


def _module(file: str) -> str:
    folder, _slash, name = file[: -len(".py")].rpartition("/")
    return (folder if name == "__init__" else f"{folder}/{name}").replace("/", ".")


def _dumped(is_package: bool, code: CodeType) -> tuple[bool, bytes]:
    return is_package, marshal.dumps(code)


@functools.lru_cache(maxsize=None)
def _compiled(file: str, source: bytes) -> tuple[bool, bytes]:
    """Compile one file. Tracebacks show its name in the archive.

    The result is dumped once, because the bytes also depend on the number of references to an object.
    """
    # Without docstrings, which are a twentieth of the file, and which no command shows. As in _MAIN.
    code = compile(source, f"{AGENT_COMMAND}/{file}", "exec", dont_inherit=True, optimize=2)
    return _dumped(file.endswith("/__init__.py"), code)
