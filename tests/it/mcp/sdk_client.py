"""Drives countersign with the official MCP client. Arguments: transport, mode, base URL, state directory, program."""

import asyncio
import json
import pathlib
import sys

import anyio
import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

transport, mode, base, state, program = sys.argv[1:]
tokens = pathlib.Path(state, "countersign")
agent_token = (tokens / "gateway.token").read_text().strip()
operator_token = (tokens / "operator.token").read_text().strip()


def http(token, **more):
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, **more)


operator = http(operator_token, base_url=base)


def client(token=agent_token, **more):
    if transport == "http":
        place = streamable_http_client(base + "/mcp", http_client=http(token))
    else:
        env = {"COUNTERSIGN_TOKEN": token, "COUNTERSIGN_URL": base} if token != agent_token else None
        place = StdioServerParameters(command=program, args=["--state-dir", state, "mcp"], env=env)
    return Client(place, mode=mode, **more)


async def decide(approval, decision="allow-once"):
    answer = await operator.post(f"/v1/approvals/{approval}/decision", json={"decision": decision})
    assert answer.status_code == 200, answer.text


async def pending():
    return (await operator.get("/v1/approvals")).json()["items"]


async def running():
    return (await operator.get("/v1/runs?status=running")).json()["items"]


async def until(condition):
    with anyio.fail_after(60):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


def check(condition, seen):
    assert condition, seen


async def tools():
    async with client() as c:
        listed = (await c.list_tools()).tools
        check([tool.name for tool in listed] == ["exec", "process", "apply_patch", "exec_explain"], listed)
        check("approvalWaitMs" in listed[0].input_schema["properties"], listed[0])


async def run_and_fail():
    async with client() as c:
        done = await c.call_tool("exec", {"argv": ["echo", "hi"], "agentId": "free"})
        check(not done.is_error and done.content[0].text == "hi\n", done)
        failed = await c.call_tool("exec", {"command": "exit 3", "agentId": "free"})
        check(not failed.is_error and failed.structured_content["exitCode"] == 3, failed)


async def ask_and_retry():
    async with client() as c:
        call = {"argv": ["id", "-u"]}
        first = await c.call_tool("exec", call)
        check(first.structured_content["status"] == "approval-pending", first)
        approval = first.structured_content["approvalId"]
        again = await c.call_tool("exec", call)
        check(again.structured_content["approvalId"] == approval, again)
        await decide(approval)
        done = await c.call_tool("exec", {**call, "approvalWaitMs": 60000})
        check(done.structured_content["status"] == "completed", done)
        check(done.structured_content["approvalId"] == approval, done)


async def denied_by_a_person():
    async with client() as c:
        call = {"argv": ["id", "-n"]}
        first = await c.call_tool("exec", call)
        await decide(first.structured_content["approvalId"], "deny")
        denied = await c.call_tool("exec", call)
        check(denied.is_error and denied.structured_content["reason"] == "user-denied", denied)


async def wait_with_progress():
    heard = []

    async def progress(number, _total, message):
        heard.append((number, message))

    async def answer():
        found = await until(pending)
        await until(lambda: asyncio.sleep(0, heard))
        await decide(found[0]["id"])

    async with client() as c, anyio.create_task_group() as group:
        group.start_soon(answer)
        done = await c.call_tool(
            "exec", {"argv": ["id", "-g"], "approvalWaitMs": 60000}, progress_callback=progress
        )
        check(done.structured_content["status"] == "completed", done)
        check("waiting for a person" in heard[0][1], heard)
        numbers = [number for number, _ in heard]
        check(numbers == sorted(set(numbers)), numbers)


async def links_decide_nothing():
    shown = []

    async def accept(_context, params):
        shown.append(params)
        return types.ElicitResult(action="accept", content={"decision": "allow-once"})

    async with client(elicitation_callback=accept) as c:
        first = await c.call_tool("exec", {"argv": ["id", "-G"]})
        answer = first.structured_content
        check(answer["status"] == "approval-pending", first)
        await until(lambda: asyncio.sleep(0, shown))
        check(len(shown) == 1 and shown[0].mode == "url", shown)
        check(shown[0].url == answer["approvalUrl"], (shown, answer))
        still = (await operator.get(f"/v1/approvals/{answer['approvalId']}")).json()
        check(still["status"] == "pending", still)
        await decide(answer["approvalId"], "deny")


async def cancel():
    async with client() as c:
        async with anyio.create_task_group() as group:

            async def call():
                await c.call_tool("exec", {"argv": ["sleep", "1000"], "agentId": "free"})

            group.start_soon(call)
            run = (await until(running))[0]["runId"]
            group.cancel_scope.cancel()
        ended = lambda: final(run)
        check((await until(ended))["status"] == "cancelled", run)
        done = await c.call_tool("exec", {"argv": ["true"], "agentId": "free"})
        check(done.structured_content["status"] == "completed", done)


async def final(run):
    found = (await operator.get(f"/v1/runs/{run}")).json()
    return found if found["status"] not in ("queued", "running", "approval-pending") else None


async def huge_output():
    async with client() as c:
        call = {"command": "head -c 3000000 /dev/zero | tr '\\0' x", "agentId": "free"}
        done = await c.call_tool("exec", call)
        check(done.structured_content["truncated"], done.structured_content["status"])
        check(done.structured_content["outputBytes"] == 3000000, done.structured_content["outputBytes"])
        check("all 3000000 bytes are kept" in done.content[1].text, done.content[1])


async def hostile_arguments():
    async with client() as c:
        for arguments in (
            {},
            {"command": "id", "typo": 1},
            {"command": "a\x00b"},
            {"argv": []},
            {"command": "id", "env": {"LD_PRELOAD": "/x"}},
        ):
            refused = await c.call_tool("exec", arguments)
            check(refused.is_error, (arguments, refused))
        shown = await c.call_tool("exec", {"argv": ["printf", "\x1b[2J\u202e<b>'\"$(id)`"], "agentId": "free"})
        check(shown.structured_content["status"] == "completed", shown)
        try:
            await c.call_tool("approve", {"decision": "allow-once"})
        except MCPError:
            return
        raise AssertionError("there is a tool that decides")


async def many_at_once():
    async with client() as c:

        async def one(number):
            done = await c.call_tool("exec", {"argv": ["echo", str(number)], "agentId": "free"})
            check(done.structured_content["stdout"] == f"{number}\n", done)

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)


async def wrong_tokens():
    made = await operator.post("/v1/tokens", json={"name": f"r-{transport}-{mode}", "scopes": ["read"]})
    for token in ("cst_" + "x" * 43, made.json()["secret"]):
        try:
            async with client(token) as c:
                refused = await c.call_tool("exec", {"argv": ["true"], "agentId": "free"})
        except BaseException:  # The handshake over HTTP fails already, as a group of errors.
            check(transport == "http", transport)
            continue
        check(refused.is_error, refused)
        check(refused.structured_content["code"] in ("unauthorized", "forbidden"), refused)


async def main():
    for scenario in (
        tools,
        run_and_fail,
        ask_and_retry,
        denied_by_a_person,
        wait_with_progress,
        links_decide_nothing,
        cancel,
        huge_output,
        hostile_arguments,
        many_at_once,
        wrong_tokens,
    ):
        with anyio.fail_after(120):
            await scenario()
        print(json.dumps({"passed": scenario.__name__}), flush=True)


asyncio.run(main())
