"""The page of ``seq2edge explain`` in a real browser; screenshots are kept in build/explain."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2edge import Translator
from seq2edge.explain.comparison import compare
from seq2edge.explain.explanation import Explanation, explain
from seq2edge.explain.report import write_report

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "explain"
VECTORS = ROOT / "tests" / "vectors"
TEXT = "The old man sees a red house."
SECTIONS = ["pieces", "positions", "encoder", "decoder", "cross", "masks", "steps", "cache", "tree", "times"]


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(Translator(threads=1), TEXT)


@pytest.fixture(scope="module")
def pair() -> list[Explanation]:
    return [explain(Translator(VECTORS / name, threads=1), TEXT, split="none") for name in ("append", "recurrent")]


@pytest.fixture(scope="module")
def page(browser: Any, explained: Explanation, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return opened(browser, [explained], tmp_path_factory.mktemp("page") / "report.html")


def opened(browser: Any, explanations: list[Explanation], path: Path) -> Any:
    write_report(explanations, path)
    browser.get_log("performance"), browser.get_log("browser")
    browser.set_window_size(1200, 900)
    browser.get(path.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
    return browser


def screenshot(browser: Any, name: str, width: int, height: int) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def hover(browser: Any, kind: str, row: int, column: int) -> str:
    """Move to a cell of a map with the arrow keys, and return what is said about it."""
    from selenium.webdriver import Keys

    canvas = browser.find_element("css selector", f"#{kind} .map canvas")
    browser.execute_script("arguments[0].focus()", canvas)
    canvas.send_keys(Keys.ARROW_UP * 99 + Keys.ARROW_LEFT * 99)
    canvas.send_keys(Keys.ARROW_DOWN * row + Keys.ARROW_RIGHT * column)
    return browser.find_element("css selector", f"#{kind} output").text


def test_the_page_has_every_section_and_no_error(page: Any) -> None:
    assert [one.get_attribute("id") for one in page.find_elements("css selector", "main section")] == SECTIONS
    assert page.get_log("browser") == []
    height = page.execute_script("return document.documentElement.scrollHeight")
    screenshot(page, "light", 1200, height)
    page.find_element("id", "theme").click()
    screenshot(page, "dark", 1200, height)
    page.find_element("id", "theme").click()


def test_the_page_requests_nothing(page: Any, tmp_path: Path, explained: Explanation) -> None:
    opened(page, [explained], tmp_path / "report.html")
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]
    assert requested == [(tmp_path / "report.html").as_uri()]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_head_can_be_read_with_the_keyboard(page: Any, explained: Explanation, kind: str) -> None:
    [maps] = [one for one in explained.replay.attention if one.kind == kind]
    layers, heads, rows, columns = maps.weights.shape
    buttons = page.find_elements("css selector", f"#{kind} .heads button")
    assert len(buttons) == layers * heads
    page.execute_script("arguments[0].focus(); arguments[0].click()", buttons[-1])
    row, column = np.unravel_index(int(maps.weights[-1, -1].argmax()), (rows, columns))
    said = hover(page, kind, int(row), int(column))
    assert said.startswith(f"Layer {layers}, head {heads}: ")
    assert f"weight {maps.weights[-1, -1, row, column]:.4f}, score {maps.scores[-1, -1, row, column]:.2f}" in said


def test_a_map_can_be_hovered_over(page: Any, explained: Explanation) -> None:
    from selenium.webdriver import ActionChains

    canvas = page.find_element("css selector", "#cross .map canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    ActionChains(page).move_to_element(canvas).perform()
    assert "weight" in page.find_element("css selector", "#cross output").text


def test_masked_cells_say_so(page: Any, explained: Explanation) -> None:
    assert hover(page, "decoder", 0, 1).endswith("hidden by the mask")
    if explained.replay.padded_length > len(explained.source):
        assert hover(page, "encoder", 0, explained.replay.padded_length - 1).endswith("hidden by the mask")


def bars(page: Any) -> dict[int, str]:
    script = (
        "return [...document.querySelectorAll('#steps dt[data-token]')]"
        ".map((one) => [one.dataset.token, one.nextElementSibling.nextElementSibling.textContent])"
    )
    return {int(token): text for token, text in page.execute_script(script)}


def move_slider(page: Any, name: str, value: float) -> None:
    script = (
        "const input = document.getElementById(arguments[0]); input.value = arguments[1]; "
        "input.dispatchEvent(new Event('input'))"
    )
    page.execute_script(script, name, value)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.75])
def test_the_probabilities_are_exact_at_every_temperature(
    page: Any, explained: Explanation, temperature: float
) -> None:
    for number, (step, logits) in enumerate(zip(explained.steps, explained.replay.logits, strict=True)):
        move_slider(page, "step-of-words", number + 1)
        move_slider(page, "temperature", temperature)
        scaled = logits.astype(np.float64) / temperature
        shares = np.exp(scaled - scaled.max())
        shares /= shares.sum()
        expected = {
            token: "< 0.01 %" if 0 < shares[token] < 5e-5 else f"{100 * shares[token]:.2f} %" for token in step.tokens
        }
        assert bars(page) == expected


def test_the_cache_grows_with_the_step(page: Any, explained: Explanation) -> None:
    for step in (0, len(explained.steps) - 1):
        move_slider(page, "step-of-cache", step + 1)
        assert f"{explained.replay.cache.bytes[step]:,} bytes for one row" in page.find_element("id", "cache").text
        filled = page.find_elements("css selector", "#cache tbody tr:first-child td[title^=norm]")
        assert len(filled) == step + 1


def test_the_tree_is_walked_with_the_arrow_keys(page: Any, explained: Explanation) -> None:
    from selenium.webdriver import Keys

    assert explained.tree is not None
    node = page.find_element("css selector", "#tree g[tabindex='0']")
    page.execute_script("arguments[0].focus()", node)
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    second = explained.tree.steps[1][1]
    said = page.find_element("css selector", "#tree output").text
    assert said.startswith(f"Step 2, candidate 2: “{explained.pieces[second.token]}”")
    assert f"sum {second.score:.4f}" in said
    nodes = page.find_elements("css selector", "#tree svg g[aria-label^=Step]")
    assert len(nodes) == sum(map(len, explained.tree.steps))
    assert len(page.find_elements("css selector", "#tree svg path.best")) == len(explained.translation.tokens)
    assert f"score {explained.translation.score:.4f}" in page.find_element("css selector", "#tree li").text


def test_controls_have_names(page: Any) -> None:
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    interactive = {"button", "slider", "link", "application"}
    unnamed = [
        node
        for node in tree
        if not node["ignored"] and node["role"]["value"] in interactive and not node.get("name", {}).get("value")
    ]
    assert unnamed == []


@pytest.mark.parametrize("width", [360, 768])
def test_a_phone_scrolls_only_downwards(page: Any, width: int) -> None:
    size = {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert page.execute_script("return document.documentElement.scrollWidth") == width
    screenshot(page, f"phone-{width}", width, page.execute_script("return document.documentElement.scrollHeight"))
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_two_models_stand_beside_each_other(browser: Any, pair: list[Explanation], tmp_path: Path) -> None:
    page = opened(browser, pair, tmp_path / "report.html")
    difference = compare(*pair)
    assert difference.parted is not None
    assert f"The models part at step {difference.parted + 1}:" in page.find_element("id", "verdict").text
    assert page.find_elements("css selector", ".chips .parted")
    assert page.find_elements("css selector", "#steps p.parted")
    assert "recurrent cells (SSRU)" in page.find_element("id", "top").text
    assert "This model has none." in page.find_element("id", "decoder").text
    marks = page.find_elements("css selector", "#encoder .heads button")
    assert all("Δ" in one.text for one in marks)
    assert page.get_log("browser") == []
    screenshot(page, "beside", 1280, page.execute_script("return document.documentElement.scrollHeight"))
