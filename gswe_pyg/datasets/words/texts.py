import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gswe_pyg.datasets.words.bag_of_words import BagOfWords
from gswe_pyg.datasets.words.vectors import find_vectors


def split_words(text: str) -> list[str]:
    """Runs of letters and digits, with apostrophes inside."""
    return re.findall(r"\w+(?:['\u2019]\w+)*", text)


def bag_texts(
    texts: Sequence[str] | Sequence[Sequence[str]],
    labels: Sequence[int] | Sequence[str],
    vectors: Any,
    tokenize: Callable[[str], Sequence[str]],
) -> BagOfWords:
    """Counts the words of texts; those without a vector have the token -1."""
    documents = [tokenize(text) if isinstance(text, str) else text for text in texts]
    words = {word for document in documents for word in document}
    row, table = find_vectors(vectors, words | {word.lower() for word in words})
    row_of = {word: row.get(word, row.get(word.lower(), -1)) for word in words}

    counters = [Counter(row_of[word] for word in document) for document in documents]
    classes, y = np.unique(np.asarray(labels), return_inverse=True)
    return BagOfWords(
        token=np.array([token for c in counters for token in c], np.int64),
        count=np.array([count for c in counters for count in c.values()], np.int64),
        ptr=np.cumsum([0, *map(len, counters)]),
        y=y.reshape(-1),
        classes=[str(label) for label in classes],
        vectors=table,
    )
