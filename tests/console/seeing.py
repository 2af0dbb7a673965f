"""What a test does on a page of the hub, and how it waits for what it expects there: by conditions, never by time."""

from __future__ import annotations

import json
from typing import Any

from tests.console.browser import Page


async def publish(page: Page, *messages: tuple[str, Any]) -> None:
    """Publish messages to the hub of a page, through a client of their own, and wait until the hub has them."""
    await page.evaluate(
        """
        const {connect} = await import("/hub.js");
        const publisher = connect();
        await Promise.all(messages.map(([topic, value]) => publisher.publish(topic, value, {confirm: true})));
        await publisher.close();
        """,
        messages=messages,
    )


async def wait_shown(page: Page, condition: str) -> None:
    """Look every 10 ms: to ask for frames would have each of them drawn."""
    await page.evaluate(f"while (!({condition})) await new Promise((done) => setTimeout(done, 10));")


async def wait_connected(page: Page) -> None:
    await wait_shown(page, "document.getElementById('state').textContent === 'connected'")


async def wait_view(page: Page, name: str) -> None:
    await wait_shown(page, f"document.getElementById('view').dataset.view === {json.dumps(name)}")


async def wait_messages(page: Page) -> None:
    """Wait until the hub has the subscription of the view of messages; what is published afterwards reaches it."""
    await wait_shown(page, "document.getElementById('stream')?.getAttribute('aria-busy') === 'false'")


async def text(page: Page, name: str) -> str:
    return str(await page.evaluate("return document.getElementById(name).textContent", name=name))


async def number(page: Page, name: str) -> int:
    return int("".join(character for character in await text(page, name) if character.isdigit()) or "0")


async def cells(page: Page, rows: str, *columns: int) -> list[list[str]]:
    """Return what some columns of all rows of a table say."""
    found: list[list[str]] = await page.evaluate(
        """
        const lines = [...document.querySelectorAll(`#${rows} tr`)];
        return lines.map((line) => columns.map((column) => line.cells[column].textContent));
        """,
        rows=rows,
        columns=list(columns),
    )
    return found


async def enter(page: Page, values: dict[str, object], press: str = "") -> None:
    """Write values into fields, and press a button; without one, the fields tell that they have changed."""
    await page.evaluate(
        """
        for (const [name, value] of Object.entries(values)) {
          const field = document.getElementById(name);
          field.value = value;
          if (!press) field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input"));
        }
        if (press) document.querySelector(press).click();
        """,
        values=values,
        press=press,
    )


async def rows(page: Page) -> list[list[str]]:
    shown: list[list[str]] = await page.evaluate("""
        return [...document.querySelectorAll(".row:not([hidden])")].map(
          (row) => [row.querySelector(".topic").textContent, row.querySelector(".value").textContent]);
    """)
    return shown


async def wait_rows(page: Page, count: int) -> None:
    await wait_shown(page, f"document.querySelectorAll('.row:not([hidden])').length === {count}")
