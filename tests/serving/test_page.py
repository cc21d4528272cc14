"""The page in a real browser; skipped where there is none."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from dualmind.serving.page import page
from tests.serving.running import Server
from tests.serving.tiny import logged

BROWSER = Path("/usr/bin/chromium")
needs_browser = pytest.mark.skipif(not BROWSER.is_file(), reason=f"no browser at {BROWSER}; apt-get install chromium")


def test_nothing_on_the_page_leads_outside() -> None:
    assert not re.search(r"https?://|//[a-z]|src=|@import|url\(", page())


@pytest.fixture(scope="module")
def tab(server: Server) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        problems: list[str] = []
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        opened.goto(server.url)
        yield opened
        browser.close()
        assert problems == []


@needs_browser
def test_a_person_asks_and_sees_who_answered_and_why(tab: Page, server: Server) -> None:
    tab.get_by_label(re.compile("A question")).fill("How many has <b>Tom</b> ?")
    tab.get_by_role("button", name="Ask", exact=True).click()
    expect(tab.locator("#answer")).to_be_visible()
    expect(tab.locator("#who")).to_have_text(re.compile("System [12] answered"))
    expect(tab.locator("#signals tr")).to_have_count(4)
    expect(tab.locator("#threshold")).to_have_text("0.500")
    expect(tab.locator("#score")).to_have_text(re.compile(r"0\.\d{3}"))
    expect(tab.locator("#flops")).to_have_text(re.compile("[1-9]"))
    by_system1 = "System 1" in (tab.locator("#who").text_content() or "")
    assert tab.locator("#nosteps").is_visible() or not by_system1
    tab.get_by_role("button", name="That is right").click()
    expect(tab.locator("#thanks")).to_have_text("Thank you.")
    tab.get_by_role("button", name="That is wrong").click()
    expect(tab.get_by_role("alert")).to_contain_text("the first one counts")
    assert logged(server.root / "traffic")


@needs_browser
def test_a_person_plays_a_game_with_the_agents_advice_and_alone(tab: Page) -> None:
    tab.get_by_role("button", name="New game").click()
    expect(tab.locator("#observation")).to_contain_text("you see")
    first = tab.locator("#observation").text_content() or ""
    tab.get_by_role("button", name="Ask the agent").click()
    expect(tab.get_by_role("button", name="Do what it says")).to_be_enabled()
    said = tab.locator("#said").text_content() or ""
    assert said in tab.locator("#command option").all_text_contents()
    tab.get_by_role("button", name="Do what it says").click()
    expect(tab.locator("#observation")).not_to_have_text(first)
    expect(tab.get_by_role("button", name="Do it")).to_be_enabled()
    tab.locator("#command").select_option("look")
    tab.get_by_role("button", name="Do it").click()
    expect(tab.locator("#observation")).to_contain_text(re.compile("You are|you see", re.IGNORECASE))
    expect(tab.get_by_role("alert")).to_be_hidden()
