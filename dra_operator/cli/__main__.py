"""`python -m dra_operator.cli`: the command line where no console script is installed."""

from dra_operator.cli.main import run

run()
