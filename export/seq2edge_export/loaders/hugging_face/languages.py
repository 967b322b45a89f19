"""Find the languages of multilingual models (mBART, M2M100, NLLB), whose tokenizers have a tag for each.

A ``tokenizer.json`` contains the tags. With a SentencePiece model alone, their ids follow from the order of the lists
below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import Pattern

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages, SourceTag, TargetTag
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.hugging_face.config import TOKENIZER, HuggingFaceConfig, Settings
from seq2edge_export.loaders.hugging_face.tokenizer import (
    BOS,
    FAIRSEQ,
    FAIRSEQ_OFFSET,
    UNK,
    HuggingFaceText,
    check_special_tokens,
    pieces_tokenization,
    sentencepiece_ids,
    token_ids,
    tokenizers_tokenization,
)

PIECES = "sentencepiece.bpe.model"


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """The language tags of a family, and the position of the source tag."""

    pattern: Pattern[str]
    known: Sequence[str]
    source: str  # the default source language
    source_tag: SourceTag


def read_fairseq_text(
    folder: Path, config: HuggingFaceConfig, generation: GenerationOptions, settings: Settings, tagging: Tagging
) -> HuggingFaceText:
    """Read the tokens and tags from ``tokenizer.json``, or from a SentencePiece model followed by the known tags."""
    if (folder / TOKENIZER).is_file():
        ids = token_ids(folder / TOKENIZER)
        codes = {token: ids[token] for token in sorted(ids, key=ids.__getitem__) if tagging.pattern.fullmatch(token)}
        tokenization = tokenizers_tokenization(folder / TOKENIZER)
    else:
        ids = sentencepiece_ids(folder / PIECES, FAIRSEQ, first=3, offset=FAIRSEQ_OFFSET)
        codes = {code: max(ids.values()) + 1 + index for index, code in enumerate(tagging.known)}
        tokenization = pieces_tokenization(folder / PIECES, ids | codes, (ids[UNK], *codes.values()))
    check_special_tokens(ids, config.eos)
    languages = find_languages(settings, codes, generation, tagging, bos=ids.get(BOS))
    return HuggingFaceText(tokenization=tokenization, unk=ids[UNK], bos=ids.get(BOS), languages=languages)


def find_languages(
    settings: Settings,
    codes: Mapping[str, int],
    generation: GenerationOptions,
    tagging: Tagging,
    *,
    bos: int | None = None,
) -> Languages:
    """Return the languages with the ids of their tags; the target tag starts the decoder if no other token does."""
    if not codes:
        raise CheckpointError("the tokenizer has no language tags, which this family needs")
    start = generation.decoder_start_token_id
    target_tag: TargetTag = "start" if start in codes.values() or start == bos else "first"
    sources = (str(settings.get("src_lang")), tagging.source, *codes)
    named = {number: code for code, number in codes.items()}
    forced = start if target_tag == "start" else generation.forced_bos_token_id
    targets = (named.get(-1 if forced is None else forced, ""), str(settings.get("tgt_lang")))
    return Languages(
        source=next(code for code in sources if code in codes),
        target=next((code for code in targets if code in codes), ""),
        codes=dict(codes),
        source_tag=tagging.source_tag,
        target_tag=target_tag,
    )


def _split(codes: str) -> tuple[str, ...]:
    return tuple(codes.split())


MBART = _split(
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP "
    "nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
MBART50 = MBART + _split(
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE "
    "ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
M2M100 = _split(
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
    "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro "
    "ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
WMT21 = _split("en ha is ja cs ru zh de")
NLLB = _split(
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn"
)
