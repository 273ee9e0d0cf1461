// Drives the stock HttpAgent of @ag-ui/client as a program on stdin says; one line of JSON a step.
//
// The connections of the agent are cut after so many bytes, by a `fetch` that the agent is given:
// what follows is not read, and reading fails, as when a network ends, or just ends.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { resuming as mended } from "../../../examples/browsers/resuming_fetch.mjs";

const require = createRequire(pathToFileURL(`${process.env.AGUI_NODE_MODULES}/x.js`));
const { HttpAgent, buildResumeArray } = require("@ag-ui/client");

let resuming = false; // whether a cut is mended with Last-Event-ID
let cuts = 0;
let cleanly = false; // whether a cut looks like an end, as behind some proxies

function cutting(response, most) {
  if (most === null || !response.body) return response;
  const reader = response.body.getReader();
  let left = most;
  let cut = false;
  const body = new ReadableStream({
    async pull(controller) {
      if (cut) return cleanly ? controller.close() : controller.error(new TypeError("cut"));
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if (value.length <= left) {
        left -= value.length;
        return controller.enqueue(value);
      }
      controller.enqueue(value.slice(0, left)); // the next pull is after this was read
      cut = true;
      cuts += 1;
      await reader.cancel();
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

let plannedCuts = [];

async function cuttingFetch(url, init) {
  return cutting(await fetch(url, init), plannedCuts.length ? plannedCuts.shift() : null);
}

const resumingFetch = mended(cuttingFetch, { delay: 1 });

// The agent cancels the reader of a response that has failed, and does not await the refusal.
process.on("unhandledRejection", (error) => {
  if (error?.message !== "cut") throw error;
});

const agents = new Map();
const quiet = console.error;
console.error = () => {};

async function step(given) {
  switch (given.do) {
    case "agent": {
      const agent = new HttpAgent({
        url: given.url,
        threadId: given.thread,
        headers: given.headers ?? {},
        initialMessages: given.messages ?? [],
        fetch: (url, init) => (resuming ? resumingFetch(url, init) : cuttingFetch(url, init)),
      });
      agents.set(given.name, agent);
      return {};
    }
    case "run": {
      const agent = agents.get(given.name);
      resuming = given.resuming ?? false;
      cleanly = given.cleanly ?? false;
      plannedCuts = given.cuts ?? [];
      cuts = 0;
      const events = [];
      let finished = null;
      let resume;
      if (given.answers) resume = buildResumeArray(agent.pendingInterrupts, given.answers);
      try {
        const { result } = await agent.runAgent(
          { runId: given.run, ...(resume ? { resume } : {}), ...(given.parameters ?? {}) },
          {
            onEvent: ({ event }) => {
              events.push(given.whole ? event : { type: event.type });
            },
            onRunFinishedEvent: ({ event }) => {
              finished = event;
            },
            onRunErrorEvent: ({ event }) => {
              finished = event;
            },
          },
        );
        return { ok: true, result, finished, events, cuts };
      } catch (error) {
        return { ok: false, error: String(error), finished, events, cuts };
      }
    }
    case "state": {
      const agent = agents.get(given.name);
      return {
        messages: agent.messages,
        state: agent.state,
        interrupts: agent.pendingInterrupts,
      };
    }
  }
  throw new Error(`no such step: ${given.do}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await step(JSON.parse(line));
  } catch (error) {
    quiet(error);
    said = { failed: String(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
