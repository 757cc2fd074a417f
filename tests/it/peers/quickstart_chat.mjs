// Somebody at a chat that shows questions: sends one message, says when something is asked, and prints the last answer.
const [, , port, token, message] = process.argv;
const socket = new WebSocket(`ws://127.0.0.1:${port}`);
const waiting = new Map();

const call = (method, params) =>
  new Promise((done, failed) => {
    const id = `request${waiting.size}`;
    waiting.set(id, { done, failed });
    socket.send(JSON.stringify({ type: "req", id, method, params }));
  });

async function begin() {
  await call("connect", {
    minProtocol: 4,
    maxProtocol: 4,
    role: "operator",
    client: { id: "cli", mode: "cli", version: "1", platform: "linux" },
    caps: ["approvals", "exec-approvals"],
    scopes: ["operator.admin", "operator.read", "operator.write", "operator.approvals"],
    auth: { token },
  });
  await call("chat.send", { sessionKey: "agent:main:main", message, idempotencyKey: message });
}

socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data);
  if (frame.type === "res") {
    const { done, failed } = waiting.get(frame.id);
    frame.ok ? done(frame.payload) : failed(new Error(JSON.stringify(frame.error)));
  } else if (frame.event === "connect.challenge") {
    void begin();
  } else if (frame.event === "exec.approval.requested") {
    console.log("asked");
  } else if (frame.event === "chat" && ["final", "error", "aborted"].includes(frame.payload.state)) {
    console.log(JSON.stringify(frame.payload));
    process.exit(frame.payload.state === "final" ? 0 : 1);
  }
};
socket.onclose = () => process.exit(1);
