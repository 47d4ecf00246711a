"""Every readout in the package on generated sets, against its own invariants."""

import inspect

import torch
from backends import available
from batches import interpolations, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.aggr import Aggregation

import gswe_pyg
import gswe_pyg.models
from gswe_pyg import GSWEAggregation, gsw_distance, testing
from gswe_pyg.ops import backend

IN_CHANNELS = 4

# Elements are drawn from small seeds. Directions made of the same random numbers would
# be orthogonal to them: all slices zero up to rounding, and no derivative there.
OTHER_SEED = 10_000

INVARIANTS = (
    testing.assert_permutation_invariant,
    testing.assert_unsorted_index,
    testing.assert_batch_independent,
    testing.assert_graph_order_equivariant,
    testing.assert_ptr_matches_index,
)

# Readouts whose arguments cannot be guessed from their names.
BUILDERS = {
    "PMA": lambda points, heads: gswe_pyg.models.PMA(
        IN_CHANNELS, num_seeds=points, heads=2 if heads > 1 else 1
    )
}


def other_readouts() -> dict[str, type[Aggregation]]:
    return {
        name: value
        for name, value in vars(gswe_pyg.models).items()
        if inspect.isclass(value) and issubclass(value, Aggregation)
    }


def build_other(name: str, points: int, heads: int) -> Aggregation:
    if name in BUILDERS:
        return BUILDERS[name](points, heads)
    kind = other_readouts()[name]
    needed = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return kind(**{n: IN_CHANNELS if n == "in_channels" else points for n in needed})


@st.composite
def options(draw):
    slicer = draw(st.sampled_from(["linear", "mlp", "polynomial", "identity"]))
    return {
        "in_channels": IN_CHANNELS,
        "num_slices": IN_CHANNELS if slicer == "identity" else draw(st.integers(1, 6)),
        "num_points": draw(st.integers(1, 12)),
        "num_references": draw(st.integers(1, 3)),
        "slicer": slicer,
        "interpolation": draw(interpolations),
        "reference": draw(st.sampled_from(["input", "slice"])),
        "out_channels": draw(st.sampled_from([None, 3])),
        "encode_size": draw(st.booleans()),
    }


@given(
    options(),
    sizes(largest=300),
    st.sampled_from(INVARIANTS),
    st.booleans(),
    st.integers(0, 1000),
    st.data(),
)
def test_gswe_keeps_its_invariants(arguments, lengths, invariant, weighted, seed, data):
    torch.manual_seed(OTHER_SEED + seed)
    readout = GSWEAggregation(**arguments)
    weighted &= arguments["interpolation"] != "pswe"
    name = data.draw(st.sampled_from(available()), "backend")
    # The sums of a projection and of polynomials round in another order.
    tolerance = {"rtol": 1e-4, "atol": 1e-3}
    with backend(name):
        invariant(
            testing.Case(
                readout, IN_CHANNELS, lengths, weighted=weighted, seed=seed, **tolerance
            )
        )


@given(options(), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_gswe_has_right_gradients_and_embeds_empty_sets_as_zero(
    arguments, lengths, weighted
):
    torch.manual_seed(OTHER_SEED)
    readout = GSWEAggregation(**arguments)
    weighted &= arguments["interpolation"] != "pswe"
    testing.assert_gradcheck(
        testing.Case(readout, IN_CHANNELS, lengths, weighted=weighted)
    )
    sizes = torch.tensor(lengths)
    index = torch.arange(len(lengths)).repeat_interleave(sizes)
    out = readout(torch.randn(len(index), IN_CHANNELS), index, dim_size=len(lengths))
    assert bool((out[sizes == 0] == 0).all())


@given(
    st.sampled_from(sorted(other_readouts())),
    st.integers(1, 5),
    st.integers(1, 2),
    sizes(largest=120),
    st.sampled_from(INVARIANTS),
    st.integers(0, 1000),
)
def test_other_readouts_keep_their_invariants(
    name, points, heads, lengths, invariant, seed
):
    torch.manual_seed(OTHER_SEED + seed)
    readout = build_other(name, points, heads)
    invariant(
        testing.Case(readout, IN_CHANNELS, lengths, seed=seed, rtol=1e-4, atol=1e-4)
    )


@given(st.lists(st.integers(1, 40), min_size=3, max_size=3), st.integers(1, 3), seeds)
def test_distance_is_a_metric(lengths, order, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.randn(n, 3, generator=generator).double() for n in lengths)
    torch.manual_seed(0)
    slicer = GSWEAggregation(3, 5, 2).double().slicer

    def distance(x, y):
        return float(gsw_distance(x, y, slicer, p=float(order)))

    assert distance(a, a.flip(0)) <= 1e-7
    assert abs(distance(a, b) - distance(b, a)) <= 1e-12
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
    # Repeating every element changes nothing.
    assert abs(distance(a.repeat(3, 1), b) - distance(a, b)) <= 1e-7
