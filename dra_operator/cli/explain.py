"""`kubectl-dra explain`: its options and help. Where the objects come from is `cli.explaining`, how it looks `cli.explained`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dra_operator.api.meta import Key
from dra_operator.cli.failures import USAGE, CommandFailed
from dra_operator.cli.live import ContextOption, KubeconfigOption, exclude_files
from dra_operator.cli.output import OutputFormat

NamespaceOption = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Where it is; default: the context's, with -f default."),
]
_KINDS = {
    "claim": "claim",
    "claims": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
}


_WORKLOADS = frozenset({"deployment", "deploy", "statefulset", "sts", "daemonset", "ds", "job", "replicaset", "rs"})


def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="claim/NAME|pod/NAME", help="What to explain; also as printed: pod/NAMESPACE/NAME."),
    ],
    namespace: NamespaceOption = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE|DIR|-",
            help="Manifests to run the engine on; without them a cluster is asked.",
        ),
    ] = None,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Say why a claim or pod waits, and what would fix it.

    Per request: at which step how many devices fall out, what each condition of the selectors rejects by itself, who has the
    devices. Then the nearest nodes with what they lack, and changes that would help, each tried before it is told. For a claim
    with devices: which, where, and who uses them.

    With -f the engine runs on the manifests, in virtual time, until nothing changes any more. Otherwise the cluster's objects are
    read (and nothing is written).

    Example: kubectl-dra explain pod/train-0 -n team-a
    """
    kind, key = parse_target(target, namespace)
    from dra_operator.cli.explaining import explain_cluster, explain_files

    exclude_files(file, kubeconfig, context)
    key = placed(key, file, kubeconfig, context)
    if file:
        account, fine = explain_files(file, kind, key)
    else:
        account, fine = explain_cluster(kubeconfig, context, kind, key), True
    # Brings the engine with it: not before the cluster has been asked.
    from dra_operator.cli.explained import print_account

    print_account(account, output)
    if not fine:
        raise CommandFailed()


def parse_target(text: str, namespace: str | None) -> tuple[str, Key]:
    """(claim or pod, key) of `claim/NAME` or `pod/NAME`, or of `pod/NAMESPACE/NAME`, as commands print them; the key's namespace is
    empty where none is said. Raises CommandFailed."""
    kind, slash, name = text.partition("/")
    within, between, name = name.rpartition("/")
    if between and within and namespace not in (None, within):
        raise CommandFailed(f"{text} is in namespace {within}, and -n says {namespace}; leave -n out", USAGE)
    if not name or "/" in within or bool(between) != bool(within) or kind.lower() not in _KINDS:
        hint = f"; did you mean pod/{text}?" if text and not slash else ""
        if slash and kind.lower().rstrip("s") in _WORKLOADS:
            hint = f"; name one of the pods of the {kind.lower().rstrip('s')}"
        raise CommandFailed(f"{text!r} is neither claim/NAME nor pod/NAME{hint}", USAGE)
    return _KINDS[kind.lower()], Key(within or namespace or "", name)


def placed(key: Key, files: list[str] | None, kubeconfig: Path | None, context: str | None) -> Key:
    """The key in the namespace that is meant where none was said: the kubeconfig's, as with kubectl; in manifests `default`."""
    if key.namespace:
        return key
    if files:
        return Key("default", key.name)
    from dra_operator.cluster.kubernetes.connection import default_namespace

    return Key(default_namespace(None if kubeconfig is None else str(kubeconfig), context), key.name)
