#!/usr/bin/env python3
"""The other side of T5: logistic regression on a libsvm file with scikit-learn's SGDClassifier.

  sgd_sklearn.py TRAIN EVAL [--passes 4]

Reading is not timed; one thread, which is all that it has. Prints one JSON object.
"""

import argparse
import json
import time

from sklearn.datasets import load_svmlight_files
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss


def main():
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("eval")
    parser.add_argument("--passes", type=int, default=4)
    arguments = parser.parse_args()
    features, labels, eval_features, eval_labels = load_svmlight_files([arguments.train, arguments.eval],
                                                                       zero_based=True)
    model = SGDClassifier(loss="log_loss", alpha=1e-6, learning_rate="invscaling", eta0=0.2, power_t=0.25,
                          max_iter=arguments.passes, tol=None, random_state=1)
    start = time.monotonic()
    model.fit(features, labels)
    seconds = time.monotonic() - start
    print(
        json.dumps({
            "examples_per_second": arguments.passes * len(labels) / seconds,
            "logloss": log_loss(eval_labels, model.predict_proba(eval_features))
        }))


if __name__ == "__main__":
    main()
