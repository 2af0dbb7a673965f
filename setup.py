"""Builds the compiled twin of the hot loop where that is possible; everything else is in pyproject.toml."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    # Optional: without a C compiler the pure module serves, and the installation goes on.
    extensions = cythonize([Extension("hub._runs", ["hub/_runs.pyx"], optional=True)])

setup(ext_modules=extensions)
