"""webfetch and websearch against a real server on loopback."""

from collections.abc import AsyncIterator, Sequence

import pytest
from aiohttp import web

from retinue.net.settings import NetworkSettings
from retinue.ports.tool import Result, ToolContext
from retinue.tools.settings import ToolSettings
from retinue.tools.webfetch import WebFetch
from retinue.tools.websearch import Hit, WebSearch

PAGE = (
    "<html><head><title>Title</title><script>alert(1)</script><style>p {}</style></head><body><h1>Größe</h1>"
    "<p>See <a href='/x'>this</a>.<img src='data:image/png;base64,AAAA'></p>"
    "<p style='display:none'>hidden words</p><ul><li>one</li></ul></body></html>"
)
RESULTS = {
    "results": [{"title": "T", "url": "https://example.org/", "content": "about", "engine": "x"}, {"title": "U"}]
}


async def _answer(request: web.Request) -> web.Response:
    match request.path:
        case "/page":
            return web.Response(body=PAGE.encode("latin-1"), headers={"Content-Type": "text/html; charset=latin-1"})
        case "/json":
            return web.json_response({"a": 1})
        case "/image":
            return web.Response(body=b"\x89PNG", content_type="image/png")
        case "/zip":
            return web.Response(body=b"PK", content_type="application/zip")
        case "/away":
            return web.Response(status=302, headers={"Location": "https://example.org/there"})
        case "/search":
            assert request.query["format"] == "json"
            return web.json_response(RESULTS if request.query["q"] == "good" else {"results": []})
        case "/broken":
            return web.Response(text="<html>")
        case _:
            return web.Response(status=404, text="not here")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{path:.*}", _answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def fetch(port: int, path: str, context: ToolContext, **more: object) -> Result:
    settings = ToolSettings(network=NetworkSettings(hosts=frozenset({f"127.0.0.1:{port}"})))
    return await WebFetch(settings).run({"url": f"http://127.0.0.1:{port}{path}", **more}, context)


@pytest.mark.spec("TOOL-07")
async def test_a_page_becomes_markdown_text_or_stays_html(port: int, context: ToolContext) -> None:
    markdown = await fetch(port, "/page", context)
    text = await fetch(port, "/page", context, format="text")
    html = await fetch(port, "/page", context, format="html")

    assert "# Größe\n\nSee [this](/x).\n\n- one" in markdown.text
    assert "Größe" in text.text
    assert "See this." in text.text
    assert html.text == PAGE
    for result in (markdown, text):
        for unwanted in ("alert", "AAAA", "hidden words"):
            assert unwanted not in result.text
    assert markdown.taints == ("untrusted",)


@pytest.mark.spec("TOOL-07")
async def test_other_kinds_are_shown_attached_or_refused(port: int, context: ToolContext) -> None:
    image = await fetch(port, "/image", context)
    missing = await fetch(port, "/missing", context)

    assert (await fetch(port, "/json", context)).text == '{"a": 1}'
    assert [m.mime for m in image.media] == ["image/png"]
    assert "only text and images" in (await fetch(port, "/zip", context)).text
    assert (missing.status, missing.text) == ("error", f"http://127.0.0.1:{port}/missing answered 404.\nnot here")


@pytest.mark.spec("TOOL-07")
async def test_another_host_is_told_and_private_addresses_are_denied(port: int, context: ToolContext) -> None:
    away = await fetch(port, "/away", context)
    denied = await WebFetch(ToolSettings()).run({"url": f"http://127.0.0.1:{port}/page"}, context)
    nobody = await WebFetch(ToolSettings(network=NetworkSettings(hosts=frozenset({"127.0.0.1:1"})))).run(
        {"url": "http://127.0.0.1:1/"}, context
    )

    assert "redirects to another host: https://example.org/there" in away.text
    assert denied.status == "denied"
    assert "not a public address" in denied.text
    assert nobody.status == "error"
    assert nobody.text.startswith("Not fetched: 127.0.0.1 could not be reached")


async def test_the_url_is_the_target_that_a_person_approves(context: ToolContext) -> None:
    url = "http://example.org:8080/"
    tool = WebFetch(ToolSettings())
    inspection = await tool.inspect({"url": url}, context)

    assert [(t.op, t.path, t.kind) for t in inspection.targets] == [("fetch", url, "url")]
    assert "needs a person's approval: port 8080" in (await tool.run({"url": url}, context)).text


@pytest.mark.spec("TOOL-07")
async def test_a_searxng_endpoint_is_asked(port: int, context: ToolContext) -> None:
    tool = WebSearch(ToolSettings(search_url=f"http://127.0.0.1:{port}/search"))
    broken = WebSearch(ToolSettings(search_url=f"http://127.0.0.1:{port}/broken"))

    good = await tool.run({"query": "good"}, context)

    assert good.text == "1. T\n   https://example.org/\n   about\n2. U"
    assert good.taints == ("untrusted",)
    assert (await tool.run({"query": "bad"}, context)).text == "Nothing was found for bad."
    assert "did not answer in SearXNG's form" in (await broken.run({"query": "x"}, context)).text


@pytest.mark.spec("TOOL-07")
async def test_without_a_provider_it_says_so_and_any_provider_will_do(context: ToolContext) -> None:
    class Fixed:
        async def search(self, query: str, count: int) -> Sequence[Hit]:
            return [Hit(title=f"{query} {n}", url="u") for n in range(count + 5)]

    none = await WebSearch(ToolSettings()).run({"query": "x"}, context)
    some = await WebSearch(ToolSettings(), Fixed()).run({"query": "x", "count": 2}, context)

    assert none.status == "error"
    assert "No search provider is configured" in none.text
    assert some.text == "1. x 0\n   u\n2. x 1\n   u"
