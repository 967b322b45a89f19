"""The t5 family: T5, FLAN-T5 and mT5 of Hugging Face; needs torch."""

from pathlib import Path

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge.generation import GenerationOptions
from seq2edge.tokens import SpecialTokens
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.hugging_face.folder import CONFIG, Settings, model_type
from seq2edge_export.hugging_face.generation import read_generation
from seq2edge_export.hugging_face.loading import Text, about_model
from seq2edge_export.hugging_face.weights import read_weights
from seq2edge_export.json_object import read_object
from seq2edge_export.model import without_weights
from seq2edge_export.placing import fill, tensor_problems
from seq2edge_export.recipe.files import tokenizer_files
from seq2edge_export.state_dict import Tensors
from seq2edge_export.t5.places import LEFT_OUT, places
from seq2edge_export.t5.shape import BY_TYPE, end_of, setting_problems, shape_of, with_defaults
from seq2edge_export.t5.text import read_text


def recognises(path: Path) -> bool:
    return model_type(path) in (*BY_TYPE, "umt5")


def load_t5(path: Path) -> Checkpoint:
    """Read a folder of transformers; whatever our model cannot do is in one error."""
    if model_type(path) not in BY_TYPE:
        raise CheckpointError(f"{path} is not T5 or mT5 (umt5 has a relative bias in every layer; ours has one)")
    config, state = with_defaults(read_object(path / CONFIG)), read_weights(path)
    problems = setting_problems(config)
    generation = read_generation(path, config, problems)
    text = read_text(path, config, problems)
    shape = _shape(config, state, generation, problems)
    if problems or text is None or generation is None or shape is None:
        raise CheckpointError(f"{path} has what the family t5 cannot express: {'; '.join(problems)}")
    model = without_weights(shape)
    fill(model, places(shape, state), state)
    rules, files = tokenizer_files(text.rules, path)
    about = about_model(path, shape, _tokens(config, text), rules, text.languages, config)
    return Checkpoint("t5", about, generation, model.eval(), rules, files)


def _shape(
    config: Settings, state: Tensors, generation: GenerationOptions | None, problems: list[str]
) -> Architecture | None:
    """The shape, if there can be one; what tensors do not fit it is added to ``problems``."""
    if problems:
        return None
    try:
        shape = shape_of(config, state, longest=generation.longest(1) - 1 if generation else 1)
    except (TypeError, ValueError) as error:
        problems.append(f"{CONFIG} describes no Transformer: {error}")
        return None
    problems += tensor_problems(state, places(shape, state), without_weights(shape), ignored=LEFT_OUT)
    return shape


def _tokens(config: Settings, text: Text) -> SpecialTokens:
    """T5 begins its outputs with padding."""
    bos = config["decoder_start_token_id"]
    return SpecialTokens(pad=config["pad_token_id"], bos=bos, eos=end_of(config), unk=text.unk)
