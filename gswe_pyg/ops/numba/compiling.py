"""How the loops are compiled, and where compiled code is kept."""

import ctypes
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path

from numba import _dynfunc, njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.runtime import rtsys
from numba.core.typed_passes import NativeLowering

from gswe_pyg.ops.threads import run_in_team


class _PartLibrary(JITCodeLibrary):
    """Is optimized, and made into machine code, with the kernel that it is a part of,
    and not before: this took more than half of the first call."""

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    _name = "lower_part"

    def run_pass(self, state):
        name, context = state.func_id.func_qualname, state.targetctx
        state.library = _PartLibrary(context.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        # By this numba tells functions apart. Nobody can call it: there is no code.
        module = state.cr.fndesc.lookup_module()
        entry = _dynfunc.make_function(module, name, name, 0, state.cr.env, ())
        context.insert_user_function(entry, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class _PartCompiler(CompilerBase):
    def define_pipelines(self):
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(_LowerPart, NativeLowering)
        manager.passes = [p for p in manager.passes if p[0] is not NativeLowering]
        manager.finalize()
        return [manager]


# A part of a kernel: a call for each row would take longer than what is done to it. It
# has no wrappers: a process that calls it from Python crashes. Where a part belongs to
# several kernels, the first one would decide what a division by zero does, unless all
# say the same.
_OPTIONS = {
    "nogil": True,
    "forceinline": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
inlined = njit(**_OPTIONS, pipeline_class=_PartCompiler)
# Optimized by itself, too, which the sorting network gains a sixth by.
optimized = njit(**_OPTIONS)


class Kernel:
    """A function of a pointer to a :class:`~gswe_pyg.ops.numba.job.Job`, compiled at
    the first call, and kept on disk if there is a place to write to."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    @cached_property
    def compiled(self) -> CFunc:
        signature = (types.voidptr,), types.void
        compiled = CFunc(self.function, signature, {}, {"error_model": "numpy"})
        with suppress(RuntimeError):  # no place
            compiled._cache = _ForgivingCache(self.function)
        compiled.compile()
        return compiled

    @cached_property
    def _call(self) -> Callable:
        # Without Python's lock: others may run meanwhile.
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.compiled.address)

    def __call__(self, job: ctypes.Structure, num_threads: int = 1) -> None:
        if num_threads > 1:
            run_in_team(self._call, job, num_threads)
        else:
            self._call(ctypes.addressof(job))


class _ForgivingCache(FunctionCache):
    """Compiled code on disk, which is a matter of time only: what cannot be read or
    written, such as a damaged file or a full disk, is as if it were not there."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        # numba's own stamp is that of one file, but kernels have parts in several.
        self._cache_file = IndexDataCacheFile(
            self._cache_path, self._impl.filename_base, _stamp()
        )

    def load_overload(self, sig, target_context):
        try:
            # numba would first load the definitions of all that it can compile, which
            # takes a third of a second. Compiled code needs the runtime alone.
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception:
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig, data):
        with suppress(Exception):
            super().save_overload(sig, data)


@cache
def _stamp() -> str:
    """A hash of all files of this package."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
