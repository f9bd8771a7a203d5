"""Talk to the supervisor of an instance: one JSON object there, one back, a connection each.

Apart from `supervisor`, so that whoever only asks does not load what only the supervisor process may do.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devcluster import instance


def ask(
    folder: instance.Folder, request: dict[str, Any], *, timeout: float = 60.0
) -> dict[str, tuple[int, int | None]]:
    """Send one request to the supervisor of an instance; gives component → (pid, exit code or None).

    Raises `InstanceError` where nobody listens or the supervisor refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection, _short_path(folder.control_socket) as address:
            connection.settimeout(timeout)
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(connection.makefile("rb").readline())
    except (OSError, ValueError) as error:
        raise instance.InstanceError(f"instance {folder.name} does not answer ({error}): is it up?") from error
    if "error" in answer:
        raise instance.InstanceError(f"instance {folder.name}: {answer['error']}")
    return {name: (pid, code) for name, (pid, code) in answer["components"].items()}


@contextmanager
def listen(path: Path) -> Iterator[socket.socket]:
    """A listening Unix socket at `path`, whatever the length of the path."""
    with socket.socket(socket.AF_UNIX) as server:
        with _short_path(path) as address:
            server.bind(address)
        server.listen()
        yield server


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """A name for `path` within the 108 bytes that a socket address has room for."""
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)
