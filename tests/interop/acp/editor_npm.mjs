// An editor built with the official npm SDK: runs one prompt, or loads a session; prints JSON lines.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [version, session, ...command] = process.argv.slice(2);
const entry = version === "2" ? "/dist/v2/stable/acp.js" : "/dist/v1/stable/acp.js";
const acp = await import(pathToFileURL(process.env.ACP_NPM_SDK + entry).href);

const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const print = (value) => console.log(JSON.stringify(value));
let idle;
const ended = new Promise((resolve) => (idle = resolve));

const app = acp
  .client({ name: "npm editor" })
  .onNotification("session/update", ({ params }) => {
    print({ update: params.update });
    if (params.update.state === "idle") idle(params.update.stopReason);
  })
  .onRequest("session/request_permission", ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }));

await app.connectWith(stream, async (context) => {
  const info = { name: "npm editor", version: "1" };
  const newer = version === "2";
  await context.request(
    "initialize",
    newer ? { protocolVersion: 2, info } : { protocolVersion: 1, clientInfo: info },
  );
  const where = { cwd: "/", mcpServers: [] };
  if (session !== "new") {
    const replay = newer ? { replayFrom: { type: "start" } } : {};
    const method = newer ? "session/resume" : "session/load";
    await context.request(method, { sessionId: session, ...where, ...replay });
    return;
  }
  const { sessionId } = await context.request("session/new", where);
  print({ session: sessionId });
  const prompt = [{ type: "text", text: "go" }];
  const answer = await context.request("session/prompt", { sessionId, prompt });
  print({ stopReason: newer ? await ended : answer.stopReason });
});
agent.stdin.end();
process.exit(0);
