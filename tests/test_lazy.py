"""Modules that are imported when they are used."""

from __future__ import annotations

import subprocess
import sys


def test_a_deferred_module_is_imported_when_it_is_used() -> None:
    code = (
        "import sys\n"
        "from vademecum.lazy import defer_modules\n"
        "defer_modules('copy', 'ipaddress', 'sys')\n"
        "import copy, ipaddress\n"
        "assert 'weakref' not in sys.modules, 'copy was imported'\n"
        "assert copy.copy([1]) == [1] and 'weakref' in sys.modules\n"
        "from copy import deepcopy\n"
        "import copy as again\n"
        "assert again.deepcopy is deepcopy is copy.deepcopy\n"
        "assert str(ipaddress.ip_address('::1')) == '::1'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
