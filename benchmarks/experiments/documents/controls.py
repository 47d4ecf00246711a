"""Vectors of documents that need no training of a network, and a classifier."""

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch_geometric.utils import scatter

from benchmarks.engine.grid import Outcome
from benchmarks.engine.training import significant
from gswe_pyg.datasets import SetDataset
from gswe_pyg.sets import SetEmbedder

LOGISTIC = "logistic"
NAMES = (LOGISTIC, "untrained", "parameter_free", "sliced")  # in place of a readout

#: Inverse weights of the penalty, one of which is chosen on training sets. Mean vectors
#: are taken as they are, other vectors are standardised.
INVERSE_PENALTIES = {
    LOGISTIC: np.logspace(-1, 3, 5),
    "untrained": np.logspace(-6, 2, 9),
    "parameter_free": np.logspace(-4, 0, 5),
}

#: Points of a direction; there are as many directions as a word has features.
POINTS = 8

Vectors = Callable[[SetDataset], np.ndarray]


def classify(
    control: str, to_vectors: Vectors, train: SetDataset, held_out: SetDataset
) -> Outcome:
    """Fits on the training sets, then classifies the held-out sets."""
    x, y = to_vectors(train), train.y.flatten().numpy()
    queries, labels = to_vectors(held_out), held_out.y.flatten().numpy()
    with threadpool_limits(1):  # many small products; threads would wait, not work
        if control == "sliced":
            model = KNeighborsClassifier(1, algorithm="brute").fit(x, y)
            return Outcome({"accuracy": round(model.score(queries, labels), 6)}, 0)
        model = _logistic_regression(control).fit(x, y)
        accuracy = float(model.score(queries, labels))
        train_loss = log_loss(y, model.predict_proba(x))
    (penalty,) = model.best_params_.values()
    classifier = model.best_estimator_[-1]
    return Outcome(
        metrics={
            "accuracy": round(accuracy, 6),
            "train_loss": significant(train_loss),
            "inverse_penalty": float(penalty),
        },
        parameters=classifier.coef_.size + classifier.intercept_.size,
    )


def _logistic_regression(control: str) -> GridSearchCV:
    """With the penalty of the best cross-validation among the training sets."""
    # Shuffled, as documents stand by topic in some of the files.
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scaler = [] if control == LOGISTIC else [StandardScaler()]
    grid = {"logisticregression__C": INVERSE_PENALTIES[control]}
    model = make_pipeline(*scaler, LogisticRegression(max_iter=1000))
    return GridSearchCV(model, grid, cv=folds)


def mean_vectors(sets: SetDataset) -> np.ndarray:
    """The mean of each set, in float64."""
    batch = sets.get_batch(range(len(sets)))
    x = scatter(batch.x.double(), batch.batch, 0, batch.num_graphs, reduce="mean")
    return x.numpy()


def sliced_vectors(train: SetDataset, seed: int, weighted: bool) -> Vectors:
    """Quantiles in fixed directions: GSWE of the words themselves."""
    embedder = SetEmbedder(train.num_features, POINTS, random_state=seed)

    def elements(sets: SetDataset) -> dict:
        batch = sets.get_batch(range(len(sets)))
        weight = batch.weight if weighted else None
        return {"X": (batch.x, batch.ptr), "weight": weight}

    embedder.fit(**elements(train))
    return lambda sets: embedder.transform(**elements(sets))
