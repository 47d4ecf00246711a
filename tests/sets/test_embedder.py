"""The vectors: identities, scikit-learn's contract, streaming, errors."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gswe_pyg import GSWEAggregation, gsw_distance
from gswe_pyg.sets import SetEmbedder, embed_sets, embedder

SIZES = (5, 1, 8, 3, 0, 12)


def make_sets(num_features=3, sizes=SIZES, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    return [random.normal(offset, 1, (n, num_features)) for n in sizes]


def plain(**options):
    """An embedder that neither scales nor centres."""
    return SetEmbedder(standardize=False, center=False, random_state=0, **options)


NOT_FOR_SETS = {
    "check_transformer_data_not_an_array": "a list holds sets, not vectors",
}


@parametrize_with_checks(
    [SetEmbedder(num_slices=4, num_points=2)],
    expected_failed_checks=lambda _: NOT_FOR_SETS,
)
def test_scikit_learn(estimator, check):
    check(estimator)


# Identities ###########################################################################


@pytest.mark.parametrize("interpolation", ["linear", "step", "barycentric", "pswe"])
@pytest.mark.parametrize("num_features", [1, 2, 3, 20])
def test_is_the_readout_with_the_same_directions(interpolation, num_features):
    sets = make_sets(num_features, sizes=(5, 1, 8))
    model = plain(num_slices=6, num_points=4, interpolation=interpolation)
    vectors = model.fit_transform(sets)
    num_slices = model.slicer_.num_slices
    readout = GSWEAggregation(
        num_features, num_slices, 4, slicer=model.slicer_, interpolation=interpolation
    )
    torch.nn.init.zeros_(readout.points)
    x = torch.from_numpy(np.concatenate(sets)).float()
    with torch.no_grad():
        expected = readout(x, ptr=torch.tensor([0, 5, 6, 14])).numpy()
    np.testing.assert_allclose(
        vectors * np.sqrt(vectors.shape[1]), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
def test_distance_is_exact_where_sizes_divide_the_number_of_points(interpolation):
    a, b = make_sets(sizes=(6, 4))
    model = plain(num_slices=10, num_points=12, interpolation=interpolation)
    vectors = model.fit_transform([a, b])
    x, y = (torch.from_numpy(s).float() for s in (a, b))
    expected = gsw_distance(x, y, model.slicer_).item()
    found = model.distance(vectors[0], vectors[1])
    assert found == pytest.approx(expected, rel=1e-5)
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(found)


def test_centring_and_shifts_of_features_keep_distances():
    sets = make_sets(sizes=(5, 1, 8))
    options = {"num_slices": 8, "num_points": 4, "random_state": 0}
    raw = SetEmbedder(center=False, **options).fit_transform(sets)
    centred = SetEmbedder(**options).fit_transform(sets)
    moved = SetEmbedder(**options).fit_transform([3 * s + 7 for s in sets])
    np.testing.assert_allclose(centred.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(centred - centred[0], raw - raw[0], atol=1e-6)
    np.testing.assert_allclose(moved, centred, atol=1e-6)


def test_each_set_counts_once_for_scale_and_mean():
    once = make_sets(sizes=(5, 2, 8))
    often = [once[0], np.repeat(once[1], 7, axis=0), once[2]]
    a, b = (SetEmbedder(random_state=0).fit(sets) for sets in (once, often))
    np.testing.assert_allclose(a.mean_, b.mean_)
    np.testing.assert_allclose(a.scale_, b.scale_)


@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
def test_integer_weights_are_repetitions(interpolation):
    sets = make_sets(sizes=(4, 0, 3))
    counts = [np.array([1, 3, 0, 2]), np.array([], int), np.array([2, 2, 5])]
    options = {"num_slices": 8, "num_points": 5, "interpolation": interpolation}
    weighted = SetEmbedder(random_state=0, **options)
    repeated = SetEmbedder(random_state=0, **options)
    a = weighted.fit_transform(sets, weight=counts)
    b = repeated.fit_transform(
        [np.repeat(s, c, axis=0) for s, c in zip(sets, counts, strict=True)]
    )
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_directions_in_the_plane_are_evenly_spread():
    weight = plain(num_slices=4).fit(make_sets(2)).slicer_.weight.numpy()
    angles = np.rad2deg(np.arctan2(weight[:, 1], weight[:, 0]))
    np.testing.assert_allclose(angles, [0, 45, 90, 135], atol=1e-4)


def test_directions_in_space_are_orthogonal_groups():
    weight = plain(num_slices=8).fit(make_sets(3)).slicer_.weight.numpy()
    for group in (weight[:3], weight[3:6], weight[6:]):
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-6)
    assert not np.allclose(weight[:3], weight[3:6])


def test_one_feature_has_one_direction():
    assert plain(num_slices=8, num_points=3).fit_transform(make_sets(1)).shape == (6, 3)


def test_the_seed_decides():
    sets = make_sets()
    for slicer in ("linear", "mlp", "polynomial"):
        a, b, c = (embed_sets(sets, slicer=slicer, random_state=s) for s in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        assert not np.allclose(a, c)


def test_slicers_that_know_their_width():
    sets = make_sets(3)
    assert embed_sets(sets, slicer="identity", num_points=4).shape == (6, 12)
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh())
    model = SetEmbedder(slicer=network, num_points=4).fit(sets)
    assert model.transform(sets).shape == (6, 20)
    assert clone(model).fit_transform(sets).shape == (6, 20)


# Rules ################################################################################


def test_empty_sets_are_zero_and_not_learned_from():
    sets = make_sets()
    vectors = SetEmbedder(random_state=0).fit_transform(sets)
    filled = SetEmbedder(random_state=0).fit_transform([s for s in sets if len(s)])
    assert not vectors[4].any()
    np.testing.assert_array_equal(np.delete(vectors, 4, axis=0), filled)


def test_a_constant_feature_is_only_moved():
    sets = [np.full((n, 2), 1e6 + 0.1) for n in (2, 3)]
    model = SetEmbedder().fit(sets)
    assert model.scale_.tolist() == [1, 1]
    assert not model.transform(sets).any()


def test_large_offsets_do_not_cost_precision():
    sets = make_sets(2, sizes=(5, 7))
    a = embed_sets(sets)
    b = embed_sets([s + 1e9 for s in sets])
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("factor", [1e307, 1e-307])
def test_only_shares_of_weights_matter_however_large(factor):
    sets = make_sets(sizes=(40, 30))
    weights = [np.linspace(1, 9, len(x)) for x in sets]
    model, same = (SetEmbedder(8, 4, random_state=0) for _ in range(2))
    expected = model.fit(sets, weight=weights)
    same.fit(sets, weight=[factor * weight for weight in weights])
    np.testing.assert_allclose(same.mean_, expected.mean_)
    np.testing.assert_allclose(same.scale_, expected.scale_)
    np.testing.assert_allclose(
        same.embedding_mean_, expected.embedding_mean_, atol=1e-6
    )


@pytest.mark.parametrize("factor", [1e-170, 1e200])
def test_features_of_any_unit_are_standardized(factor):
    sets = make_sets(sizes=(5, 8), offset=3.0)
    model = SetEmbedder(8, 4, random_state=0)
    expected = model.fit_transform(sets)
    vectors = model.fit_transform([factor * x for x in sets])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_an_element_without_weight_does_not_hide_the_scale():
    sets, weights = [np.array([[1.0], [2.0], [1e300]])], [[1, 1, 0]]
    model = SetEmbedder(8, 4, center=False).fit(sets, weight=weights)
    np.testing.assert_allclose(model.scale_, [0.5])


def test_sets_that_can_be_read_only_once():
    sets = [np.ones((1, 2)), np.zeros((3, 2))]
    weights = [np.ones(1), np.arange(3)]
    embedder = SetEmbedder(4, 2, random_state=0)
    expected = embedder.fit_transform(sets, weight=weights)
    found = embedder.fit_transform(iter(sets), weight=(w for w in weights))
    np.testing.assert_array_equal(found, expected)


def test_no_sets_to_transform():
    model = SetEmbedder(num_slices=4, num_points=2).fit(make_sets())
    assert model.transform([]).shape == (0, 8)
    assert model.transform([[], []]).tolist() == [[0] * 8] * 2


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_names_the_set_with_a_number_that_is_none(standardize, value, monkeypatch):
    monkeypatch.setattr(embedder, "BATCH_BYTES", 1)
    model = SetEmbedder(standardize=standardize).fit(make_sets())
    sets = make_sets()
    sets[3][1, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"Set 3 of 'X' has an element with NaN"):
            model.transform(sets)
        if value != 1e300:
            with pytest.raises(ValueError, match="Set 3 of 'X'"):
                SetEmbedder(standardize=standardize).fit(sets)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1, 1, 1], r"got -1.* in set 1"),
        ([1, np.nan, 1, 1], r"got nan in set 1"),
        ([1, 0, 0, 1], r"only zeros in set 1"),
    ],
)
def test_names_the_set_with_a_wrong_weight(weight, message, monkeypatch):
    monkeypatch.setattr(embedder, "BATCH_BYTES", 1)
    x, ptr = np.ones((4, 2)), np.array([0, 1, 3, 3, 4])
    with pytest.raises(ValueError, match=message):
        SetEmbedder(standardize=False).fit((x, ptr), weight=np.array(weight))
    with pytest.raises(ValueError, match=message):
        SetEmbedder().fit((x, ptr), weight=np.array(weight))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_slices": 0}, "'num_slices' must be a positive integer"),
        ({"num_points": 2.5}, "'num_points' must be a positive integer"),
        ({"interpolation": "lines"}, r"did you mean 'linear'\?"),
        ({"slicer": "linaer"}, "'slicer' must be one of"),
        ({"slicer": torch.nn.Flatten(0)}, "'slicer' must map"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        SetEmbedder(**options).fit(make_sets())


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="needs a set that is not empty"):
        SetEmbedder().fit([[], []])


def test_distance_wants_vectors():
    model = SetEmbedder(num_slices=4, num_points=2).fit(make_sets())
    with pytest.raises(ValueError, match="'b' must be vectors of 8 numbers"):
        model.distance(np.zeros(8), np.zeros((3, 2)))


# Streaming ############################################################################


def test_small_batches_give_the_vectors_of_one(monkeypatch):
    sets = make_sets()
    weight = [np.random.default_rng(1).random(len(s)) for s in sets]
    for w in (None, weight):
        model = SetEmbedder(random_state=0)
        whole = model.fit_transform(sets, weight=w)
        with monkeypatch.context() as patch:
            patch.setattr(embedder, "BATCH_BYTES", 1)
            # A product with a single row may be rounded in another way.
            np.testing.assert_allclose(model.transform(sets, w), whole, atol=1e-6)


def test_batches_have_bounded_bytes(monkeypatch):
    monkeypatch.setattr(embedder, "BATCH_BYTES", 1000)
    ptr = np.array([0, 10, 20, 30, 500, 500, 510])
    batches = list(embedder._batches(ptr, 3, 5, 2))
    assert batches == [(0, 2), (2, 3), (3, 4), (4, 6)]


def test_fit_draws_a_sample_of_many_sets(monkeypatch):
    sets = make_sets(sizes=[4] * 50)
    monkeypatch.setattr(embedder, "MAX_FIT_SETS", 10)
    a, b = (SetEmbedder(random_state=0).fit(sets) for _ in range(2))
    monkeypatch.undo()
    whole = SetEmbedder(random_state=0).fit(sets)
    np.testing.assert_array_equal(a.mean_, b.mean_)
    assert not np.allclose(a.mean_, whole.mean_)
    np.testing.assert_array_equal(a.slicer_.weight, whole.slicer_.weight)


def test_a_bar_on_demand(capsys):
    model = SetEmbedder().fit(make_sets())
    model.transform(make_sets())
    assert capsys.readouterr().err == ""
    model.transform(make_sets(), progress=True)
    assert "6/6" in capsys.readouterr().err


# scikit-learn's company ###############################################################


def test_copies_are_equal():
    sets = make_sets()
    model = SetEmbedder(random_state=0)
    vectors = model.fit_transform(sets)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(sets), vectors)
    np.testing.assert_array_equal(clone(model).fit_transform(sets), vectors)


def test_in_a_pipeline():
    near = make_sets(2, sizes=(6, 9, 4) * 4, seed=0)
    far = make_sets(2, sizes=(6, 9, 4) * 4, seed=1, offset=5)
    pipeline = make_pipeline(SetEmbedder(8, 4), LogisticRegression())
    scores = cross_val_score(pipeline, near + far, [0] * 12 + [1] * 12, cv=3)
    assert scores.tolist() == [1, 1, 1]


def test_names_and_frames():
    pd = pytest.importorskip("pandas")
    model = SetEmbedder(num_slices=2, num_points=2).set_output(transform="pandas")
    names = ["slice0_point0", "slice0_point1", "slice1_point0", "slice1_point1"]
    frame = model.fit_transform(make_sets(2))
    assert list(frame.columns) == names
    assert list(frame.index) == list(range(6))
    long = pd.DataFrame(np.random.default_rng(0).random((5, 2)), columns=["u", "v"])
    long["set"] = ["b", "a", "b", "c", "a"]
    frame = model.fit_transform(long.set_index("set"))
    assert list(frame.columns) == names
    assert list(frame.index) == ["b", "a", "c"]
    assert frame.index.name == "set"
    assert list(model.feature_names_in_) == ["u", "v"]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(long.set_index("set")[["v", "u"]])


def test_polars_output():
    pytest.importorskip("polars")
    model = SetEmbedder(num_slices=2, num_points=2).set_output(transform="polars")
    assert model.fit_transform(make_sets(2)).shape == (6, 4)


def test_another_number_of_features():
    model = SetEmbedder().fit(make_sets(3))
    with pytest.raises(ValueError, match="X has 2 features"):
        model.transform(make_sets(2))


def test_the_package_alone_does_not_import_scikit_learn():
    code = "import gswe_pyg, sys; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try: import gswe_pyg.sets\n"
        "except ImportError as e: print(e)"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "gswe-pyg[sets]" in out
