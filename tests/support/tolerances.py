"""Derive the tolerances of tests from the number and the size of the terms that are rounded.

A CPU gets the kernels for its instructions, and kernels add the same terms in another order; so do other libraries,
batch sizes and numbers of threads. Each operation rounds its result by at most half of ``epsilon`` times its size.

**One sum.** The partial sums of n terms are at most as large as the sum of their absolute values, ``size``, and each of
the n is rounded once, in both results: they are at most ``n * size * epsilon`` apart (``sum_rounding``).

**A network** rounds along the way from an embedding to a logit in every sum that it passes. The n roundings all have
the same sign only in the worst case; they are independent with a mean of zero, and then stay within
``6 * sqrt(n) * epsilon / 2`` times the size of the values with a probability of 1 - 3e-8 (Higham and Mary, A New
Approach to Probabilistic Rounding Error Analysis, 2019). Two results have 2 n roundings between them
(``network_rounding``). Norms keep the size of the states, so an error made early is as large, relative to the states,
at the end; the size that counts is that of the logits.

**A log-probability** is a logit minus the logarithm of a sum of exponentials. If all logits are off by at most d, so is
that logarithm: 2 d in total (``log_probability_rounding``).

**A score** is the sum of the log-probabilities of T tokens, whose errors add up, divided by T ** length_penalty
(``score_rounding``).

**int8.** An error in the last digit of a float32 can move an activation to the next of 127 steps. The largest of the
activations is about 4 standard deviations, so a step is 4 / 127 of one; of the ``width`` terms of a product one
changes, which moves the product, sqrt(width) standard deviations large, by 4 / 127 / sqrt(width) of its size
(``int8_rounding``).
"""

from math import sqrt

from seq2edge.config.architecture import Architecture

BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = 2.0**-7, 2.0**-10, 2.0**-23, 2.0**-52  # from 1 to the next number
DEVIATIONS = 6
LARGEST_ACTIVATION = 4  # in standard deviations, of some hundred that are normally distributed
INT8_STEPS = 127


def sum_rounding(terms: int, size: float, epsilon: float = FLOAT32) -> float:
    """Bound the difference of two sums of the same terms, whose absolute values add up to ``size``."""
    return terms * size * epsilon


def chain_rounding(terms: int, size: float, epsilon: float = FLOAT32) -> float:
    """Bound the difference of two results of a chain of sums that have ``terms`` in total, and values of ``size``."""
    return DEVIATIONS * sqrt(2 * terms) * epsilon / 2 * size


def network_rounding(shape: Architecture, size: float, *, length: int = 32, epsilon: float = FLOAT32) -> float:
    """Bound the difference of two logits of a model, for logits of ``size`` and up to ``length`` tokens."""
    attention = shape.width + shape.head_width + length + shape.inner_width
    feed_forward = shape.width + shape.feed_forward
    encoder = attention + feed_forward + 2 * shape.width  # with its norms
    decoder = 2 * attention + feed_forward + 3 * shape.width
    terms = shape.encoder_layers * encoder + shape.decoder_layers * decoder + shape.width
    return chain_rounding(terms, size, epsilon)


def log_probability_rounding(logit: float) -> float:
    """Bound the difference of two log-probabilities whose logits differ by at most ``logit``."""
    return 2 * logit


def log_softmax_rounding(vocabulary: int, size: float) -> float:
    """Bound the difference of two log-probabilities of the same logits of ``size``.

    The exponentials are positive, so their sum has the relative error of its terms, which its logarithm has as an
    absolute one. Three more operations round values of the size of the logits.
    """
    return chain_rounding(vocabulary, 1.0) + sum_rounding(3, size)


def score_rounding(tokens: int, log_probability: float, length_penalty: float = 0.0) -> float:
    """Bound the difference of two scores whose log-probabilities differ by at most ``log_probability``."""
    return tokens ** (1 - length_penalty) * log_probability


def int8_rounding(width: int, size: float) -> float:
    """Bound the difference of two logits of ``size`` in int8 if one activation is rounded to the next integer."""
    return LARGEST_ACTIVATION / INT8_STEPS / sqrt(width) * size
