"""Threads that the backends on the CPU share, as many as PyTorch may use."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")


def for_each(
    work: Callable[[Item], None],
    items: Iterable[Item],
    num_threads: int,
    caller_works: bool,
) -> None:
    """Calls ``work`` for all items, in some threads at once.

    Args:
        work (Callable): What is done to an item.
        items (iterable): The items, each of which is taken by one thread.
        num_threads (int): The number of threads.
        caller_works (bool): Whether this thread is one of them, which it must not be if
            ``work`` calls PyTorch: here, that would start further threads.
    """
    if num_threads <= 1:
        for item in items:
            work(item)
        return
    queue = iter(list(items))  # a generator cannot be shared

    @torch.no_grad()  # a setting of each thread
    def drain() -> None:
        for item in queue:
            work(item)

    executor = _pool()
    futures = [executor.submit(drain) for _ in range(num_threads - caller_works)]
    if caller_works:
        drain()
        for future in futures:
            future.cancel()  # where all threads are busy: there is nothing left to do
    for future in futures:
        if not future.cancelled():
            future.result()


_executor: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    """Threads in which PyTorch does not start threads of its own."""
    global _executor
    if _executor is None:
        num_workers = os.cpu_count() or 1
        all_started = threading.Barrier(num_workers)
        executor = ThreadPoolExecutor(
            num_workers,
            thread_name_prefix="gswe_pyg",
            initializer=_start_worker,
        )
        list(executor.map(lambda _: all_started.wait(), range(num_workers)))
        # The number holds for the thread that sets it, and for all that start later.
        torch.set_num_threads(torch.get_num_threads())
        _executor = executor
    return _executor


def _start_worker() -> None:
    torch.get_num_threads()  # else PyTorch sets it to the default later on
    torch.set_num_threads(1)


def _forget_pool() -> None:
    global _executor
    _executor = None


# Threads do not survive a fork: the child starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
