"""Does the runs of a plan by joblib; this process alone writes down what came of them.

A run is on file when it is finished, and what is on file is not done again.
"""

import contextlib
import importlib.util
import itertools
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine.arguments import UsageError
from benchmarks.engine.config import EngineSettings, Plan, RunSettings, module
from benchmarks.engine.records import Record, RecordFile, read


class Outcome(NamedTuple):
    """What an experiment returns for a run."""

    metrics: dict[str, float]
    parameters: int
    curves: dict[str, list[float]] | None = None  # a value per epoch


class Context(NamedTuple):
    """What an experiment gets besides the settings of the run."""

    device: Any  # torch.device
    data: Path


def work_off(plan: Plan) -> list[Record]:
    """Does what is not on file yet; returns the records of all runs of the plan."""
    if reason := lacks_device(plan.engine.accelerator):
        name = f"accelerator={plan.engine.accelerator}"
        raise UsageError(f"{name} is not there: {reason}")
    names = {run.identifier(): run for run in plan.runs}
    with _lock(plan.path, names), RecordFile(plan.path) as file:
        todo = {key: run for key, run in names.items() if key not in file.records}
        bar = _bar(plan.name, len(names), len(names) - len(todo))
        results = contextlib.closing(_results(plan, todo))
        with bar, warnings.catch_warnings(), results as found:
            # After an error, such as a full disk, joblib speaks of what it cancels.
            cancelled = r"\d+ tasks (which were still|have been successfully)"
            warnings.filterwarnings("ignore", cancelled, UserWarning)
            try:
                for record in found:
                    file.append(record)
                    bar.update()
            except ValueError as error:  # settings that the data does not fit
                raise UsageError(str(error)) from error
        return [file.records[key] for key in names]


@contextlib.contextmanager
def _lock(path: Path, names: dict[str, RunSettings]) -> Iterator[None]:
    """The system drops the lock of a process that dies, however it dies."""
    from filelock import FileLock, Timeout

    folder = path.parent / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{path.name}.lock")
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        done = len(names.keys() & {record["id"] for record in read(path)})
        raise UsageError(
            f"another process works on {path}, where {done} of these {len(names)} "
            f"runs are done"
        ) from None
    with held:
        yield


def _results(plan: Plan, todo: dict[str, RunSettings]) -> Iterator[Record]:
    """The records of the runs, each as soon as it is done."""
    from joblib import Parallel, delayed, parallel_config

    engine = plan.engine
    tasks = (
        delayed(_do)(plan.experiment, key, run, engine, os.getpid())
        for key, run in todo.items()
    )
    with parallel_config(_backend(engine.backend), n_jobs=engine.workers):
        # One run at a time: what is batched would be lost together.
        if engine.backend == "ray":  # its backend hands over whole lists only
            with Parallel(batch_size=1) as parallel:
                while some := list(itertools.islice(tasks, 4 * engine.workers)):
                    yield from parallel(some)
            return
        parallel = Parallel(return_as="generator_unordered", batch_size=1)
    # Workers inherit it: they import for seconds, and would show where they were when
    # Ctrl-C came.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        results = parallel(tasks)
    finally:
        signal.signal(signal.SIGINT, previous)
    yield from results


def _do(
    experiment: str, key: str, run: RunSettings, engine: EngineSettings, parent: int
) -> Record:
    """One run, in whatever process it is: what it was, what came of it, and where."""
    import torch

    from benchmarks.engine import provenance

    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        # Whoever started us is stopped, too, and ends us.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(engine.threads)
    context = Context(torch.device(engine.accelerator), Path(engine.data))
    start, cpu_start = time.perf_counter(), time.process_time()
    outcome = module(experiment, "run").execute(run, context)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    # JSON has no NaN and no infinity.
    metrics = {k: v if math.isfinite(v) else None for k, v in outcome.metrics.items()}
    return {
        "id": key,
        "config": run.settings(),
        "seed": run.seed,
        "metrics": metrics,
        **({"diverged": True} if None in metrics.values() else {}),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),  # other work on the machine left out
        "parameters": outcome.parameters,
        **({"curves": outcome.curves} if outcome.curves else {}),
        "threads": engine.threads,
        "devices": 1,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
    }


def _backend(name: str) -> str:
    needs = {"ray": "ray", "dask": "distributed"}.get(name)
    if needs and importlib.util.find_spec(needs) is None:
        raise UsageError(f"backend={name} needs `pip install {needs}`")
    if name == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    return name


def lacks_device(name: str) -> str | None:
    """Why there is no such torch device, if there is none."""
    import torch

    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return None


def _bar(name: str, total: int, done: int):
    """Over the runs, with the time left; in a log file, a line now and then."""
    from tqdm import tqdm

    return tqdm(
        desc=name,
        total=total,
        initial=done,
        smoothing=0,
        mininterval=0.2 if sys.stderr.isatty() else 30,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} runs "
        "[{elapsed}, {remaining} left]",
    )
