"""An explanation on paper: a tree for people, the same as JSON or YAML for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dra_operator.cli.endstate import style
from dra_operator.cli.output import OutputFormat, Printer, Span, print_data
from dra_operator.explain.account import Account, ClaimAccount
from dra_operator.explain.explanation import (
    FULL,
    ConjunctCount,
    Explanation,
    RequestExplanation,
    Step,
    counted,
    listed,
    on_nodes,
)

#: Details shown of one step; how many more there are is said.
_DETAILS = 4

Line = tuple[Span | str, ...]


class Tree:
    """A node of the tree to print: a line, and what is below it."""

    def __init__(self, *line: Span | str) -> None:
        self.line: Line = line
        self.children: list[Tree] = []

    def add(self, *line: Span | str) -> Tree:
        child = Tree(*line)
        self.children.append(child)
        return child


def print_account(account: Account, form: OutputFormat) -> None:
    if form is not OutputFormat.TABLE:
        print_data(account.to_dict(FULL), form)
        return
    printer = Printer(sys.stdout)
    printer.line((account.object, "bold"), "  ", (account.phase, style(account.phase)), (_queue(account), "dim"))
    printer.line(account.summary)
    trees = [_claim(claim) for claim in account.claims]
    if account.explanation is not None:
        trees += _explained(account.explanation)
    for tree in trees:
        printer.line("")
        _print(printer, tree, "", "")
    printer.flush()


def _print(printer: Printer, tree: Tree, first: str, rest: str) -> None:
    printer.line((first, "dim"), *tree.line)
    for number, child in enumerate(tree.children):
        last = number == len(tree.children) - 1
        _print(printer, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _queue(account: Account) -> str:
    queue = account.queue
    parts = []
    if queue.get("position"):
        parts.append(f"{queue['position']} of {queue['of']} in the queue")
    if "priority" in queue:
        boosted = queue["effectivePriority"]
        parts.append(f"priority {queue['priority']}" + (f", by now {boosted}" if boosted != queue["priority"] else ""))
    if "waitingSince" in queue:
        parts.append(f"waiting since {queue['waitingSince']}")
    return f"  ({', '.join(parts)})" if parts else ""


def _claim(claim: ClaimAccount) -> Tree:
    tree = Tree((f"claim {claim.name}", "bold"), "  ", (claim.phase, style(claim.phase)))
    if claim.message and claim.phase not in ("Queued", "Starved"):
        tree.add(f"{claim.reason}: {claim.message}")
    for device in claim.devices:
        tree.add(f"{device['request']}: {device['driver']}/{device['pool']}/{device['device']}")
    if claim.node:
        tree.add(f"on node {claim.node}" + (f" since {claim.since}" if claim.since else ""))
    if claim.devices:
        tree.add(f"used by {listed(list(claim.used_by), 8)}" if claim.used_by else "used by nobody")
    tree.add(f"policy {claim.policy}" if claim.policy else "no policy: the built-in defaults")
    return tree


def _explained(explanation: Explanation) -> list[Tree]:
    trees = [_request(item) for item in explanation.requests]
    if len(explanation.causes) > 1:
        causes = Tree(("causes", "bold"))
        for cause in explanation.causes:
            causes.add(cause.text)
        trees.append(causes)
    if explanation.nodes:
        nodes = Tree(("nearest nodes", "bold"))
        for node in explanation.nodes:
            more = node.count - len(node.nodes)
            names = listed(node.nodes, len(node.nodes)) + (f" and {more} more" if more > 0 else "")
            nodes.add((names, "cyan"), f": {'; '.join(node.lacks)}")
        if explanation.more_nodes > 0:
            nodes.add(f"{explanation.more_nodes} more lack as much or more")
        trees.append(nodes)
    if explanation.warnings:
        warnings = Tree(("selectors that fail", "bold"))
        for text in explanation.warnings:
            warnings.add((text, "yellow"))
        trees.append(warnings)
    if explanation.fixes:
        fixes = Tree(("what would fix it", "bold"), (" (cheapest first; each was tried)", "dim"))
        for fix in explanation.fixes:
            where = on_nodes(fix.nodes)
            on = f", then it fits {where}" if fix.nodes and where not in fix.text else ""
            fixes.add((fix.text, "green"), on if fix.kind != "new node" else "")
        trees.append(fixes)
    return trees


def _request(item: RequestExplanation) -> Tree:
    wanted = "all devices" if item.wanted is None else counted(item.wanted, "device")
    together = " on one node" if item.wanted != 1 else ""
    like = f" and of {counted(item.members - 1, 'member')} like it" if item.members > 1 else ""
    tree = Tree(
        (f"request {item.request}", "bold"),
        f" of claim {item.claim}{like}: {wanted} of class {item.device_class}{together}",
    )
    width = len(str(item.devices))
    tree.add(f"{item.devices:>{width}} published")
    for step in item.steps:
        branch = tree.add((f"{step.devices:>{width}}", "yellow"), f" {step.text}")
        _details(branch, step, item.conjuncts)
    enough = item.most_on_a_node >= (1 if item.wanted is None else item.wanted)
    usable = f" usable, at most {item.most_on_a_node} on one node" if item.usable else " usable"
    tree.add((f"{item.usable:>{width}}", "green" if enough else "red"), usable)
    return tree


def _details(branch: Tree, step: Step, conjuncts: Sequence[ConjunctCount]) -> None:
    if step.why in ("class", "request"):
        for each in conjuncts:
            if each.selector == step.index and (each.source == "request") == (step.why == "request") and each.rejects:
                only = f", {each.only} of them it alone" if 0 < each.only < each.rejects else ""
                errors = f", fails on {each.errors}" if each.errors else ""
                branch.add(f"{each.text}: rejects {each.rejects} of {each.of}{only}{errors}{each.best_text}")
        return
    for text, count in step.details[:_DETAILS]:
        branch.add(f"{count}  {text}")
    rest = step.details[_DETAILS:]
    if rest:
        what = "other" if step.why in ("allocated", "held", "reserved") else "other reason"
        branch.add(f"{sum(count for _, count in rest)}  for {counted(len(rest), what)}")
