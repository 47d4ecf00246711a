"""Run by ``test_interpreter.py``, in a process of its own: whether kernels are
interpreted is decided where Triton is imported."""

import pytest
import torch
from counting import Counter

from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr import gswe, segments
from gswe_pyg.ops import backend, segment_quantile, segment_quantile_at
from gswe_pyg.ops import torch_backend as reference
from gswe_pyg.ops import triton_backend as kernels
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.triton import sort
from gswe_pyg.ops.triton.read import read_ptr

SIZES = [0, 5, 1, 16, 0, 17, 3, 0]
READS = [
    Reads(4, "linear"),
    Reads(3, "step", extremes=True),
    Reads(19, "pswe"),
    Reads(3, "barycentric", extremes=True),
    Reads(0, "linear", levels=(0.5, 0.1, 1.0)),
    Reads(0, "nearest", levels=(0.75,)),
]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def batch(sizes=SIZES, num_slices=3, dtype=torch.float32):
    """With ties, both zeros, infinities, and NaN of both signs."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randn(sum(sizes), num_slices, generator=generator).to(dtype)
    src[::3] = src[-1]
    special = (torch.nan, -torch.nan, torch.inf, -torch.inf, 0.0, -0.0)
    for i, value in enumerate(special):
        src[1 + i : -1 : 11, i % num_slices] = value
    return src, torch.tensor([0, *sizes]).cumsum(0)


def same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, equal_nan=True)


def assert_as_reference(src, ptr, reads):
    points, order = reference.quantile(src, ptr, reads, with_order=True)
    own_points, own_order = kernels.quantile(src, ptr, reads, with_order=True)
    assert own_order.equal(order)
    same(own_points, points)
    same(kernels.quantile(src, ptr, reads, with_order=False)[0], points)
    generator = torch.Generator().manual_seed(1)
    other = torch.randn(src.shape, generator=generator).to(src.dtype)
    expected = reference.apply(other, order, ptr, reads)
    same(kernels.apply(other, order, ptr, reads), expected)
    grad = torch.randn(points.shape, generator=generator).to(src.dtype)
    expected = reference.adjoint(grad, order, ptr, reads)
    close(kernels.adjoint(grad, order, ptr, reads), expected)


@pytest.mark.parametrize("reads", READS, ids=str)
def test_reads(reads):
    assert_as_reference(*batch(), reads)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_half_types(dtype):
    assert_as_reference(*batch(dtype=dtype), Reads(4, "linear", extremes=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", sort.CLASSES)
def test_sort_in_each_class(size, dtype):
    # The smallest and the largest size of a class; those of others are left alone.
    sizes = [size // 2 + 1, size]
    src, ptr = batch(sizes, 2, dtype)
    for with_order in (True, False):
        out = kernels.sort_sets(src, ptr, size, with_order)
        for a, b in zip(ptr.tolist(), ptr[1:].tolist(), strict=False):
            values, order = src[a:b].sort(dim=0, stable=True)
            same(out[a:b], order.int() if with_order else values)


@pytest.mark.parametrize("interpolation", ["linear", "barycentric"])
def test_sets_above_all_classes(interpolation, monkeypatch):
    monkeypatch.setattr(sort, "CLASSES", (16,))
    monkeypatch.setattr("gswe_pyg.ops.triton.terms.CLASSES", (16,))
    monkeypatch.setattr(sort, "_BUDGET", 190 * 32 * 2)  # slices are cut, too
    src, ptr = batch([0, 17, 3, 40, 30, 1])
    assert_as_reference(src, ptr, Reads(4, interpolation))


def test_numbers_of_slices_and_points_that_fill_several_programs():
    src, ptr = batch([7, 3], num_slices=35)
    assert_as_reference(src, ptr, Reads(18, "linear"))


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing(shape):
    src = torch.zeros(shape, requires_grad=True)
    ptr = torch.tensor([0, 0, shape[0]])
    with backend("triton"):
        out = segment_quantile(src, ptr, 4)
    assert out.shape == (2, shape[1], 4)
    assert not out.any()
    assert torch.autograd.grad(out.sum(), src)[0].shape == shape


def test_no_sets():
    with backend("triton"):
        assert segment_quantile(torch.zeros(0, 2), torch.tensor([0]), 3).shape[0] == 0


# The public functions #################################################################


@pytest.mark.parametrize("max_num_elements", [None, 17, 40])
def test_same_as_on_the_cpu(max_num_elements):
    src, ptr = batch()
    src = src.nan_to_num()

    def run(name):
        x = src.clone().t().contiguous().t().requires_grad_()
        with backend(name):
            bound = {"max_num_elements": max_num_elements}
            out = segment_quantile(x, ptr.int(), 5, extremes=True, **bound)
            grad = torch.ones_like(out).requires_grad_()
            (grad_x,) = torch.autograd.grad(out, x, grad, create_graph=True)
            (grad_grad,) = torch.autograd.grad(grad_x.square().sum(), grad)
            levels = segment_quantile_at(x.detach(), ptr, (0.2, 0.7), **bound)
        return out, levels, grad_x, grad_grad

    for i, (own, cpu) in enumerate(zip(run("triton"), run("numba"), strict=True)):
        (same if i < 2 else close)(own, cpu)


def test_weights_are_left_to_torch():
    src, ptr = batch([4, 5])
    weight = torch.rand(9).add(0.1)
    with backend("torch"):
        expected = segment_quantile(src, ptr, 3, weight=weight)
    with backend("triton"):
        same(segment_quantile(src, ptr, 3, weight=weight), expected)


@pytest.mark.parametrize(
    ("ptr", "message"),
    [
        ([0, 3, 2, 4], "not sorted"),
        ([1, 4], "got 1 to 4"),
        ([0, 5], "got 0 to 5"),
    ],
)
def test_wrong_boundaries_raise(ptr, message):
    with backend("triton"), pytest.raises(ValueError, match=message):
        segment_quantile(torch.zeros(4, 2), torch.tensor(ptr), 3)


def test_double_precision_raises():
    with backend("triton"), pytest.raises(ValueError, match=r"'triton' .*float64"):
        segment_quantile(torch.zeros(4, 2).double(), torch.tensor([0, 4]), 3)


def test_more_elements_than_promised_become_nan():
    src = torch.arange(40.0)[:, None].requires_grad_()
    ptr = torch.tensor([0, 3, 40])
    with backend("triton"):
        out = segment_quantile(src, ptr, 3, max_num_elements=16)
    assert out[0, 0].tolist() == [0, 1, 2]
    assert out[1].isnan().all()
    (grad,) = torch.autograd.grad(out.sum(), src)
    assert grad[:3].eq(1).all()
    assert grad[3:].isnan().all()


def test_compiled_as_one_node():
    graphs = []

    def look(graph, _):
        graphs.append(graph)
        return graph

    def quantiles(x, ptr):
        return segment_quantile(x, ptr, 3, max_num_elements=17)

    src, ptr = batch()
    with backend("triton"):
        expected = quantiles(src, ptr)
        same(torch.compile(quantiles, backend=look, fullgraph=True)(src, ptr), expected)
    calls = [node for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert [str(node.target) for node in calls].count(
        "gswe_pyg.segment_quantile.default"
    ) == 1


# What the host waits for ##############################################################


@pytest.mark.parametrize(
    ("sizes", "largest"), [([3, 0, 1025], 1025), ([0], 0), ([1] * 1500 + [2], 2)]
)
def test_read_ptr(sizes, largest):
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    assert read_ptr(ptr, sum(sizes)) == (True, largest)
    assert not read_ptr(ptr, sum(sizes) + 1).is_valid


@pytest.mark.parametrize("with_bound", [False, True])
@pytest.mark.parametrize("largest", [16, 2048])
def test_one_synchronisation_or_none(largest, with_bound):
    src, ptr = torch.zeros(largest, 1, requires_grad=True), torch.tensor([0, largest])
    bound = largest if with_bound else None

    def step():
        out = segment_quantile(src, ptr, 2, max_num_elements=bound)
        return torch.autograd.grad(out, src, torch.ones_like(out))

    with backend("triton"):
        step()  # the tables are made
        with Counter() as counter:
            step()
    counter.launches.remove("aten.ones_like.default")  # our own
    assert len(counter.synchronisations) == (0 if with_bound else 1), counter
    num_classes = 1 if largest == 16 else 8
    num_reads = 0 if with_bound else 2
    assert len(counter.launches) == num_classes + 2 + num_reads, counter
    assert len(counter.launches) <= 12


@pytest.mark.parametrize("options", [{}, {"heads": 2}], ids=str)
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("with_bound", [False, True])
def test_readout_takes_one_synchronisation_or_none(
    with_bound, is_sorted, options, monkeypatch
):
    monkeypatch.setattr(segments, "is_on_host", lambda x: False)
    monkeypatch.setattr(gswe, "is_on_host", lambda x: False)
    index = torch.tensor([0, 0, 0, 2, 2, 4] if is_sorted else [4, 0, 2, 0, 2, 0])
    x = torch.arange(12.0).view(6, 2).requires_grad_()
    readout = GSWEAggregation(2, 2, 3, **options)
    bounds = {"dim_size": 5, "max_num_elements": 3} if with_bound else {}

    def step():
        out = readout(x, index, **bounds)
        return out, *torch.autograd.grad(out, x, torch.ones_like(out))

    with backend("triton"):
        step()  # the tables are made
        with Counter() as counter:
            found = step()
    expected = 0 if with_bound else 1 if is_sorted else 2
    assert len(counter.synchronisations) == expected, counter
    with backend("torch"):
        for own, other in zip(found, step(), strict=True):
            close(own, other)


@pytest.mark.parametrize("reads", [{}, {"levels": (0.2, 0.7)}])
@pytest.mark.parametrize("bound", [None, 20])
def test_weights_take_one_synchronisation_or_none(bound, reads, monkeypatch):
    monkeypatch.setattr(reference, "_is_on_host", lambda keys: False)
    src, ptr = batch([9, 0, 17, 12])
    src, weight = src.nan_to_num(), torch.arange(1.0, 39)

    def step():
        x, mass = src.clone().requires_grad_(), weight.clone().requires_grad_()
        options = {"weight": mass, "max_num_elements": bound}
        if reads:
            out = segment_quantile_at(x, ptr, reads["levels"], **options)
        else:
            out = segment_quantile(x, ptr, 3, **options)
        return out, *torch.autograd.grad(out.sum(), (x, mass))

    with backend("triton"), Counter() as counter:
        found = step()
    assert len(counter.synchronisations) == (bound is None), counter
    with backend("torch"):
        for own, expected in zip(found, step(), strict=True):
            close(own, expected)


def test_weighted_sets_above_the_bound_become_nan():
    x, weight = torch.arange(12.0)[:, None].requires_grad_(), torch.ones(12)
    ptr = torch.tensor([0, 3, 12])
    with backend("triton"):
        out = segment_quantile(x, ptr, 3, weight=weight, max_num_elements=4)
    assert out[0, 0].tolist() == [0, 1, 2]
    assert out[1].isnan().all()
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert grad[:3].eq(1).all()
    assert grad[3:].isnan().all()


def test_counter_counts():
    x = torch.arange(3)
    with Counter() as counter:
        if x[1] > 0:
            (x + 1).tolist()
        x.nonzero()
        x.cpu()
        x.view(3, 1).t()
        torch.empty(3)
    assert len(counter.synchronisations) == 4, counter
    assert counter.launches == [
        "aten.gt.Scalar",
        "aten.add.Tensor",
        "aten.nonzero.default",
    ]
