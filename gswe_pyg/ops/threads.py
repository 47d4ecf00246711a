"""Threads for the compiled backend, as many as PyTorch may use."""

import ctypes
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Semaphore
from typing import TypeVar

import torch

Item = TypeVar("Item")


def for_each(
    work: Callable[[Item], None], items: Iterable[Item], num_threads: int
) -> None:
    """Calls ``work`` for all items, in some threads at once, of which this is one.

    ``work`` must not call PyTorch, which would start threads of its own. Also after an
    error, or Ctrl-C, this returns only when nobody works any more: kernels have
    addresses of arrays that the caller is about to drop.
    """
    if num_threads <= 1:
        for item in items:
            work(item)
        return
    items = list(items)  # a generator cannot be shared
    queue, finished = iter(items), Semaphore(0)

    def drain() -> None:
        for item in queue:
            try:
                work(item)
            finally:
                finished.release()

    futures = _submit(drain, num_threads - 1)
    try:
        drain()
    finally:
        for _ in queue:  # what an error has left, and nobody has taken
            finished.release()
        # Not the futures: work that was queued by a call that failed afterwards has
        # none.
        for _ in items:
            finished.acquire()
    for future in futures:
        # Where all threads are busy, there is nothing left to do.
        if not future.cancel():
            future.result()


def run_in_team(call: Callable, job: ctypes.Structure, num_threads: int) -> None:
    """Calls a compiled function in several threads, which share the work by counters in
    the job.

    These are the threads of PyTorch, if its OpenMP can be asked: others would compete
    with them, as they spin for a while after each operation.
    """
    parallel = None if _is_forked else _parallel()
    if parallel is not None:
        parallel(call, ctypes.addressof(job), num_threads, 0)
    else:
        for_each(lambda _: call(ctypes.addressof(job)), range(num_threads), num_threads)


@cache
def _parallel() -> Callable | None:
    """What a parallel region in C is compiled to, on Linux."""
    try:
        # Found in whatever library PyTorch itself takes it from.
        path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
        parallel = ctypes.CDLL(str(path)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint,
        ctypes.c_uint,
    )
    parallel.restype = None
    return parallel


_is_forked = False
_executor: ThreadPoolExecutor | None = None
_num_workers = 0


def _submit(work: Callable[[], None], num_workers: int) -> list[Future]:
    """Starts ``work`` in so many threads, or fewer where there are no more: too many
    run already, or Python is shutting down."""
    global _executor, _num_workers
    if _executor is None or num_workers > _num_workers:
        if _executor is not None:
            _executor.shutdown(wait=False)
        _executor = ThreadPoolExecutor(num_workers, thread_name_prefix="gswe_pyg")
        _num_workers = num_workers
    executor, futures = _executor, []
    with suppress(RuntimeError):
        for _ in range(num_workers):
            futures.append(executor.submit(work))
    return futures


def _forget_threads() -> None:
    global _executor, _is_forked
    _executor, _is_forked = None, True


# Threads do not survive a fork: the child starts its own. OpenMP would wait for them.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
