"""Builds the compiled twins of the hot loops where that is possible; everything else is in pyproject.toml."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    # Optional: without a C compiler the pure module serves, and the installation goes on.
    extensions = cythonize(
        [
            Extension("hub._runs", ["hub/_runs.pyx"], optional=True),
            Extension("hub.requests._block", ["hub/requests/_block.pyx"], optional=True),
            Extension("hub.journal._packing", ["hub/journal/_packing.pyx"], optional=True),
        ]
    )

setup(ext_modules=extensions)
