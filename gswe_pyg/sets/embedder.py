"""A scikit-learn transformer from sets to vectors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn import Module

from gswe_pyg._checks import one_of, positive_int
from gswe_pyg.ops import segment_quantile
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.sets.forms import Elements, Sets, as_sets
from gswe_pyg.slicers import IdentitySlicer, LinearSlicer, make_slicer

#: From more sets than these, `fit` draws a sample of as many.
MAX_FIT_SETS = 10_000

#: Of the slices and points of a batch. Small enough for caches to help.
BATCH_BYTES = 2**24


class SetEmbedder(TransformerMixin, BaseEstimator):
    r"""Turns sets of any sizes into vectors of one length, without training.

    Each set is projected onto directions; the sorted values of each projection are read
    at evenly spaced ranks. The Euclidean distance of two vectors is the
    sliced-Wasserstein distance of the two sets: exactly for :obj:`"step"` and
    :obj:`"barycentric"`, if the sizes of both sets divide :obj:`num_points`, and
    otherwise approximately, better with more points. So vectors can go to any index,
    classifier or plot that knows nothing about sets.

    Sets come as

    * a list of arrays :math:`(n_i, d)`, of numpy, PyTorch or plain lists;
    * :obj:`(x, ptr)` or :obj:`(x, index)`: all elements :math:`(N, d)`, and the
      boundaries of the sets, or the set of each element in any order. They are
      boundaries if they increase from :math:`0` to :math:`N`;
    * a dense array :math:`(B, N, d)`, or :obj:`(dense, mask)`, where the boolean mask
      :math:`(B, N)` says which elements there are; a :math:`(B, d)` array has sets of
      one element each;
    * a PyG batch, data set or list of graphs: their :obj:`x`, or :obj:`pos` where there
      is none, with :obj:`weight`, if they have it, as weights;
    * a nested tensor;
    * an Arrow or polars column of type :obj:`list<fixed_size_list<float>[d]>` or
      :obj:`list<list<float>>`, used without a copy;
    * a pandas frame in long form: rows with the same label in the index are a set, as
      after :obj:`frame.set_index("set")`.

    Vectors are :obj:`numpy.float32`. The elements of a set have no order, and repeating
    all of them changes nothing. The vector of an empty set is zero, which with
    :obj:`center` is the mean of all sets; :meth:`fit` leaves empty sets out. NaN and
    infinity raise an error that names the set. There is no :obj:`inverse_transform`:
    many sets share a vector.

    Args:
        num_slices (int, optional): The number of slices :math:`L`. A single feature
            has only one direction, of which no copies are made.
            (default: :obj:`64`)
        num_points (int, optional): The number of ranks :math:`M` at which each slice is
            read. (default: :obj:`16`)
        slicer (str or torch.nn.Module, optional): :obj:`"linear"` (evenly spread
            directions in the plane, orthogonal groups of random ones elsewhere),
            :obj:`"identity"` (the features themselves), :obj:`"mlp"` or
            :obj:`"polynomial"` (random curved slices), or a module from :math:`(N, d)`
            to :math:`(N, L)`, e.g., of a trained network. A module and
            :obj:`"identity"` determine :math:`L` themselves.
            (default: :obj:`"linear"`)
        interpolation (str, optional): How sets of other sizes than :math:`M` are read.
            See :meth:`gswe_pyg.ops.segment_quantile`. (default: :obj:`"linear"`)
        standardize (bool, optional): Whether to bring all features to mean zero and
            deviation one first. Leave it out for distances in the unit of the
            features. (default: :obj:`True`)
        center (bool, optional): Whether to subtract the mean of all vectors, which is
            the vector of the sliced barycentre of the sets. (default: :obj:`True`)
        random_state (int or numpy.random.RandomState, optional): The seed of the slices
            and of the sample that :meth:`fit` looks at. (default: :obj:`None`)

    Attributes:
        n_features_in_ (int): The number of features :math:`d`.
        mean_ (numpy.ndarray): The mean of each feature; each set counts once.
        scale_ (numpy.ndarray): The deviation of each feature.
        slicer_ (torch.nn.Module): The slices.
        embedding_mean_ (numpy.ndarray): What is subtracted from each vector.

    Example:
        >>> sets = [np.random.rand(n, 3) for n in (5, 1, 8)]
        >>> SetEmbedder(num_slices=8, num_points=4).fit_transform(sets).shape
        (3, 32)
    """

    def __init__(
        self,
        num_slices: int = 64,
        num_points: int = 16,
        slicer: str | Module = "linear",
        interpolation: str = "linear",
        standardize: bool = True,
        center: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.num_slices = num_slices
        self.num_points = num_points
        self.slicer = slicer
        self.interpolation = interpolation
        self.standardize = standardize
        self.center = center
        self.random_state = random_state

    def fit(self, X: Any, y: None = None, weight: Any = None) -> "SetEmbedder":
        r"""Learns the scale of the features and the mean of the vectors, from 10,000
        sets drawn at random if there are more.

        Args:
            X: The sets, see above.
            y: Not used.
            weight (optional): The mass of each element, not negative, in the form of
                the sets: a list of arrays :math:`(n_i)`, an array :math:`(N)` or
                :math:`(B, N)`, an Arrow column of lists, or the name of a column or
                attribute. Only the share within the set matters.
                (default: :obj:`None`)
        """
        positive_int("num_slices", self.num_slices)
        positive_int("num_points", self.num_points)
        one_of("interpolation", self.interpolation, INTERPOLATIONS)
        sets = self._read(X, weight, reset=True)
        random = check_random_state(self.random_state)
        self.slicer_ = _make_slicer(
            self.slicer, self.n_features_in_, self.num_slices, random
        )
        sample = _sample(sets, random)
        self.mean_ = np.zeros(self.n_features_in_)
        self.scale_ = np.ones(self.n_features_in_)
        if self.standardize:
            self.mean_, self.scale_ = _mean_and_scale(sample, self.n_features_in_)
        width = self._slice(np.zeros((1, self.n_features_in_), np.float32)).shape[1]
        self.embedding_mean_ = np.zeros(width * self.num_points, np.float32)
        if self.center:
            vectors = self._embed(sample)
            total = vectors.sum(0, dtype=np.float64)
            self.embedding_mean_ = (total / len(vectors)).astype(np.float32)
        return self

    def transform(
        self, X: Any, weight: Any = None, progress: bool = False
    ) -> np.ndarray:
        r"""Embeds each set, a bounded number of elements at a time.

        Args:
            X: The sets, see above.
            weight (optional): The mass of each element, see :meth:`fit`.
                (default: :obj:`None`)
            progress (bool, optional): Whether to show a progress bar, which needs
                :obj:`tqdm`. (default: :obj:`False`)

        Shapes:
            - **output:** vectors :math:`(B, L \cdot M)`
        """
        check_is_fitted(self)
        sets = self._read(X, weight, reset=False)
        vectors = self._embed(sets, progress)
        if sets.labels is not None:
            # Rows are elements, but the rows of the result are sets.
            config = _get_output_config("transform", self)
            if config["dense"] == "pandas":
                import pandas as pd

                return pd.DataFrame(vectors, index=sets.labels)
        return vectors

    def fit_transform(
        self, X: Any, y: None = None, weight: Any = None, progress: bool = False
    ) -> np.ndarray:
        r"""Calls :meth:`fit` and :meth:`transform`."""
        X, weight = (list(v) if isinstance(v, Iterator) else v for v in (X, weight))
        return self.fit(X, y, weight).transform(X, weight, progress)

    def distance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r"""The sliced-Wasserstein distance of order two of two sets, from their
        vectors: their Euclidean distance.

        Args:
            a (numpy.ndarray): One vector or several of them.
            b (numpy.ndarray): The other ones.

        Shapes:
            - **input:** vectors :math:`(*, L \cdot M)`
            - **output:** distances :math:`(*)`
        """
        check_is_fitted(self)
        for name, value in (("a", np.asarray(a)), ("b", np.asarray(b))):
            if value.ndim == 0 or value.shape[-1] != len(self.embedding_mean_):
                raise ValueError(
                    f"'{name}' must be vectors of {len(self.embedding_mean_)} numbers, "
                    f"from 'transform' (got shape {list(value.shape)})"
                )
        return np.linalg.norm(np.asarray(a) - np.asarray(b), axis=-1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        r"""The names :obj:`slice0_point0`, :obj:`slice0_point1`, ... of the outputs.

        Args:
            input_features: Not used.
        """
        check_is_fitted(self)
        points = range(self.num_points)
        slices = range(len(self.embedding_mean_) // self.num_points)
        names = [f"slice{i}_point{j}" for i in slices for j in points]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _read(self, X: Any, weight: Any, reset: bool) -> Sets:
        sets = as_sets(X, weight)
        if reset and not (np.diff(sets.ptr) > 0).any():
            raise ValueError(
                f"'fit' needs a set that is not empty (got {len(sets)} sets, 0 "
                f"sample(s) in them): a minimum of 1 is required"
            )
        num_features = sets.num_features
        if num_features == 0:
            raise ValueError(
                f"Found 0 feature(s) (shape=({len(sets)}, 0)) while a minimum of 1 is "
                f"required."
            )
        if num_features is not None:
            is_frame = hasattr(X, "columns")
            if is_frame and isinstance(weight, str):
                X = X.drop(columns=weight)
            like = X if is_frame else np.empty((0, num_features))
            validate_data(self, like, reset=reset, skip_check_array=True)
        return sets

    def _embed(self, sets: Sets, progress: bool = False) -> np.ndarray:
        out = np.empty((len(sets), len(self.embedding_mean_)), np.float32)
        # The mean square over slices and points is the squared distance.
        factor = np.float32(out.shape[1] ** -0.5)
        num_slices = out.shape[1] // self.num_points
        batches = _batches(sets.ptr, self.n_features_in_, num_slices, self.num_points)
        if progress:
            batches = _with_bar(batches, len(sets))
        for start, stop in batches:
            elements = sets.read(start, stop)
            weight = _checked_weight(elements, start)
            points = segment_quantile(
                self._slice(self._scaled(elements, start)),
                torch.from_numpy(elements.ptr),
                self.num_points,
                self.interpolation,
                None if weight is None else _to_tensor(weight),
            )
            vectors = out[start:stop]
            np.multiply(points.flatten(1).numpy(), factor, out=vectors)
            vectors -= self.embedding_mean_
            vectors[np.diff(elements.ptr) == 0] = 0
        return out

    def _scaled(self, elements: Elements, start: int) -> np.ndarray:
        x = elements.x.reshape(-1, self.n_features_in_)  # [] has no width
        if self.standardize:
            dtype = x.dtype if x.dtype == np.float32 else np.float64
            x = x - self.mean_.astype(dtype)
            x /= self.scale_.astype(dtype)
        with np.errstate(over="ignore"):
            x = np.ascontiguousarray(x, dtype=np.float32)
        if not np.isfinite(x).all():
            raise _not_finite(elements, ~np.isfinite(x).all(1), start)
        return x

    @torch.no_grad()
    def _slice(self, x: np.ndarray) -> Tensor:
        slices = self.slicer_(_to_tensor(x))
        if slices.dim() != 2 or len(slices) != len(x):
            raise ValueError(
                f"'slicer' must map [N, {self.n_features_in_}] to [N, num_slices] (got "
                f"{list(slices.shape)} from {list(x.shape)})"
            )
        return slices


def embed_sets(
    sets: Any, weight: Any = None, progress: bool = False, **options: Any
) -> np.ndarray:
    r"""Turns sets of any sizes into vectors of one length, in one call.

    Args:
        sets: The sets, in any form that :class:`SetEmbedder` takes.
        weight (optional): The mass of each element. (default: :obj:`None`)
        progress (bool, optional): Whether to show a progress bar.
            (default: :obj:`False`)
        **options (optional): Arguments of :class:`SetEmbedder`. To embed other sets
            later, keep a :class:`SetEmbedder`: scale and mean are those of the sets
            that it was fitted to.

    Example:
        >>> embed_sets([np.random.rand(n, 2) for n in (5, 1, 8)]).shape
        (3, 1024)
    """
    return SetEmbedder(**options).fit_transform(sets, None, weight, progress)


def _make_slicer(
    slicer: str | Module, num_features: int, num_slices: int, random: Any
) -> Module:
    if isinstance(slicer, Module):
        return slicer
    if slicer == "identity":
        return IdentitySlicer(num_features)
    seed = int(random.randint(2**31 - 1))
    if slicer == "linear":
        directions = _directions(num_features, num_slices, seed)
        linear = LinearSlicer(num_features, len(directions))
        linear.weight.data = torch.from_numpy(directions)
        return linear.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_slicer(slicer, num_features, num_slices).requires_grad_(False)


def _directions(num_features: int, num_slices: int, seed: int) -> np.ndarray:
    """Unit vectors that cover the sphere evenly, up to sign: ``[L, d]``."""
    if num_features == 1:
        return np.ones((1, 1), np.float32)
    if num_features == 2:
        angles = np.pi * np.arange(num_slices) / num_slices
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    random = np.random.default_rng(seed)
    blocks = [
        np.linalg.qr(random.normal(size=(num_features, min(num_features, left))))[0].T
        for left in range(num_slices, 0, -num_features)
    ]
    return np.concatenate(blocks).astype(np.float32)


def _sample(sets: Sets, random: Any) -> Sets:
    filled = np.flatnonzero(np.diff(sets.ptr))
    if len(filled) > MAX_FIT_SETS:
        filled = np.sort(random.choice(filled, MAX_FIT_SETS, replace=False))
    return sets if len(filled) == len(sets) else sets.take(filled)


def _mean_and_scale(sets: Sets, num_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each feature over all elements, in double precision."""
    mean, largest, variance = np.zeros((3, num_features))
    for share, x in _shares(sets, num_features):
        mean += share @ x
    for _, x in _shares(sets, num_features):
        largest = np.maximum(largest, np.abs(x - mean).max(0))
    # The squares of very small or large features would vanish or overflow.
    unit = np.where(largest > 0, largest, 1)
    for share, x in _shares(sets, num_features):
        variance += share @ ((x - mean) / unit) ** 2
    deviation = unit * np.sqrt(variance)
    # Of a feature that is constant, up to rounding.
    least = 10 * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(deviation > least, deviation, 1)


def _shares(sets: Sets, num_features: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Elements that have mass, and their shares of it, batch by batch. Each set has the
    same mass, however many elements it has."""
    for start, stop in _batches(sets.ptr, num_features, num_features, 1):
        elements = sets.read(start, stop)
        if not np.isfinite(elements.x).all():
            raise _not_finite(elements, ~np.isfinite(elements.x).all(1), start)
        first, sizes = elements.ptr[:-1], np.diff(elements.ptr)
        weight = _checked_weight(elements, start)
        mass = np.ones(len(elements.x)) if weight is None else weight.astype(float)
        # The sum of large masses would overflow.
        mass /= np.repeat(np.maximum.reduceat(mass, first), sizes)
        mass /= np.repeat(np.add.reduceat(mass, first), sizes)
        counts = slice(None) if weight is None else mass > 0
        yield mass[counts] / len(sets), elements.x[counts].astype(np.float64)


def _batches(
    ptr: np.ndarray, num_features: int, num_slices: int, num_points: int
) -> Iterator[tuple[int, int]]:
    """Ranges of sets; a set that is larger than a batch is one by itself."""
    of_element = 4 * (num_features + num_slices)
    of_set = 4 * num_slices * num_points
    bytes_before = ptr * of_element + np.arange(len(ptr)) * of_set
    start = 0
    while start < len(ptr) - 1:
        limit = bytes_before[start] + BATCH_BYTES
        stop = int(np.searchsorted(bytes_before, limit, side="right")) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _checked_weight(elements: Elements, start: int) -> np.ndarray | None:
    weight = elements.weight
    if weight is None:
        return None
    wrong = ~((weight >= 0) & np.isfinite(weight))
    if wrong.any():
        raise ValueError(
            f"'weight' must be finite and not negative (got {weight[wrong][0]} in set "
            f"{_set_of(elements, wrong, start)})"
        )
    num_positive = np.append(0, np.cumsum(weight > 0))[elements.ptr]
    starved = (np.diff(num_positive) == 0) & (np.diff(elements.ptr) > 0)
    if starved.any():
        raise ValueError(
            f"'weight' must be positive for some element of each set (got only zeros "
            f"in set {start + starved.argmax()}): remove its elements to leave it empty"
        )
    return weight if weight.dtype == np.float32 else weight.astype(np.float64)


def _not_finite(elements: Elements, wrong: np.ndarray, start: int) -> ValueError:
    value = elements.x[wrong][0]
    return ValueError(
        f"Set {_set_of(elements, wrong, start)} of 'X' has an element with NaN, "
        f"infinity, or a value too large for float32 (got {value}): remove it, or fill "
        f"it in"
    )


def _set_of(elements: Elements, marked: np.ndarray, start: int) -> int:
    """The position of the set that the first marked element belongs to."""
    place = np.searchsorted(elements.ptr, marked.argmax(), side="right") - 1
    return start + int(place)


def _to_tensor(array: np.ndarray) -> Tensor:
    # Arrow's memory is read-only, of which PyTorch knows nothing and warns.
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _with_bar(
    batches: Iterator[tuple[int, int]], num_sets: int
) -> Iterator[tuple[int, int]]:
    from tqdm import tqdm

    with tqdm(total=num_sets, unit=" sets") as bar:
        for start, stop in batches:
            yield start, stop
            bar.update(stop - start)
