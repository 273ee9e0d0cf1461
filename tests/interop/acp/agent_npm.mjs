// An agent built with the official npm SDK: prompts that say what to do in, updates out.
import { pathToFileURL } from "node:url";
import { serve } from "./serve.mjs";

const entry = pathToFileURL(process.env.ACP_NPM_SDK + "/dist/v1/unstable/acp.js").href;
const { agent, methods, ndJsonStream } = await import(entry);

const chunk = (sessionId, text) => ({
  sessionId,
  update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
});

async function updates(client, sessionId, count, filling = "") {
  for (let n = 0; n < count; n += 1)
    await client.notify(methods.client.session.update, chunk(sessionId, n + filling));
}

const five = (client, sessionId) => updates(client, sessionId, 5);

let cancelled;

const app = agent({ name: "npm agent" })
  .onRequest("initialize", () => ({
    protocolVersion: 1,
    agentInfo: { name: "npm agent", version: "1" },
    agentCapabilities: {
      loadSession: true,
      sessionCapabilities: { resume: {}, close: {}, list: {}, delete: {}, fork: {} },
    },
  }))
  .onRequest("session/new", ({ params }) => ({ sessionId: "s1", _meta: { cwd: params.cwd } }))
  .onRequest("session/load", async ({ params, client }) => {
    if (params.sessionId === "large")
      await updates(client, params.sessionId, 1000, "x".repeat(2000));
    else await five(client, params.sessionId);
    return {};
  })
  .onRequest("session/resume", async ({ params, client }) => {
    await five(client, params.sessionId);
    return {};
  })
  .onRequest("session/list", () => ({ sessions: [{ sessionId: "s1", cwd: "/" }] }))
  .onRequest("session/close", () => ({}))
  .onRequest("session/delete", () => ({}))
  .onRequest("session/set_mode", () => ({}))
  .onNotification("session/cancel", () => cancelled?.())
  .onRequest("session/prompt", async ({ params, client }) => {
    const { sessionId } = params;
    const [word, argument] = params.prompt[0].text.split(" ");
    const say = (text) => client.notify(methods.client.session.update, chunk(sessionId, text));
    if (word === "five") await five(client, sessionId);
    else if (word === "one") await say(argument);
    else if (word === "read") {
      const { content } = await client.request(methods.client.fs.readTextFile, {
        sessionId,
        path: argument,
      });
      await say(content);
    } else if (word === "ask") {
      await client.notify(methods.client.session.update, {
        sessionId,
        update: { sessionUpdate: "tool_call", toolCallId: "t1", title: "Edit", kind: "edit" },
      });
      const { outcome } = await client.request(methods.client.session.requestPermission, {
        sessionId,
        toolCall: { toolCallId: "t1" },
        options: [
          { optionId: "yes", name: "Yes", kind: "allow_once" },
          { optionId: "no", name: "No", kind: "reject_once" },
        ],
      });
      await say(outcome.outcome === "selected" ? outcome.optionId : outcome.outcome);
    } else if (word === "run") {
      const { terminalId } = await client.request(methods.client.terminal.create, {
        sessionId,
        command: "sh",
        args: ["-c", argument.replaceAll("_", " ")],
      });
      const done = client.request(methods.client.terminal.waitForExit, { sessionId, terminalId });
      if (argument.startsWith("sleep"))
        await client.request(methods.client.terminal.kill, { sessionId, terminalId });
      const { exitCode, signal } = await done;
      const out = await client.request(methods.client.terminal.output, { sessionId, terminalId });
      await client.request(methods.client.terminal.release, { sessionId, terminalId });
      await say(`${out.output}${exitCode ?? signal}`);
    } else if (word === "wait") {
      await say("waiting");
      await new Promise((resolve) => (cancelled = resolve));
      await say("stopped");
      return { stopReason: "cancelled" };
    } else if (word === "fail") throw new Error("on purpose");
    return { stopReason: "end_turn" };
  });

await serve(app, ndJsonStream);
