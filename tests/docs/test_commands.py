"""Every command and example of the README, the tutorials and the API runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import Reader, blocks_of

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *TUTORIALS, ROOT / "docs" / "reference" / "api.md"]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    (tmp_path / "models").symlink_to(ROOT / "models")
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(page: Path, reader: Reader) -> None:
    blocks = blocks_of(page)
    assert blocks
    if page.name == "README.md":  # tutorials make their data
        (reader.folder / "data").mkdir()
        (reader.folder / "data" / "some.jsonl").write_text('{"text": "Good morning."}\n', encoding="utf-8")
    for block in blocks:
        reader.run(block)


def test_tutorials_have_no_block_that_is_neither_run_nor_shown() -> None:
    languages = {block.language for page in TUTORIALS for block in blocks_of(page)}
    assert languages <= {"sh", "pycon", "python", "html"}
    for page in TUTORIALS:
        fences = page.read_text(encoding="utf-8").count("```")
        assert fences == 2 * len(blocks_of(page))
        assert all(block.title for block in blocks_of(page) if block.language == "python")
