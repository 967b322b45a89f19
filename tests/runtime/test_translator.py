"""The Python API on the default model."""

import asyncio
import copy
import itertools
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tolerances import int8_rounding, log_probability_rounding, score_rounding, sum_rounding

from seq2edge import Translation, Translator
from seq2edge.errors import BundleError, TextTooLongError, UsageError

SUBJECTS = ["I", "You", "We", "They", "My brother and I", "The children"]
VERBS = ["saw", "bought", "forgot", "found", "wanted to read", "couldn't open"]
OBJECTS = ["a dog.", "the old book on the table.", "it!", "two bottles of milk yesterday.", "the red car?", "nothing."]
SENTENCES = [" ".join(words) for words in itertools.product(SUBJECTS, VERBS, OBJECTS)]  # 216 of many lengths
PARAGRAPH = "I have a dog. " * 80 + "Where is the station? " * 80  # more tokens than the model has positions

# The last digit of a float32 depends on how many rows are computed together, and where an activation lies between two
# integers of the int8 model, that digit decides which it becomes: one step of 127 in one of thousands of numbers.
INT8_ROUNDING = log_probability_rounding(int8_rounding(width=256, size=10))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_what_a_text_becomes_does_not_depend_on_its_mates(translator: Translator, num_beams: int) -> None:
    together = translator.translate(SENTENCES, num_beams=num_beams)
    for text, result in list(zip(SENTENCES, together, strict=True))[:: 1 if num_beams == 1 else 3]:
        [alone] = translator.translate([text], num_beams=num_beams)
        assert alone.tokens == result.tokens
        assert alone.score == pytest.approx(result.score, abs=score_rounding(len(result.tokens), INT8_ROUNDING))


def test_the_order_of_texts_changes_nothing(translator: Translator) -> None:
    forward = translator.translate(SENTENCES[:60], num_beams=1)
    assert [one.tokens for one in translator.translate(SENTENCES[59::-1], num_beams=1)] == [
        one.tokens for one in forward[::-1]
    ]


def test_results_carry_the_log_probability_of_every_token(translator: Translator) -> None:
    [result] = translator.translate(["I have a dog."], num_beams=1)
    assert len(result.token_scores) == len(result.tokens)
    assert sum(result.token_scores) == pytest.approx(result.score)


def test_the_options_of_the_last_call_are_not_mistaken_for_others(translator: Translator) -> None:
    lengths = [len(translator.translate([PARAGRAPH], num_beams=1, max_new_tokens=n)[0].tokens) for n in (1, 2, 2, 1)]
    assert lengths == [160, 320, 320, 160]
    for wrong in (1.0, True):
        with pytest.raises(UsageError):
            translator.translate(["Hi."], num_beams=wrong, max_new_tokens=1)


class TestLongText:
    def test_it_is_split_at_sentence_ends_and_joined_again(self, translator: Translator) -> None:
        [result] = translator.translate([PARAGRAPH], num_beams=1)
        dog, station = (
            one.text for one in translator.translate(["I have a dog.", "Where is the station?"], num_beams=1)
        )
        assert result.text == " ".join([dog] * 80 + [station] * 80)
        assert result.sentences == result.parts == 160
        assert result.notes == ("has 160 sentences",)
        [whole] = translator.translate([PARAGRAPH], num_beams=1, split="none")
        assert (whole.text, whole.sentences, whole.parts) == (result.text, 1, 160)
        assert any("split into 160 parts" in note for note in whole.notes)

    def test_its_score_is_that_of_all_parts(self, translator: Translator) -> None:
        [result] = translator.translate([PARAGRAPH], num_beams=1)
        assert result.score == pytest.approx(sum(result.token_scores))
        [beamed] = translator.translate([PARAGRAPH], num_beams=2, length_penalty=0.5)
        assert beamed.score == pytest.approx(sum(beamed.token_scores) / len(beamed.token_scores) ** 0.5)

    def test_text_without_sentence_ends_is_split_as_well(self, translator: Translator) -> None:
        [result] = translator.translate(["dog " * 1000], num_beams=1, max_new_tokens=4)
        assert result.parts > 1

    def test_it_is_refused_on_request(self, translator: Translator) -> None:
        with pytest.raises(TextTooLongError, match=r"text 2 has .*--long split"):
            translator.translate(["Good morning.", PARAGRAPH], long="error", split="none")

    @pytest.mark.parametrize("num_beams", [1, 2])
    def test_its_parts_are_drawn_apart(self, translator: Translator, num_beams: int) -> None:
        text = "The weather is nice and I want to go home with my friends. " * 50
        lengths = {"min_new_tokens": 4, "max_new_tokens": 4}
        options = {"do_sample": True, "seed": 3, "temperature": 4.0, "num_beams": num_beams, **lengths}
        [result] = translator.translate([text], **options)
        assert len(np.unique(np.reshape(result.tokens, (-1, 4)), axis=0)) > 10
        stream = translator.stream(text, **options)
        assert "".join(stream) == result.text
        assert stream.translation.tokens == result.tokens

    def test_it_is_cut_on_request_and_says_so(self, translator: Translator) -> None:
        [result] = translator.translate([PARAGRAPH], long="truncate", split="none", num_beams=1, max_new_tokens=8)
        assert result.truncated
        assert result.parts == 1
        assert "lost its end" in result.notes[0]

    def test_the_number_of_a_refused_text_counts_through_a_stream(self, translator: Translator) -> None:
        texts = ["Hi."] * 5 + [PARAGRAPH]
        with pytest.raises(TextTooLongError, match="text 6 has"):
            list(translator.translate_iter(texts, at_once=2, long="error", split="none", num_beams=1))


class TestSentences:
    """Every sentence of a text is translated by itself, because the model was trained on single ones."""

    TEXT = "Good morning. See you tomorrow.\r\n\r\n  I have a dog!\tWhere is the station?"
    SENTENCES = ("Good morning.", "See you tomorrow.", "I have a dog!", "Where is the station?")
    SPACES = ("", " ", "\r\n\r\n  ", "\t")

    def joined(self, results: list[Translation]) -> str:
        return "".join(space + one.text for space, one in zip(self.SPACES, results, strict=True))

    @pytest.mark.parametrize("num_beams", [1, 4])
    def test_all_are_translated_and_white_space_is_kept(self, translator: Translator, num_beams: int) -> None:
        [result] = translator.translate([f" {self.TEXT}\n"], num_beams=num_beams)
        alone = translator.translate(self.SENTENCES, num_beams=num_beams)
        assert result.text == self.joined(alone)
        assert result.tokens == tuple(token for one in alone for token in one.tokens)
        assert (result.sentences, result.parts, result.notes) == (4, 4, ("has 4 sentences",))

    def test_every_method_splits_alike(self, translator: Translator, tmp_path: Path) -> None:
        [result] = translator.translate([self.TEXT], num_beams=1)
        assert list(translator.translate_iter([self.TEXT], num_beams=1)) == [result]
        stream = translator.stream(self.TEXT, num_beams=1)
        assert "".join(stream) == result.text
        assert stream.translation.tokens == result.tokens
        assert stream.translation.notes == result.notes
        line = " ".join(self.SENTENCES)
        (tmp_path / "in").write_text(line + "\n", encoding="utf-8")
        assert translator.translate_file(tmp_path / "in", tmp_path / "out", num_beams=1).sentences == 4
        [expected] = translator.translate([line], num_beams=1)
        assert (tmp_path / "out").read_text(encoding="utf-8") == expected.text + "\n"

    def test_neighbours_change_nothing(self, translator: Translator) -> None:
        texts = [*SENTENCES[:30], self.TEXT, " ".join(SENTENCES[:9]), ""]
        alone = [translator.translate([text], num_beams=1)[0] for text in texts]
        assert [one.tokens for one in translator.translate(texts, num_beams=1)] == [one.tokens for one in alone]

    def test_they_can_be_kept_together(self, translator: Translator) -> None:
        [result] = translator.translate([self.TEXT], split="none", num_beams=1)
        assert (result.sentences, result.parts) == (1, 1)
        with pytest.raises(UsageError, match="split is 'words'"):
            translator.translate([self.TEXT], split="words")

    def test_alternatives_join_those_of_the_same_rank(self, translator: Translator) -> None:
        [result] = translator.translate([self.TEXT], num_beams=3, num_return_sequences=3)
        alone = translator.translate(self.SENTENCES, num_beams=3, num_return_sequences=3)
        for rank, alternative in enumerate(result.alternatives):
            assert alternative.text == self.joined([one.alternatives[rank] for one in alone])
            assert alternative.score == pytest.approx(sum(alternative.token_scores) / len(alternative.token_scores))

    def test_the_alignment_counts_the_tokens_of_the_sentences_before(self, translator: Translator) -> None:
        [result] = translator.translate([self.TEXT], num_beams=1, attention="all")
        alone = translator.translate(self.SENTENCES, num_beams=1, attention="all")
        source, target, expected = 0, 0, []
        for one in alone:
            expected += [(source + i, target + j) for i, j in one.alignment]
            source, target = source + len(one.attention.source), target + len(one.attention.target)
        assert result.alignment == tuple(expected)

    def test_a_prefix_is_that_of_the_first_one(self, translator: Translator) -> None:
        [result] = translator.translate([self.TEXT], prefixes=["Olá"], num_beams=1)
        assert result.text.count("Olá") == 1
        assert result.text.startswith("Olá")

    def test_pairs_to_score_are_not_split(self, translator: Translator) -> None:
        source, target = "Good morning. See you tomorrow.", "Bom dia. Até amanhã."
        [score] = translator.score([source], [target])
        assert score.tokens == tuple(translator.tokenizer.encode_target([target])[0])

    @pytest.mark.parametrize("text", [". " * 2000, "?!" * 2000, "\r\n" * 5000, "😀" * 300, "a" * 3000])
    def test_text_without_sentences_is_translated_as_well(self, translator: Translator, text: str) -> None:
        [result] = translator.translate([text], num_beams=1, max_new_tokens=2)
        assert result.sentences == 1


def test_unknown_characters_are_counted(translator: Translator) -> None:
    plain, odd = translator.translate(["I have a dog.", "I have a ☃☃ and a ᚠ."], num_beams=1)
    assert plain.unknown == 0
    assert odd.unknown == 3
    assert any("3 characters" in note for note in odd.notes)


def test_a_loop_is_flagged(translator: Translator) -> None:
    def always_seven(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.where(np.arange(scores.shape[1]) == 7, scores, -np.inf)

    [result] = translator.translate(["I have a dog."], hook=always_seven, max_new_tokens=20, num_beams=1)
    assert result.repeats
    assert not result.ended
    assert not translator.translate(["I have a dog."])[0].repeats


class TestPrefixes:
    def test_a_translation_begins_with_its_prefix(self, translator: Translator) -> None:
        texts, prefixes = ["I have a dog.", "Good morning.", "Where is Tom?"], ["Nós temos", "", "Onde é que"]
        for num_beams in (1, 3):
            results = translator.translate(texts, prefixes=prefixes, num_beams=num_beams)
            assert all(one.text.startswith(prefix) for one, prefix in zip(results, prefixes, strict=True))
            assert results[1].tokens == translator.translate([texts[1]], num_beams=num_beams)[0].tokens

    def test_the_tokens_after_a_prefix_are_as_likely_as_the_model_says(self, translator: Translator) -> None:
        [result] = translator.translate(["I have a dog."], prefixes=["Nós temos"], num_beams=1)
        [scored] = translator.score(["I have a dog."], [result.text])
        assert result.tokens == scored.tokens
        assert result.token_scores == pytest.approx(scored.token_scores[-len(result.token_scores) :], abs=INT8_ROUNDING)

    def test_a_forced_first_token_stays_first(self, translator: Translator) -> None:
        [tag, *_] = translator.tokenizer.encode_prefix("Ja")
        bom = tuple(translator.tokenizer.encode_prefix("Bom"))
        for prefix, wanted in (("Bom", (tag, *bom)), ("Ja", (tag,)), ("", (tag,))):
            [result] = translator.translate(["Good morning."], prefixes=[prefix], forced_bos_token_id=tag)
            assert result.tokens[: len(wanted)] == wanted
            assert result.tokens[1] != tag
            stream = translator.stream("Good morning.", prefix=prefix, forced_bos_token_id=tag)
            assert "".join(stream) == result.text

    def test_a_stream_of_texts_has_one_for_all(self, translator: Translator) -> None:
        results = translator.translate_iter(iter(SENTENCES[:3]), prefix="Nun", num_beams=1)
        assert all(one.text.startswith("Nun") for one in results)

    def test_one_text_is_not_a_list_of_prefixes(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="one prefix each"):
            translator.translate(["Hi.", "Ho."], prefixes="ab")

    def test_there_are_as_many_as_texts(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="1 prefixes for 2 texts"):
            translator.translate(["Hi.", "Ho."], prefixes=["Na"])

    def test_one_that_leaves_no_room_is_refused(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="the model generates at most 512"):
            translator.translate(["Hi."], prefixes=["cachorro " * 400])


class TestHook:
    def test_it_knows_the_text_of_each_row(self, translator: Translator) -> None:
        seen: set[int] = set()

        def look(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
            seen.update(sentences.tolist())
            return scores

        hooked = translator.translate(["I have a dog.", "", "Where is the station?"], hook=look)
        assert seen == {0, 2}
        assert [one.tokens for one in hooked] == [
            one.tokens for one in translator.translate(["I have a dog.", "", "Where is the station?"])
        ]

    def test_it_may_call_the_translator_although_all_workers_are_busy(self) -> None:
        def scoring(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
            several.score(["Hello."], ["Olá."])
            return scores

        with Translator(threads=1, workers=2) as several:
            results = several.translate(SENTENCES, num_beams=1, max_new_tokens=2, hook=scoring)
        assert len(results) == len(SENTENCES)


class TestStream:
    @pytest.mark.parametrize(
        "options", [{"num_beams": 1}, {"num_beams": 4}, {"do_sample": True, "seed": 3, "num_beams": 1}]
    )
    def test_the_pieces_make_the_translation(self, translator: Translator, options: dict[str, int]) -> None:
        for text in [*SENTENCES[::20], PARAGRAPH[:900], "", "☃"]:
            stream = translator.stream(text, **options)
            assert stream.translation is None
            pieces = list(stream)
            [whole] = translator.translate([text], **options)
            assert "".join(pieces) == whole.text
            assert stream.translation is not None
            assert stream.translation.tokens == whole.tokens

    def test_greedy_search_gives_many_pieces_and_beam_search_some_before_the_end(self, translator: Translator) -> None:
        text = "Yesterday my brother wanted to buy a new car, but he forgot his money at home."
        assert len(list(translator.stream(text, num_beams=1))) > 8
        assert any(len(list(translator.stream(text, num_beams=3))) > 1 for text in SENTENCES)

    def test_a_prefix_comes_first(self, translator: Translator) -> None:
        assert "".join(translator.stream("I have a dog.", prefix="Nós temos")).startswith("Nós temos")

    def test_it_is_one_translation(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="a stream is one translation"):
            translator.stream("I have a dog.", num_beams=3, num_return_sequences=2)

    def test_it_can_be_left_early(self, translator: Translator) -> None:
        assert next(translator.stream("I have a dog.", num_beams=1))


class TestScore:
    def test_a_translation_has_the_score_that_it_was_found_with(self, translator: Translator) -> None:
        results = translator.translate(SENTENCES[::7], num_beams=1)
        scores = translator.score(SENTENCES[::7], [result.text for result in results])
        same = [(one, two) for one, two in zip(results, scores, strict=True) if one.tokens == two.tokens]
        assert len(same) > 20  # a text may have other tokens than those it was made of
        for result, score in same:
            assert score.score == pytest.approx(result.score, abs=score_rounding(len(result.tokens), INT8_ROUNDING))
            assert score.token_scores == pytest.approx(result.token_scores, abs=INT8_ROUNDING)

    def test_a_better_translation_has_a_better_score(self, translator: Translator) -> None:
        good, bad = translator.score(["I have a dog."] * 2, ["Eu tenho um cachorro.", "Wir hatten eine Katze."])
        assert good.score > bad.score

    def test_there_are_as_many_targets_as_sources(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="2 sources and 1 targets"):
            translator.score(["a", "b"], ["c"])

    def test_a_target_beyond_the_positions_is_refused(self, translator: Translator) -> None:
        with pytest.raises(TextTooLongError, match=r"^target 2 has"):
            translator.score(["a", "b"], ["c", "cachorro " * 1000])
        with pytest.raises(TextTooLongError, match=r"^source 1 has"):
            translator.score(["cachorro " * 1000], ["c"])

    def test_nothing_scores_nothing(self, translator: Translator) -> None:
        assert translator.score([], []) == []


class TestAttention:
    def test_it_comes_on_request_with_an_alignment(self, translator: Translator) -> None:
        [result] = translator.translate(["I have a dog."], attention="all", num_beams=1)
        attention = result.attention
        assert attention is not None
        assert attention.weights.shape == (len(attention.target), len(attention.source))
        assert len(attention.target) == len(result.tokens)
        np.testing.assert_allclose(attention.weights.sum(axis=1), 1, atol=sum_rounding(2 * len(attention.source), 1.0))
        aligned = {(attention.source[i], attention.target[j]) for i, j in attention.alignment}
        assert aligned & {("▁dog", "▁cachorro"), ("▁dog", "▁cão")}
        assert attention.moses == " ".join(f"{i}-{j}" for i, j in attention.alignment)
        assert translator.translate(["I have a dog."])[0].attention is None

    def test_marks_are_not_aligned(self, translator: Translator) -> None:
        [result] = translator.translate(["I have a dog."], attention="all")
        assert result.attention is not None
        assert max(i for i, _ in result.attention.alignment) < len(result.attention.source) - 1
        assert sorted(j for _, j in result.attention.alignment) == list(range(len(result.tokens) - 1))

    def test_heads_can_be_chosen_and_average_to_the_layer(self, translator: Translator) -> None:
        [all_heads] = translator.translate(["I have a dog."], attention="2")
        heads = [translator.translate(["I have a dog."], attention=f"2.{n}")[0] for n in (1, 2, 3, 4)]
        mean = np.mean([one.attention.weights for one in heads], axis=0)
        np.testing.assert_allclose(all_heads.attention.weights, mean, atol=sum_rounding(4, 1.0))

    def test_a_split_text_has_one_attention_in_blocks(self, translator: Translator) -> None:
        [result] = translator.translate([PARAGRAPH], attention="all", num_beams=1)
        assert result.attention.weights.shape == (len(result.tokens), len(result.attention.source))
        assert result.attention.weights[0, 50:].max() == 0

    def test_all_alternatives_have_it(self, translator: Translator) -> None:
        [result] = translator.translate(["I have a dog."], attention="all", num_beams=3, num_return_sequences=3)
        assert all(one.attention.weights.shape[0] == len(one.tokens) for one in result.alternatives)

    @pytest.mark.parametrize("heads", ["9", "1.99", "first", "0", "1.0"])
    def test_heads_that_are_not_there_are_refused(self, translator: Translator, heads: str) -> None:
        with pytest.raises(UsageError, match="attention is"):
            translator.translate(["I have a dog."], attention=heads)


class TestManyAtOnce:
    def test_a_stream_gives_the_same_as_a_list(self, translator: Translator) -> None:
        options = {"do_sample": True, "seed": 5, "num_beams": 1}
        streamed = list(translator.translate_iter(iter(SENTENCES[:50]), at_once=7, **options))
        wanted = translator.translate(SENTENCES[:50], **options)
        assert [one.tokens for one in streamed] == [one.tokens for one in wanted]

    def test_a_stream_is_read_no_further_than_needed(self, translator: Translator) -> None:
        taken = 0

        def endless() -> Iterator[str]:
            nonlocal taken
            for taken in itertools.count(1):
                yield f"I have {taken} dogs."

        for _ in itertools.islice(translator.translate_iter(endless(), at_once=4, num_beams=1), 10):
            pass
        assert taken <= 12

    def test_workers_give_the_same_as_one(self, translator: Translator) -> None:
        with Translator(threads=1, workers=3) as several:
            for num_beams in (1, 2):
                assert several.translate(SENTENCES, num_beams=num_beams) == translator.translate(
                    SENTENCES, num_beams=num_beams
                )
            assert several.score(SENTENCES, SENTENCES) == translator.score(SENTENCES, SENTENCES)

    def test_many_threads_may_call_one_translator(self, translator: Translator) -> None:
        wanted = {text: translator.translate([text], num_beams=2)[0].tokens for text in SENTENCES[:24]}
        gate = threading.Barrier(6)

        def work(number: int) -> bool:
            gate.wait()
            texts = SENTENCES[number:24:6]
            scored = translator.score(texts, texts)
            return len(scored) == len(texts) and [one.tokens for one in translator.translate(texts, num_beams=2)] == [
                wanted[text] for text in texts
            ]

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(6)))

    def test_there_is_an_async_form(self, translator: Translator) -> None:
        async def both() -> list[str]:
            results = await asyncio.gather(*(translator.translate_async([text]) for text in SENTENCES[:2]))
            return [one.text for [one] in results]

        assert asyncio.run(both()) == [one.text for one in translator.translate(SENTENCES[:2])]

    def test_the_async_form_draws_the_same(self, translator: Translator) -> None:
        options = {"do_sample": True, "seed": 5, "num_beams": 1, "max_new_tokens": 6}
        prefixes = ["", "Nun"] * 50
        found = asyncio.run(translator.translate_async(SENTENCES[:100], prefixes=prefixes, **options))
        wanted = translator.translate(SENTENCES[:100], prefixes=prefixes, **options)
        assert [one.tokens for one in found] == [one.tokens for one in wanted]

    def test_an_async_call_that_is_cancelled_ends_soon(self, translator: Translator) -> None:
        seen: set[int] = set()

        async def cancelled() -> None:
            begun, loop = asyncio.Event(), asyncio.get_running_loop()

            def look(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
                seen.update(sentences.tolist())
                loop.call_soon_threadsafe(begun.set)
                return scores

            task = asyncio.create_task(translator.translate_async(SENTENCES, num_beams=1, hook=look))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())  # it waits for the thread
        assert 0 < len(seen) <= 64

    def test_what_came_before_an_error_of_the_source_is_translated(self, translator: Translator) -> None:
        def failing() -> Iterator[str]:
            yield from SENTENCES[:5]
            raise RuntimeError("the source broke")

        results = translator.translate_iter(failing(), num_beams=1)
        assert len([next(results) for _ in range(5)]) == 5
        with pytest.raises(RuntimeError, match="the source broke"):
            next(results)

    @pytest.mark.parametrize("texts", [["Hi.", None], [b"Hi."], {"Hi."}, b"Hi.", [["Hi."]]])
    def test_what_is_no_text_gets_one_sentence(self, translator: Translator, texts: object) -> None:
        with pytest.raises(UsageError, match=r"^[^\n]*$"):
            translator.translate(texts)
        with pytest.raises(UsageError, match=r"^[^\n]*$"):
            list(translator.translate_iter(texts if not isinstance(texts, set) else [texts]))

    def test_the_number_of_what_is_no_text_counts_through_a_stream(self, translator: Translator) -> None:
        with pytest.raises(UsageError, match="text 4 is NoneType, but must be str"):
            list(translator.translate_iter(["", "", "", None], at_once=2))


class TestClose:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_closed_translator_refuses_everything(self, tmp_path: Path, workers: int) -> None:
        closed = Translator(threads=1, workers=workers)
        closed.close()
        calls = [
            lambda: closed.translate(["Hi."]),
            lambda: asyncio.run(closed.translate_async(["Hi."])),
            lambda: closed.translate_iter(["Hi."]),
            lambda: closed.translate_groups([["Hi."]]),
            lambda: closed.translate_file(tmp_path / "in.txt", tmp_path / "out.txt"),
            lambda: closed.stream("Hi."),
            lambda: closed.score(["Hi."], ["Ho."]),
        ]
        for call in calls:
            with pytest.raises(UsageError, match="is closed"):
                call()

    def test_what_was_begun_is_finished(self) -> None:
        several, begun = Translator(threads=1, workers=2), threading.Event()

        def look(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
            begun.set()
            return scores

        with ThreadPoolExecutor(1) as other:
            results = other.submit(several.translate, SENTENCES, num_beams=1, max_new_tokens=3, hook=look)
            begun.wait()
            several.close()
            assert len(results.result()) == len(SENTENCES)


class TestFiles:
    def test_a_file_is_translated_line_by_line(self, translator: Translator, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("I have a dog.\n\nGood morning.\n", encoding="utf-8")
        summary = translator.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", num_beams=1)
        wanted = [one.text for one in translator.translate(["I have a dog.", "", "Good morning."], num_beams=1)]
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "".join(line + "\n" for line in wanted)
        assert summary.texts == 3
        assert summary.notes == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: Translator(threads=0),
        lambda: Translator(workers=0),
        lambda: Translator(device="abacus"),
        lambda: Translator(device="cuda"),
        lambda: Translator().translate_iter("Good morning."),
        lambda: Translator().translate_iter(["Hi."], at_once=0),
        lambda: Translator().translate_iter(["Hi."], num_beam=3),
        lambda: Translator().translate_groups([["Hi."]], long="maybe"),
        lambda: Translator().stream(["Hi."]),
        lambda: Translator().translate(["Hi."], long="maybe"),
    ],
)
def test_wrong_use_is_refused_in_one_sentence(call) -> None:
    with pytest.raises(UsageError) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_a_stream_is_for_another_method(translator: Translator) -> None:
    with pytest.raises(UsageError, match="but got generator: use translate_iter for a stream of texts"):
        translator.translate(text for text in SENTENCES)
    with pytest.raises(UsageError, match=r"but got str$"):
        translator.translate("Hello.")


def test_a_result_prints_as_its_text_and_a_call_returns_text(translator: Translator) -> None:
    [first, second] = translator.translate(["Good morning.", "I have a dog."], num_beams=2)
    assert f"{first}" == str(first) == first.text
    assert translator("Good morning.", num_beams=2) == first.text
    assert translator(["Good morning.", "I have a dog."], num_beams=2) == [first.text, second.text]
    assert translator([]) == []


@pytest.mark.parametrize("work", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_translator_tells_what_to_do_instead_of_pickling_it(translator: Translator, work) -> None:
    with pytest.raises(TypeError, match=r"^a Translator cannot be pickled or copied: create one in each process"):
        work(translator)


@pytest.mark.parametrize("options", [{"num_beams": 2000}, {"num_return_sequences": 5000, "do_sample": True}])
def test_more_beams_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch, options: dict) -> None:
    options = {"num_beams": 1, **options}
    monkeypatch.setenv("SEQ2EDGE_MEMORY_LIMIT", "100")  # megabytes
    small = Translator(threads=1)
    for call in (lambda: small.translate(["Hi."], **options), lambda: small.translate_iter(["Hi."], **options)):
        with pytest.raises(UsageError, match=r"which takes at least \d\.\d GB of memory for one sentence"):
            call()
    assert small.translate(["Hi."], num_beams=20)


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not a bundle"):
        Translator(tmp_path)


def test_alternatives_that_do_not_exist_are_left_out_with_a_note(translator: Translator) -> None:
    def only_two_tokens(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        scores[:, [column for column in range(scores.shape[1]) if column not in (5, 6)]] = -np.inf
        return scores

    options = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 1}
    [result] = translator.translate(["I have a dog."], hook=only_two_tokens, **options)
    assert {result.tokens, *(other.tokens for other in result.alternatives)} == {(5,), (6,)}
    assert all(one.score > -1e6 for one in (result, *result.alternatives))
    assert "has 2 fewer alternatives than requested" in result.notes
