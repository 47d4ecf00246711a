"""From texts of your own and any word vectors to a classifier of documents.

A document is the set of the vectors of its words, each with the number of its
occurrences as its mass. Bring a file with lines ``label<TAB>text`` and vectors in the
format of GloVe or word2vec; without them, small texts are made up, and vectors come
from the words that occur together in them.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric import seed_everything
from torch_geometric.data import Batch
from tqdm import tqdm

from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import WordSets
from gswe_pyg.datasets.word_sets import split_words
from gswe_pyg.loader import SetLoader

TOPICS = {
    "cooking": "pan butter onion stir oven salt pepper dough boil slice plate sauce",
    "sailing": "mast wind harbour sail rope deck tide anchor wave stern keel island",
    "music": "chord violin melody rhythm choir stage drum note piano concert tune bow",
}
COMMON = "the a then we and slowly again with new old some before long over it well"


class Net(Module):
    def __init__(self, in_channels: int, num_classes: int, num_points: int):
        super().__init__()
        # With one point, 'barycentric' is the mean of the words.
        self.readout = GSWEAggregation(
            in_channels, 32, num_points, interpolation="barycentric"
        )
        self.lin = Linear(self.readout.embedding_channels, num_classes)

    def forward(self, batch: Batch) -> Tensor:
        out = self.readout(
            batch.x, batch.batch, dim_size=batch.num_graphs, weight=batch.weight
        )
        return self.lin(out.relu())


def made_up_texts(number: int, seed: int) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    texts, labels = [], []
    for i in range(number):
        label = list(TOPICS)[i % len(TOPICS)]
        length = draw.randint(5, 30)
        words = COMMON.split() * 3 + TOPICS[label].split()
        texts.append(" ".join(draw.choices(words, k=length)))
        labels.append(label)
    return texts, labels


def vectors_from_texts(texts: list[str], num_features: int) -> dict[str, np.ndarray]:
    """Words that occur in the same documents get similar vectors."""
    vocabulary = sorted({word for text in texts for word in split_words(text)})
    row = {word: i for i, word in enumerate(vocabulary)}
    counts = np.zeros((len(vocabulary), len(texts)))
    for column, text in enumerate(texts):
        for word in split_words(text):
            counts[row[word], column] += 1
    u, s, _ = np.linalg.svd(np.log1p(counts), full_matrices=False)
    table = (u * s)[:, :num_features]
    return {word: table[i] / table.std() for word, i in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="lines of label, tab, text")
    parser.add_argument("--vectors", help="GloVe or word2vec file, text or binary")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="one split, two epochs")
    args = parser.parse_args()
    epochs = 2 if args.fast else args.epochs

    if args.texts is not None:
        lines = args.texts.read_text().splitlines()
        labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    else:
        texts, labels = made_up_texts(90 if args.fast else 300, args.seed)
    vectors = args.vectors or vectors_from_texts(texts, num_features=16)
    dataset = WordSets.from_documents(texts, labels, vectors)
    splits = dataset.get_splits(seed=args.seed)
    splits = splits[:1] if args.fast else splits
    print(f"{len(dataset)} documents, {dataset.num_features} features a word, ", end="")
    print(f"classes {', '.join(dataset.classes)}; {len(splits)} splits, ", end="")
    print(f"{epochs} epochs, seed {args.seed}\n")

    print("readout | test accuracy, mean over splits")
    print("--------|--------------------------------")
    for label, num_points in {"mean": 1, "GSWE": 8}.items():
        accuracies = []
        for train, test in tqdm(splits, label, leave=False, disable=None):
            seed_everything(args.seed)
            model = Net(dataset.num_features, dataset.num_classes, num_points)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            for _ in range(epochs):
                for batch in SetLoader(dataset[train], batch_size=32, shuffle=True):
                    optimizer.zero_grad()
                    F.cross_entropy(model(batch), batch.y).backward()
                    optimizer.step()
            with torch.no_grad():
                batch = dataset[test].get_batch(range(len(test)))
                hits = model(batch).argmax(-1) == batch.y
            accuracies.append(hits.double().mean().item())
        print(f"{label:<7} | {np.mean(accuracies):>31.3f}")
    if args.texts is None:
        print("\nMade-up texts: this shows how, not which is better.")


if __name__ == "__main__":
    main()
