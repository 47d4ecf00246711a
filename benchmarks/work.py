"""Does the runs of a plan, alone or together with other processes."""

import gc
import multiprocessing
import os
import sys
import time
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from lightning_fabric import Fabric

from benchmarks import provenance
from benchmarks.config import Plan, RunSettings, load
from benchmarks.progress import Bars, Listener, Silent
from benchmarks.records import RecordFile


class Outcome(NamedTuple):
    """What an experiment returns for a run."""

    metrics: dict[str, float]
    parameters: int


class Context(NamedTuple):
    """What an experiment gets besides the settings of the run."""

    fabric: Fabric
    data: Path
    listener: Listener


def work_off(plan: Plan, config: str, overrides: list[str]) -> int:
    """Does what is not on file yet; returns the number of runs still missing."""
    if plan.engine.workers == 1:
        _work_alone(plan)
    else:
        _work_together(plan, config, overrides)
    return len(_missing(plan))


def _missing(plan: Plan) -> set[str]:
    with RecordFile(plan.results) as records:
        return {plan.identifier(run) for run in plan.runs} - records.done()


def _work_alone(plan: Plan) -> None:
    # First, since it starts the other processes of a data-parallel run: they read
    # the same command line and get here, too.
    fabric = launch(plan)
    if fabric.global_rank > 0:
        _work(plan, fabric, Silent())
        _leave_group()
        return
    done = len(plan.runs) - len(_missing(plan))
    bars = Bars(plan.name, len(plan.runs), done)
    try:
        _work(plan, fabric, bars.listener())
    finally:
        bars.close()
    _leave_group()


def _leave_group() -> None:
    """Ends the group of a data-parallel run before Python ends, as PyTorch asks for."""
    if dist.is_available() and dist.is_initialized():
        gc.collect()  # models, which must not outlive the group
        dist.destroy_process_group()


def launch(plan: Plan) -> Fabric:
    """The process group that the plan asks for, on one machine or many."""
    torch.set_num_threads(plan.engine.threads)
    fabric = Fabric(
        accelerator=plan.engine.accelerator,
        devices=plan.engine.devices,
        num_nodes=plan.engine.num_nodes,
        strategy=plan.engine.strategy,
        precision=plan.engine.precision,
    )
    fabric.launch()
    return fabric


def _work(plan: Plan, fabric: Fabric, listener: Listener) -> None:
    context = Context(fabric, Path(plan.engine.data), listener)
    # One process of a group keeps the books; the others follow its decisions.
    leads = fabric.global_rank == 0
    with RecordFile(plan.results) if leads else nullcontext() as records:
        for run in plan.runs:
            run_id = plan.identifier(run)
            if leads and run_id in records.done():
                claim = nullcontext(False)
            else:
                claim = records.claim(run_id) if leads else nullcontext(None)
            with claim as mine:
                if not fabric.broadcast(mine):
                    continue
                record = _record(plan, run, run_id, context)
                if leads:
                    records.append(record)
                    listener.finish()


def _record(
    plan: Plan, run: RunSettings, run_id: str, context: Context
) -> dict[str, Any]:
    start, cpu_start = time.perf_counter(), time.process_time()
    outcome = plan.experiment.execute(run, context)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "id": run_id,
        "config": plan.settings(run),
        "seed": run.seed,
        "metrics": outcome.metrics,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),  # other work on the machine left out
        "parameters": outcome.parameters,
        "threads": plan.engine.threads,
        "devices": plan.engine.devices * plan.engine.num_nodes,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
    }


def _work_together(plan: Plan, config: str, overrides: list[str]) -> None:
    """Starts the workers and shows what they report, until the last has ended."""
    done = len(plan.runs) - len(_missing(plan))
    bars = Bars(plan.name, len(plan.runs), done, plan.engine.workers)
    spawn = multiprocessing.get_context("spawn")
    processes, pipes = [], {}
    try:
        for worker in range(plan.engine.workers):
            receiver, sender = spawn.Pipe(duplex=False)
            process = spawn.Process(
                target=_worker, args=(config, [*overrides, "workers=1"], sender)
            )
            process.start()
            sender.close()  # the child's end; ours would hide that it has ended
            processes.append(process)
            pipes[receiver] = bars.listener(worker)
        while pipes:
            for pipe in wait(list(pipes)):
                try:
                    event, *arguments = pipe.recv()
                except EOFError:
                    del pipes[pipe]
                else:
                    getattr(pipes[pipe], event)(*arguments)
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.terminate()
        bars.close()
    for number, process in enumerate(processes):
        if process.exitcode != 0:
            print(
                f"worker {number} ended with exit code {process.exitcode}",
                file=sys.stderr,
            )


def _worker(config: str, overrides: list[str], pipe: Connection) -> None:
    plan = load(config, overrides)
    try:
        _work(plan, launch(plan), _Reporter(pipe))
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    except BrokenPipeError:
        os._exit(1)  # whoever started us is gone, and with it the reason to go on
    except KeyboardInterrupt:
        os._exit(130)  # whoever started us was stopped, too, and says so


class _Reporter:
    """Tells the process that draws the bars."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def start(self, label: str, epochs: int) -> None:
        self.pipe.send(("start", label, epochs))

    def epoch(self) -> None:
        self.pipe.send(("epoch",))

    def finish(self) -> None:
        self.pipe.send(("finish",))
