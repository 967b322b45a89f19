"""The first files of a run; needs torch."""

from seq2edge.files import replaced_file
from seq2edge.generation import GenerationOptions
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training.job import Job
from seq2edge_export.training.learner import Learner
from seq2edge_export.training.saving import saving
from seq2edge_export.training.state import Progress, save_state
from seq2edge_export.training.tokenizer import TOKENS


def start(job: Job, models: dict[str, bytes]) -> CheckpointConfig:
    """Make the folder as it is before the first update; ``models`` are the vocabulary files.

    The state is written last: a run that is killed in here leaves a folder that the next one may start again.
    """
    config = _config(job, list(models))
    learner = Learner(job.shape, job.training, TOKENS)
    with saving(job.output):
        job.work.mkdir(parents=True, exist_ok=True)
        for name, content in models.items():
            with replaced_file(job.output / name) as new:
                new.write_bytes(content)
        checkpoint.save_config(job.output, config, _generation(job))
        save_state(job.state, Progress(), learner.model, learner.optimizer, job.settings)
    return config


def _config(job: Job, tokenizers: list[str]) -> CheckpointConfig:
    return CheckpointConfig(
        format_version=checkpoint.FORMAT_VERSION,
        architecture=job.shape,
        tokens=TOKENS,
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[-1],
        source_language=job.source_language,
        target_language=job.target_language,
        license=job.license,
        attribution=job.attribution,
    )


def _generation(job: Job) -> GenerationOptions:
    return GenerationOptions(
        decoder_start_token_id=TOKENS.bos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=4,
        max_new_tokens=min(256, job.model.max_positions),
    )
