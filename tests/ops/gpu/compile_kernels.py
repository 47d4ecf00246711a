"""Compiles the Triton kernels for devices that need not be there, and says what the
machine code takes.

    python tests/ops/gpu/compile_kernels.py sm_90

prints a line of JSON for each kernel; with ``--some``, for few of those that sort.

    python tests/ops/gpu/compile_kernels.py record

writes all of them to ``benchmarks/results/kernels.json`` and the table of
``docs/how-the-sort-works.md``.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gswe_pyg.ops.triton import adjoint, interpolate, read, sort

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),  # A100
    "sm_90": GPUTarget("cuda", 90, 32),  # H100
    "gfx942": GPUTarget("hip", "gfx942", 64),  # MI300
}
ROOT = Path(__file__).parents[3]
RECORD = ROOT / "benchmarks" / "results" / "kernels.json"
PAGE = ROOT / "docs" / "how-the-sort-works.md"
BEGIN, END = "<!-- kernels -->\n", "<!-- end of kernels -->"
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TERMS = {"start_of_row": "*i32", "first": "*i32"}


def kernels(some: bool) -> Iterator[tuple[str, object, dict, int]]:
    """Name, kernel, the types or values of its arguments, and the number of warps."""
    for rows in (16, 256, 2048) if some else sort.CLASSES:
        for dtype, result in (("fp32", "order"), ("fp32", "values"), ("bf16", "order")):
            if result == "values" and some and rows != 2048:
                continue
            if dtype == "bf16" and rows != 256:
                continue
            lanes, num_warps = sort.tile(rows)
            arguments = {
                "src": f"*{dtype}",
                "ptr": "*i64",
                "out": "*i32" if result == "order" else f"*{dtype}",
                "num_slices": "i32",
                "log_rows": rows.bit_length() - 1,
                "lanes": lanes,
                "is_smallest": rows == 16,
                "with_order": result == "order",
            }
            yield (
                f"sort {rows} {dtype} {result}",
                sort.sort_kernel,
                arguments,
                num_warps,
            )
    for dtype, weight, order, rows in (
        ("fp32", "fp32", "*i32", None),
        ("fp32", "fp64", None, None),
        ("bf16", "fp32", "*i32", "*i64"),
    ):
        arguments = {
            "values": f"*{dtype}",
            "order": order,
            "ptr": "*i64",
            "rows": rows,
            **TERMS,
            "rank": "*i32",
            "weight": f"*{weight}",
            "out": f"*{dtype}",
            **dict.fromkeys(("num_slices", "num_reads", "largest"), "i32"),
            "block": 16,
            "lanes": interpolate.LANES,
        }
        name = f"interpolate {dtype} {'in double' if weight == 'fp64' else 'in single'}"
        yield name, interpolate.interpolate_kernel, arguments, interpolate.num_warps(16)
    for dtype, rows in (("fp32", None), ("bf16", "*i64")):
        sizes = ("num_slices", "num_sets", "num_halvings", "num_reads", "largest")
        arguments = {
            "grad": f"*{dtype}",
            "order": "*i32",
            "ptr": "*i64",
            "rows": rows,
            **TERMS,
            "point": "*i32",
            "weight": "*fp32",
            "out": f"*{dtype}",
            **dict.fromkeys(("num_elements", *sizes), "i32"),
            "block": adjoint.BLOCK,
            "lanes": adjoint.LANES,
        }
        yield f"adjoint {dtype}", adjoint.adjoint_kernel, arguments, adjoint.NUM_WARPS
    arguments = {"ptr": "*i64", "found": "*i64"}
    arguments |= {"num_bounds": "i32", "num_elements": "i32", "block": read.BLOCK}
    yield "read ptr", read.read_ptr_kernel, arguments, read.NUM_WARPS


def compile_kernel(kernel, arguments: dict, num_warps: int, target: GPUTarget):
    is_type = {name: isinstance(x, str) for name, x in arguments.items()}
    source = ASTSource(
        kernel,
        {name: x if is_type[name] else "constexpr" for name, x in arguments.items()},
        {name: x for name, x in arguments.items() if not is_type[name]},
    )
    options = {"num_warps": num_warps, "enable_fp_fusion": False}
    return triton.compile(source, target=target, options=options)


def usage(compiled) -> dict[str, int]:
    """Registers of a thread, those spilled to memory, and instructions."""
    if "amdgcn" in compiled.asm:
        text = compiled.asm["amdgcn"]
        found = dict(re.findall(r"^[\s-]*\.(\w+): +(\d+)$", text, re.M))
        return {
            "registers": int(found["vgpr_count"]) + int(found["agpr_count"]),
            "spills": int(found["vgpr_spill_count"]) + int(found["sgpr_spill_count"]),
            "instructions": len(
                re.findall(r"^\t(?:[vs]|ds|global|buffer)_", text, re.M)
            ),
        }
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        resources = _run("cuobjdump", "--dump-resource-usage", file.name)
        code = _run("cuobjdump", "-sass", file.name)
    found = dict(re.findall(r"(\w+):(\d+)", resources))
    return {
        "registers": int(found["REG"]),
        # Bytes of the stack: registers go there.
        "spills": int(found["STACK"]) + int(found["LOCAL"]),
        "instructions": len(
            re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?!NOP)\S", code, re.M)
        ),
    }


def _run(tool: str, *args: str) -> str:
    command = [str(TOOLS / tool), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compile_all(target: str, some: bool) -> Iterator[dict]:
    for kernel_name, *kernel in kernels(some):
        compiled = compile_kernel(*kernel, TARGETS[target])
        record = {"target": target, "kernel": kernel_name, "warps": kernel[-1]}
        yield record | usage(compiled) | {"shared_bytes": compiled.metadata.shared}


def table(record: dict) -> str:
    """Registers and instructions of each kernel, side by side for all targets."""
    by_kernel: dict[str, dict[str, dict]] = {}
    for row in record["kernels"]:
        by_kernel.setdefault(row["kernel"], {})[row["target"]] = row
    lines = [
        "| kernel | warps | " + " | ".join(TARGETS) + " |",
        "|---|---|" + "---|" * len(TARGETS),
    ]
    for name, rows in by_kernel.items():
        cells = [f"{rows[t]['registers']} / {rows[t]['instructions']:,}" for t in rows]
        warps = next(iter(rows.values()))["warps"]
        lines.append(f"| {name} | {warps} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(page: str, record: dict) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + table(record) + rest[rest.index(END) :]


def main() -> None:
    name, *options = sys.argv[1:]
    if name == "record":
        rows = [row for target in TARGETS for row in compile_all(target, some=False)]
        record = {"triton": triton.__version__, "kernels": rows}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        PAGE.write_text(with_table(PAGE.read_text(), record))
        return
    for row in compile_all(name, some="--some" in options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
