"""What a command does with what is wrong in its manifests: it says all of it, and goes on with the rest or gives up.

An answer about nothing ("no claims", "ok") after an error would be taken for one about the input, so none is given where nothing is
left. What is wrong is found in `manifests`, `scenario` and by the API server, not here.
"""

from __future__ import annotations

from collections.abc import Callable

from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.manifests import Manifests
from dra_operator.cli.output import error, note


def tell(found: Manifests, *, whole: bool = False, complain: Callable[[str], None] = error) -> bool:
    """Print problems and notes; False if there are problems.

    Raises CommandFailed, with nothing more to say, where there are and no object is left; `whole`: where there are any, for answers
    that would mislead if they were about a part of the input.
    """
    for problem in found.problems:
        complain(str(problem))
    for left_out in found.notes:
        note(str(left_out))
    if found.problems and (whole or not found.objects):
        raise CommandFailed()
    return not found.problems
