"""The page in a real browser: Debian's chromium, driven by selenium."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import started_chromium
from running_server import RunningServer, running_server

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE

pytest.importorskip("selenium")
TEXT = "Good morning! Where is the nearest train station? I would like to buy a ticket to the old town."
WAIT = 30


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started_chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(browser: Any, server: RunningServer) -> Any:
    browser.get_log("browser"), browser.get_log("performance")
    open_page(browser, server.url)
    browser.execute_script("localStorage.clear()")
    open_page(browser, server.url)
    return browser


def open_page(browser: Any, url: str) -> None:
    browser.set_window_size(1180, 820)
    browser.get(url)
    wait(browser, lambda: browser.execute_script("return document.getElementById('from').options.length"))


def wait(browser: Any, found: Callable[[], Any]) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, WAIT).until(lambda _: found())


def element(page: Any, name: str) -> Any:
    return page.find_element("id", name)


def type_text(page: Any, text: str, translator: Translator) -> str:
    """Type a text and wait for its translation."""
    element(page, "source").send_keys(text)
    expected = translator(text)
    wait(page, lambda: element(page, "target").text == expected and element(page, "speed").text)
    return expected


def test_a_text_is_translated_while_it_is_typed(page: Any, translator: Translator) -> None:
    page.execute_script(
        "window.seen = []; new MutationObserver(() => window.seen.push(document.getElementById('target').textContent))"
        ".observe(document.getElementById('target'), {childList: true, characterData: true, subtree: true})"
    )
    expected = type_text(page, TEXT, translator)
    seen = page.execute_script("return window.seen")
    growing = [text for text in seen if text and text != expected and expected.startswith(text)]
    assert growing, "the translation did not appear piece by piece"
    assert element(page, "notes").text == "3 sentences"
    assert "95 / 200,000" in element(page, "count").text


def test_alternatives_can_be_chosen(page: Any, translator: Translator) -> None:
    type_text(page, "The house is old.", translator)
    first = wait(page, lambda: page.find_elements("css selector", "#list button"))[0]
    text = first.text
    different = [word.text for word in first.find_elements("css selector", "strong")]
    assert different
    assert not set(different) & set(translator("The house is old.").rstrip(".").split())
    first.click()
    best = translator("The house is old.")
    assert element(page, "target").text == text != best
    [back] = [one for one in page.find_elements("css selector", "#list button") if one.text == best]
    back.click()
    assert element(page, "target").text == best
    assert page.find_elements("css selector", "#target .word"), "its alignment is shown again"


def test_pointing_at_a_word_shows_where_it_comes_from(page: Any, translator: Translator) -> None:
    from selenium.webdriver import ActionChains

    type_text(page, "The red house is old.", translator)
    words = {word.text: word for word in page.find_elements("css selector", "#target .word")}
    ActionChains(page).move_to_element(words["vermelha"]).perform()
    [lit] = page.find_elements("css selector", "#source-marks .lit")
    assert lit.get_attribute("textContent") == "red"


def test_the_cursor_shows_the_translation_of_its_word(page: Any, translator: Translator) -> None:
    from selenium.webdriver import Keys

    type_text(page, "The red house is old.", translator)
    element(page, "source").send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * 5)
    [lit] = page.find_elements("css selector", "#target .lit")
    assert lit.text == "vermelha"


def test_panes_follow_their_texts(page: Any, translator: Translator) -> None:
    from selenium.webdriver import Keys

    low = element(page, "source").size["height"]
    set_text(page, "The house is red. " * 60)
    wait(page, lambda: element(page, "speed").text)
    assert element(page, "source").size["height"] > 2 * low
    element(page, "source").send_keys(Keys.CONTROL, "a")
    type_text(page, "Good morning.", translator)
    assert element(page, "source").size["height"] == low
    set_text(page, "a" * 200)  # the model repeats it without an end
    wait(page, lambda: page.find_elements("css selector", "#list button"))
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def set_text(page: Any, text: str) -> None:
    page.execute_script(
        "const source = document.getElementById('source'); source.value = arguments[0]; "
        "source.dispatchEvent(new Event('input'))",
        text,
    )


def test_languages_can_be_detected_and_written_from_right_to_left(browser: Any, tmp_path: Path) -> None:
    pairs = ("en:pt", "fr:pt", "pt:en")
    arguments = [part for pair in pairs for part in ("-m", f"{pair}={DEFAULT_BUNDLE}")]
    with running_server(tmp_path, *arguments) as many:
        open_page(browser, many.url)
        browser.execute_script("localStorage.clear()")
        open_page(browser, many.url)
        choose(browser, "from", "auto")
        set_text(browser, "Bonjour, comment allez-vous ?")
        wait(browser, lambda: element(browser, "detected").text == "French detected")
        choose(browser, "from", "en")
        set_text(browser, "مرحبا بالعالم")
        wait(browser, lambda: element(browser, "target").text == "مرحبا بالعالم")
        for name in ("source", "target"):
            style = f"return getComputedStyle(document.getElementById('{name}')).direction"
            assert browser.execute_script(style) == "rtl"
        set_text(browser, "Good morning.")
        wait(browser, lambda: element(browser, "target").text == "Bom dia.")
        element(browser, "swap").click()
        assert element(browser, "source").get_attribute("value") == "Bom dia."
        chosen = [element(browser, name).get_attribute("value") for name in ("from", "to")]
        assert chosen == ["pt", "en"]


def choose(page: Any, name: str, code: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(element(page, name)).select_by_value(code)


def test_the_keyboard_copies_and_clears(page: Any, translator: Translator) -> None:
    from selenium.webdriver import Keys

    expected = type_text(page, "Good morning.", translator)
    element(page, "source").send_keys(Keys.CONTROL, Keys.ENTER)
    wait(page, lambda: element(page, "speed").text == "Copied")
    assert "copied" in element(page, "status").get_attribute("textContent")
    element(page, "source").send_keys(Keys.CONTROL, "a")
    element(page, "source").send_keys(Keys.CONTROL, "v")
    wait(page, lambda: element(page, "source").get_attribute("value") == expected)
    element(page, "source").send_keys(Keys.ESCAPE)
    wait(page, lambda: element(page, "target").text == "")


def test_a_screen_reader_finds_names_and_hears_the_result(page: Any, translator: Translator) -> None:
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    interactive = {"button", "textbox", "combobox", "link"}
    named = {
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node["role"]["value"] in interactive
    }
    assert {("combobox", "Translate from"), ("combobox", "Translate to"), ("textbox", "Text to translate")} <= named
    assert all(name for _, name in named), named
    expected = type_text(page, "Good morning.", translator)
    status = element(page, "status")
    assert status.get_attribute("aria-live") == "polite"
    assert expected in status.get_attribute("textContent")


def test_tab_reaches_every_control(page: Any, translator: Translator) -> None:
    from selenium.webdriver import ActionChains, Keys

    type_text(page, "Good morning.", translator)
    page.execute_script("document.activeElement.blur()")
    reached = []
    for _ in range(14):
        ActionChains(page).send_keys(Keys.TAB).perform()
        reached.append(page.execute_script("return document.activeElement.id"))
    assert {"theme", "from", "source", "clear", "to", "target", "copy"} <= set(reached)


def test_the_colours_can_be_changed_and_are_readable(page: Any) -> None:
    contrasts = {}
    for _ in range(2):
        theme = page.execute_script("return document.documentElement.dataset.theme")
        contrasts[theme] = page.execute_script(CONTRAST)
        element(page, "theme").click()
    assert contrasts.keys() == {"light", "dark"}
    for theme, found in contrasts.items():
        assert all(ratio >= 4.5 for ratio in found.values()), (theme, found)  # WCAG 2 AA


CONTRAST = """
const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const light = (name) => {
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
  probe.fillRect(0, 0, 1, 1);
  const linear = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const pairs = [['--ink', '--pane'], ['--ink', '--pane2'], ['--quiet', '--ground'], ['--quiet', '--pane2'],
  ['--accent', '--ground'], ['--warn', '--warn-ground'], ['--error', '--pane2'], ['--ink', '--mark']];
return Object.fromEntries(pairs.map(([a, b]) => [a + b, ratio(a, b)]));
"""


def test_a_phone_shows_all_without_scrolling_sideways(page: Any, translator: Translator) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        type_text(page, TEXT, translator)
        width = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
        source, target = element(page, "source").rect, element(page, "target").rect
        assert target["y"] >= source["y"] + source["height"]  # one below the other
        small = page.execute_script(
            "return [...document.querySelectorAll('button, select')].filter((one) => one.offsetParent && "
            "one.getBoundingClientRect().height < 36).map((one) => one.id)"
        )
        assert small == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_asks_only_its_own_server_and_breaks_none_of_its_rules(
    page: Any, server: RunningServer, translator: Translator
) -> None:
    type_text(page, TEXT, translator)
    wait(page, lambda: page.find_elements("css selector", "#list button"))
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"}
    assert asked
    assert all(url.startswith((server.url, "data:", "chrome")) for url in asked), asked
    assert [entry["message"] for entry in page.get_log("browser")] == []


def test_an_error_is_shown_as_a_sentence(browser: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("secret\n", encoding="utf-8")
    with running_server(tmp_path / "server", "--api-keys", str(keys)) as locked:
        open_page(browser, locked.url)
        element(browser, "source").send_keys("Good morning.")
        wait(browser, lambda: "API key" in element(browser, "notes").text)
        element(browser, "key").send_keys("secret")
        element(browser, "source").send_keys(" Good night.")
        wait(browser, lambda: element(browser, "target").text)


def test_pictures_of_the_page(
    page: Any, translator: Translator, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Kept in the cache of pytest, to be looked at."""
    folder = Path(request.config.cache.mkdir("pictures")) if request.config.cache else tmp_path
    for theme in ("light", "dark"):
        page.execute_script("localStorage.setItem('seq2edge.theme', arguments[0])", theme)
        open_page(page, page.current_url)
        type_text(page, TEXT, translator)
        wait(page, lambda: page.find_elements("css selector", "#list button"))
        from selenium.webdriver import ActionChains

        words = {word.text: word for word in page.find_elements("css selector", "#target .word")}
        ActionChains(page).move_to_element(words.get("estação") or next(iter(words.values()))).perform()
        assert page.save_screenshot(str(folder / f"desktop-{theme}.png"))
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert page.save_screenshot(str(folder / "phone.png"))
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
