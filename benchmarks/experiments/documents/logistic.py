"""Logistic regression on the mean word vector: what a network on sets has to beat."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits
from torch_geometric.utils import scatter

from benchmarks.engine.grid import Outcome
from benchmarks.engine.training import significant
from gswe_pyg.datasets import SetDataset

LOGISTIC = "logistic"  # in the place of a readout

#: Inverse weights of the penalty, one of which is chosen on training sets.
INVERSE_PENALTIES = np.logspace(-1, 3, 5)


def classify_means(train: SetDataset, held_out: SetDataset) -> Outcome:
    """Fits on the training sets, with the penalty of the best cross-validation among
    them, then classifies the held-out sets. The seed of a run makes no difference."""
    # Shuffled, as documents stand by topic in some of the files.
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"C": INVERSE_PENALTIES}
    model = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds)
    x, y = mean_vectors(train)
    with threadpool_limits(1):  # many small products; threads would wait, not work
        model.fit(x, y)
    classifier = model.best_estimator_
    return Outcome(
        metrics={
            "accuracy": round(float(model.score(*mean_vectors(held_out))), 6),
            "train_loss": significant(log_loss(y, model.predict_proba(x))),
            "inverse_penalty": float(model.best_params_["C"]),
        },
        parameters=classifier.coef_.size + classifier.intercept_.size,
    )


def mean_vectors(sets: SetDataset) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each set, in float64, and its label."""
    batch = sets.get_batch(range(len(sets)))
    x = scatter(batch.x.double(), batch.batch, 0, batch.num_graphs, reduce="mean")
    return x.numpy(), batch.y.flatten().numpy()
