"""Search once more with beams, and keep every candidate with what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seq2edge.config.generation import GenerationOptions
from seq2edge.search import BatchContext, DecoderState, Hypothesis, prefix_block
from seq2edge.search.beam import SearchStep, beam_steps
from seq2edge.search.hypothesis import UNREACHED, BatchHypotheses

# kept: continued by the next step; finished: a hypothesis; worse: it ended, but there are better ones; pruned: better
# candidates took its place; stopped: kept, but the search ended here
Fate = Literal["kept", "finished", "worse", "pruned", "stopped"]


@dataclass(frozen=True, kw_only=True)
class TreeNode:
    """A candidate: one token that continues a beam."""

    parent: int  # the beam that it continues, counted from the best of the step before
    token: int
    token_score: float
    score: float  # of the whole beam: the sum of its token scores
    fate: Fate
    beam: int | None  # its rank among the beams of the next step
    best: bool  # whether the translation has it


@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """The candidates of each step, and the hypotheses that were found; the best come first."""

    steps: tuple[tuple[TreeNode, ...], ...]
    hypotheses: tuple[Hypothesis, ...]


def grow_tree(
    state: DecoderState, prefix: Sequence[int], options: GenerationOptions, context: BatchContext
) -> BeamTree:
    """Search for the translation of one sentence as ``search`` does."""
    finished, recorder = BatchHypotheses(1, options.num_beams), _Recorder()
    recorder.finished = finished
    for _ in beam_steps(state, prefix_block([prefix], options), finished, options, context, recorder.observe):
        pass
    hypotheses = tuple(finished[0].hypotheses)
    return BeamTree(steps=recorder.steps_towards(hypotheses[0]), hypotheses=hypotheses)


class _Recorder:
    """Keep the candidates of each step with their tokens so far."""

    finished: BatchHypotheses

    def __init__(self) -> None:
        self.steps: list[list[tuple[TreeNode, list[int]]]] = []

    def observe(self, step: SearchStep) -> None:
        candidates, running, start = step.candidates, step.running, step.candidates.before
        beams = {
            (int(parent), int(tokens[-1])): rank
            for rank, (parent, tokens, score) in enumerate(
                zip(running.continued[0], running.tokens[0], running.scores[0], strict=True)
            )
            if score > UNREACHED / 2
        }
        ended_here = [one.tokens for one in self.finished[0].hypotheses if len(one.tokens) == candidates.generated]
        nodes = []
        for column in range(candidates.tokens.shape[1]):
            score = float(candidates.scores[0, column])
            if score < UNREACHED / 2:  # continues a beam that does not exist
                continue
            parent, token = int(candidates.parents[0, column]), int(candidates.tokens[0, column])
            path = [*start.tokens[0, parent, start.length - start.generated :].tolist(), token]
            beam, ended = beams.get((parent, token)), bool(step.ended[0, column])
            fate: Fate = "kept" if beam is not None else "pruned"
            if ended:
                fate, beam = "finished" if path in ended_here else "worse", None
            token_score = float(candidates.token_scores[0, column])
            node = TreeNode(
                parent=parent, token=token, token_score=token_score, score=score, fate=fate, beam=beam, best=False
            )
            nodes.append((node, path))
        self.steps.append(nodes)

    def steps_towards(self, best: Hypothesis) -> tuple[tuple[TreeNode, ...], ...]:
        """Mark the nodes of the translation, and the beams that were left when the search ended."""
        last = len(self.steps) - 1
        return tuple(
            tuple(
                replace(
                    node,
                    fate="stopped" if number == last and node.fate == "kept" else node.fate,
                    best=path == best.tokens[: len(path)],
                )
                for node, path in nodes
            )
            for number, nodes in enumerate(self.steps)
        )
