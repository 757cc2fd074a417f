// A model that does what it is told: "Run `COMMAND` with TOOL." becomes one call of that tool, and its answer is said back.
// It speaks as much of the chat completions API as the product needs, and prints its port.
import { createServer } from "node:http";

const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");

function answer({ messages, tools }) {
  const order = /Run `([^`]+)` with (\w+)\./;
  const asked = messages.findLastIndex((message) => message.role === "user" && order.test(textOf(message.content)));
  const result = messages.findLast((message, at) => at > asked && message.role === "tool");
  if (asked < 0 || result) {
    return [{ role: "assistant", content: `It said: ${result ? textOf(result.content) : "nothing"}` }, "stop"];
  }
  const [, command, tool] = textOf(messages[asked].content).match(order);
  // What is not offered by name is called through the catalogue, where there is one.
  const names = tools.map((tool) => tool.function.name);
  const isOffered = names.includes(tool) || !names.includes("tool_call");
  const call = isOffered
    ? { name: tool, arguments: JSON.stringify({ command }) }
    : { name: "tool_call", arguments: JSON.stringify({ id: tool, args: { command } }) };
  const calls = [{ index: 0, id: `call${messages.length}`, type: "function", function: call }];
  return [{ role: "assistant", content: null, tool_calls: calls }, "tool_calls"];
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  if (request.method !== "POST") return response.end(JSON.stringify({ object: "list", data: [{ id: "obedient" }] }));
  const [delta, finish] = answer(JSON.parse(body));
  const chunks = [
    { choices: [{ index: 0, delta, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: finish }] },
    { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
  ];
  response.setHeader("content-type", "text/event-stream");
  for (const chunk of chunks) {
    const event = { id: "1", object: "chat.completion.chunk", created: 1, model: "obedient", ...chunk };
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
  response.end("data: [DONE]\n\n");
});
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
