"""Check the tokenizer files and special tokens of a recipe."""

from dataclasses import asdict
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import DataError
from seq2edge.text.tokenizer import load_tokenizer
from seq2edge_export.loaders.recipe.config import Recipe


def tokenizer_problems(
    recipe: Recipe, tokenization: Tokenization, files: dict[str, Path], architecture: Architecture
) -> list[str]:
    """List the vocabulary files that cannot be read or have more tokens than the model."""
    try:
        tokenizer = load_tokenizer(tokenization, recipe.tokens, files)
    except DataError as error:
        return [str(error)]
    sides = (
        (recipe.tokenizer.source, tokenizer.source, architecture.source_vocabulary),
        (recipe.tokenizer.target, tokenizer.target, architecture.target_vocabulary),
    )
    return [
        f"{name} has {vocabulary.get_piece_size()} tokens, but the model has {size}"
        for name, vocabulary, size in sides
        if vocabulary.get_piece_size() > size
    ]


def token_problems(recipe: Recipe, architecture: Architecture) -> list[str]:
    """List the ids of special tokens that are not in both vocabularies."""
    smallest = min(architecture.source_vocabulary, architecture.target_vocabulary)
    return [
        f"tokens.{name} is {number}, but the ids of the model are 0 to {smallest - 1}"
        for name, number in asdict(recipe.tokens).items()
        if number is not None and not 0 <= number < smallest
    ]
