"""Stands in for SGLang's GPU kernels on a machine without a GPU.

SGLang's pure-torch CPU path imports names of sgl_kernel but calls none of them. Here every name
can be imported, and calling one says which kernel was missed.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0"


class Absent:
    """A kernel that is not there: it may be looked at and passed on, never called."""

    def __init__(self, path):
        self._path = path

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._path}.{name}")

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{self._path} needs a GPU build of sgl_kernel")


def absent(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"sgl_kernel.{name}")


class Submodules(MetaPathFinder, Loader):
    """Gives every sgl_kernel.X that somebody imports."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(__name__ + "."):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        module = ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = absent
        return module

    def exec_module(self, module):
        pass


__getattr__ = absent
sys.meta_path.append(Submodules())
