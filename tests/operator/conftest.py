from __future__ import annotations

from dra_operator.operator import structured_logs

# As in production: structlog's own default renders every local variable of a traceback, here whole event loops.
structured_logs.configure("info")
