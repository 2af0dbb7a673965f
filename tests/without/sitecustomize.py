"""Runs Python as it is where some modules are not installed: whatever has this folder on its path reads this first.

`PYTHONPATH=tests/without WITHOUT=uvloop,hub.messages._runs` is inherited by all programs that tests start. `make test`
sets both when it is called as `make test WITHOUT=uvloop`.
"""

import os
import sys

for _name in filter(None, os.environ.get("WITHOUT", "").split(",")):
    sys.modules[_name] = None  # type: ignore[assignment]  # what `import` takes for a module that is not there
