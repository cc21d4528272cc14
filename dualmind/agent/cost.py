"""What an answer costs, in floating-point operations: counted from sizes, so that it does not depend on the machine."""

from dualmind.models.config import CompactConfig, ReasonerConfig

_MULTIPLY_ADD = 2


def encoder_flops(config: CompactConfig, words: int) -> int:
    """Reading a prompt of so many words: projections, attention, feed-forward layers and the stem."""
    d, layers = config.d_model, config.encoder_layers
    attention = 4 * d * d * words + 2 * words * words * d
    feed_forward = 2 * d * config.d_ff * words
    routers = (layers // 2) * config.num_experts * d * words
    return _MULTIPLY_ADD * (layers * (attention + feed_forward) + routers + config.stem_width * d * words)


def levels_flops(config: ReasonerConfig, words: int, steps: int) -> int:
    """The four levels over a prompt of so many words, with so many reasoning steps."""
    d, slots = config.d_model, config.num_slots
    feed_forward = 2 * d * config.d_ff
    look = 2 * words * d * d  # keys and values of the input, once a level
    read = 2 * slots * d * d + 2 * slots * words * d
    mix = 4 * slots * d * d + 2 * slots * slots * d
    conclude = d * config.vocab_size + d
    total = config.concept * (look + read + slots * feed_forward) + config.relation * (mix + slots * feed_forward)
    total += config.reasoning * (look + steps * (read + mix + slots * feed_forward + conclude))
    total += config.verification * ((2 * words + 2) * d * d + 2 * words * d + feed_forward + d)
    return _MULTIPLY_ADD * total


def writing_flops(config: CompactConfig, memory: int, written: int) -> int:
    """Writing so many words (the end counts) after a memory of so many positions, with a cache."""
    d, layers = config.d_model, config.decoder_layers
    once = layers * 2 * memory * d * d  # keys and values of the memory
    per_word = layers * (4 * d * d + 2 * d * d + 2 * memory * d + 2 * d * config.d_ff) + d * config.vocab_size
    per_word += (layers // 2) * config.num_experts * d
    own = layers * 2 * d * written * (written + 1) // 2  # attention to what was written
    return _MULTIPLY_ADD * (once + per_word * written + own)


def scoring_flops(config: CompactConfig, memory: int, commands: int) -> int:
    """Scoring so many commands, one position each."""
    d, layers = config.d_model, config.decoder_layers
    once = layers * 2 * memory * d * d
    per_command = layers * (2 * d * d + 2 * d * d + 2 * memory * d + 2 * d * config.d_ff) + d
    per_command += (layers // 2) * config.num_experts * d
    return _MULTIPLY_ADD * (once + per_command * commands)
