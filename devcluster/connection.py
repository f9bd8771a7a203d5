"""One kept-alive HTTPS connection to an API server, that notices when the server has closed it.

Only bytes: what a status means, and what to do about it, is for whoever asks. Not safe to share between threads.
"""

import http.client
import select
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said: HTTP status, media type, body."""

    status: int
    content_type: str
    body: bytes


class Connection:
    """To `server` (a URL), which must show a certificate of `authority` (PEM). Opened with the first request.

    The API server closes what has been idle for some time, and everything when it restarts.
    """

    def __init__(self, server: str, authority: bytes) -> None:
        self._address = urlsplit(server)
        self._tls = ssl.create_default_context(cadata=authority.decode())
        self._open: http.client.HTTPSConnection | None = None

    def exchange(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Answer:
        """Send one request and read the answer.

        Raises OSError where that fails; the request may have been carried out then, and the next one opens a new
        connection. A GET is repeated where the server closes the connection in that very moment.
        """
        if self._open is not None and _closed(self._open):
            self.close()
        reused = self._open is not None
        try:
            return self._exchange(method, path, headers, body)
        except OSError:
            if not reused or method != "GET":
                raise
            return self._exchange(method, path, headers, body)

    def _exchange(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Answer:
        if self._open is None:
            host, port = self._address.hostname or "", self._address.port
            self._open = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls)
        try:
            self._open.request(method, path, body, headers)
            answer = self._open.getresponse()
            return Answer(answer.status, answer.headers.get_content_type(), answer.read())
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise error if isinstance(error, OSError) else ConnectionError(str(error)) from error

    def close(self) -> None:
        """Let go of it; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _closed(connection: http.client.HTTPSConnection) -> bool:
    """Nothing is expected between two requests: whatever there is to read is the other side's farewell."""
    if connection.sock is None:
        return True
    readable, _, _ = select.select([connection.sock], [], [], 0)
    return bool(readable)
