"""Define how close a bundle is to its source model, and the limits for each precision."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Corpus scores of the source model (``original``) and of the bundle."""

    bleu_original: float
    bleu_bundle: float
    chrf_original: float
    chrf_bundle: float


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The measurements of ``seq2edge verify``: the worst over all batch sizes."""

    sentences: int
    steps: int  # decoder steps compared under teacher forcing
    batch_sizes: tuple[int, ...]
    device: str
    cross_difference: float  # largest absolute difference of cross-attention keys and values
    logit_difference: float  # largest absolute difference of a logit
    top1_agreement: float  # share of steps whose likeliest token is the same
    clear_agreement: float  # the same, only for steps where the source model finds it 1.65 times as likely as the next
    mean_kl: float  # mean Kullback-Leibler divergence of the next-token distributions, in nats
    greedy_equal: float  # share of sentences whose greedy output is the same, token for token
    beam_equal: float  # the same for beam search with four beams
    score_difference: float  # largest difference of a sequence score, over equal outputs
    quality: Quality | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits that a bundle of some precision must keep."""

    logit_difference: float | None = None
    clear_agreement: float
    mean_kl: float
    tokens_equal: float | None = None
    bleu_loss: float
    layer_difference: float  # relative difference of a layer's output that counts as diverging from the source model


# float32 must give the same outputs: its logits differ only by rounding, some 1e-5 for logits around 10. The others
# round the weights; their limits are what users accept. Only clear steps count for the agreement: on text in a language
# that it was not trained on, half of a model's steps are near ties that rounding may decide.
LIMITS = {
    "fp32": Limits(
        logit_difference=1e-3, clear_agreement=1.0, mean_kl=1e-6, tokens_equal=1.0, bleu_loss=0.0, layer_difference=1e-3
    ),
    "fp16": Limits(clear_agreement=1.0, mean_kl=1e-4, bleu_loss=0.05, layer_difference=2e-2),
    "int8": Limits(clear_agreement=0.99, mean_kl=1e-2, bleu_loss=0.3, layer_difference=0.2),
    "int4": Limits(clear_agreement=0.95, mean_kl=1e-1, bleu_loss=1.0, layer_difference=0.5),
}
LIMITS["mixed"] = LIMITS["int4"]
LIMITS["fp16-compute"] = LIMITS["fp16"]  # it also rounds activations, to the same type


def failed_limits(parity: Parity, limits: Limits) -> list[str]:
    """Return a phrase for every limit that is exceeded; none means that the bundle passes."""
    failures = [
        _too_low("where it is clear, the likeliest token agrees in", parity.clear_agreement, limits.clear_agreement),
        _too_high("the mean divergence is", parity.mean_kl, limits.mean_kl),
        _too_high("the largest difference of a logit is", parity.logit_difference, limits.logit_difference),
        _too_low("greedy output is equal in", parity.greedy_equal, limits.tokens_equal),
        _too_low("beam output is equal in", parity.beam_equal, limits.tokens_equal),
    ]
    if parity.quality is not None:
        loss = parity.quality.bleu_original - parity.quality.bleu_bundle
        failures.append(_too_high("the loss of BLEU is", round(loss, 2), limits.bleu_loss))
    return [failure for failure in failures if failure]


def _too_low(what: str, share: float, limit: float | None) -> str:
    if limit is None or share >= limit:
        return ""
    return f"{what} {share:.1%}, below {limit:.1%}"


def _too_high(what: str, value: float, limit: float | None) -> str:
    if limit is None or value <= limit:  # NaN exceeds every limit
        return ""
    return f"{what} {value:.3g}, above {limit:.3g}"
