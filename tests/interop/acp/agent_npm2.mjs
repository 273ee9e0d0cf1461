// An agent of protocol version 2 only, built with the official npm SDK; over stdio or a WebSocket.
import { pathToFileURL } from "node:url";
import { serve } from "./serve.mjs";

const entry = pathToFileURL(process.env.ACP_NPM_SDK + "/dist/v2/stable/acp.js").href;
const { agent, methods, ndJsonStream } = await import(entry);

let prompts = 0;
const text = (words) => ({ type: "text", text: words });

const app = agent({ name: "npm agent" })
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info: { name: "npm agent", version: "2" },
    capabilities: { session: {} },
  }))
  .onRequest("session/new", () => ({ sessionId: "s1" }))
  .onRequest("session/resume", async ({ params, client }) => {
    const tell = (update) =>
      client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
    if (params.replayFrom) {
      await tell({ sessionUpdate: "user_message", messageId: "u0", content: [text("before")] });
      await tell({ sessionUpdate: "agent_message", messageId: "a0", content: [text("said")] });
    }
    await tell({ sessionUpdate: "state_update", state: "idle" });
    return {};
  })
  .onRequest("session/close", () => ({}))
  .onRequest("session/prompt", async ({ params, client }) => {
    const { sessionId } = params;
    const tell = (update) => client.notify(methods.client.session.update, { sessionId, update });
    const messageId = `u${(prompts += 1)}`;
    await tell({ sessionUpdate: "user_message", messageId, content: params.prompt });
    await tell({ sessionUpdate: "state_update", state: "running" });
    setImmediate(async () => {
      await tell({
        sessionUpdate: "tool_call_update",
        toolCallId: messageId,
        title: "Edit",
        kind: "edit",
      });
      const { outcome } = await client.request(methods.client.session.requestPermission, {
        sessionId,
        title: "May I edit?",
        subject: { type: "tool_call", toolCall: { toolCallId: messageId } },
        options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
      });
      for (const words of [params.prompt[0].text, outcome.outcome])
        await tell({
          sessionUpdate: "agent_message_chunk",
          messageId: `a${prompts}`,
          content: text(words),
        });
      await tell({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
    });
    return { messageId };
  });

await serve(app, ndJsonStream);
