"""Run the command `vade` for `python -m vademecum`."""

from vademecum.interfaces.cli import main

main()
