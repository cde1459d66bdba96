"""`python -m vademecum` is `vade`."""

from vademecum.interfaces.cli import main

main()
